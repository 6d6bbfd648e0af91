"""Small factorisations, and the objective as the definition has it."""

from __future__ import annotations

import numpy as np

from skdp._configured import given_params
from skdp.decomposition._ratings import Factors, Pattern, Ratings, Task, Threads


def some_ratings(n_users=40, n_items=25, n=400, seed=0, dtype=np.float64):
    """Ratings around 3.5 of rank two with noise; the last user and item have none."""
    rng = np.random.default_rng(seed)
    pairs = rng.choice((n_users - 1) * (n_items - 1), size=n, replace=False)
    users, items = np.divmod(pairs, n_items - 1)
    p, q = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    values = 3.5 + (p[users] * q[items]).sum(axis=1) + 0.3 * rng.normal(size=n)
    values += rng.normal(size=n_users)[users] + rng.normal(size=n_items)[items]
    pattern = Pattern(users.astype(np.int32), items.astype(np.int32), n_users, n_items)
    return Ratings(pattern, values.astype(dtype))


def task_of(ratings, k=3, alpha=0.1, biases=True):
    pattern = ratings.pattern
    return Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=k,
        alpha=alpha,
        biases=biases,
    )


def planned(kind, task, *budget, **params):
    """A factoriser of a kind, what is not given decided by rule."""
    return kind.planned(given_params(kind, kind.key, params), task, *budget)


def fits(factorizer, ratings, task, n_jobs=1, seed=0):
    """Copies of all that is yielded."""
    with Threads(n_jobs) as threads:
        rng = np.random.RandomState(seed)
        found = factorizer.iterates(ratings, task, rng, threads)
        return [factors.copy() for factors in found]


def objective(ratings, factors):
    """What `Task` defines, one rating at a time."""
    task, k, total = factors.task, factors.task.n_components, 0.0
    flat = factors.flat.astype(np.float64)
    factors = Factors(flat, factors.mean, task)
    pattern = ratings.pattern
    for u, i, value in zip(pattern.users, pattern.items, ratings.values, strict=True):
        p, q = factors.users[u], factors.items[i]
        unknowns = [*p[:k], *q[:k]]
        if task.biases:
            unknowns += [p[k], q[k + 1]]
        total += (value - factors.mean - p @ q) ** 2
        total += task.alpha * np.sum(np.square(unknowns))
    return total / 2 / max(len(ratings), 1)


def gradient(ratings, factors):
    """Of the objective by every number of `flat`, that of constants as zero."""
    task, k, pattern = factors.task, factors.task.n_components, ratings.pattern
    slope = Factors.zeros(task)
    slope.flat[:] = 0
    for u, i, value in zip(pattern.users, pattern.items, ratings.values, strict=True):
        p, q = factors.users[u], factors.items[i]
        residual = value - factors.mean - p @ q
        slope.users[u] += task.alpha * p - residual * q
        slope.items[i] += task.alpha * q - residual * p
    if task.biases:
        slope.users[:, k + 1] = 0
        slope.items[:, k] = 0
    return slope.flat / max(len(ratings), 1)


def root_mean_square(ratings, factors):
    """Training error."""
    pattern = ratings.pattern
    products = factors.users[pattern.users] * factors.items[pattern.items]
    errors = ratings.values - factors.mean - products.sum(axis=1)
    return float(np.sqrt(np.mean(errors**2)))
