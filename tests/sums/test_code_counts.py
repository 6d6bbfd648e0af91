"""Counts of codes: neighbours by brute force, bounds attained, the null record."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdp.sums._counts import CodeCounts
from skdp.tables._memory import MemorySource

QUERY = CodeCounts((0, 2), (3, 2))
ROWS = np.array(list(itertools.product(range(3), range(4), range(2))), dtype=np.uint8)


def total(rows, present=None, chosen=None):
    source = MemorySource(np.asarray(rows), np.zeros(len(rows)), present)
    return QUERY.total(QUERY.open(source), chosen)


def largest(query=total):
    """How far one record moves the counts, if it goes and if it is exchanged."""
    alone = [query(row[None]) for row in ROWS]
    pairs = itertools.product(alone, alone)
    gone = max(np.linalg.norm(one) for one in alone)
    return gone, max(np.linalg.norm(one - other) for one, other in pairs)


def test_bounds_are_attained_and_not_passed():
    bound = QUERY.bound()
    assert largest() == pytest.approx((bound.zero_out, bound.replace_one), rel=1e-9)
    assert bound.replace_one == pytest.approx(math.sqrt(2) * bound.zero_out)


def test_broken_twin_of_a_column_too_many_passes_them():
    wide = CodeCounts((0, 1, 2), (3, 4, 2))

    def more(rows):
        return wide.total(MemorySource(rows, np.zeros(len(rows))), None)

    assert min(np.divide(largest(more), largest())) > 1.2


def test_counts_are_exact_and_the_null_record_is_in_none():
    rng = np.random.default_rng(0)
    rows = ROWS[rng.integers(len(ROWS), size=70_000)]
    present = rng.random(len(rows)) < 0.9
    expected = [(rows[present, 0] == code).sum() for code in range(3)]
    expected += [(rows[present, 2] == code).sum() for code in range(2)]
    assert np.array_equal(total(rows, present), expected)
    rows[~present] = 0
    assert np.array_equal(total(rows, present), expected)
    chosen = np.flatnonzero(present)
    assert np.array_equal(total(rows, chosen=chosen), expected)
