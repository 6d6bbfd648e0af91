"""Private factorisation of values whose pairs are public: theory, measurement."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdp.decomposition import _value_als
from skdp.decomposition import _value_als as module
from skdp.decomposition._ratings import Pattern
from skdp.decomposition._user_als import ClippedNormal, LowRank, product_gram, row_grams
from skdp.decomposition._value_als import (
    Bilinear,
    ItemRows,
    UserRows,
    incidence,
    pattern_embedding,
    residual_sensitivity,
    values_of,
)
from skdp.privacy.noise._noise import NoiseSource
from tests.decomposition.value_problems import (
    BOUNDS,
    half_of_the_bound,
    pattern,
    predictions,
    run,
    solver_of,
    task_of,
)
from tests.spies import SpyNoise, Transcript

PATTERN = pattern(40, 30, 0.4, seed=0)
SMALL = {"n_embedding": 4, "rank": 2}
SETTINGS = [
    SMALL,
    {"n_embedding": 0, "rank": 0, "n_rounds": 1},
    {"n_embedding": 2, "n_rounds": 0},
    {"n_embedding": 9, "rank": 12, "n_rounds": 1, "residual_clip": 0.5},
    SMALL | {"residual_clip": 0.01, "prior_scale": 100.0},
]


def ratings_of(pattern, seed=1):
    return np.random.default_rng(seed).integers(1, 6, len(pattern)).astype(float)


# --- The parts ---------------------------------------------------------------------


def test_the_embedding_is_the_truncated_decomposition_with_unit_rows():
    rng = np.random.RandomState(0)
    # Groups that rate their own kind: four singular values stand apart.
    groups = np.arange(60) % 4, np.arange(48) % 4
    likely = np.where(groups[0][:, None] == groups[1], 0.7, 0.1)
    users, items = np.nonzero(rng.rand(60, 48) < likely)
    blocks = Pattern(users.astype(np.int32), items.astype(np.int32), 60, 48)
    got = pattern_embedding(blocks, 4, rng)
    u, s, v = np.linalg.svd(incidence(blocks).toarray())
    for rows, points in zip((u[:, :4], v[:4].T), got, strict=True):
        expected = rows * s[:4]
        expected /= np.linalg.norm(expected, axis=1)[:, None]
        assert np.allclose(points @ points.T, expected @ expected.T, atol=1e-3)


def test_embedding_of_ids_without_ratings_and_of_too_many_dimensions():
    codes = np.array([0, 1], dtype=np.int32)
    users, items = pattern_embedding(
        Pattern(codes, codes, 3, 5), 6, np.random.RandomState(0)
    )
    assert users.shape == (3, 6)
    assert items.shape == (5, 6)
    assert np.allclose(np.linalg.norm(users, axis=1), [1, 1, 0])
    assert np.allclose(np.linalg.norm(items, axis=1), [1, 1, 0, 0, 0])


@pytest.mark.parametrize("clip", [0.05, 0.2, 0.5])
def test_mean_and_variance_of_clipped_normal_residuals(clip):
    law = ClippedNormal(0.225, clip)
    x = np.linspace(-3, 3, 200_001)
    weights = norm.pdf(x, scale=law.deviation)
    weights /= weights.sum()
    clipped = np.clip(x, -clip, clip)
    assert law.spread == pytest.approx(np.sum(weights * clipped**2), rel=1e-4)
    shift = 1e-4
    moved = np.clip(x + shift, -clip, clip) - np.clip(x - shift, -clip, clip)
    assert law.slope == pytest.approx(np.sum(weights * moved) / (2 * shift), rel=1e-3)


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


def test_gram_helpers_agree():
    rng = np.random.default_rng(3)
    rows, ones = rng.normal(size=(30, 4)), np.ones((40, 1))
    total = product_gram(incidence(PATTERN), ones, rows)[0]
    assert np.allclose(total, row_grams(incidence(PATTERN), rows).sum(axis=0))


def test_what_is_returned_predicts_what_was_fitted():
    rng = np.random.default_rng(0)
    model = LowRank(rng.normal(size=(40, 5)), rng.normal(size=(30, 5)))
    whole = model.predict(PATTERN)
    for biases in (True, False):
        factors = model.factors(PATTERN, task_of(PATTERN, 6, biases=biases))
        assert np.allclose(predictions(factors, PATTERN), whole)
    errors = [
        np.mean(
            (predictions(model.factors(PATTERN, task_of(PATTERN, k)), PATTERN) - whole)
            ** 2
        )
        for k in range(6)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-20 < errors[-2]


# --- Declared and done -------------------------------------------------------------


@pytest.mark.parametrize("solver", SETTINGS)
def test_what_is_drawn_is_what_was_declared(solver):
    task, noise = task_of(PATTERN), SpyNoise(seed=0)
    run(solver, ratings_of(PATTERN), task, noise)
    solver = solver_of(solver, task)
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
    """
    worst = 0.0
    for values, others, seed in pairs_of_values:
        first = Transcript(seed)
        second = Transcript(seed, heard=first)
        for each, noise in ((values, first), (others, second)):
            run(solver, each, task, noise)
        assert first.facts == second.facts
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
        values = ratings_of(PATTERN, seed=j)
        if j % 3 == 0:
            values[:] = BOUNDS[j % 2]
        others = values.copy()
        changed = rng.integers(len(PATTERN))
        values[changed], others[changed] = BOUNDS
        yield values, others, j


@pytest.mark.parametrize("solver", SETTINGS)
def test_no_query_changes_by_more_than_its_sensitivity(solver):
    worst = largest_change(solver, task_of(PATTERN), neighbours())
    assert 0.5 < worst <= 1


def test_the_search_finds_a_clip_that_was_left_out(monkeypatch):
    monkeypatch.setattr(_value_als, "clipped", lambda residuals, clip: residuals)
    solver = SMALL | {"residual_clip": 0.1}
    assert largest_change(solver, task_of(PATTERN), neighbours(4)) > 1.5


@pytest.mark.parametrize("name", ["_unit_rows", "_with_constant"])
def test_the_search_finds_rows_that_are_too_long(name, monkeypatch):
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: 1.5 * right(*args))
    assert largest_change(SMALL, task_of(PATTERN), neighbours(6)) > 1.2


def test_the_search_finds_half_of_the_sensitivity(monkeypatch):
    half_of_the_bound(monkeypatch)
    assert largest_change(SMALL, task_of(PATTERN), neighbours(4)) > 1.5


def test_nothing_but_the_queries_reads_a_value():
    """With the same releases the result is the same, to the last bit."""
    task, first = task_of(PATTERN), Transcript(0)
    second = Transcript(0, heard=first)
    results = [
        run(SMALL, ratings_of(PATTERN, seed), task, noise)
        for seed, noise in ((1, first), (2, second))
    ]
    assert np.array_equal(results[0].flat, results[1].flat)
    assert results[0].mean == results[1].mean


def test_values_beyond_the_bounds_cost_no_privacy():
    """The estimator clips to the bounds; the residuals' clip holds without it."""
    values = ratings_of(PATTERN)
    others = values.copy()
    values[7], others[7] = -1e300, 1e300
    assert largest_change(SMALL, task_of(PATTERN), [(values, others, 0)]) <= 1


def test_rounding_of_sums_is_charged():
    """Sums of single terms at a time, against exact ones, at the longest rows."""
    rng, n = np.random.default_rng(0), 4000
    codes = np.arange(n, dtype=np.int32)
    one = Pattern(np.zeros(n, np.int32), codes, 1, n)
    residuals = rng.uniform(-0.5, 0.5, n)
    part = UserRows(np.ones((n, 1)))
    found = part.sums(values_of(one, residuals)).item()
    error = abs(found - math.fsum(residuals))
    charged = residual_sensitivity(0.5, one) - 1.0
    assert 0 < 2 * error < charged < 1e-6


# --- Odd shapes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "items", "shape"),
    [
        ([0], [0], (1, 1)),
        ([0, 0, 0], [0, 1, 2], (1, 3)),
        ([0, 2], [1, 1], (4, 3)),
        (range(20), range(20), (20, 20)),
    ],
)
@pytest.mark.parametrize("epsilon", [1e-3, 1e6])
def test_few_ids_and_ids_without_a_rating(users, items, shape, epsilon):
    codes = (np.array(ids, dtype=np.int32) for ids in (users, items))
    odd = Pattern(*codes, *shape)
    for biases in (True, False):
        task = task_of(odd, 2, biases=biases)
        factors = run({}, ratings_of(odd), task, NoiseSource(0), epsilon)
        assert np.all(np.isfinite(factors.flat))
        assert math.isfinite(factors.mean)


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
def test_fits_in_other_units_are_the_same_fit(unit):
    values = ratings_of(PATTERN)
    plain = run(SMALL, values, task_of(PATTERN), NoiseSource(0))
    bounds = BOUNDS[0] * unit, BOUNDS[1] * unit
    other = run(SMALL, values * unit, task_of(PATTERN, bounds=bounds), NoiseSource(0))
    got = predictions(other, PATTERN) / unit
    assert np.allclose(got, predictions(plain, PATTERN), rtol=1e-6)


def test_single_precision_values():
    values, task = ratings_of(PATTERN), task_of(PATTERN)
    results = [
        run(SMALL, values.astype(dtype), task, NoiseSource(0)).flat
        for dtype in (np.float32, np.float64)
    ]
    assert np.array_equal(*results)


# --- What it is good for -----------------------------------------------------------


def taste_problem():
    """Two kinds of users and of items; who rates what tells them apart."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=300), rng.integers(2, size=200)
    same = kinds[0][:, None] == kinds[1]
    rated = rng.random(same.shape) < np.where(same, 0.25, 0.15)
    level = np.where(same, 3.6, 2.6) + 0.4 * rng.normal(size=200)
    values = np.clip(level + 0.6 * rng.normal(size=same.shape), *BOUNDS)
    users, items = np.nonzero(rated)
    held_out = rng.random(len(users)) < 0.2
    parts = []
    for chosen in (~held_out, held_out):
        u, i = users[chosen].astype(np.int32), items[chosen].astype(np.int32)
        parts += [Pattern(u, i, *same.shape), values[u, i]]
    return parts


def test_points_of_the_pattern_and_low_rank_pay_and_noise_costs():
    """Held out: better than biases alone, and better with a larger epsilon."""
    train, values, test, truth = taste_problem()

    def error(solver, epsilon):
        task = task_of(train)
        factors = run(solver, values, task, NoiseSource(0), epsilon)
        return math.sqrt(np.mean((predictions(factors, test) - truth) ** 2))

    biases = {"n_embedding": 0, "rank": 0}
    plain, pattern_only, full = (
        error(solver, 4.0) for solver in (biases, {"rank": 0}, {})
    )
    assert pattern_only < plain - 0.02
    assert full < plain - 0.02
    by_epsilon = [error({}, epsilon) for epsilon in (0.1, 1.0, 10.0, 1e4)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert by_epsilon[-1] < 0.68  # the noise in the ratings alone is about 0.6
