"""Partitions are valid, and those of the thesis where it has numbers."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from skdp.decomposition._ratings import Pattern
from skdp.papers._hamsi import deterministic, stochastic
from skdp.papers._hamsi_gradient import (
    PARTITIONS,
    balanced_intervals,
    equal_intervals,
    partition,
    strata_balanced,
    strata_of,
)
from tests.decomposition.matrices import ratings_of

by_method = pytest.mark.parametrize("method", sorted(PARTITIONS))


def some_pattern():
    return ratings_of(60, 45, 0.3).pattern


def movielens():
    folder = Path(os.environ.get("SKDP_DATA_HOME") or ".") / "movielens_100k"
    if not folder.is_dir():
        pytest.skip("MovieLens is not in SKDP_DATA_HOME")
    with gzip.open(folder / "u.data.gz") as file:
        table = np.loadtxt(file, dtype=np.int32)
    return Pattern(table[:, 0] - 1, table[:, 1] - 1, 943, 1682)


def clashes(pattern, labels):
    """Pairs with an id and a label in common with an earlier one."""
    return sum(
        len(labels) - len(set(zip(ids.tolist(), labels.tolist(), strict=True)))
        for ids in (pattern.users, pattern.items)
    )


@by_method
def test_every_pair_is_in_one_subset(method):
    pattern = some_pattern()
    found = partition(method, pattern, 5, np.random.RandomState(0))
    assert found.sizes.sum() == len(pattern)
    together = np.sort(np.concatenate([found.pairs(k) for k in range(5)]))
    assert np.array_equal(together, np.arange(len(pattern)))
    for k in range(5):
        assert found.block_sizes(k).sum() == found.sizes[k]


@pytest.mark.parametrize("method", ["strata", "strata_balanced"])
def test_blocks_of_a_stratum_share_no_id(method):
    pattern = some_pattern()
    found = partition(method, pattern, 5, np.random.RandomState(0))
    for k in range(5):
        pairs = found.pairs(k)
        for ids in (pattern.users, pattern.items):
            owners = {}
            for one, block in zip(ids[pairs], found.blocks[pairs], strict=True):
                assert owners.setdefault(one, block) == block


@pytest.mark.parametrize("method", ["color", "color_balanced"])
def test_pairs_of_a_colour_share_no_id(method):
    pattern = some_pattern()
    found = partition(method, pattern, 5, np.random.RandomState(0))
    assert clashes(pattern, found.blocks) == 0
    assert clashes(pattern, np.minimum(found.blocks, 3)) > 0  # the check can fail
    # Colours stay together, and their number is at least the largest degree.
    owner = {}
    for color, subset in zip(found.blocks, found.subsets, strict=True):
        assert owner.setdefault(color, subset) == subset
    degree = max(pattern.by_user.counts.max(), pattern.by_item.counts.max())
    assert degree <= len(owner) < 2 * degree


def test_a_colour_is_the_first_or_any_that_is_free():
    # One user: all colours differ. One pair each on a diagonal: one colour.
    line = Pattern(np.zeros(70, np.int32), np.arange(70, dtype=np.int32), 1, 70)
    diagonal = Pattern(*(np.arange(70, dtype=np.int32),) * 2, 70, 70)
    for method in ("color", "color_balanced"):
        rng = np.random.RandomState(1)
        assert np.array_equal(partition(method, line, 1, rng).blocks, np.arange(70))
        assert not partition(method, diagonal, 1, rng).blocks.any()


def test_hogwild_is_random_and_equal():
    pattern = some_pattern()
    one, two = (
        partition("hogwild", pattern, 7, np.random.RandomState(seed)) for seed in (0, 1)
    )
    assert np.ptp(one.sizes) <= 1
    assert (one.subsets != two.subsets).any()


@by_method
def test_too_many_subsets_are_refused(method):
    pattern = some_pattern()
    with pytest.raises(ValueError, match="n_subsets"):
        partition(method, pattern, len(pattern) + 1, np.random.RandomState(0))


def test_balanced_strata_of_figure_3_4():
    pattern = movielens()
    found = strata_balanced(pattern, 4)
    assert found.block_sizes(1).tolist() == [6395, 6232, 6204, 6183]
    bounds = balanced_intervals(pattern.by_user.counts, 4)
    assert bounds.tolist() == [0, 254, 447, 682, 943]


def test_strata_of_figure_3_4_are_no_stratum():
    pattern = movielens()
    users = equal_intervals(943, 4)
    items = equal_intervals(1682, 4)
    items[1:-1] -= 1  # counted from 1, where users are counted from 0
    grid = np.zeros((4, 4), dtype=int)
    for k in range(4):
        found = strata_of(pattern, users, items)
        for row in range(4):
            chosen = (found.subsets == k) & (found.blocks == row)
            grid[row, (k - row) % 4] = chosen.sum()
    printed = {6624: (0, 1), 3492: (1, 2), 2449: (3, 2), 13585: (3, 0)}
    for count, block in printed.items():
        assert grid[block] == count
        assert (grid == count).sum() == 1
    # Two of them are in the last row and two in the third column: 2449 stands where
    # the block of the third row, which is small, completes the stratum.
    assert grid[2, 3] == 478


def test_schedules():
    rng = np.random.RandomState(0)
    rows = [deterministic(t, 5, rng) for t in (2, 3, 4)]
    # Counted from 1 in the thesis, which prints 1 for the very last.
    assert np.array_equal(
        np.array(rows) + 1, [[3, 4, 5, 1, 2, 3], [4, 5, 1, 2, 3, 4], [5, 1, 2, 3, 4, 5]]
    )
    orders = [stochastic(t, 5, rng) for t in range(4)]
    assert all(order[0] == order[-1] for order in orders)
    assert all(sorted(order[:-1]) == list(range(5)) for order in orders)
    assert len(set(map(tuple, orders))) > 1
