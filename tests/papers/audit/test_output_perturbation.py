"""Attack output_perturbation with the likelihood ratio of its one release.

The attacker knows both neighbouring data sets, hence both minimisers, and the law of
the noise. Runs are seeded: a pass stays a pass. With fresh seeds each bound would
exceed the claim with probability below 1e-3 by construction (99.9 % confidence), and
far below that for these sizes.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import HuberHingeLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers._registry import choose_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

# The exact audits of tests/audit/test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

BUDGET = Budget(1.0, 0.1)
PURE = Budget(1.0, 0.0)
RUNS = 1500


def sources(adjacency, data_norm, loss):
    """Two data sets of two records whose minimisers are farthest apart."""
    X = data_norm * np.array([[1.0, 0.0], [0.0, 1.0]])
    y = np.array([1.0, 0.0])
    if adjacency == "zero_out":
        return MemorySource(X, y), MemorySource(X, y, np.array([False, True]))
    Z, z = X.copy(), y.copy()
    if loss.n_outputs > 1:  # the opposite row with the same class
        Z[0] = -X[0]
    else:
        z[0] = 0.0 if isinstance(loss, HuberHingeLoss) else -1.0
    return MemorySource(X, y), MemorySource(Z, z)


def audited_epsilon(adjacency, data_norm, loss, budget, shrink=1.0):
    objective = LinearObjective(
        loss=loss,
        n_samples=2,
        n_features=2,
        data_norm=data_norm,
        adjacency=adjacency,
        fit_intercept=False,
    )
    # Much regularisation keeps the weights near zero, where the pair is the worst.
    params = {"strength": 50 * data_norm**2}
    solver = choose_solver("output_perturbation", params, objective, budget).solver
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    sides = sources(adjacency, data_norm, loss)

    def run_once(source):
        noise = SpyNoise(seed=0)
        door.run(solver, source, objective, z, noise)
        return noise.draws[0]

    draws = [run_once(source) for source in sides]
    centres, sigma = [draw.query for draw in draws], draws[0].sigma

    def releases(draw, seeds):
        # The minimiser is the same each time: only the noise is drawn again.
        noises = [SpyNoise(seed=seed, shrink=shrink) for seed in seeds]
        release = solver.noise_law.release
        return [release(n, draw.query, draw.sensitivity, z) for n in noises]

    def scores(released):
        far = [
            np.array([np.linalg.norm(one - centre) for one in released]) / sigma
            for centre in centres
        ]
        if solver.law == "spherical":
            return far[1] - far[0]
        return (far[1] ** 2 - far[0] ** 2) / 2

    inside = scores(releases(draws[0], range(RUNS)))
    outside = scores(releases(draws[1], range(10**6, 10**6 + RUNS)))
    return epsilon_lower_bound(inside, outside, budget.delta)


@pytest.mark.parametrize(
    ("adjacency", "data_norm", "budget", "loss"),
    [
        ("replace_one", 1.0, BUDGET, HuberHingeLoss()),
        ("zero_out", 100.0, BUDGET, HuberHingeLoss(n_outputs=3)),
        ("replace_one", 12.0, PURE, SquaredLoss(1.0, 1.0)),
        ("zero_out", 1.0, PURE, HuberHingeLoss()),
    ],
)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    adjacency, data_norm, budget, loss
):
    bound = audited_epsilon(adjacency, data_norm, loss, budget)
    assert 0.1 < bound <= budget.epsilon  # close enough to mean something
    shrink = 0.5 if budget.delta else 0.25
    assert audited_epsilon(adjacency, data_norm, loss, budget, shrink) > budget.epsilon
