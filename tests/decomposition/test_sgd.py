"""Stochastic gradient descent."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.decomposition._plain import ALS, SGD, _Blocks
from skdp.decomposition._ratings import Pattern, Ratings
from tests.decomposition.small import (
    fits,
    objective,
    root_mean_square,
    some_ratings,
    task_of,
)


@pytest.mark.parametrize("biases", [True, False])
def test_the_objective_approaches_that_of_least_squares(biases):
    ratings = some_ratings(n=700)
    task = task_of(ratings, k=3, biases=biases)
    best = objective(ratings, fits(ALS(n_steps=300), ratings, task)[-1])
    start, *_, last = fits(SGD(n_steps=1000, step_size=0.3), ratings, task)
    assert objective(ratings, last) < best + 0.02 * (objective(ratings, start) - best)


@pytest.mark.parametrize("n_blocks", [1, 3, 8])
def test_more_threads_change_nothing(n_blocks):
    ratings = some_ratings(n_users=300, n_items=200, n=4000, dtype=np.float32)
    plan, task = SGD(n_steps=3, n_blocks=n_blocks), task_of(ratings)
    one, two = (fits(plan, ratings, task, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one[-1].flat, two[-1].flat)


def test_blocks_of_a_stratum_do_not_touch_and_hold_every_rating_once():
    n, ratings = 5, some_ratings(n=700)
    blocks = _Blocks(ratings.pattern, n, np.random.RandomState(0))
    assert sorted(blocks.order) == list(range(len(ratings)))
    seen = []
    for shift in range(n):
        users, items = [], []
        for b in range(n):
            span = range(*blocks.span(b, (b + shift) % n))
            seen += span
            users.append({blocks.users[j] for j in span})
            items.append({blocks.items[j] for j in span})
        for ids in users, items:
            assert sum(map(len, ids)) == len(set.union(*ids))
    assert sorted(seen) == list(range(len(ratings)))


def test_intervals_have_about_equal_counts():
    ratings = some_ratings(n_users=200, n_items=100, n=6000)
    blocks = _Blocks(ratings.pattern, 4, np.random.RandomState(0))
    counts = [
        sum(np.diff(blocks.span(row, column))[0] for column in range(4))
        for row in range(4)
    ]
    assert max(counts) - min(counts) < 0.1 * len(ratings)


def test_single_precision_agrees_with_double():
    ratings = some_ratings(n=700)
    task = task_of(ratings)
    single = Ratings(ratings.pattern, ratings.values.astype(np.float32))
    expected, found = (fits(SGD(n_steps=5), r, task)[-1] for r in (ratings, single))
    assert found.flat.dtype == np.float32
    np.testing.assert_allclose(found.flat, expected.flat, atol=2e-4)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_ratings_does_not_matter(scale):
    ratings = some_ratings(n=700)
    task = task_of(ratings, alpha=0.0)
    scaled = Ratings(ratings.pattern, ratings.values * scale)
    one, other = (fits(SGD(n_steps=5), r, task)[-1] for r in (ratings, scaled))
    np.testing.assert_allclose(
        root_mean_square(scaled, other), root_mean_square(ratings, one) * scale
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.0, 1e3, 1e30])
@pytest.mark.parametrize(("k", "step_size"), [(0, 0.1), (2, 100.0), (60, 0.1)])
def test_extremes_stay_finite(dtype, alpha, k, step_size):
    ratings = some_ratings(dtype=dtype)
    plan = SGD(n_steps=5, step_size=step_size)
    for found in fits(plan, ratings, task_of(ratings, k=k, alpha=alpha)):
        assert np.isfinite(found.flat).all()


def test_rows_without_ratings_are_zero():
    ratings = some_ratings()
    *_, last = fits(SGD(n_steps=2), ratings, task_of(ratings, k=3))
    assert last.users[-1].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    assert last.items[-1].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 4])
def test_one_user(n):
    ids = np.arange(n, dtype=np.int32)
    pattern = Pattern(np.zeros(n, np.int32), ids, n_users=1, n_items=5)
    ratings = Ratings(pattern, 1.0 + ids)
    *_, last = fits(SGD(n_steps=3), ratings, task_of(ratings, k=2))
    assert np.isfinite(last.flat).all()
