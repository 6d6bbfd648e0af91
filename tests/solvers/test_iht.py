"""iht: its rules, its utility statement, its sensitivities, and its free steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, ComposedEvent, GaussianEvent
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers._sparse import IHT
from skdp.tables._memory import MemorySource
from tests import door
from tests.door import event_of
from tests.spies import NoNoise

LOSS = LogisticLoss()
SQUARED = SquaredLoss(2.0, target_bound=1.0)
OBJECTIVE = LinearObjective(
    loss=LOSS,
    n_samples=2000,
    n_features=50,
    data_norm=1.0,
    adjacency="replace_one",
    n_nonzero=5,
)
BUDGET = Budget(1.0, 1e-6)
LOSSES = [
    LOSS,
    SQUARED,
    SoftmaxLoss(3),
    HuberHingeLoss(),
    HuberHingeLoss(n_outputs=3),
]


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(IHT, objective, budget, **params)


def run(solver, X, y, *, objective=OBJECTIVE, z=5.0, noise=None):
    noise = noise or NoNoise()
    source = MemorySource(X, y)
    with np.errstate(all="ignore"):  # as `solve` does
        return door.run(solver, source, objective, z, noise).weights


def test_event_is_exact_and_the_intercept_has_its_share():
    solver = resolved(n_steps=7, intercept_share=0.1)
    event = event_of(solver, 3.0, OBJECTIVE)
    features, intercept = event.leaves
    assert features == GaussianEvent(3.0, 7)
    assert intercept.count == 9
    assert event.gdp_mu_squared == pytest.approx(7 / 9 / 0.9)
    assert intercept.mu_squared == pytest.approx(0.1 * event.mu_squared)
    assert isinstance(event, ComposedEvent)
    alone = replace(OBJECTIVE, fit_intercept=False)
    assert event_of(solver, 3.0, alone) == features


# Sensitivities: both queries, both adjacencies, searched for.


# The algorithm.


def ight(X, y, s, step_size, n_steps):
    """Gradient hard thresholding as the paper has it without noise."""
    theta = np.zeros(X.shape[1])
    for _ in range(n_steps):
        moved = theta - step_size * X.T @ (X @ theta - y) / len(y)
        theta = np.where(np.abs(moved) >= np.sort(np.abs(moved))[-s], moved, 0.0)
    return theta


def test_noiseless_limit_is_the_papers_algorithm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 50))
    X /= np.linalg.norm(X, axis=1).max()
    y = X[:, [3, 17, 31]] @ [0.6, -0.4, 0.3] + 0.01 * rng.normal(size=2000)
    objective = replace(OBJECTIVE, loss=SQUARED, fit_intercept=False, n_nonzero=4)
    solver = resolved(
        objective,
        n_steps=60,
        step_size=30.0,
        residual_clip=math.inf,
        threshold=0.0,
        accumulate=False,
    )
    found = run(solver, X, y, objective=objective)[:, 0]
    assert np.allclose(found, ight(X, y, 4, 30.0, 60), atol=1e-12)
    assert set(np.flatnonzero(found)) > {3, 17, 31}
    # A twin that remembers is another algorithm.
    other = run(replace(solver, accumulate=True), X, y, objective=objective)
    assert not np.allclose(found, other[:, 0], atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_at_most_n_nonzero_features_have_weights_in_all_outputs_together(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 50))
    y = rng.integers(0, max(2, loss.n_outputs), 300).astype(float)
    objective = replace(OBJECTIVE, loss=loss, n_samples=300)
    solver = resolved(objective, threshold=0.0)
    weights = run(solver, X, y, objective=objective, noise=NoiseSource(0))
    rows = np.any(weights[:-1] != 0, axis=1)
    assert np.count_nonzero(rows) == 5
