"""heavy_ball: momentum, and the smoothing of the thesis as post-processing."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.papers._accelerated import HeavyBall
from skdp.privacy.noise._noise import NoiseSource
from tests import door
from tests.papers.problem import BUDGET, PURE, objective_of, source

OBJECTIVE = objective_of(alpha=0.01, adjacency="replace_one")


def resolved(budget=BUDGET, **params):
    return door.planned(HeavyBall, OBJECTIVE, budget, **params)


def smoothed_descent(solver, smoothing, step_size, noise):
    """DP-GDwS in the thesis's words: V = (1 - b) V + b (g + N), W = W - step V."""
    plan = solver.plan(OBJECTIVE)
    answers = door.answers_for(plan, source(), 3.0, OBJECTIVE.adjacency, noise)
    weights = velocity = np.zeros(OBJECTIVE.shape)
    for i, line in enumerate(plan.lines):
        for _ in range(line.times):
            query = solver.gradients(OBJECTIVE).at(weights)
            total = query.read(answers.ask(query, i).value)
            mean = total / OBJECTIVE.n_samples + OBJECTIVE.alpha * weights
            velocity = (1 - smoothing) * velocity + smoothing * mean
            weights = weights - step_size * velocity
    return weights


@pytest.mark.parametrize("smoothing", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["mu", "pure"])
def test_smoothed_descent_is_the_heavy_ball(smoothing, budget):
    """With the same noise: momentum 1 - b and step size times b."""
    own = {"step_size": 0.7 * smoothing, "momentum": 1 - smoothing}
    solver = resolved(budget, n_steps=20, **own)
    run = door.run(solver, source(), OBJECTIVE, 3.0, NoiseSource(5))
    smooth = smoothed_descent(solver, smoothing, 0.7, NoiseSource(5))
    assert np.allclose(run.weights, smooth, rtol=1e-9, atol=1e-9)


def test_smoothing_changes_no_privacy():
    """Momentum is no part of the event, of the sensitivity or of the noise."""
    plain, smooth = (
        resolved(n_steps=20, step_size=0.5, momentum=momentum)
        for momentum in (0.0, 0.99)
    )
    assert door.event_of(plain, 3.0, OBJECTIVE) == door.event_of(smooth, 3.0, OBJECTIVE)
    assert plain.sensitivity(OBJECTIVE) == smooth.sensitivity(OBJECTIVE)
