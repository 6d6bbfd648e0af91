"""MemorySource: what it yields and what it does not touch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

from skdp.data import MemorySource


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
