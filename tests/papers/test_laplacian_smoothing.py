"""laplacian_smoothing: what it is, along which axes, and that it costs nothing less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import circulant

from skdp.losses import SoftmaxLoss
from skdp.papers._smoothing import LaplacianSmoothing, smoothed
from skdp.solvers._descent import NoisySGD
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.problem import BUDGET, objective_of, table
from tests.spies import SpyNoise

OBJECTIVE = objective_of(80, 12, loss=SoftmaxLoss(3), alpha=0.01)
FEW = {"n_steps": 5, "batch_size": 20, "step_size": 0.5}


def planned(kind=LaplacianSmoothing, **params):
    return door.planned(kind, OBJECTIVE, BUDGET, **(FEW | params))


def run(solver, seed=0):
    noise, y = SpyNoise(seed=seed), np.arange(80.0) % 3
    data = MemorySource(table(80, 12)[0], y)
    return door.run(solver, data, OBJECTIVE, 2.0, noise).weights, noise.draws


def operator(d, strength):
    stencil = np.zeros(d)
    stencil[0] += 1 + 2 * strength
    stencil[1 % d] -= strength
    stencil[-1] -= strength
    return circulant(stencil)


@pytest.mark.parametrize("d", [1, 2, 3, 12])
def test_smoothing_solves_its_equation(d):
    gradient = np.random.default_rng(0).normal(size=(d, 2))
    found = smoothed(gradient, 30.0, 0)
    assert operator(d, 30.0) @ found == pytest.approx(gradient)
    # What is alike everywhere stays.
    assert smoothed(np.ones((d, 1)), 30.0, 0) == pytest.approx(1.0)


@pytest.mark.parametrize("n_across", [12, 4, 1])
def test_a_grid_is_smoothed_along_rows_and_columns(n_across):
    solver = planned(n_across=n_across, strength=2.0)
    gradient = np.random.default_rng(0).normal(size=OBJECTIVE.shape)
    found = solver.smoothed(gradient, OBJECTIVE)
    both = np.kron(operator(12 // n_across, 2.0), operator(n_across, 2.0))
    assert both @ found[:12] == pytest.approx(gradient[:12])
    assert np.array_equal(found[12:], gradient[12:])  # the intercept's
    with pytest.raises(ValueError, match="divides the number of features, 12"):
        planned(n_across=5)


def test_every_strength_costs_and_draws_the_same():
    """It is never credited: event, noise and sensitivity are those of noisy_sgd."""
    like = planned(NoisySGD)
    weights, draws = run(like)
    for params in ({"strength": 0.0}, {}, {"strength": 1e6}, {"adam": True, **FEW}):
        solver = planned(**params)
        assert solver.plan(OBJECTIVE) == like.plan(OBJECTIVE)
        assert solver.sensitivity(OBJECTIVE) == like.sensitivity(OBJECTIVE)
        found, drawn = run(solver)
        assert np.array_equal(drawn[0].query, draws[0].query)
        assert [d.noise_multiplier for d in drawn] == [2.0] * 5
        assert drawn[0].sigma == draws[0].sigma
        assert np.array_equal(found, weights) == (params == {"strength": 0.0})


def test_the_fixed_point_is_the_optimum():
    """The penalty is smoothed too; broken twin: the penalty left as it is."""
    solver = planned(strength=3.0)
    gradient = np.random.default_rng(2).normal(size=OBJECTIVE.shape)
    weights = -gradient / OBJECTIVE.alpha  # where gradient and penalty cancel
    public = OBJECTIVE.alpha * weights
    right = solver.smoothed(gradient + public, OBJECTIVE)
    wrong = solver.smoothed(gradient, OBJECTIVE) + public
    assert np.abs(right).max() < 1e-12
    assert np.abs(wrong).max() > 0.1
