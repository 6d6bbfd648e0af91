"""The gradient is that of the objective, whatever the threads and the subset."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.decomposition._plain import centred
from skdp.decomposition._ratings import Threads, width
from skdp.papers._hamsi_gradient import Objective
from tests.decomposition.matrices import (
    objective_of,
    ratings_of,
    some_factors,
    task_of,
)


def at(ratings, factors, pairs=None, n_jobs=1):
    objective = Objective(ratings, factors.task, factors.mean, pairs)
    gradient = np.full_like(factors.flat, np.nan)
    with Threads(n_jobs) as threads:
        value = objective.value_and_gradient(factors.flat, gradient, threads)
    return value, gradient


def free(task):
    """Entries that are neither constant nor padding."""
    columns = np.arange(width(task)) < task.n_components
    users, items = columns.copy(), columns.copy()
    if task.biases:
        users[task.n_components] = items[task.n_components + 1] = True
    return np.concatenate([np.tile(users, task.n_users), np.tile(items, task.n_items)])


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("n_components", [0, 3, 9])
def test_against_finite_differences(biases, n_components):
    ratings = ratings_of()
    task = task_of(ratings, n_components, 0.05, biases)
    factors = some_factors(task, centred(ratings, task).mean)
    for pairs in (None, np.arange(0, len(ratings), 3)):
        value, gradient = at(ratings, factors, pairs)
        assert np.isclose(value, objective_of(ratings, factors, pairs), rtol=1e-12)
        assert not gradient[~free(task)].any()
        rng = np.random.default_rng(0)
        for _ in range(5):
            direction = np.where(free(task), rng.normal(size=gradient.size), 0.0)
            values = []
            for step in (1e-5, -1e-5):
                moved = factors.copy()
                moved.flat[:] += step * direction
                values.append(objective_of(ratings, moved, pairs))
            slope = (values[0] - values[1]) / 2e-5
            assert np.isclose(gradient @ direction, slope, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_no_bit(dtype):
    ratings = ratings_of(200, 90, dtype=dtype)
    task = task_of(ratings)
    factors = some_factors(task, centred(ratings, task).mean, dtype=dtype)
    value, gradient = at(ratings, factors)
    for n_jobs in (2, 3):
        again, same = at(ratings, factors, n_jobs=n_jobs)
        assert again == value
        assert np.array_equal(same, gradient)


def test_single_precision_is_double_precision_rounded():
    ratings = ratings_of(200, 90)
    task = task_of(ratings)
    factors = some_factors(task, centred(ratings, task).mean)
    value, gradient = at(ratings, factors)
    single = ratings_of(200, 90, dtype=np.float32)
    rounded = some_factors(task, factors.mean, dtype=np.float32)
    short, approximate = at(single, rounded)
    assert np.isclose(short, value, rtol=1e-6)
    assert np.abs(approximate - gradient).max() < 1e-5 * np.abs(gradient).max()


def test_subsets_add_up():
    ratings = ratings_of()
    factors = some_factors(task_of(ratings))
    total, gradient = at(ratings, factors)
    order = np.random.default_rng(0).permutation(len(ratings))
    parts = [at(ratings, factors, pairs) for pairs in np.array_split(order, 3)]
    assert np.isclose(sum(value for value, _ in parts), total, rtol=1e-12)
    assert np.allclose(sum(part for _, part in parts), gradient, atol=1e-14)


def test_a_subset_without_ratings():
    ratings = ratings_of()
    factors = some_factors(task_of(ratings))
    value, gradient = at(ratings, factors, np.empty(0, dtype=np.int64))
    assert value == 0
    assert not gradient.any()
