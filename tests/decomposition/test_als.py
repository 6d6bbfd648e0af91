"""Alternating least squares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from skdp.decomposition._plain import ALS
from skdp.decomposition._plain_kernel import factorise, solve
from skdp.decomposition._ratings import Pattern, Ratings
from tests.decomposition.small import (
    fits,
    gradient,
    objective,
    root_mean_square,
    some_ratings,
    task_of,
)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.05, 1.0])
def test_a_sweep_never_raises_the_objective(biases, alpha):
    ratings = some_ratings()
    task = task_of(ratings, k=5, alpha=alpha, biases=biases)
    values = [objective(ratings, fit) for fit in fits(ALS(n_steps=12), ratings, task)]
    assert len(values) == 13
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))
    assert values[-1] < values[0]


def test_it_reaches_a_stationary_point():
    ratings = some_ratings()
    task = task_of(ratings)
    first, *_, last = fits(ALS(n_steps=600), ratings, task)
    assert np.abs(gradient(ratings, first)).max() > 1e-3
    assert np.abs(gradient(ratings, last)).max() < 1e-9


def test_biases_alone_are_the_ridge_regression_on_both_ids():
    ratings = some_ratings()
    task, pattern = task_of(ratings, k=0), ratings.pattern
    design = np.zeros((len(ratings), pattern.n_users + pattern.n_items))
    design[np.arange(len(ratings)), pattern.users] = 1
    design[np.arange(len(ratings)), pattern.n_users + pattern.items] = 1
    counts = design.sum(axis=0)
    target = design.T @ (ratings.values - ratings.values.mean())
    seen = counts > 0
    system = design.T @ design + task.alpha * np.diag(counts)
    expected = np.zeros(len(counts))
    expected[seen] = np.linalg.solve(system[np.ix_(seen, seen)], target[seen])
    *_, last = fits(ALS(n_steps=200), ratings, task)
    found = np.concatenate([last.users[:, 0], last.items[:, 1]])
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_more_threads_change_nothing(k):
    ratings = some_ratings(n_users=700, n_items=300, n=4000, dtype=np.float32)
    task = task_of(ratings, k=k)
    one, two = (fits(ALS(n_steps=3), ratings, task, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one[-1].flat, two[-1].flat)


def test_single_precision_agrees_with_double():
    ratings = some_ratings()
    task = task_of(ratings)
    single = Ratings(ratings.pattern, ratings.values.astype(np.float32))
    expected, found = (fits(ALS(n_steps=8), r, task)[-1] for r in (ratings, single))
    assert found.flat.dtype == np.float32
    np.testing.assert_allclose(found.flat, expected.flat, atol=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e30])
@pytest.mark.parametrize("k", [0, 2, 60])
def test_extremes_stay_finite(dtype, alpha, k):
    ratings = some_ratings(dtype=dtype)
    start, *_, last = fits(ALS(n_steps=5), ratings, task_of(ratings, k=k, alpha=alpha))
    assert np.isfinite(last.flat).all()
    error, before = root_mean_square(ratings, last), root_mean_square(ratings, start)
    assert error <= before * (1 + 1e-6)
    if alpha == 1e30:
        assert error == pytest.approx(np.std(ratings.values), rel=1e-5)
    elif k == 60:  # more unknowns than ratings
        assert error < 0.01


def test_rows_without_ratings_are_zero():
    ratings = some_ratings()
    *_, last = fits(ALS(n_steps=2), ratings, task_of(ratings, k=3))
    assert last.users[-1].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    assert last.items[-1].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 4])
def test_one_user(n):
    ids = np.arange(n, dtype=np.int32)
    pattern = Pattern(np.zeros(n, np.int32), ids, n_users=1, n_items=5)
    ratings = Ratings(pattern, 1.0 + ids)
    *_, last = fits(ALS(n_steps=3), ratings, task_of(ratings, k=2))
    assert np.isfinite(last.flat).all()


def test_a_user_with_more_ratings_than_are_gathered_at_a_time():
    n_items = 700
    ids = np.arange(n_items, dtype=np.int32)
    pattern = Pattern(np.zeros(n_items, np.int32), ids, n_users=1, n_items=n_items)
    ratings = Ratings(pattern, np.sin(ids.astype(float)))
    task = task_of(ratings, k=1)
    *_, last = fits(ALS(n_steps=300), ratings, task)
    assert np.abs(gradient(ratings, last)).max() < 1e-9


@pytest.mark.parametrize("d", [1, 3, 4, 5, 11])
def test_systems_are_solved(d):
    rng = np.random.default_rng(d)
    root, right = rng.normal(size=(d, d + 2)), rng.normal(size=d)
    matrix = root @ root.T
    factor, found = matrix.copy(), right.copy()
    factorise(factor, 0.0)
    solve(factor, found)
    np.testing.assert_allclose(np.triu(factor).T @ np.triu(factor), matrix)
    np.testing.assert_allclose(matrix @ found, right, atol=1e-9)
