"""MemorySource: what it yields and what it does not touch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

from skdp.data import Block, MemorySource, held


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("n", [1, 63, 64, 1000, 40_000])
def test_blocks_are_the_data_in_order(storage, n):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 5)), rng.normal(size=n)
    present = rng.random(n) < 0.5
    source = MemorySource(csr_array(X) if storage == "csr" else X, y, present)
    blocks = list(source.blocks())
    rows = [block.X for block in blocks]
    stacked = vstack(rows).toarray() if storage == "csr" else np.vstack(rows)
    assert np.array_equal(stacked, X)
    assert np.array_equal(np.concatenate([block.y for block in blocks]), y)
    assert np.array_equal(np.concatenate([block.present for block in blocks]), present)
    assert max(len(block.y) for block in blocks) == source.largest_block


def test_nothing_is_copied():
    X = np.zeros((1000, 50))
    assert all(np.shares_memory(b.X, X) for b in MemorySource(X, X[:, 0]).blocks())
    S = csr_array(np.eye(1000))
    for block in MemorySource(S, np.zeros(1000)).blocks():
        assert np.shares_memory(block.X.data, S.data)


def test_layout_depends_on_public_facts_only():
    ones, zeros = csr_array(np.ones((500, 9))), csr_array((500, 9))
    y = np.zeros(500)
    assert MemorySource(ones, y).largest_block == MemorySource(zeros, y).largest_block


class Elsewhere:
    """A source that is not in memory: blocks of few rows, some without null records."""

    def __init__(self, source, cuts):
        self._source, self._cuts = source, cuts

    def blocks(self):
        (block,) = self._source.blocks()
        for start, end in itertools.pairwise([0, *self._cuts, len(block.y)]):
            present = block.present[start:end]
            present = None if present.all() else present
            yield Block(block.X[start:end], block.y[start:end], present)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("absent", [[], [2, 3]])
def test_held_is_all_records_wherever_they_are(storage, absent):
    rng = np.random.default_rng(0)
    X, y, present = rng.normal(size=(9, 3)), rng.normal(size=9), np.ones(9, dtype=bool)
    present[absent] = False
    here = MemorySource(csr_array(X) if storage == "csr" else X, y, present)
    assert held(here).X is here._X
    copied = held(Elsewhere(here, [2, 5]))
    rows = copied.X.toarray() if storage == "csr" else copied.X
    assert np.array_equal(rows, X)
    assert np.array_equal(copied.y, y)
    if absent:
        assert np.array_equal(copied.present, present)
    else:
        assert copied.present is None
