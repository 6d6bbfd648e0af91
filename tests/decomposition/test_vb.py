"""Variational Bayes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from skdp.decomposition._plain import ALS, VariationalBayes, _PosteriorSide, _Regression
from skdp.decomposition._plain_kernel import invert, solve_posterior_rows, sum_rows
from skdp.decomposition._ratings import Pattern, Ratings, Threads
from tests.decomposition.small import fits, root_mean_square, some_ratings, task_of


def moments_of(side):
    """First and second moments of a side's rows as full matrices."""
    n = side._low[0].max() + 1
    second = np.zeros((len(side.means), n, n))
    low = np.tril_indices(n)
    second[:, *low] = second[:, *low[::-1]] = side._moments[:, : len(low[0])]
    return side.means[:, :n], second


def sides_of(ratings, task, pattern_alpha, seed=0):
    orders = ratings.pattern.by_user, ratings.pattern.by_item
    targets = ratings.values - ratings.values.mean()
    users = _PosteriorSide(orders, targets, task, pattern_alpha)
    items = _PosteriorSide(orders[::-1], targets, task, pattern_alpha)
    draws = np.random.default_rng(seed).normal(size=(task.n_items, task.n_components))
    items.start(draws / 2)
    return users, items, targets


def expected_error(ratings, users, items, targets):
    """Expected sum of squared errors, one rating at a time."""
    pattern, (x, xx), (z, zz) = ratings.pattern, moments_of(users), moments_of(items)
    if users._biases:  # (factors, 1, own) of one side times (factors, own, 1)
        swap = [*range(x.shape[1] - 2), x.shape[1] - 1, x.shape[1] - 2]
        z, zz = z[:, swap], zz[:, swap][:, :, swap]
    total = 0.0
    for u, i, target in zip(pattern.users, pattern.items, targets, strict=True):
        total += target**2 - 2 * target * (x[u] @ z[i]) + np.sum(xx[u] * zz[i])
    return total


def bound(ratings, users, items, targets, noise):
    """The evidence's lower bound, of which every update maximises a part."""
    n = len(targets)
    value = -n / 2 * np.log(2 * np.pi * noise)
    value -= expected_error(ratings, users, items, targets) / (2 * noise)
    for side in users, items:
        mean, second = moments_of(side)
        mean = mean[:, side._free]
        second = second[:, side._free][:, :, side._free]
        precision = np.linalg.inv(side._covariance)
        for row in np.flatnonzero(side.rated):
            spread = second[row] - np.outer(mean[row], mean[row])
            away = mean[row] - side._centres[row]
            value -= np.sum(precision * (spread + np.outer(away, away))) / 2
            value -= np.linalg.slogdet(side._covariance)[1] / 2
            value += (np.linalg.slogdet(spread)[1] + len(away)) / 2
    return value


@pytest.mark.parametrize("biases", [True, False])
def test_every_update_raises_the_bound(biases):
    ratings = some_ratings()
    task = task_of(ratings, k=3, biases=biases)
    users, items, targets = sides_of(ratings, task, np.inf)
    noise, bounds = 1.0, []
    with Threads() as threads:
        for _ in range(8):
            for side, other in (users, items), (items, users):
                noise = side.update(other, noise, threads)
                bounds.append(bound(ratings, users, items, targets, noise))
    # The first is of a side that still has no covariance.
    later = bounds[1:]
    assert np.isfinite(later).all()
    assert all(after >= before - 1e-6 for before, after in pairwise(later))
    assert later[-1] > later[0] + 10


@pytest.mark.parametrize("biases", [True, False])
def test_the_noise_is_the_expected_error(biases):
    ratings = some_ratings()
    task = task_of(ratings, k=3, biases=biases)
    users, items, targets = sides_of(ratings, task, 10.0)
    with Threads() as threads:
        for side, other in (users, items), (items, users), (users, items):
            found = side.update(other, 0.5, threads)
            expected = expected_error(ratings, users, items, targets) / len(targets)
            assert found == pytest.approx(expected, rel=1e-9)


def test_the_posterior_of_a_row_is_that_of_a_linear_model():
    """One user with items known for certain: Bayesian linear regression."""
    rng = np.random.default_rng(3)
    n, d = 9, 3
    rows, values = rng.normal(size=(n, d)), rng.normal(size=n)
    low = np.tril_indices(d)
    root = rng.normal(size=(d, d))
    precision, centre = root @ root.T + np.eye(d), rng.normal(size=d)
    mean, second, errors = np.zeros((1, d)), np.zeros((1, len(low[0]))), np.zeros(1)
    solve_posterior_rows(
        0, 1, np.array([0, n]), np.arange(n, dtype=np.int32), values, rows,
        np.ascontiguousarray(rows[:, low[0]] * rows[:, low[1]]), centre[None],
        precision, 0.7, 0.0, False,
        mean, second, errors,
    )  # fmt: skip
    covariance = np.linalg.inv(rows.T @ rows / 0.7 + precision)
    expected = covariance @ (rows.T @ values / 0.7 + precision @ centre)
    np.testing.assert_allclose(mean[0], expected)
    moments = covariance + np.outer(expected, expected)
    np.testing.assert_allclose(second[0], moments[low])
    left = np.sum((values - rows @ expected) ** 2)
    assert errors[0] == pytest.approx(left + np.trace(rows @ covariance @ rows.T))


@pytest.mark.parametrize("d", [1, 3, 4, 9])
def test_inverses(d):
    rng = np.random.default_rng(d)
    root = rng.normal(size=(d, d + 3))
    matrix = root @ root.T
    found = np.ascontiguousarray(np.linalg.cholesky(matrix).T)
    invert(found)
    low = np.tril_indices(d)
    np.testing.assert_allclose(found[low], np.linalg.inv(matrix)[low], atol=1e-9)


def test_the_regression_on_the_pattern_is_a_ridge_regression():
    ratings = some_ratings(n=200)
    pattern = ratings.pattern
    seen = np.zeros((pattern.n_users, pattern.n_items))
    seen[pattern.users, pattern.items] = 1
    rated = seen.any(axis=1)
    design = seen / np.maximum(seen.sum(axis=1), 1)[:, None] ** 0.3
    design = (design - design.sum(axis=0) / rated.sum()) * rated[:, None]
    targets = np.random.default_rng(0).normal(size=(pattern.n_users, 2))
    targets -= targets[rated].mean(axis=0)
    system = design.T @ design + 10.0 * np.eye(pattern.n_items)
    expected = design @ np.linalg.solve(system, design.T @ targets)
    orders = pattern.by_user, pattern.by_item
    regression = _Regression(orders, 10.0, 2, np.float64)
    with Threads() as threads:
        first, *_, last = (regression.fit(targets, threads).copy() for _ in range(30))
    np.testing.assert_allclose(last, expected, atol=1e-9)
    assert np.abs(first - expected).max() > 1e-4  # it takes more than one sweep


def test_sums_of_rows():
    order = some_ratings().pattern.by_user
    table = np.random.default_rng(0).normal(size=(25, 3))
    totals = np.empty((40, 3))
    sum_rows(0, 40, order.starts, order.others, table, totals)
    for row in range(40):
        others = order.others[order.starts[row] : order.starts[row + 1]]
        np.testing.assert_allclose(totals[row], table[others].sum(axis=0), atol=1e-12)


def test_held_out_error_is_below_that_of_least_squares():
    ratings = some_ratings(n_users=80, n_items=60, n=2000)
    pattern, kept = ratings.pattern, np.arange(2000) % 5 > 0
    train, test = (
        Ratings(Pattern(pattern.users[m], pattern.items[m], 80, 60), ratings.values[m])
        for m in (kept, ~kept)
    )
    found = fits(VariationalBayes(), train, task_of(train, k=8))[-1]
    error = root_mean_square(test, found)
    for alpha in 0.01, 0.03, 0.1, 0.3:
        other = fits(ALS(), train, task_of(train, k=8, alpha=alpha))[-1]
        assert error < root_mean_square(test, other)
    assert error < 1.5 * 0.3  # of which 0.3 is noise


def test_more_threads_change_nothing():
    ratings = some_ratings(n_users=700, n_items=300, n=4000, dtype=np.float32)
    plan, task = VariationalBayes(n_steps=3), task_of(ratings)
    one, two = (fits(plan, ratings, task, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one[-1].flat, two[-1].flat)


def test_single_precision_agrees_with_double():
    ratings = some_ratings(n=700)
    task, plan = task_of(ratings), VariationalBayes(n_steps=5)
    single = Ratings(ratings.pattern, ratings.values.astype(np.float32))
    expected, found = (fits(plan, r, task)[-1] for r in (ratings, single))
    assert found.flat.dtype == np.float32
    np.testing.assert_allclose(found.flat, expected.flat, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_ratings_does_not_matter(scale):
    ratings = some_ratings(n=700)
    task, plan = task_of(ratings), VariationalBayes(n_steps=5)
    scaled = Ratings(ratings.pattern, ratings.values * scale)
    one, other = (fits(plan, r, task)[-1] for r in (ratings, scaled))
    np.testing.assert_allclose(
        root_mean_square(scaled, other), root_mean_square(ratings, one) * scale
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("k", [0, 2, 60])
def test_extremes_stay_finite(dtype, biases, k):
    ratings = some_ratings(dtype=dtype)
    task = task_of(ratings, k=k, biases=biases)
    for pattern_alpha in 1e-3, np.inf:
        plan = VariationalBayes(n_steps=30, pattern_alpha=pattern_alpha)
        for found in fits(plan, ratings, task):
            assert np.isfinite(found.flat).all()
            assert np.isfinite(found.mean)


def test_ratings_that_are_all_the_same():
    ratings = some_ratings()
    ratings = Ratings(ratings.pattern, np.full(len(ratings), 3.0))
    *_, last = fits(VariationalBayes(n_steps=30), ratings, task_of(ratings))
    assert root_mean_square(ratings, last) < 1e-6


def test_rows_without_ratings_are_the_mean_ones():
    ratings = some_ratings()
    *_, last = fits(VariationalBayes(n_steps=3), ratings, task_of(ratings, k=3))
    assert last.users[-1].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    assert last.items[-1].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(last.users[:-1, :4].mean(axis=0)[:3], 0, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_one_user(n):
    ids = np.arange(n, dtype=np.int32)
    pattern = Pattern(np.zeros(n, np.int32), ids, n_users=1, n_items=5)
    ratings = Ratings(pattern, 1.0 + ids)
    *_, last = fits(VariationalBayes(n_steps=3), ratings, task_of(ratings, k=2))
    assert np.isfinite(last.flat).all()
