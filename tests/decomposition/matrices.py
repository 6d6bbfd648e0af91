"""Small rating matrices for the tests of factorisers."""

from __future__ import annotations

import numpy as np

from skdp.decomposition._ratings import Factors, Pattern, Ratings, Task


def ratings_of(
    n_users=30, n_items=20, share=0.4, rank=2, noise=0.3, seed=0, dtype=np.float64
):
    """A matrix of low rank with noise about 3; user 0 and item 1 have no rating."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n_users, n_items)) < share
    mask[0], mask[:, 1] = False, False
    users, items = np.nonzero(mask)
    order = rng.permutation(len(users))
    users, items = users[order].astype(np.int32), items[order].astype(np.int32)
    left, right = rng.normal(size=(n_users, rank)), rng.normal(size=(n_items, rank))
    values = 3 + (left[users] * right[items]).sum(axis=1)
    values += noise * rng.normal(size=len(users))
    return Ratings(Pattern(users, items, n_users, n_items), values.astype(dtype))


def task_of(ratings, n_components=3, alpha=0.05, biases=True):
    pattern = ratings.pattern
    return Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=n_components,
        alpha=alpha,
        biases=biases,
        pattern=pattern,
    )


def objective_of(ratings, factors, pairs=None):
    """The definition, in plain NumPy; of all ratings or the part that `pairs` make."""
    task, pattern = factors.task, ratings.pattern
    pairs = np.arange(len(ratings)) if pairs is None else pairs
    p = factors.users[pattern.users[pairs]].astype(np.float64)
    q = factors.items[pattern.items[pairs]].astype(np.float64)
    residuals = ratings.values[pairs] - factors.mean - (p * q).sum(axis=1)
    penalty = (p**2).sum(axis=1) + (q**2).sum(axis=1) - 2 * task.biases
    return (residuals**2 + task.alpha * penalty).sum() / 2 / len(ratings)


def some_factors(task, mean=0.0, seed=1, scale=0.5, dtype=np.float64):
    """Factors and biases drawn at random."""
    factors = Factors.zeros(task, mean, dtype)
    rng, k = np.random.default_rng(seed), task.n_components
    for rows, own in ((factors.users, k), (factors.items, k + 1)):
        rows[:, :k] = scale * rng.normal(size=(len(rows), k))
        if task.biases:
            rows[:, own] = scale * rng.normal(size=len(rows))
    return factors
