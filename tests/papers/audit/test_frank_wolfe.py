"""Attack frank_wolfe with the strongest test there is, and with two planted bugs.

The attacker knows both neighbouring data sets and sees every vertex chosen, all that
may be published, and computes the exact likelihood ratio of the whole path. Runs are
seeded: a pass stays a pass. With fresh seeds each bound would exceed the claim with
probability below 1e-3 by construction (99.9 % confidence), and far below that for these
sizes.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers import _frank_wolfe as module
from skdp.papers._frank_wolfe import IntegerRows, VertexScores
from skdp.privacy import Budget, calibrate
from skdp.privacy.noise._noise import choice_unit
from skdp.solvers._registry import choose_solver
from skdp.tables._memory import MemorySource
from tests.door import event_of, run
from tests.spies import SpyNoise

# The exact audits of tests/audit/test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

BUDGET = Budget(1.0, 0.01)
RUNS = 3000
LOSSES = {"logistic": LogisticLoss(), "squared": SquaredLoss(2.0, target_bound=1.0)}


def pair(adjacency, loss):
    """Data sets of two records, between which both signs are equally likely.

    One vertex is as much likelier than the other under the one as under the other.
    """
    y = np.zeros(2) if loss.smoothness < 1 else -np.ones(2)
    if adjacency == "zero_out":
        X = np.array([[1.0], [-0.5]])
        return MemorySource(X, y), MemorySource(X, y, np.array([False, True]))
    return MemorySource(np.array([[1.0], [0.0]]), y), MemorySource(
        np.array([[-1.0], [0.0]]), y
    )


def log_law(scores, unit):
    """Logarithms of the probabilities of both signs of every candidate."""
    exponents = float(unit) * np.array([scores, -scores], dtype=float)
    top = exponents.max()
    return exponents - top - np.log(np.exp(exponents - top).sum())


def log_ratios(truth, sources, objective, solver, shrink, seeds):
    """Of every path chosen when `truth` was the data, first source over second."""
    per_unit = solver.residual_steps / solver.residual_bound(objective, 1.0)
    rows = [IntegerRows.read(source, objective) for source in sources]
    multiplier = calibrate(lambda z: event_of(solver, z, objective), BUDGET)
    result, known = [], {}
    for seed in seeds:
        noise = SpyNoise(seed=seed, shrink=shrink)
        run(solver, truth, objective, multiplier, noise)
        path = tuple(choice.chosen for choice in noise.choices)
        if path not in known:
            # The attacker follows the path on both data sets.
            both = [VertexScores(part, objective, per_unit) for part in rows]
            ratio = 0.0
            for t, choice in enumerate(noise.choices):
                candidate, sign = choice.chosen
                unit = choice_unit(
                    sensitivity=choice.sensitivity, epsilon=choice.epsilon / shrink
                )
                place = (0 if sign > 0 else 1, candidate)
                for side, scores in zip((1, -1), both, strict=True):
                    scores.update(solver.residual_steps, 0)
                    ratio += side * log_law(scores.ranking.scores, unit)[place]
                    share = 2 / (t + 2)
                    radius = solver.l1_radius
                    scores.move(1 - share, candidate, share * sign * radius)
            known[path] = ratio
        result.append(known[path])
    return np.array(result)


def audited_epsilon(adjacency, loss, shrink=1.0):
    objective = LinearObjective(
        loss=loss,
        n_samples=2,
        n_features=1,
        data_norm=2.0,
        feature_bound=1.0,
        adjacency=adjacency,
        fit_intercept=False,
        n_nonzero=1,
    )
    # A small ball keeps the residuals near their bound.
    params = {"n_steps": 2, "l1_radius": 0.01, "residual_clip": 1e6}
    solver = choose_solver("frank_wolfe", params, objective, BUDGET).solver
    sources = pair(adjacency, loss)
    facts = (sources, objective, solver, shrink)
    inside = log_ratios(sources[0], *facts, range(RUNS))
    outside = log_ratios(sources[1], *facts, range(10**6, 10**6 + RUNS))
    return epsilon_lower_bound(inside, outside, BUDGET.delta)


CELLS = [
    (adjacency, name) for adjacency in ("zero_out", "replace_one") for name in LOSSES
]


@pytest.mark.parametrize(("adjacency", "name"), CELLS)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    adjacency, name
):
    bound = audited_epsilon(adjacency, LOSSES[name])
    assert 0.25 < bound <= BUDGET.epsilon  # close enough to mean something
    assert audited_epsilon(adjacency, LOSSES[name], shrink=0.5) > BUDGET.epsilon


def test_the_sensitivity_of_the_other_adjacency_is_caught(monkeypatch):
    """Planted bug: one record's part where two records' parts differ."""
    right = module.score_sensitivity
    monkeypatch.setattr(module, "score_sensitivity", lambda *facts: right(*facts) // 2)
    assert audited_epsilon("replace_one", LOSSES["logistic"]) > BUDGET.epsilon
