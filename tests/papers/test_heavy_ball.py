"""heavy_ball: momentum, and the smoothing of the thesis as post-processing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._accelerated import HeavyBall
from skdp.privacy import Budget
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers._descent import NoisyGD
from skdp.solvers._registry import named_solver
from skdp.tables._memory import MemorySource
from tests import door

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS,
    n_samples=200,
    n_features=5,
    data_norm=1.0,
    adjacency="replace_one",
    alpha=0.01,
)
BUDGET = Budget(1.0, 1e-6)


def resolved(budget=BUDGET, **params):
    return door.planned(HeavyBall, OBJECTIVE, budget, **params)


def data():
    rng = np.random.default_rng(0)
    return MemorySource(
        rng.normal(size=(200, 5)), rng.integers(0, 2, 200).astype(float)
    )


@pytest.mark.parametrize("momentum", [1.0, -0.1, "much"])
def test_bad_momentum_is_named(momentum):
    with pytest.raises((TypeError, ValueError), match="momentum"):
        named_solver("heavy_ball", {"momentum": momentum})


def test_default_momentum_is_nesterovs_or_that_of_noisy_gd():
    regular = replace(OBJECTIVE, alpha=0.5)
    solver = door.planned(HeavyBall, regular, BUDGET)
    root = np.sqrt(solver.step_size * 0.5)
    assert solver.momentum == pytest.approx((1 - root) / (1 + root))
    # Without regularisation: the same flow time as noisy_gd, in as many steps.
    free = replace(OBJECTIVE, alpha=0.0, n_samples=10_000)
    solver, guide = (door.planned(x, free, BUDGET) for x in (HeavyBall, NoisyGD))
    assert solver.n_steps == pytest.approx(guide.n_steps, abs=1)
    assert solver.momentum == pytest.approx(guide.momentum, abs=0.01)
    assert solver.step_size == pytest.approx(guide.step_size, rel=0.1)


def test_momentum_becomes_a_plain_number():
    assert type(resolved(momentum=np.float32(0.5)).momentum) is float


def smoothed_descent(solver, smoothing, step_size, multiplier, noise):
    """DP-GDwS in the thesis's words: V = (1 - b) V + b (g + N), W = W - step V."""
    plan = solver.plan(OBJECTIVE)
    answers = door.answers_for(plan, data(), multiplier, OBJECTIVE.adjacency, noise)
    weights = velocity = np.zeros((6, 1))
    for i, line in enumerate(plan.lines):
        for _ in range(line.times):
            query = solver.gradients(OBJECTIVE).at(weights)
            total = query.read(answers.ask(query, i).value)
            mean = total / OBJECTIVE.n_samples + OBJECTIVE.alpha * weights
            velocity = (1 - smoothing) * velocity + smoothing * mean
            weights = weights - step_size * velocity
    return weights


@pytest.mark.parametrize("smoothing", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("budget", [BUDGET, Budget(1.0, 0.0)], ids=["mu", "pure"])
def test_smoothed_descent_is_the_heavy_ball(smoothing, budget):
    """With the same noise: momentum 1 - b and step size times b."""
    solver = resolved(
        budget, n_steps=20, step_size=0.7 * smoothing, momentum=1 - smoothing
    )
    run = door.run(solver, data(), OBJECTIVE, 3.0, NoiseSource(5))
    smooth = smoothed_descent(solver, smoothing, 0.7, 3.0, NoiseSource(5))
    assert np.allclose(run.weights, smooth, rtol=1e-9, atol=1e-9)


def test_smoothing_changes_no_privacy():
    """Momentum is no part of the event, of the sensitivity or of the noise."""
    plain, smooth = (
        resolved(n_steps=20, step_size=0.5, momentum=momentum)
        for momentum in (0.0, 0.99)
    )
    assert door.event_of(plain, 3.0, OBJECTIVE) == door.event_of(smooth, 3.0, OBJECTIVE)
    assert plain.sensitivity(OBJECTIVE) == smooth.sensitivity(OBJECTIVE)
