"""Small rating problems of which only the values are private."""

from __future__ import annotations

import numpy as np

from skdp.decomposition._ratings import Pattern, Ratings
from skdp.decomposition._task import Task
from skdp.privacy import Budget, calibrate
from skdp.solvers import Progress

BOUNDS = (1.0, 5.0)


def pattern(n_users, n_items, share, seed):
    """Each pair with a probability that is the larger the smaller its codes are."""
    rng = np.random.default_rng(seed)
    weight = np.outer(np.linspace(1.8, 0.2, n_users), np.linspace(1.8, 0.2, n_items))
    users, items = np.nonzero(rng.random((n_users, n_items)) < share * weight)
    codes = users.astype(np.int32), items.astype(np.int32)
    return Pattern(*codes, n_users, n_items)


def task_of(pattern, n_components=3, bounds=BOUNDS, biases=True):
    return Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=n_components,
        alpha=0.0,
        biases=biases,
        unit="rating_value",
        rating_bounds=bounds,
        pattern=pattern,
    )


def run(solver, values, task, noise, epsilon=1.0, delta=1e-6):
    """What the door does with a factoriser, without the door."""
    budget = Budget(epsilon, delta)
    solver = solver.resolve(task, budget)
    multiplier = calibrate(lambda z: solver.event(z, task), budget)
    rng = np.random.RandomState(0)
    ratings = Ratings(task.pattern, values)
    return solver.run(ratings, task, multiplier, noise, rng, Progress())


def predictions(factors, pattern):
    rows = factors.users[pattern.users] * factors.items[pattern.items]
    return factors.mean + rows.sum(axis=1)
