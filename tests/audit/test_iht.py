"""Attack iht with all that it releases, and with two planted bugs.

The attacker knows both neighbours and sees every release; all else is computed from
these. All residuals are clipped, and the same, wherever the weights go, so that the
log-likelihood ratio at zero weights is the optimal score. Runs are seeded: a pass stays
a pass. With fresh seeds a bound would exceed the claim with probability below 1e-3 by
construction (99.9 % confidence).
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, GaussianEvent, calibrate
from skdp.privacy.release._plan import Line, Plan
from skdp.solvers._registry import choose_solver
from skdp.solvers._sparse import IHT
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests.door import event_of, run
from tests.spies import SpyNoise

# The exact audits of test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

# Large, so that few runs tell half the noise from the claim.
BUDGET = Budget(2.0, 0.01)
RUNS = 1000


def pair(adjacency, data_norm):
    """Two data sets of two records: one is there or not, or has the other label."""
    X = data_norm * np.array([[1.0, 0.0], [0.0, 1.0]])
    y = np.array([1.0, 0.0])
    if adjacency == "zero_out":
        return MemorySource(X, y), MemorySource(X, y, np.array([False, True]))
    return MemorySource(X, y), MemorySource(X, np.array([0.0, 0.0]))


def scores(truth, sources, objective, solver, shrink, seeds):
    """Log-likelihood ratios of everything released when `truth` was the data."""
    zero = np.zeros((objective.n_columns, objective.loss.n_outputs))
    means = []  # of the intercept's query and of the features'
    for source in sources:
        total = GradientSum(source, objective, solver.residual_clip)
        whole = total(zero)
        means.append((whole[-1:], whole[: objective.n_features]))
    z = calibrate(lambda z: event_of(solver, z, objective), BUDGET)
    result = []
    for seed in seeds:
        noise, score = SpyNoise(seed=seed, shrink=shrink), 0.0
        run(solver, truth, objective, z, noise)
        for draw in noise.draws:
            part = int(len(draw.query) > 1)
            distances = [np.sum((draw.released - mean[part]) ** 2) for mean in means]
            score += (distances[1] - distances[0]) / (2 * draw.sigma**2)
        result.append(score)
    return np.array(result)


def audited_epsilon(adjacency, data_norm, loss, shrink=1.0):
    objective = LinearObjective(
        loss=loss,
        n_samples=1000,  # the public number; it keeps the weights near zero
        n_features=2,
        data_norm=data_norm,
        adjacency=adjacency,
        n_nonzero=1,
    )
    # Small steps and a small clip keep this pair the worst case in every step.
    params = {
        "n_steps": 1,
        "step_size": 1e-3 / data_norm**2,
        "residual_clip": 0.1,
        "intercept_share": 0.3,
    }
    solver = choose_solver("iht", params, objective, BUDGET).solver
    sources = pair(adjacency, data_norm)
    inside = scores(sources[0], sources, objective, solver, shrink, range(RUNS))
    outside = scores(
        sources[1], sources, objective, solver, shrink, range(10**6, 10**6 + RUNS)
    )
    return epsilon_lower_bound(inside, outside, BUDGET.delta)


CELLS = [
    (1.0, "replace_one"),
    (12.0, "zero_out"),
    (1.0, "zero_out"),
    (12.0, "replace_one"),
]


@pytest.mark.parametrize(("data_norm", "adjacency"), CELLS)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    data_norm, adjacency
):
    bound = audited_epsilon(adjacency, data_norm, LogisticLoss())
    assert 0.5 < bound <= BUDGET.epsilon  # close enough to mean something
    twin = audited_epsilon(adjacency, data_norm, LogisticLoss(), shrink=0.5)
    assert twin > BUDGET.epsilon


def test_an_intercept_that_is_not_paid_for_is_caught(monkeypatch):
    """A twin that declares the features' queries only and hardly blurs the others."""
    monkeypatch.setattr(IHT, "plan", lambda self, objective: features_only(self))
    assert audited_epsilon("replace_one", 1.0, LogisticLoss()) > BUDGET.epsilon


def features_only(solver):
    lines = Line(solver.n_steps), Line(solver.n_steps + 2, multiple=1 / 3)
    return Plan(lines, lambda z: GaussianEvent(z, solver.n_steps))
