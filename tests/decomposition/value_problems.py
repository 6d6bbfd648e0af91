"""Small rating problems of which only the values are private."""

from __future__ import annotations

import numpy as np

from skdp._fit import Progress
from skdp.decomposition._ratings import Pattern, Ratings, RatingSource, Task
from skdp.decomposition._value_als import ResidualSum, ValueALS
from skdp.privacy import Budget, calibrate
from skdp.privacy.release._plan import Bound
from tests.decomposition.small import planned
from tests.door import answers_for

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


def solver_of(params, task, epsilon=1.0, delta=1e-6):
    """What is not given decided by rule."""
    return planned(ValueALS, task, Budget(epsilon, delta), **params)


def run(params, values, task, noise, epsilon=1.0, delta=1e-6):
    """What the door does with a factoriser, without the door."""
    budget = Budget(epsilon, delta)
    solver = solver_of(params, task, epsilon, delta)
    plan = solver.plan(task)
    multiplier = calibrate(lambda z: plan.event(z, "rating_value"), budget)
    source = RatingSource(Ratings(task.pattern, values), len(task.pattern))
    answers = answers_for(plan, source, multiplier, "rating_value", noise)
    return solver.run(answers, task, Progress())


def predictions(factors, pattern):
    rows = factors.users[pattern.users] * factors.items[pattern.items]
    return factors.mean + rows.sum(axis=1)


def half_of_the_bound(monkeypatch):
    """Plant queries that declare half of what a value can change."""
    monkeypatch.setattr(
        ResidualSum, "bound", lambda query: Bound(rating_value=query.clip)
    )
