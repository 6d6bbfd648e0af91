"""The last iterate of noisy_gd alone: theory, measurement, and what breaks it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.papers._last_iterate import HiddenDescent
from skdp.privacy.noise._noise import gaussian_scale
from skdp.solvers._registry import choose_solver
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.problem import BUDGET, by_adjacency, objective_of, source
from tests.spies import SpyNoise

OBJECTIVE = objective_of(alpha=0.05, adjacency="replace_one")
LOSSES = [LogisticLoss(), SoftmaxLoss(3), SquaredLoss(2.0, 1.0), HuberHingeLoss()]


def hidden(n_steps=20, step_size=None, objective=OBJECTIVE):
    bend = objective.loss.smoothness * objective.row_norm**2 + objective.alpha
    step_size = step_size or 1.0 / bend
    return HiddenDescent(objective, step_size, n_steps)


# An exact law --------------------------------------------------------------------


def line(adjacency, n_steps):
    facts = {"loss": SquaredLoss(residual_bound=1.05, target_bound=1.0)}
    facts |= {"adjacency": adjacency, "alpha": 0.02, "fit_intercept": False}
    return hidden(n_steps, 0.9, objective_of(4000, 1, **facts))


def exact_mu(descent, z):
    """Of the last iterate when all records but one are null; a Gaussian law.

    That record is (1, 1), against (1, -1) or null; its residual is never clipped.
    """
    objective, step = descent.objective, descent.step_size
    sigma = z * descent.sensitivity
    curvature = {"replace_one": 1 / objective.n_samples, "zero_out": 0.0}
    steps = np.arange(descent.n_steps)
    c = 1 - step * (objective.alpha + curvature[objective.adjacency])
    pull = {"replace_one": 2.0, "zero_out": 1.0}[objective.adjacency]
    moved = step * pull / objective.n_samples * np.sum(c**steps)
    return moved / (sigma * np.sqrt(np.sum(c ** (2 * steps))))


@by_adjacency
@pytest.mark.parametrize("n_steps", [1, 60, 3000])
def test_exact_law_never_exceeds_the_bound_and_comes_near(adjacency, n_steps):
    descent = line(adjacency, n_steps)
    share = exact_mu(descent, 3.0) / (descent.factor / 3.0)
    assert 0.93 < share <= 1


# Contraction ---------------------------------------------------------------------


def largest_stretch(objective, step_size, residual_clip=math.inf, seed=0):
    """Largest ratio found of distances after and before a step, no noise."""
    rng = np.random.default_rng(seed)
    largest = 0.0
    for trial in range(250):
        X = np.eye(objective.n_features)[rng.integers(0, 1 + trial % 3, 6)]
        signs = rng.choice([-1.0, 1.0], size=(6, 1)) if trial % 2 else 1.0
        X = X * signs * objective.data_norm
        y = rng.integers(0, max(2, objective.loss.n_outputs), 6).astype(float)
        total = GradientSum(MemorySource(X, y), objective, residual_clip)
        scale = 10 ** rng.uniform(-2, 1)
        W = scale * rng.normal(size=(objective.n_columns, objective.loss.n_outputs))
        away = rng.normal(size=W.shape)
        if trial % 4:  # along the first record
            row = np.append(X[0], objective.data_norm)
            away = np.outer(row, rng.normal(size=objective.loss.n_outputs))
        V = W + 1e-4 * away * 10 ** rng.uniform(0, 4)

        def step(W, total=total):
            return W - step_size * (total(W) / 6 + objective.alpha * W)

        stretch = np.linalg.norm(step(W) - step(V)) / np.linalg.norm(W - V)
        largest = max(largest, stretch)
    return largest


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("share", [0.5, 0.999, 1.01])
def test_steps_are_contractions_as_stated(loss, share):
    objective = replace(OBJECTIVE, loss=loss, n_samples=6, alpha=0.02)
    bend = loss.smoothness * objective.row_norm**2 + objective.alpha
    step_size = share * 2 / (bend + objective.alpha)
    stated = 1 - hidden(5, step_size, objective).gap
    found = largest_stretch(objective, step_size)
    assert found <= stated * (1 + 1e-9)
    assert found > 0.95 * stated


def test_broken_twins_are_no_contractions():
    facts = {"n_samples": 6, "alpha": 0.001}
    # Steps above 2 / L.
    objective = replace(OBJECTIVE, loss=SquaredLoss(100.0, 1.0), **facts)
    bend = objective.smoothness
    assert largest_stretch(objective, 2.4 / bend) > 1.1
    assert hidden(5, 2.4 / bend, objective).gap < 0
    # Residuals of several outputs clipped in norm: no gradient of a convex function.
    objective = replace(OBJECTIVE, loss=SoftmaxLoss(3), **facts)
    bend = objective.smoothness
    stated = 1 - hidden(5, 1.9 / bend, objective).gap
    assert largest_stretch(objective, 1.9 / bend) <= stated
    assert largest_stretch(objective, 1.9 / bend, residual_clip=0.5) > stated


# Rounding ------------------------------------------------------------------------


def test_rounding_is_charged():
    descent, z = hidden(), 4.0
    charged = descent.charged(200, z)
    scale = gaussian_scale(sensitivity=charged, noise_multiplier=z, size=4)
    start, query = math.sqrt(4) * scale.grid, math.sqrt(4) * scale.grid
    errors = descent.floating_point_error(200)
    assert charged >= descent.sensitivity + start + errors
    assert scale.sigma >= z * (descent.sensitivity + start + query + errors)
    assert scale.sigma <= 1.002 * z * descent.sensitivity


# The solver ----------------------------------------------------------------------


def chosen(objective=OBJECTIVE, **params):
    params = {"release": "last"} | params
    return choose_solver("noisy_gd", params, objective, BUDGET).solver


def test_noise_and_sensitivity_are_the_same_in_every_step():
    """A scale that followed the weights would need the path to be public."""
    solver, noise = chosen(n_steps=30), SpyNoise()
    run = door.run(solver, source(), OBJECTIVE, 3.0, noise)
    assert len(noise.draws) == 30
    (sensitivity,) = {draw.sensitivity for draw in noise.draws}
    assert sensitivity == solver.hidden(OBJECTIVE).charged(200, 3.0)
    assert {draw.noise_multiplier for draw in noise.draws} == {3.0}
    assert {draw.sigma for draw in noise.draws} == {run.noise_scale}
    assert np.array_equal(run.weights, noise.draws[-1].released)


@pytest.mark.parametrize(
    ("params", "changes", "message"),
    [
        ({"momentum": 0.5}, {}, "momentum=0"),
        ({"residual_clip": 0.5}, {}, "residual_clip=inf"),
        ({"intercept_weight": 0.5}, {}, "intercept_weight=1"),
        ({"tail": 0.5}, {}, "tail"),
        ({}, {"alpha": 0.0}, "Set C or alpha"),
        ({}, {"adjacency": "replace_user"}, "privacy_unit='record'"),
        ({"step_size": 4.1}, {}, "below 2 / L"),
    ],
)
def test_what_breaks_the_theorem_is_refused(params, changes, message):
    with pytest.raises(ValueError, match=rf"release='last' needs.*{message}"):
        chosen(replace(OBJECTIVE, **changes), **params)
