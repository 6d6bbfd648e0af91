"""HAMSI, and L-BFGS and mini-batch descent beside it, from any start."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

from skdp.decomposition._ratings import Threads
from skdp.papers._hamsi import HAMSI, LBFGS, MinibatchGD, Run
from skdp.papers._hamsi_gradient import PARTITIONS
from tests.decomposition.matrices import objective_of, ratings_of, task_of
from tests.decomposition.small import planned

METHODS = [
    LBFGS(n_steps=300),
    *(HAMSI(n_steps=300, n_subsets=3, partition=name) for name in sorted(PARTITIONS)),
    HAMSI(n_steps=300, n_subsets=3, schedule="stochastic"),
    HAMSI(n_steps=100, n_subsets=1),
]
# As in Kuru (2019) and its code.
THESIS = HAMSI(
    n_steps=120,
    n_subsets=2,
    first_step=500.0,
    start_scale=1.0,
    least_divisor=0.0,
    capped=True,
    waits=True,
)


def path(method, ratings, task, seed=0, n_jobs=1):
    with Threads(n_jobs) as threads:
        rng = np.random.RandomState(seed)
        solver = planned(type(method), task, **asdict(method))
        yield from solver.iterates(ratings, task, rng, threads)


def last(method, ratings, task, seed=0, n_jobs=1):
    for factors in path(method, ratings, task, seed, n_jobs):
        result = factors
    return result


@cache
def small():
    # So penalised that all minima have the same value.
    ratings = ratings_of(60, 40, 0.4)
    return ratings, task_of(ratings, n_components=2, alpha=0.3)


@cache
def optimum():
    ratings, task = small()
    best = [last(LBFGS(n_steps=500), ratings, task, seed) for seed in range(3)]
    values = [objective_of(ratings, factors) for factors in best]
    assert np.ptp(values) < 1e-9 * values[0]
    return min(values)


def test_the_number_of_subsets_by_rule_and_as_given():
    """Two, if the ratings can be divided; as given, if there are so many."""
    task = small()[1]
    assert planned(HAMSI, task).n_subsets == 2
    assert planned(HAMSI, task, n_subsets=3).n_subsets == 3
    assert planned(HAMSI, replace(task, pattern=None)).n_subsets == 2
    one = task_of(ratings_of(3, 2, 1.0))
    one = replace(one, pattern=replace(one.pattern, n_users=1))
    assert planned(HAMSI, one).n_subsets == 1
    with pytest.raises(ValueError, match="n_subsets"):
        planned(HAMSI, one, n_subsets=2)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_the_same_optimum(method):
    ratings, task = small()
    value = objective_of(ratings, last(method, ratings, task))
    assert value < optimum() * (1 + 1e-6)


def test_minibatch_descent_comes_near_it():
    ratings, task = small()
    found = last(MinibatchGD(n_steps=300, n_subsets=3), ratings, task)
    assert objective_of(ratings, found) < optimum() * 1.002


@pytest.mark.parametrize(
    "method",
    [
        LBFGS(n_steps=100),
        HAMSI(n_steps=100, n_subsets=2),
        THESIS,
        MinibatchGD(n_steps=150, n_subsets=2),
    ],
)
def test_twenty_starts(method):
    """No NaN and no divergence; N(0, 1), small and huge, centred or not."""
    ratings = ratings_of(60, 40, 0.4, dtype=np.float32)
    spread = float(np.std(ratings.values))
    scales = (None, 1.0, 0.1, 30.0, 1e6)
    for seed, scale in enumerate(itertools.islice(itertools.cycle(scales), 20)):
        task = task_of(ratings, n_components=5, alpha=0.0, biases=seed % 2 == 0)
        solver = replace(method, start_scale=scale)
        values = []
        for place, factors in enumerate(path(solver, ratings, task, seed)):
            assert np.isfinite(factors.flat).all()
            if place % 20 == 0:
                values.append(objective_of(ratings, factors))
        rmse = np.sqrt(2 * values[-1])
        # Without noise left over: 0.15 to 0.25 of about 1.65.
        if scale is None or scale <= 1.0:
            assert rmse < 0.4 * spread, (seed, scale, rmse)
        assert values[-1] < values[0]


def test_a_cycle_that_grows_is_undone():
    ratings, task = small()
    wild = HAMSI(first_step=1e4, n_steps=30, n_subsets=2)
    with Threads(1) as threads:
        run = Run(wild, ratings, task, np.random.RandomState(0), threads)
        values = [objective_of(ratings, run.factors)]
        for cycle in range(30):
            run.advance(cycle)
            values.append(objective_of(ratings, run.factors))
        assert run.n_undone > 0
        assert max(values) < 1.2 * values[0]
        assert values[-1] < 0.7 * values[0]
        # Without the safeguard it is another matter.
        run = Run(
            replace(wild, safeguarded=False),
            ratings,
            task,
            np.random.RandomState(0),
            threads,
        )
        run.advance(0)
        assert objective_of(ratings, run.factors) > 100 * values[0]


def test_pairs_without_the_last_step(monkeypatch):
    """Erratum: s and y are differences between the same two points."""
    ratings, task = small()
    with Threads(1) as threads:
        run = Run(HAMSI(n_subsets=2), ratings, task, np.random.RandomState(0), threads)
        run.advance(0)
        at_end = run.factors.copy()
        first = run._first_point.copy()
        run._finish()
        step, change = run._first_point, run._first_gradient
        assert np.allclose(step, at_end.flat - first)
        moved = run.factors.flat - first  # the s that is printed
        gradients = []
        for point in (first, at_end.flat):
            gradient = np.empty_like(point)
            objective = run._subsets[0]
            objective.value_and_gradient(point, gradient, threads)
            gradients.append(gradient)
        assert np.allclose(change, gradients[1] - gradients[0], atol=1e-15)
        assert np.linalg.norm(moved - step) > 0.1 * np.linalg.norm(step)
