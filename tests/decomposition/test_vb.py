"""Variational Bayes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from skdp.decomposition._plain import ALS, VariationalBayes, _PosteriorSide
from skdp.decomposition._plain_kernel import solve_posterior_rows
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
                expected = expected_error(ratings, users, items, targets)
                assert noise == pytest.approx(expected / len(targets), rel=1e-9)
                bounds.append(bound(ratings, users, items, targets, noise))
    # The first is of a side that still has no covariance.
    later = bounds[1:]
    assert np.isfinite(later).all()
    assert all(after >= before - 1e-6 for before, after in pairwise(later))
    assert later[-1] > later[0] + 10


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


def test_without_components_and_biases_nothing_is_learned():
    ratings = some_ratings()
    for found in fits(VariationalBayes(), ratings, task_of(ratings, k=0, biases=False)):
        assert not found.flat.any()
        assert found.mean == 0


def test_private_pairs_are_no_public_pattern():
    task = replace(task_of(some_ratings()), pattern=None)
    with pytest.raises(ValueError, match="rated pairs are private"):
        assert task.public_pattern
