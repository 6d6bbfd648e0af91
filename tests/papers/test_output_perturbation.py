"""output_perturbation: its rules and how far one record moves a minimiser."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers import _output_perturbation as module
from skdp.papers._output_perturbation import OutputPerturbation
from skdp.privacy import Budget, GaussianEvent, PureEvent
from skdp.privacy.noise._noise import NoiseSource, gaussian_scale, spherical_scale
from skdp.solvers._objective_perturbation import (
    CertifiedProblem,
    _goal,
    certified_minimum,
)
from skdp.solvers._registry import choose_solver, named_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.problems import ADJACENCIES, LOSSES
from tests.solvers.neighbours import gradients, largest_change
from tests.spies import SpyNoise

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=2000, n_features=5, data_norm=1.0, adjacency="zero_out"
)
BUDGET = Budget(1.0, 1e-6)
PURE = Budget(1.0, 0.0)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(OutputPerturbation, objective, budget, **params)


# Rules -----------------------------------------------------------------------------


def test_defaults_follow_from_public_facts_only():
    solver = resolved()
    assert solver == resolved()
    assert solver.law == "gaussian"
    assert resolved(budget=PURE).law == "spherical"
    assert resolved(budget=Budget(0.1, 1e-6)).strength > solver.strength
    objective = replace(OBJECTIVE, alpha=1 / (40.0 * 2000))
    assert resolved(objective).strength == pytest.approx(1 / 40.0)
    assert resolved(objective, strength=3.0).strength == 3.0


@every_loss
def test_units_of_the_features_do_not_matter(loss):
    small, large = (
        resolved(replace(OBJECTIVE, loss=loss, data_norm=norm))
        for norm in (1.0, 1000.0)
    )
    assert large.strength == pytest.approx(1e6 * small.strength)


def test_event_is_one_release():
    assert door.event_of(resolved(), 3.0, OBJECTIVE) == GaussianEvent(3.0)
    pure = door.event_of(resolved(budget=PURE), 4.0, OBJECTIVE)
    assert pure == PureEvent(0.25)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"strength": 0.0}, "strength"),
        ({"law": "laplace"}, "law"),
        ({"tolerance": 1e-3}, r"tolerance.*cannot be set"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        named_solver("output_perturbation", params)


@pytest.mark.parametrize(
    ("objective", "budget", "params", "message"),
    [
        (
            OBJECTIVE.with_loss(SquaredLoss(math.inf, 1.0)),
            BUDGET,
            {},
            "bounded gradient",
        ),
        (OBJECTIVE, PURE, {"law": "gaussian"}, "cannot do delta=0"),
        (replace(OBJECTIVE, data_norm=math.inf), BUDGET, {}, "finite data_norm"),
    ],
)
def test_refusals_say_why(objective, budget, params, message):
    assert message in door.refusal(OutputPerturbation, objective, budget, **params)
    with pytest.raises(ValueError, match=message):
        choose_solver("output_perturbation", params, objective, budget)


# How far a record moves the minimiser -----------------------------------------------


def minimum(objective, strength, X, y, present=None):
    """The minimiser to nine digits of what one record can move."""
    certified = CertifiedProblem(objective, strength)
    linear = np.zeros((objective.n_columns, objective.loss.n_outputs))
    tolerance = 1e-9 * objective.row_norm
    weights = certified_minimum(
        MemorySource(X, y, present), certified, linear, tolerance
    )
    assert weights is not None
    return weights


def single_records(objective):
    """Rows of full norm with every kind of target, alone and beside another."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, objective.n_features))
    rows *= objective.data_norm / np.linalg.norm(rows, axis=1)[:, None]
    kinds = range(max(2, objective.loss.n_outputs))
    if isinstance(objective.loss, SquaredLoss):
        kinds = (-objective.loss.target_bound, objective.loss.target_bound)
    for first in kinds:
        for second in kinds:
            yield rows, float(first), float(second)


def farthest_move(objective, strength):
    """Largest distance found between the minimisers of neighbours."""
    found = 0.0
    for rows, first, second in single_records(objective):
        X = np.vstack([rows[0], rows[1:] * (np.arange(2)[:, None] > 0)])
        y = np.array([first, first, second])
        here = minimum(objective, strength, X, y)
        if objective.adjacency == "zero_out":
            present = np.array([False, True, True])
            others = [minimum(objective, strength, X, y, present)]
        else:
            others = []
            for sign in (1.0, -1.0):
                Z, z = X.copy(), y.copy()
                Z[0], z[0] = sign * X[0], second
                others.append(minimum(objective, strength, Z, z))
        found = max([found, *(float(np.linalg.norm(here - w)) for w in others)])
    return found


def exact_sensitivity(objective, strength):
    solver = OutputPerturbation(strength=strength, law="gaussian")
    return solver.sensitivity(objective) / (1 + module._APPROXIMATION)


@every_adjacency
@pytest.mark.parametrize("data_norm", [1.0, 12.0])
@pytest.mark.parametrize("ratio", [0.2, 2.0, 200.0])
@every_loss
def test_no_neighbours_minimisers_are_farther_apart_than_stated(
    loss, ratio, data_norm, adjacency
):
    objective = replace(
        OBJECTIVE,
        loss=loss,
        n_samples=3,
        n_features=4,
        data_norm=data_norm,
        adjacency=adjacency,
    )
    strength = ratio * data_norm**2
    bound = exact_sensitivity(objective, strength)
    found = farthest_move(objective, strength)
    assert found <= bound * (1 + 1e-6)
    if ratio > 100:
        # Near zero weights a logistic residual is a half, of a softmax two thirds.
        assert found >= 0.45 * bound
        # Broken twins: strength per record for that of the sum, and a bound for
        # half a unit of the residual.
        assert found > bound / 3
        assert found > exact_sensitivity(objective, objective.n_samples * strength)


@every_adjacency
@every_loss
def test_change_of_the_gradient_is_attained(loss, adjacency):
    objective = replace(
        OBJECTIVE, loss=loss, n_features=3, adjacency=adjacency, fit_intercept=False
    )
    bound = module._gradient_change(objective)
    found = largest_change(objective)
    assert 0.9 * bound < found <= bound * (1 + 1e-9)


@pytest.mark.parametrize("loss", [HuberHingeLoss(), SquaredLoss(1.0, 1.0)], ids=repr)
def test_broken_twin_with_the_bound_of_zero_out_is_caught(loss):
    objective = replace(
        OBJECTIVE, loss=loss, n_samples=3, n_features=4, adjacency="replace_one"
    )
    found = farthest_move(objective, 200.0)
    other = replace(objective, adjacency="zero_out")
    assert found > 1.3 * exact_sensitivity(other, 200.0)
    assert found <= exact_sensitivity(objective, 200.0)


def test_regulariser_is_no_part_of_the_sensitivity():
    """A twin that adds it would need a bound on the weights, and more noise."""
    for strength in (0.1, 10.0, 1e4):
        bound = exact_sensitivity(OBJECTIVE, strength)
        assert bound == pytest.approx(math.sqrt(2) / strength)


def test_outputs_are_one_joint_vector():
    soft, hinge = SoftmaxLoss(5), HuberHingeLoss(n_outputs=5)
    assert exact_sensitivity(OBJECTIVE.with_loss(soft), 1.0) == pytest.approx(2.0)
    assert exact_sensitivity(OBJECTIVE.with_loss(hinge), 1.0) == pytest.approx(
        math.sqrt(10)
    )
    # Broken twin: split into columns, whose noise would fit one of them only.
    objective = replace(OBJECTIVE, loss=hinge, n_features=3, fit_intercept=False)
    first, _ = gradients(objective)
    columns = np.sqrt((first**2).sum(axis=1))
    assert np.max(columns) <= 1 + 1e-9
    assert np.max(np.sqrt((columns**2).sum(axis=1))) > 2.2


def norms_above(goal):
    """Of vectors whose computed norm just meets the goal: how many are too long."""
    rng, found = np.random.default_rng(0), 0
    for size in (1, 7, 63, 1000) * 50:
        numbers = rng.normal(size=(size, 1)) * 10.0 ** rng.uniform(-100, 100)
        tolerance = float(np.linalg.norm(numbers))  # as far as the computer sees
        if tolerance <= goal(tolerance, size):
            exact = sum(Fraction(float(x)) ** 2 for x in numbers.ravel())
            found += exact > Fraction(tolerance) ** 2
        numbers *= 1 - 4 * (size + 8) * 2.0**-53  # these can be met
        assert np.linalg.norm(numbers) <= goal(tolerance, size)
    return found


def test_the_check_of_a_norm_allows_for_its_own_rounding():
    assert norms_above(_goal) == 0


def test_broken_twin_that_takes_a_computed_norm_at_its_word_is_found():
    assert norms_above(lambda tolerance, size: tolerance) > 10


# The release -----------------------------------------------------------------------


@every_adjacency
@every_loss
@pytest.mark.parametrize("law", ["gaussian", "spherical"])
def test_one_draw_of_the_stated_sensitivity(loss, adjacency, law):
    objective = replace(
        OBJECTIVE, loss=loss, n_samples=60, n_features=3, adjacency=adjacency
    )
    solver = resolved(objective, law=law, strength=2.0)
    rng = np.random.default_rng(0)
    y = rng.integers(0, max(2, loss.n_outputs), 60).astype(float)
    source = MemorySource(rng.normal(size=(60, 3)), y)
    noise = SpyNoise(seed=0)
    run = door.run(solver, source, objective, 5.0, noise)
    (draw,) = noise.draws
    assert draw.law == law
    assert draw.noise_multiplier == pytest.approx(5.0)
    assert np.array_equal(run.weights, draw.released)
    assert run.noise_scale == pytest.approx(draw.sigma)
    change = module._gradient_change(objective)
    rounding = CertifiedProblem(objective, 2.0).rounding_error(60)
    # Both minimisers may be as far from their own as the certificate allows.
    left = max(module._APPROXIMATION * change / 2, 2 * rounding)
    assert draw.sensitivity >= (change + 2 * left) / 2.0 * (1 - 1e-12)
    assert draw.sensitivity <= solver.sensitivity(objective) * (1 + 1e-9)
    # What is released is near the minimiser: its gradient is below the tolerance.
    exact = minimum(objective, 2.0, source._X, y)
    assert np.linalg.norm(draw.query - exact) <= module._APPROXIMATION * change / 2


def columns_of_noise(repeat=False, runs=3000):
    """Noise of the first weight for the first two of three classes."""
    rows = []
    for seed in range(runs):
        query, source = np.zeros((2, 3)), NoiseSource(seed)
        noise = source.spherical(query, sensitivity=1.0, epsilon=1.0)
        if repeat:
            noise[:, 1] = noise[:, 0]
        rows.append(noise[0, :2])
    return np.array(rows)


def test_noise_of_two_classes_is_not_shared():
    assert abs(np.corrcoef(columns_of_noise().T)[0, 1]) < 6 / math.sqrt(3000)
    twin = columns_of_noise(repeat=True)
    assert abs(np.corrcoef(twin.T)[0, 1]) > 0.9


@pytest.mark.parametrize("size", [2, 10])
def test_broken_twin_independent_laplace_noise_is_not_pure(size):
    """For an L2 sensitivity the exact loss of the twin is sqrt(size) too large."""
    epsilon = 0.7
    scale = spherical_scale(sensitivity=1.0, epsilon=epsilon, size=size).sigma
    shift = np.full(size, 1 / math.sqrt(size))
    points = np.random.default_rng(0).normal(size=(2000, size)) * scale * 3
    points = np.vstack([points, 5 * shift * scale])
    spherical = np.linalg.norm(points, axis=1) - np.linalg.norm(points - shift, axis=1)
    assert 0.9 * epsilon < np.max(np.abs(spherical)) / scale <= epsilon
    laplace = np.abs(points).sum(axis=1) - np.abs(points - shift).sum(axis=1)
    assert np.max(np.abs(laplace)) / scale > 1.3 * epsilon


def test_a_minimum_that_is_missed_is_no_exception(monkeypatch, capsys, caplog):
    monkeypatch.setattr(module, "certified_minimum", lambda *arguments: None)
    objective = replace(OBJECTIVE, n_samples=20)
    noise = SpyNoise(seed=0)
    source = MemorySource(np.ones((20, 5)), np.ones(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = door.run(resolved(objective), source, objective, 5.0, noise)
    assert not noise.draws[0].query.any()
    assert run.weights.any()
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_noise_is_that_of_the_law():
    solver = resolved(strength=2.0)
    scale = gaussian_scale(
        sensitivity=solver.sensitivity(OBJECTIVE), noise_multiplier=5.0, size=6
    )
    source = MemorySource(np.ones((2000, 5)), np.ones(2000))
    run = door.run(solver, source, OBJECTIVE, 5.0, NoiseSource(0))
    assert run.noise_scale == pytest.approx(scale.sigma, rel=1e-6)
