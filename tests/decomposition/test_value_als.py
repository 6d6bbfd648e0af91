"""Private factorisation of values whose pairs are public: theory, measurement."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.decomposition import _value_als as module
from skdp.decomposition._ratings import Ratings, RatingSource
from skdp.decomposition._user_als import ClippedNormal
from skdp.decomposition._value_als import (
    Bilinear,
    ItemRows,
    UserRows,
    ValueALS,
    incidence,
    pattern_embedding,
    residual_sensitivity,
    values_of,
)
from skdp.privacy import Budget, calibrate
from skdp.privacy.noise._noise import NoiseSource
from tests.decomposition import small
from tests.decomposition.small import planned, ratings_of
from tests.door import answers_for
from tests.spies import SpyNoise, Transcript

BOUNDS = (1.0, 5.0)


def pattern(n_users, n_items, share):
    """Each pair with a probability that is the larger the smaller its codes are."""
    rng = np.random.default_rng(0)
    weight = np.outer(np.linspace(1.8, 0.2, n_users), np.linspace(1.8, 0.2, n_items))
    users, items = np.nonzero(rng.random((n_users, n_items)) < share * weight)
    return ratings_of(users, items, users * 1.0, n_users, n_items).pattern


def task_of(pattern, k=3):
    facts = {"unit": "rating_value", "rating_bounds": BOUNDS, "pattern": pattern}
    return small.task_of(Ratings(pattern, None), k, 0.0, **facts)


def run(params, values, task, noise, epsilon=1.0):
    """What the door does with a factoriser, without the door."""
    budget = Budget(epsilon, 1e-6)
    solver = planned(ValueALS, task, budget, **params)
    plan = solver.plan(task)
    multiplier = calibrate(lambda z: plan.event(z, "rating_value"), budget)
    source = RatingSource(Ratings(task.pattern, values), len(task.pattern))
    answers = answers_for(plan, source, multiplier, "rating_value", noise)
    return solver.run(answers, task, Progress())


PATTERN = pattern(40, 30, 0.4)
SMALL = {"n_embedding": 4, "rank": 2}
SETTINGS = [
    SMALL,
    {"n_embedding": 0, "rank": 0, "n_rounds": 1},
    {"n_embedding": 2, "n_rounds": 0},
    {"n_embedding": 9, "rank": 12, "n_rounds": 1, "residual_clip": 0.5},
    SMALL | {"residual_clip": 0.01, "prior_scale": 100.0},
]


def values_for(pattern, seed=1):
    return np.random.default_rng(seed).integers(1, 6, len(pattern)).astype(float)


# --- The parts ---------------------------------------------------------------------


def test_the_embedding_is_the_truncated_decomposition_with_unit_rows():
    rng = np.random.RandomState(0)
    # Groups that rate their own kind: four singular values stand apart.
    groups = np.arange(60) % 4, np.arange(48) % 4
    likely = np.where(groups[0][:, None] == groups[1], 0.7, 0.1)
    users, items = np.nonzero(rng.rand(60, 48) < likely)
    blocks = ratings_of(users, items, users * 1.0, 60, 48).pattern
    got = pattern_embedding(blocks, 4, rng)
    u, s, v = np.linalg.svd(incidence(blocks).toarray())
    for rows, points in zip((u[:, :4], v[:4].T), got, strict=True):
        expected = rows * s[:4]
        expected /= np.linalg.norm(expected, axis=1)[:, None]
        assert np.allclose(points @ points.T, expected @ expected.T, atol=1e-3)


def test_rows_are_posterior_means():
    """Against conditioning the joint normal law of coefficients and statistic."""
    rng = np.random.default_rng(0)
    x, prior, sigma = rng.normal(size=(7, 3)), np.array([0.5, 0.1, 0.2]), 1.3
    law, sums = ClippedNormal(0.3, 0.2), rng.normal(size=3)
    cov = law.slope**2 * x @ np.diag(prior) @ x.T + law.spread * np.eye(7)
    with_sums = law.slope * np.diag(prior) @ x.T @ x
    expected = with_sums @ np.linalg.solve(x.T @ cov @ x + sigma**2 * np.eye(3), sums)
    got = law.rows((x.T @ x)[None], sums[None], prior, sigma)
    assert np.allclose(got[0], expected, rtol=1e-8)


@pytest.mark.parametrize("part", [Bilinear, ItemRows, UserRows])
def test_parts_are_linear_models_and_these_are_their_gram_matrices(part):
    """Sums, Gram matrices and predictions agree with the rows written out."""
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(30, 2))
    made = {
        Bilinear: lambda: Bilinear(users, items),
        ItemRows: lambda: ItemRows(users),
        UserRows: lambda: UserRows(items),
    }[part]()
    n = len(PATTERN)
    residuals = rng.normal(size=n)
    sums = made.sums(values_of(PATTERN, residuals))
    rows = np.zeros((n, sums.size))  # of coefficients, by predictions of unit ones
    for j in range(sums.size):
        unit = np.zeros(sums.size)
        unit[j] = 1
        rows[:, j] = made.predictions(unit.reshape(sums.shape)).predict(PATTERN)
    assert np.allclose(sums.ravel(), rows.T @ residuals)
    gram, whole = made.gram(incidence(PATTERN)), rows.T @ rows
    d = sums.shape[1]
    for row in range(len(sums)):
        mine = slice(row * d, (row + 1) * d)
        assert np.allclose(gram[row], whole[mine, mine])


# --- Declared and done -------------------------------------------------------------


@pytest.mark.parametrize("solver", SETTINGS)
def test_what_is_drawn_is_what_was_declared(solver):
    task, noise = task_of(PATTERN), SpyNoise(seed=0)
    run(solver, values_for(PATTERN), task, noise)
    solver = planned(ValueALS, task, Budget(1.0, 1e-6), **solver)
    assert math.fsum(solver.shares) == pytest.approx(1, abs=1e-12)
    event = solver.plan(task).event(3.0, "rating_value")
    assert event.mu_squared == pytest.approx(1 / 9)
    ratios = [draw.noise_multiplier for draw in noise.draws]
    declared = [leaf.noise_multiplier for leaf in event.leaves]
    assert np.allclose(np.array(ratios) / ratios[0], np.array(declared) / declared[0])
    asked = max(draw.sensitivity for draw in noise.draws)
    assert asked == solver.sensitivity(task)


def largest_change(solver, task, pairs_of_values):
    """Of any query in units of its declared sensitivity, the releases being the same.

    Releases are those of a run with noise, so the rows of later queries are typical.
    Nothing else may differ, and neither may what is made of it.
    """
    worst = 0.0
    for values, others, seed in pairs_of_values:
        first = Transcript(seed)
        second = Transcript(seed, heard=first)
        one, other = (
            run(solver, each, task, noise)
            for each, noise in ((values, first), (others, second))
        )
        assert first.facts == second.facts
        assert np.array_equal(one.flat, other.flat)
        assert one.mean == other.mean
        for a, b, (_, facts) in zip(
            first.queries, second.queries, first.facts, strict=True
        ):
            change = float(np.linalg.norm(a - b)) / facts["sensitivity"]
            worst = max(worst, change)
    return worst


def neighbours(n_pairs=6):
    """Values that differ in one rating: extreme ones, at all kinds of pairs."""
    rng = np.random.default_rng(5)
    for j in range(n_pairs):
        values = values_for(PATTERN, seed=j)
        if j % 3 == 0:
            values[:] = BOUNDS[j % 2]
        others = values.copy()
        changed = rng.integers(len(PATTERN))
        # The residuals' clip holds without the estimator's clip of ratings.
        values[changed], others[changed] = BOUNDS if j else (-1e100, 1e100)
        yield values, others, j


@pytest.mark.parametrize("solver", SETTINGS)
def test_no_query_changes_by_more_than_its_sensitivity(solver):
    worst = largest_change(solver, task_of(PATTERN), neighbours())
    assert 0.5 < worst <= 1


def test_the_search_finds_a_clip_that_was_left_out(monkeypatch):
    monkeypatch.setattr(module, "clipped", lambda residuals, clip: residuals)
    solver = SMALL | {"residual_clip": 0.1}
    assert largest_change(solver, task_of(PATTERN), neighbours(4)) > 1.5


@pytest.mark.parametrize("name", ["_unit_rows", "_with_constant"])
def test_the_search_finds_rows_that_are_too_long(name, monkeypatch):
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: 1.5 * right(*args))
    assert largest_change(SMALL, task_of(PATTERN), neighbours(6)) > 1.2


def test_rounding_of_sums_is_charged():
    """Sums of single terms at a time, against exact ones, at the longest rows."""
    rng, n = np.random.default_rng(0), 4000
    one = ratings_of(np.zeros(n), np.arange(n), np.ones(n), 1, n).pattern
    residuals = rng.uniform(-0.5, 0.5, n)
    part = UserRows(np.ones((n, 1)))
    found = part.sums(values_of(one, residuals)).item()
    error = abs(found - math.fsum(residuals))
    charged = residual_sensitivity(0.5, one) - 1.0
    assert 0 < 2 * error < charged < 1e-6


def test_points_of_the_pattern_pay_and_noise_costs():
    """Two kinds of users and of items; who rates what tells them apart."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=150), rng.integers(2, size=100)
    same = kinds[0][:, None] == kinds[1]
    users, items = np.nonzero(rng.random(same.shape) < np.where(same, 0.4, 0.2))
    whole = ratings_of(users, items, np.where(same, 4.0, 2.0)[users, items], 150, 100)
    values = whole.values + 0.5 * rng.normal(size=len(users))

    def error(params, epsilon=4.0):
        task = task_of(whole.pattern)
        factors = run(params, values, task, NoiseSource(0), epsilon)
        return small.root_mean_square(whole, factors)

    assert error({"rank": 0}) < error({"n_embedding": 0, "rank": 0}) - 0.02
    by_epsilon = [error({}, epsilon) for epsilon in (0.1, 1.0, 10.0, 1e4)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
