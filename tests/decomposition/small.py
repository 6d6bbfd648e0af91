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
    return ratings_of(users, items, values.astype(dtype), n_users, n_items)


def ratings_of(users, items, values, n_users, n_items):
    codes = (np.asarray(ids, dtype=np.int32) for ids in (users, items))
    return Ratings(Pattern(*codes, n_users, n_items), np.asarray(values))


def task_of(ratings, k=3, alpha=0.1, biases=True, **facts):
    pattern = ratings.pattern
    sizes = {"n_users": pattern.n_users, "n_items": pattern.n_items}
    return Task(**sizes, n_components=k, alpha=alpha, biases=biases, **facts)


def planned(kind, task, *budget, **params):
    """A factoriser of a kind, what is not given decided by rule."""
    return kind.planned(given_params(kind, kind.key, params), task, *budget)


def fits(factorizer, ratings, task, n_jobs=1, seed=0):
    """Copies of all that is yielded."""
    with Threads(n_jobs) as threads:
        rng = np.random.RandomState(seed)
        found = factorizer.iterates(ratings, task, rng, threads)
        return [factors.copy() for factors in found]


def _parts(ratings, factors):
    """Codes, rows and residuals of all pairs."""
    users, items = ratings.pattern.users, ratings.pattern.items
    p, q = factors.users[users].astype(float), factors.items[items].astype(float)
    left = ratings.values - factors.mean - (p * q).sum(axis=1)
    return users, items, p, q, left


def objective(ratings, factors):
    """What `Task` defines."""
    *_, p, q, left = _parts(ratings, factors)
    task = factors.task
    penalty = (p**2).sum(axis=1) + (q**2).sum(axis=1) - 2 * task.biases
    return (left**2 + task.alpha * penalty).sum() / 2 / max(len(ratings), 1)


def gradient(ratings, factors):
    """Of the objective by every number of `flat`, that of constants as zero."""
    users, items, p, q, left = _parts(ratings, factors)
    task, slope = factors.task, Factors.zeros(factors.task)
    slope.flat[:] = 0
    np.add.at(slope.users, users, task.alpha * p - left[:, None] * q)
    np.add.at(slope.items, items, task.alpha * q - left[:, None] * p)
    if task.biases:
        slope.users[:, task.n_components + 1] = 0
        slope.items[:, task.n_components] = 0
    return slope.flat / max(len(ratings), 1)


def root_mean_square(ratings, factors):
    """Training error."""
    *_, left = _parts(ratings, factors)
    return float(np.sqrt(np.mean(left**2)))
