"""HAMSI: its Hessian, its partitions, and the optimum that all of them reach."""

from __future__ import annotations

import gzip
import os
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from skdp.decomposition._ratings import Pattern, Threads
from skdp.papers import _hamsi
from skdp.papers._hamsi import (
    HAMSI,
    LBFGS,
    InverseHessian,
    MinibatchGD,
    Run,
    deterministic,
    stochastic,
)
from skdp.papers._hamsi_gradient import (
    PARTITIONS,
    balanced_intervals,
    equal_intervals,
    partition,
    strata_balanced,
    strata_of,
)
from tests.decomposition.small import (
    fits,
    objective,
    planned,
    some_ratings,
    task_of,
)

THREADS = Threads(1)

# The inverse Hessian -----------------------------------------------------------------


def some_pairs(size, n):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(size, size))
    hessian = half @ half.T / size + 0.1 * np.eye(size)
    return [(s, hessian @ s) for s in rng.normal(size=(n, size))]


def recursion(pairs, sigma, size):
    """``(I - rho s y') H (I - rho y s') + rho s s'``, from the oldest pair on."""
    H, eye = sigma * np.eye(size), np.eye(size)
    for s, y in pairs:
        rho = 1 / (s @ y)
        left = eye - rho * np.outer(s, y)
        H = left @ H @ left.T + rho * np.outer(s, s)
    return H


def dense(inverse, size):
    points = np.zeros((size, size))
    for point, unit in zip(points, np.eye(size), strict=True):
        inverse.subtract(point, unit, 1.0, THREADS)
    return -points


@pytest.mark.parametrize("n", [1, 4, 5, 11])  # of pairs; 4 are remembered
@pytest.mark.parametrize("piece", [7, 100])
def test_it_is_the_recursion(n, piece, monkeypatch):
    monkeypatch.setattr(_hamsi, "_PIECE", piece)
    size, pairs = 30, some_pairs(30, n)
    inverse = InverseHessian(size, 4, 1.0, np.float64)
    assert all(inverse.accept(s, y, THREADS) for s, y in pairs)
    s, y = pairs[-1]
    assert np.isclose(inverse.sigma, s @ y / (y @ y), rtol=1e-14)
    H, found = recursion(pairs[-4:], inverse.sigma, size), dense(inverse, size)
    assert np.abs(found - H).max() < 1e-10 * np.abs(H).max()
    # The order of pairs matters, so that a wrong place in the ring is noticed.
    wrong = recursion(pairs[-4:][::-1], inverse.sigma, size)
    assert n == 1 or np.abs(wrong - H).max() > 1e-3 * np.abs(H).max()


def test_algorithm_3_of_the_thesis_is_not_its_algorithm_1():
    """``H / beta`` is no ``(H^-1 + beta I)^-1``, nor a block of it one of the other."""
    size, beta = 30, 2.0
    H = recursion(some_pairs(size, 4), 1.0, size)
    printed, meant = H / beta, np.linalg.inv(np.linalg.inv(H) + beta * np.eye(size))
    assert np.linalg.norm(printed - meant) > 0.3 * np.linalg.norm(meant)
    block = np.ix_(range(10), range(10))
    inner_block = np.linalg.inv(np.linalg.inv(H)[block])
    assert np.linalg.norm(H[block] - inner_block) > 0.1 * np.linalg.norm(H[block])


# Partitions --------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(PARTITIONS))
def test_every_pair_is_in_one_subset_and_blocks_share_no_id(method):
    pattern = some_ratings(60, 45, 800).pattern
    found = partition(method, pattern, 5, np.random.RandomState(0))
    together = np.sort(np.concatenate([found.pairs(k) for k in range(5)]))
    assert np.array_equal(together, np.arange(len(pattern)))
    colours = {}
    for k in range(5):
        pairs = found.pairs(k)
        assert found.block_sizes(k).sum() == found.sizes[k] == len(pairs)
        if method.startswith("strata"):
            for ids in (pattern.users[pairs], pattern.items[pairs]):
                owners = set(zip(ids, found.blocks[pairs], strict=True))
                assert len(owners) == len(set(ids))
        # Colours stay together.
        for colour in np.unique(found.blocks[pairs]):
            assert colours.setdefault(colour, k) == k or "color" not in method
    if method.startswith("color"):
        for ids in (pattern.users, pattern.items):
            pairs = set(zip(ids, found.blocks, strict=True))
            assert len(pairs) == len(pattern)  # of a colour share no id
        degree = max(pattern.by_user.counts.max(), pattern.by_item.counts.max())
        assert degree <= len(colours) < 2 * degree
    with pytest.raises(ValueError, match="n_subsets"):
        partition(method, pattern, len(pattern) + 1, np.random.RandomState(0))


def movielens():
    folder = Path(os.environ.get("SKDP_DATA_HOME") or ".") / "movielens_100k"
    if not folder.is_dir():
        pytest.skip("MovieLens is not in SKDP_DATA_HOME")
    with gzip.open(folder / "u.data.gz") as file:
        table = np.loadtxt(file, dtype=np.int32)
    return Pattern(table[:, 0] - 1, table[:, 1] - 1, 943, 1682)


def test_balanced_strata_of_figure_3_4():
    pattern = movielens()
    found = strata_balanced(pattern, 4)
    assert found.block_sizes(1).tolist() == [6395, 6232, 6204, 6183]
    bounds = balanced_intervals(pattern.by_user.counts, 4)
    assert bounds.tolist() == [0, 254, 447, 682, 943]


def test_strata_of_figure_3_4_are_no_stratum():
    """Two blocks are in the last row, two in the third column."""
    users, items = equal_intervals(943, 4), equal_intervals(1682, 4)
    items[1:-1] -= 1  # counted from 1, where users are counted from 0
    found = strata_of(movielens(), users, items)
    grid = np.zeros((4, 4), dtype=int)
    for k, row in np.ndindex(4, 4):
        chosen = (found.subsets == k) & (found.blocks == row)
        grid[row, (k - row) % 4] = chosen.sum()
    for count, block in {
        6624: (0, 1),
        3492: (1, 2),
        2449: (3, 2),
        13585: (3, 0),
    }.items():
        assert np.argwhere(grid == count).tolist() == [[*block]]
    # 2449 stands where the small block of the third row completes the stratum.
    assert grid[2, 3] == 478


def test_schedules():
    rng = np.random.RandomState(0)
    rows = np.array([deterministic(t, 5, rng) for t in (2, 3, 4)]) + 1
    # Counted from 1 in the thesis, which prints 1 for the very last.
    assert rows.tolist() == [[3, 4, 5, 1, 2, 3], [4, 5, 1, 2, 3, 4], [5, 1, 2, 3, 4, 5]]
    orders = [stochastic(t, 5, rng) for t in range(4)]
    assert all(order[0] == order[-1] for order in orders)
    assert all(sorted(order[:-1]) == list(range(5)) for order in orders)
    assert len(set(map(tuple, orders))) > 1


# Optima ------------------------------------------------------------------------------

METHODS = [
    *(HAMSI(n_steps=300, n_subsets=3, partition=name) for name in sorted(PARTITIONS)),
    HAMSI(n_steps=300, n_subsets=3, schedule="stochastic"),
    HAMSI(n_steps=100, n_subsets=1),
]


def last(method, ratings, task, seed=0):
    solver = planned(type(method), task, **asdict(method))
    return fits(solver, ratings, task, seed=seed)[-1]


@cache
def small():
    # So penalised that all minima have the same value.
    ratings = some_ratings(60, 40, 900)
    return ratings, task_of(ratings, k=2, alpha=0.5)


@cache
def optimum():
    ratings, task = small()
    ends = [last(LBFGS(n_steps=500), ratings, task, seed) for seed in range(3)]
    values = [objective(ratings, factors) for factors in ends]
    assert np.ptp(values) < 1e-9 * values[0]
    return min(values)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_the_same_optimum(method):
    ratings, task = small()
    assert objective(ratings, last(method, ratings, task)) < optimum() * (1 + 1e-3)


def test_minibatch_descent_comes_near_it():
    ratings, task = small()
    found = last(MinibatchGD(n_steps=300, n_subsets=3), ratings, task)
    assert objective(ratings, found) < optimum() * 1.01


def running(method):
    return Run(method, *small(), np.random.RandomState(0), THREADS)


def test_pairs_without_the_last_step():
    """Erratum: s and y are differences between the same two points."""
    run = running(HAMSI(n_subsets=2))
    run.advance(0)
    first, at_end = run._first_point.copy(), run.factors.flat.copy()
    run._finish()
    step, slopes = run._first_point, []
    assert np.allclose(step, at_end - first)
    for point in (first, at_end):
        slopes.append(np.empty_like(point))
        run._subsets[0].value_and_gradient(point, slopes[-1], THREADS)
    assert np.allclose(run._first_gradient, slopes[1] - slopes[0], atol=1e-15)
    printed = run.factors.flat - first  # the s with the step
    assert np.linalg.norm(printed - step) > 0.1 * np.linalg.norm(step)
