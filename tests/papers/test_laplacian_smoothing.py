"""laplacian_smoothing: what it is, along which axes, and that it costs nothing less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import circulant

from skdp.losses import SoftmaxLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._smoothing import LaplacianSmoothing, smoothed
from skdp.privacy import Budget, calibrate
from skdp.solvers._descent import NoisySGD
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

BUDGET = Budget(1.0, 1e-6)
OBJECTIVE = LinearObjective(
    loss=SoftmaxLoss(3),
    n_samples=80,
    n_features=12,
    data_norm=1.0,
    adjacency="replace_one",
    alpha=0.01,
)
FEW = {"n_steps": 5, "batch_size": 20, "step_size": 0.5}
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def planned(objective=OBJECTIVE, **params):
    return door.planned(LaplacianSmoothing, objective, BUDGET, **FEW, **params)


def source(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 12)) / 4
    return MemorySource(X, rng.integers(0, 3, 80).astype(float))


def operator(d, strength):
    stencil = np.zeros(d)
    stencil[0] += 1 + 2 * strength
    stencil[1 % d] -= strength
    stencil[-1] -= strength
    return circulant(stencil)


@pytest.mark.parametrize("d", [1, 2, 3, 12])
@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0])
def test_smoothing_solves_its_equation(d, strength):
    gradient = np.random.default_rng(0).normal(size=(d, 2))
    found = smoothed(gradient, strength, 0)
    assert operator(d, strength) @ found == pytest.approx(gradient)
    # What is alike everywhere stays.
    assert smoothed(np.ones((d, 1)), strength, 0) == pytest.approx(1.0)


@pytest.mark.parametrize("n_across", [12, 4, 3, 1])
def test_a_grid_is_smoothed_along_rows_and_columns(n_across):
    solver = planned(n_across=n_across, strength=2.0)
    gradient = np.random.default_rng(0).normal(size=OBJECTIVE.shape)
    found = solver.smoothed(gradient, OBJECTIVE)
    down = 12 // n_across
    both = np.kron(operator(down, 2.0), operator(n_across, 2.0))
    assert both @ found[:12] == pytest.approx(gradient[:12])
    assert np.array_equal(found[12:], gradient[12:])  # the intercept's


def test_the_order_of_columns_is_part_of_the_model():
    """Broken claim: that smoothing commutes with a permutation of columns."""
    solver = planned(strength=2.0)
    gradient = np.random.default_rng(0).normal(size=OBJECTIVE.shape)
    order = np.append(np.random.default_rng(1).permutation(12), 12)
    moved = solver.smoothed(gradient[order], OBJECTIVE)
    assert np.abs(moved - solver.smoothed(gradient, OBJECTIVE)[order]).max() > 0.1


@by_adjacency
def test_every_strength_costs_and_draws_the_same(adjacency):
    """It is never credited: event, noise and sensitivity are those of noisy_sgd."""
    objective = replace(OBJECTIVE, adjacency=adjacency)
    like = door.planned(NoisySGD, objective, BUDGET, **FEW)
    found = set()
    for strength in (0.0, 0.5, 3.0, 1e6):
        solver = planned(objective, strength=strength)
        z = calibrate(lambda z, s=solver: door.event_of(s, z, objective), BUDGET)
        assert door.event_of(solver, z, objective) == door.event_of(like, z, objective)
        noise = SpyNoise(seed=0)
        door.run(solver, source(), objective, z, noise)
        first = noise.draws[0]
        assert solver.sensitivity(objective) == like.sensitivity(objective)
        found.add((z, first.sigma, len(noise.draws)))
    assert len(found) == 1


def test_no_strength_is_noisy_sgd():
    runs = [
        door.run(solver, source(), OBJECTIVE, 2.0, SpyNoise(seed=4)).weights
        for solver in (
            planned(strength=0.0),
            door.planned(NoisySGD, OBJECTIVE, BUDGET, **FEW),
        )
    ]
    assert np.array_equal(*runs)


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


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_across": 5}, r"divides the number of features, 12"),
        ({"n_across": 0}, "n_across"),
        ({"strength": -1.0}, "strength"),
        ({"sigma": 1.0}, r"sigma.*cannot be set"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        planned(**params)


# --------------------------------------------------------------------------- DP-LSAdam


@by_adjacency
def test_adam_asks_and_costs_the_same(adjacency):
    """It is post-processing: the first query is the same, and so is all the noise."""
    objective, spies = replace(OBJECTIVE, adjacency=adjacency), []
    for params in ({}, {"adam": True}, {"adam": True, "strength": 30.0}):
        solver = planned(objective, **params)
        assert solver.plan(objective) == planned(objective).plan(objective)
        assert solver.sensitivity(objective) == planned(objective).sensitivity(
            objective
        )
        spies.append(SpyNoise(seed=0))
        door.run(solver, source(), objective, 1.0, spies[-1])
    first, *others = spies
    for other in others:
        assert np.array_equal(other.draws[0].query, first.draws[0].query)
        told = [(d.sigma, d.noise_multiplier) for d in other.draws[:1]]
        assert told == [(d.sigma, d.noise_multiplier) for d in first.draws[:1]]


def test_adam_takes_its_steps_along_smoothed_gradients():
    solver = planned(adam=True, momentum=0.8, beta_2=0.9, strength=2.0, tail=1e-9)
    noise = SpyNoise(seed=0)
    found = door.run(solver, source(), OBJECTIVE, 1.0, noise).weights
    weights = mean = square = np.zeros(OBJECTIVE.shape)
    sums = solver.gradients(OBJECTIVE)
    for t, draw in enumerate(noise.draws, start=1):
        released = sums.at(weights).read(draw.released) / solver.batch_size
        gradient = solver.smoothed(released + OBJECTIVE.alpha * weights, OBJECTIVE)
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.9 * square + 0.1 * gradient**2
        root = np.sqrt(square / (1 - 0.9**t))
        weights = weights - solver.step_size * mean / (1 - 0.8**t) / (root + 1e-8)
    assert found == pytest.approx(weights, rel=1e-9)


def test_adam_has_a_step_of_its_own():
    objective = replace(OBJECTIVE, n_samples=10**6)
    given = {"n_steps": 5, "batch_size": 20}
    plain = door.planned(LaplacianSmoothing, objective, BUDGET, **given)
    adam = door.planned(LaplacianSmoothing, objective, BUDGET, **given, adam=True)
    assert adam.step_size != plain.step_size
    assert (adam.step_size, adam.momentum) == (0.1, 0.9)
    own = {"adam": True, "step_size": 0.7}
    assert door.planned(LaplacianSmoothing, objective, BUDGET, **own).step_size == 0.7
