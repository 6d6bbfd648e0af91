"""Rows of users given items: the ridge they are, and what nothing determines."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.decomposition._ratings import Factors, Pattern, Ratings, Task
from skdp.decomposition._recommender import UserPrior, solve_users


def problem(biases=True, n_components=3, alpha=0.1, dtype=np.float64):
    rng = np.random.default_rng(0)
    n_users, n_items = 700, 12
    present = rng.random((n_users, n_items)) < 0.5
    present[5] = False
    users, items = (ids.astype(np.int32) for ids in np.nonzero(present))
    shuffled = rng.permutation(len(users))
    pattern = Pattern(users[shuffled], items[shuffled], n_users, n_items)
    ratings = Ratings(pattern, rng.normal(3, 1, len(users)).astype(dtype))
    task = Task(
        n_users=n_users, n_items=n_items, n_components=n_components,
        alpha=alpha, biases=biases,
    )  # fmt: skip
    factors = Factors.zeros(task, 3.0 * biases, dtype)
    factors.items[:, :n_components] = rng.normal(size=(n_items, n_components))
    if biases:
        factors.items[:, n_components + 1] = rng.normal(size=n_items)
    return factors, ratings


def expected(factors, ratings, prior, user):
    """The ridge of one user, by a dense solution."""
    task, pattern = factors.task, ratings.pattern
    own = pattern.users == user
    unknown = task.n_components + task.biases
    features = factors.items[pattern.items[own], :unknown].astype(float)
    known = factors.mean + features @ prior.centre
    if task.biases:
        known = known + factors.items[pattern.items[own], unknown]
    error = ratings.values[own] - known
    penalty = prior.fixed + prior.per_rating * own.sum()
    gram = features.T @ features + np.diag(penalty)
    return prior.centre + np.linalg.solve(gram, features.T @ error)


@pytest.mark.parametrize("biases", [True, False])
def test_rows_are_the_ridge_of_each_users_own_ratings(biases):
    factors, ratings = problem(biases)
    size = 3 + biases
    prior = UserPrior(np.linspace(-1, 1, size), np.linspace(0.5, 2, size), 0.2)
    rows = solve_users(factors, ratings, prior)
    assert rows.shape == (700, 8)
    for user in (0, 1, 699):
        truth = expected(factors, ratings, prior, user)
        np.testing.assert_allclose(rows[user, :size], truth, rtol=1e-10)
    np.testing.assert_array_equal(rows[5, :size], prior.centre)  # no ratings
    assert np.all(rows[:, size] == biases)
    assert np.all(rows[:, size + 1 :] == 0)
