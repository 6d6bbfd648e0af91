"""MemorySource: what it yields and what it does not touch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

from skdp.tables._memory import (
    MOST_ROWS_OF_A_USER,
    MemorySource,
    UserSource,
    WithOffset,
    equal_shares,
    held,
    in_memory,
)
from skdp.tables._source import Block, Facts, Source


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
    assert max(len(block.y) for block in blocks) == source.facts.largest_block


def test_layout_depends_on_public_facts_only():
    ones, zeros = csr_array(np.ones((500, 9))), csr_array((500, 9))
    y = np.zeros(500)
    assert (
        MemorySource(ones, y).facts.largest_block
        == MemorySource(zeros, y).facts.largest_block
    )


class Remote(Source):
    """A source that is not in memory: blocks of few rows, some without null records.

    Every reading shows the blocks in another order.
    """

    def __init__(self, source, cuts, n_samples=9):
        self._source, self._cuts, self.n_readings = source, cuts, 0
        self.facts = Facts(
            n_samples=n_samples,
            n_features=source.n_features,
            largest_block=9,
            is_row_major=True,
        )

    def blocks(self):
        (block,) = self._source.blocks()
        runs = list(itertools.pairwise([0, *self._cuts, len(block.y)]))
        self.n_readings += 1
        for start, end in runs if self.n_readings == 1 else reversed(runs):
            present = None if block.present is None else block.present[start:end]
            present = None if present is None or present.all() else present
            yield Block(block.X[start:end], block.y[start:end], present)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("absent", [[], [2, 3]])
def test_held_is_all_records_wherever_they_are(storage, absent):
    rng = np.random.default_rng(0)
    X, y, present = rng.normal(size=(9, 3)), rng.normal(size=9), np.ones(9, dtype=bool)
    present[absent] = False
    here = MemorySource(csr_array(X) if storage == "csr" else X, y, present)
    assert held(here).X is here._X
    copied = held(Remote(here, [2, 5]))
    rows = copied.X.toarray() if storage == "csr" else copied.X
    assert np.array_equal(rows, X)
    assert np.array_equal(copied.y, y)
    if absent:
        assert np.array_equal(copied.present, present)
    else:
        assert copied.present is None


def records(n=9):
    rng = np.random.default_rng(1)
    return rng.integers(0, 255, size=(n, 3)).astype(np.uint8), rng.normal(size=n)


def test_a_held_source_is_read_once_and_keeps_its_order():
    codes, y = records()
    remote = Remote(MemorySource(codes, y), [2, 5])
    source = in_memory(remote)
    assert source.facts.is_stable
    assert remote.n_readings == 0
    for _ in range(2):
        shown = np.concatenate([block.X for block in source.blocks()])
        assert np.array_equal(shown, codes)
    whole = held(source)
    assert whole.X.dtype == np.uint8
    assert held(source).X is held(WithOffset(source, None)).X is whole.X
    assert remote.n_readings == 1
    # Broken twin: read anew, the records stand elsewhere.
    assert not np.array_equal(held(remote).X, codes)


@pytest.mark.parametrize("n", [7, 12])
def test_records_that_do_not_come_are_null_and_others_too_many(n):
    codes, y = records()
    block = held(Remote(MemorySource(codes, y), [2, 5], n_samples=n))
    assert len(block.y) == n
    assert np.array_equal(block.X[:9], codes[:n])
    present = np.ones(n, dtype=bool) if block.present is None else block.present
    assert np.array_equal(present, np.arange(n) < 9)


def test_shares_of_a_user_add_up_to_one_however_many_rows():
    """Of users with rows all over the table, one of them with very many."""
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat(np.arange(4), [1, 7, MOST_ROWS_OF_A_USER, 5000]))
    shares = equal_shares(codes, 5)
    added = np.bincount(codes, shares, minlength=5)
    assert np.allclose(added[:4], 1, rtol=0, atol=1e-12)
    assert (added <= 1 + 1e-12).all()
    assert np.sum(shares[codes == 3] > 0) == MOST_ROWS_OF_A_USER


def test_rows_of_users_are_not_read_as_records():
    codes = np.array([0, 0, 1])
    users = UserSource(np.eye(3), np.zeros(3), equal_shares(codes, 2), 2, codes)
    for shown in (users, WithOffset(users, len)):
        with pytest.raises(TypeError, match="must be read block by block"):
            held(shown)
    assert held(users, with_shares=True).present.dtype == np.float64
    again = np.concatenate([b.y for b in WithOffset(users, len).blocks()])
    assert np.array_equal(again, np.zeros(3))
