"""Attack noisy_gd with the strongest test there is, and with a planted bug.

The attacker knows both neighbouring data sets and sees every released gradient, all
that the proof says may be published, so the log-likelihood ratio of the releases is
the optimal score and the lower bound comes close to the claim. Runs are seeded: a
pass stays a pass. With fresh seeds each bound would exceed the claim with probability
below 1e-3 by construction (99.9 % confidence), and far below that for these sizes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers._registry import choose_solver
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

# A large delta keeps the sample small: the distinguishing events are not rare.
BUDGET = Budget(1.0, 0.01)
RUNS = 2500


def pair(adjacency, data_norm, loss):
    """Two data sets of two records whose gradients differ by the full sensitivity."""
    X = data_norm * np.array([[1.0, 0.0], [0.0, 1.0]])
    y = np.array([1.0, 0.0])
    if adjacency == "zero_out":
        present = np.array([False, True])
        return MemorySource(X, y), MemorySource(X, y, present)
    other = y.copy()
    other[0] = 0.0  # the same row with another label
    Z = X.copy()
    if loss.n_outputs > 1:  # a softmax has its worst case at the opposite row
        Z[0], other[0] = -X[0], 1.0
    return MemorySource(X, y), MemorySource(Z, other)


def scores(which, sources, objective, solver, shrink, seeds, budget):
    """Log-likelihood ratios of everything released when one source was the data."""
    truth, other = sources[which], sources[1 - which]
    other_sum = GradientSum(other, objective, solver.residual_clip)
    sign = (1, -1)[which]
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    result = []
    for seed in seeds:
        noise = SpyNoise(seed=seed, shrink=shrink)
        door.run(solver, truth, objective, z, noise)
        weights, velocity, score = np.zeros_like(noise.draws[0].query), 0.0, 0.0
        shape = np.ones((objective.n_columns, 1))
        if objective.fit_intercept:
            shape[-1] = solver.intercept_weight
        for draw in noise.draws:
            far = np.sum((draw.released - shape * other_sum(weights)) ** 2)
            near = np.sum((draw.released - draw.query) ** 2)
            score += sign * (far - near) / (2 * draw.sigma**2)
            step = (
                draw.released / shape / objective.n_samples + objective.alpha * weights
            )
            velocity = solver.momentum * velocity - solver.step_size * step
            weights = weights + velocity
        result.append(score)
    return np.array(result)


def audited_epsilon(adjacency, data_norm, loss, shrink=1.0, budget=BUDGET, runs=None):
    objective = LinearObjective(
        loss=loss,
        n_samples=2,
        n_features=2,
        data_norm=data_norm,
        adjacency=adjacency,
        fit_intercept=loss.n_outputs == 1,
    )
    # Small steps keep the weights near zero, where this pair is the worst case.
    params = {"n_steps": 2, "step_size": 1e-3 / data_norm**2, "momentum": 0.5}
    solver = choose_solver("noisy_gd", params, objective, budget).solver
    runs = runs or RUNS
    sources = pair(adjacency, data_norm, loss)
    facts, later = (sources, objective, solver, shrink), range(10**6, 10**6 + runs)
    inside = scores(0, *facts, range(runs), budget)
    outside = scores(1, *facts, later, budget)
    return epsilon_lower_bound(inside, outside, budget.delta)


def test_few_runs_catch_half_the_noise_at_a_large_budget():
    """The attack of `make test`; all others are of `make test-all`."""
    budget = Budget(2.0, 0.05)
    case = "replace_one", 12.0, LogisticLoss()
    bound = audited_epsilon(*case, budget=budget, runs=700)
    assert 0.4 < bound <= budget.epsilon
    assert audited_epsilon(*case, 0.5, budget, runs=700) > budget.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 12.0, 100.0])
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    data_norm, adjacency
):
    bound = audited_epsilon(adjacency, data_norm, LogisticLoss())
    assert 0.25 < bound <= BUDGET.epsilon  # close enough to mean something
    twin = audited_epsilon(adjacency, data_norm, LogisticLoss(), shrink=0.5)
    assert twin > BUDGET.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_softmax(adjacency):
    assert audited_epsilon(adjacency, 1.0, SoftmaxLoss(3)) <= BUDGET.epsilon
    twin = audited_epsilon(adjacency, 1.0, SoftmaxLoss(3), shrink=0.5)
    assert twin > BUDGET.epsilon


def test_the_bound_itself_is_calibrated():
    """Two Gaussians mu apart: the bound is below the truth, and not by far."""
    rng = np.random.default_rng(0)
    from skdp.privacy.accounting._gaussian import gaussian_epsilon

    mu, n = 1.0, 20_000
    bound = epsilon_lower_bound(rng.normal(mu, size=n), rng.normal(size=n), 0.01)
    truth = gaussian_epsilon(mu, 0.01)
    assert 0.5 * truth < bound <= truth
    same = epsilon_lower_bound(rng.normal(size=n), rng.normal(size=n), 0.01)
    assert same < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_tight_budget_at_length(adjacency, monkeypatch):
    """Ten times the runs: the bound comes nearer to the claim and stays below."""
    monkeypatch.setattr("tests.audit.test_noisy_gd.RUNS", 25_000)
    bound = audited_epsilon(adjacency, 12.0, LogisticLoss())
    assert 0.6 < bound <= BUDGET.epsilon
    assert math.isfinite(bound)
