"""The theory of `peeling`: what a record does to values, what is drawn and kept."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from skdp._arrays import clip_entries
from skdp.losses import SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.noise._laws import Choices
from skdp.privacy.release._plan import Line, Plan
from skdp.solvers._sparse import Peeling, PeelingSteps
from skdp.sums._features import FeatureScore
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from tests import door
from tests.door import answers_for, event_of, refusal
from tests.problems import ADJACENCIES, BUDGET, PURE
from tests.spies import NoNoise, SpyNoise

D, BOUND, NORM = 8, 0.5, 1.2
SQUARED = SquaredLoss(residual_bound=2.0, target_bound=1.0)


def problem_of(adjacency="zero_out", **facts):
    facts = {"n_samples": 1, "n_features": D, "data_norm": NORM} | facts
    facts = {"loss": SQUARED, "feature_bound": BOUND, "n_nonzero": 3} | facts
    return LinearObjective(adjacency=adjacency, **facts)


def planned(objective, budget, **params):
    return door.planned(Peeling, objective, budget, **params)


def feature_bound(sums):
    """Of the score of any feature."""
    return sums.bound(math.inf, "features", sums.entry_bound)


# What is declared and drawn ------------------------------------------------------


def run_with(objective, budget, params=None):
    solver = planned(objective, budget, **(params or {}))

    def declare(z):
        return event_of(solver, z, objective)

    multiplier = calibrate(declare, budget)
    rng, spy = np.random.default_rng(0), SpyNoise(seed=1)
    n, d = objective.n_samples, objective.n_features
    source = MemorySource(rng.uniform(-0.5, 0.5, size=(n, d)), rng.normal(size=n))
    solution = door.run(solver, source, objective, multiplier, spy)
    return solver, declare(multiplier), spy, solution


@pytest.mark.parametrize("share", [0.2, 0.6])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_what_is_drawn_is_what_is_declared(adjacency, share):
    objective = problem_of(adjacency, n_samples=30)
    params = {"selection_share": share}
    _, event, spy, solution = run_with(objective, BUDGET, params)
    values, chosen = event.parts
    assert isinstance(values, GaussianEvent)
    assert isinstance(chosen, BoundedRangeEvent)
    assert [draw.noise_multiplier for draw in spy.draws] == (
        [values.noise_multiplier] * values.count
    )
    assert {choice.epsilon for choice in spy.choices} == {chosen.epsilon}
    assert sum(len(choice.chosen) for choice in spy.choices) == chosen.count
    assert 0.996 * BUDGET.epsilon <= epsilon_of(event, BUDGET.delta) <= BUDGET.epsilon
    # Shares of mu^2, that of a selection taken as (epsilon / 2)^2.
    of_choices = chosen.count * chosen.epsilon**2 / 4
    assert of_choices / (of_choices + values.mu_squared) == pytest.approx(share)
    found = np.flatnonzero(solution.weights[:D, 0])
    selected = np.concatenate([choice.chosen for choice in spy.choices])
    assert len(found) == len(selected) == 3


def test_pure_selections_and_values_add_up():
    objective = problem_of("replace_one", n_samples=30)
    _, event, spy, _ = run_with(objective, PURE, {"selection_share": 0.4})
    values, chosen = event.parts
    assert isinstance(values, PureEvent)
    assert {draw.law for draw in spy.draws} == {"spherical"}
    assert chosen.pure_epsilon == pytest.approx(0.4 * PURE.epsilon, rel=1e-4)
    assert values.pure_epsilon == pytest.approx(0.6 * PURE.epsilon, rel=1e-4)


# Rounds and defaults -------------------------------------------------------------


@pytest.mark.parametrize("n_nonzero", [1, 2, 5, 6, 7, 50, 333])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rounds_select_all_features_the_most_first(n_nonzero, fit_intercept):
    facts = {"n_features": 400, "n_nonzero": n_nonzero, "fit_intercept": fit_intercept}
    objective = problem_of(**facts)
    solver = planned(objective, BUDGET)
    rounds = solver.rounds(objective)
    sizes = list(rounds.values())
    assert sum(sizes) == n_nonzero
    assert min(sizes) >= 1
    assert all(b <= a + 1 for a, b in pairwise(sizes))
    assert len(rounds) == solver.n_rounds == min(6, n_nonzero)
    # One step for the intercept and three more for the values.
    assert min(rounds) == fit_intercept
    assert solver.n_steps == len(rounds) + fit_intercept + 3


def test_more_rounds_than_steps_or_features_are_refused():
    objective = problem_of()
    for params in ({"n_rounds": 4}, {"n_rounds": 3, "n_steps": 2}):
        assert "Use n_rounds=None" in refusal(Peeling, objective, BUDGET, **params)
    assert not refusal(Peeling, objective, BUDGET, n_rounds=3, n_steps=3)
    spherical = {"law": "spherical"}
    for params in ({}, {"n_steps": 2, "n_rounds": 1}):
        reason = refusal(Peeling, objective, BUDGET, **spherical, **params)
        assert "Use law=None for Gaussian noise, or delta=0." in reason
    assert not refusal(Peeling, objective, PURE, **spherical)
    once = {"n_steps": 1, "n_rounds": 1}
    assert not refusal(Peeling, objective, BUDGET, **spherical, **once)
    gaussian = refusal(Peeling, objective, PURE, law="gaussian")
    assert "Use law=None. See https:" in gaussian


# Steps ---------------------------------------------------------------------------


def test_a_step_of_the_wrong_length_is_mended_by_the_next_release():
    """On a parabola of curvature 2 along every column, minimum at (1, -2)."""
    facts = {"n_features": 2, "fit_intercept": False, "n_nonzero": 2, "alpha": 0.5}
    objective, best = problem_of(**facts), np.array([[1.0], [-2.0]])
    for step_size in (0.3, 0.9):  # of the right length: 0.5
        solver = planned(objective, BUDGET, step_size=step_size)
        walk = PeelingSteps.of(2, solver.step_size, objective)
        for _ in range(2):
            gradient = 2 * (walk.weights - best) - objective.alpha * walk.weights
            walk.step(gradient)
        assert np.allclose(walk.weights, best)


# Accuracy ------------------------------------------------------------------------


def test_without_noise_features_come_in_the_order_of_their_gradients():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(3000, D))
    y = 1.2 * X[:, 6] - 0.6 * X[:, 2] + 0.3 * X[:, 5]
    objective = problem_of(n_samples=3000)
    params = {"n_steps": 40, "residual_clip": math.inf, "clip_decay": 1.0}
    solver = planned(objective, BUDGET, shortening=math.inf, **params)
    solution = door.run(solver, MemorySource(X, y), objective, 1.0, NoNoise())
    coef, intercept = solution.unpack(objective)
    assert np.allclose(coef[0], [0, 0, -0.6, 0, 0, 0.3, 1.2, 0], atol=1e-3)
    assert abs(intercept[0]) < 1e-3


# ------------------------------------------------------------------------ Selections


def test_entries_in_single_precision_are_within_their_bound(monkeypatch):
    """The nearest single to 0.1 is larger; a twin that clips to it is found out."""
    for bound in (1e-100, 0.1, 0.7, 1e100):
        for dtype in (np.float32, np.float64):
            ends = clip_entries(np.array([[-1e38, 1e38]], dtype=dtype), bound)
            assert ends.dtype == dtype
            assert abs(ends.astype(float)).max() <= bound
    monkeypatch.setattr("skdp._arrays._within", lambda bound, dtype: bound)
    ends = clip_entries(np.ones((1, 1), dtype=np.float32), np.float32(0.1))
    assert float(ends[0, 0]) > 0.1


def test_selection_is_among_the_candidates_and_in_order():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, size=(4000, D))
    y = np.clip(2 * X[:, 4] + X[:, 1] - X[:, 0], -1, 1)
    objective, noise = problem_of(n_samples=4000), SpyNoise(seed=1)
    sums = ClippedGradient(objective, uses_entry_bound=True)

    def chosen(k, **facts):
        """Features chosen through the door, each with epsilon 5."""
        query = FeatureScore.of(sums, np.zeros((D + 1, 1)), **facts)
        plan = Plan((Line(k, law=Choices(5.0)),))
        answers = answers_for(plan, MemorySource(X, y), 1.0, "zero_out", noise)
        return query.features(answers.choose(query, k, line=0)).tolist()

    assert chosen(3) == [0, 1, 4]
    assert 1 in chosen(2, among=np.array([1, 2, 3, 5]))
    far = np.zeros((D, 1))
    far[3] = 1e30  # kept at a distance that floating point can tell apart from others
    assert 3 in chosen(1, place=far)
