"""Alternating least squares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from skdp.decomposition._plain import ALS
from tests.decomposition.small import (
    fits,
    gradient,
    objective,
    ratings_of,
    some_ratings,
    task_of,
)


@pytest.mark.parametrize(("biases", "alpha"), [(True, 0.0), (False, 0.05), (True, 1.0)])
def test_a_sweep_never_raises_the_objective(biases, alpha):
    ratings = some_ratings()
    task = task_of(ratings, k=5, alpha=alpha, biases=biases)
    values = [objective(ratings, fit) for fit in fits(ALS(n_steps=12), ratings, task)]
    assert len(values) == 13
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))
    assert values[-1] < values[0]


def of_one_user(n_items):
    """More ratings than are gathered at a time."""
    ids = np.arange(n_items)
    return ratings_of(0 * ids, ids, np.sin(ids.astype(float)), 1, n_items)


@pytest.mark.parametrize("ratings", [some_ratings(), of_one_user(700)])
def test_it_reaches_a_stationary_point(ratings):
    first, *_, last = fits(ALS(n_steps=600), ratings, task_of(ratings, k=2))
    assert np.abs(gradient(ratings, first)).max() > 1e-4
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
