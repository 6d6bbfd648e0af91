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


def test_subsets_add_up():
    ratings = ratings_of()
    factors = some_factors(task_of(ratings))
    total, gradient = at(ratings, factors)
    order = np.random.default_rng(0).permutation(len(ratings))
    parts = [at(ratings, factors, pairs) for pairs in np.array_split(order, 3)]
    assert np.isclose(sum(value for value, _ in parts), total, rtol=1e-12)
    assert np.allclose(sum(part for _, part in parts), gradient, atol=1e-14)
