"""output_perturbation: how far one record moves a minimiser, and the one release."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import SquaredLoss
from skdp.papers import _output_perturbation as module
from skdp.papers._output_perturbation import OutputPerturbation
from skdp.privacy.noise._noise import spherical_scale
from skdp.solvers._objective_perturbation import CertifiedProblem, certified_minimum
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.problem import BUDGET, PURE, by_adjacency, objective_of
from tests.problems import LOSSES
from tests.spies import SpyNoise

OBJECTIVE = objective_of(3, 4)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def minimum(objective, strength, X, y, present=None):
    """The minimiser to nine digits of what one record can move."""
    certified, linear = CertifiedProblem(objective, strength), np.zeros(objective.shape)
    source, tolerance = MemorySource(X, y, present), 1e-9 * objective.row_norm
    weights = certified_minimum(source, certified, linear, tolerance)
    assert weights is not None
    return weights


def farthest_move(objective, strength):
    """Largest distance found between the minimisers of neighbours."""
    rng, loss, found = np.random.default_rng(0), objective.loss, 0.0
    rows = rng.normal(size=(3, objective.n_features))
    rows *= objective.data_norm / np.linalg.norm(rows, axis=1)[:, None]
    rows[1] = 0.0
    kinds = [float(kind) for kind in range(max(2, loss.n_outputs))]
    if isinstance(loss, SquaredLoss):
        kinds = [-loss.target_bound, loss.target_bound]
    for first in kinds:
        for second in kinds:
            y = np.array([first, first, second])
            here = minimum(objective, strength, rows, y)
            if objective.adjacency == "zero_out":
                present = np.array([False, True, True])
                others = [minimum(objective, strength, rows, y, present)]
            else:
                z = np.array([second, first, second])
                flips = (rows * np.array([[sign], [1], [1]]) for sign in (1, -1))
                others = [minimum(objective, strength, each, z) for each in flips]
            found = max(found, *(float(np.linalg.norm(here - w)) for w in others))
    return found


def exact_sensitivity(objective, strength):
    solver = OutputPerturbation(strength=strength, law="gaussian")
    return solver.sensitivity(objective) / (1 + module._APPROXIMATION)


@by_adjacency
@pytest.mark.parametrize(("ratio", "data_norm"), [(2.0, 12.0), (200.0, 1.0)])
@every_loss
def test_no_neighbours_minimisers_are_farther_apart_than_stated(
    loss, ratio, data_norm, adjacency
):
    facts = {"loss": loss, "data_norm": data_norm, "adjacency": adjacency}
    objective, strength = replace(OBJECTIVE, **facts), ratio * data_norm**2
    bound = exact_sensitivity(objective, strength)
    found = farthest_move(objective, strength)
    assert found <= bound * (1 + 1e-6)
    if ratio > 100:
        # Near zero weights a logistic residual is a half, of a softmax two thirds.
        assert found >= 0.45 * bound
        # Broken twin: a strength per record for that of the sum.
        assert found > exact_sensitivity(objective, 3 * strength)


@by_adjacency
@every_loss
@pytest.mark.parametrize("law", ["gaussian", "spherical"])
def test_one_draw_of_the_stated_sensitivity(loss, adjacency, law):
    objective = objective_of(60, 3, loss=loss, adjacency=adjacency)
    params = {"law": law, "strength": 2.0}
    solver = door.planned(OutputPerturbation, objective, BUDGET, **params)
    rng, noise = np.random.default_rng(0), SpyNoise(seed=0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, max(2, loss.n_outputs), 60) * 1.0
    run = door.run(solver, MemorySource(X, y), objective, 5.0, noise)
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
    exact = minimum(objective, 2.0, X, y)
    assert np.linalg.norm(draw.query - exact) <= module._APPROXIMATION * change / 2


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
    objective, noise = objective_of(20, 5), SpyNoise(seed=0)
    solver = door.planned(OutputPerturbation, objective, BUDGET)
    source = MemorySource(np.ones((20, 5)), np.ones(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = door.run(solver, source, objective, 5.0, noise)
    assert not noise.draws[0].query.any()
    assert run.weights.any()
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_rules_and_refusals():
    strong = objective_of(2000, 5, alpha=1 / (40.0 * 2000))
    assert door.planned(OutputPerturbation, strong, PURE).strength == 1 / 40.0
    for facts, params, message in [
        ({"loss": SquaredLoss(math.inf, 1.0)}, {}, "bounded gradient"),
        ({"data_norm": math.inf}, {}, "finite data_norm"),
        ({}, {"law": "gaussian"}, "cannot do delta=0"),
    ]:
        objective = replace(strong, **facts)
        said = door.refusal(OutputPerturbation, objective, PURE, **params)
        assert message in said
