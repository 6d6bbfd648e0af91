"""Sums of declared tables: neighbours searched, bounds attained, and twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdp.sums._counts import CellCounts, CellMoments, TableSums
from skdp.sums._exact import below, unit_for
from skdp.tables._memory import MemorySource, UserSource, equal_shares

# Codes of two columns, and a value: everything that a record may be.
VALUES = (-1.0, -0.4, 0.0, 1 / 3, 1.0, math.nan)
RECORDS = np.array(list(itertools.product(range(3), range(2), VALUES)))
HISTOGRAM = CellCounts((0,), ((0, 1, 2),))
MERGED = CellCounts((0,), ((0, 0, 1),))
CROSS = CellCounts((0, 1), ((0, 1, 2), (0, 1)))
MOMENTS = CellMoments(2)
PARTS = {
    "histogram": (HISTOGRAM,),
    "merged cells": (MERGED,),
    "cross-table": (CROSS,),
    "moments": (MOMENTS,),
    "all": (HISTOGRAM, CellCounts((1,), ((0, 1),)), MOMENTS, CROSS),
}


def query_of(name, n=36):
    parts = PARTS[name]
    weights = tuple(1.0 + i / 4 for i in range(len(parts)))
    return TableSums(parts, weights, n)


def total(query, rows, present=None):
    source = MemorySource(rows, np.zeros(len(rows)), present)
    return query.total(query.open(source), None)


def test_what_is_read_is_what_was_counted():
    query = query_of("all")
    first, second, moments, cross = query.read(total(query, RECORDS))
    values = RECORDS[~np.isnan(RECORDS[:, 2]), 2]
    codes = RECORDS[:, :2].astype(int)
    assert first == pytest.approx(np.bincount(codes[:, 0]))
    assert second == pytest.approx(np.bincount(codes[:, 1]))
    assert moments[0] == pytest.approx(values.sum(), abs=1e-9)
    assert moments[1] == pytest.approx((values**2 - 0.5).sum(), abs=1e-9)
    assert cross.shape == (3, 2)
    assert cross == pytest.approx(np.full((3, 2), len(VALUES)))


# -------------------------------------------------------------------------------- users


def of_users(rows, codes, n_users):
    """A source of users, and the query of all parts."""
    shares = equal_shares(codes, n_users)
    return UserSource(rows, np.zeros(len(rows)), shares, n_users), query_of(
        "all", n_users
    )


def random_users(n_rows=2000, n_users=300):
    rng = np.random.default_rng(1)
    return RECORDS[rng.integers(0, len(RECORDS), n_rows)], rng.integers(
        0, n_users, n_rows
    )


def test_a_user_counts_as_the_mean_of_the_own_rows():
    rows, codes = random_users()
    source, query = of_users(rows, codes, 300)
    found = query.total(source, None)
    each = np.stack([total(query, row[None]) for row in rows])
    shares = equal_shares(codes, 300)
    assert found == pytest.approx(shares @ each, abs=1e-6)
    histogram, *_ = query.read(found)
    assert histogram.sum() == pytest.approx(len(np.unique(codes)), abs=1e-6)


@pytest.mark.parametrize("n_rows", [1, 3, 7, 1023, 1024])
@pytest.mark.parametrize("n_users", [2, 1000, 2**30])
def test_shares_on_the_grid_add_up_to_one_at_the_most(n_rows, n_users):
    unit = unit_for(n_users)
    shares = equal_shares(np.zeros(n_rows, dtype=int), 1)
    whole = below(shares, unit) / unit
    assert (whole == np.floor(whole)).all()
    assert 1 - 1024 * unit <= whole.sum() * unit <= 1
