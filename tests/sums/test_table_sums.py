"""Sums of declared tables: neighbours searched, bounds attained, and twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdp.privacy.release._plan import Layout
from skdp.sums._counts import CellCounts, CellMoments, TableSums
from skdp.sums._exact import below, nearest, unit_for
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
every_part = pytest.mark.parametrize("name", PARTS)


def query_of(name, n=36):
    parts = PARTS[name]
    weights = tuple(1.0 + i / 4 for i in range(len(parts)))
    return TableSums(parts, weights, n)


def total(query, rows, present=None):
    source = MemorySource(rows, np.zeros(len(rows)), present)
    return query.total(query.open(source), None)


def farthest(query):
    """By adjacency, the largest change of the sums over all neighbours."""
    each = [total(query, RECORDS[i : i + 1]) for i in range(len(RECORDS))]
    return {
        "zero_out": max(map(np.linalg.norm, each)),
        "replace_one": max(
            np.linalg.norm(a - b) for a, b in itertools.combinations(each, 2)
        ),
    }


@every_part
def test_bounds_are_attained_and_never_passed(name):
    query = query_of(name)
    for adjacency, found in farthest(query).items():
        stated = query.bound().under(adjacency)
        assert (1 - 1e-9) * stated <= found <= stated + query.slack(Layout(1))


@pytest.mark.parametrize("left_out", range(4))
def test_twin_that_leaves_a_part_uncharged_is_caught(left_out):
    query, found = query_of("all"), farthest(query_of("all"))
    parts = [p for i, p in enumerate(query.parts) if i != left_out]
    weights = [w for i, w in enumerate(query.weights) if i != left_out]
    twin = TableSums(tuple(parts), tuple(weights), query.n_samples)
    for adjacency, distance in found.items():
        assert twin.bound().under(adjacency) < 0.99 * distance


def test_twins_of_one_record_for_two_are_caught():
    for name in PARTS:
        query = query_of(name)
        assert query.bound().zero_out < 0.9 * farthest(query)["replace_one"]
    # Half of an exchange is no bound on a loss either.
    moments = query_of("moments")
    assert moments.bound().replace_one / 2 < 0.9 * farthest(moments)["zero_out"]


def test_heavier_squares_would_cost_under_replace_one(monkeypatch):
    monkeypatch.setattr(CellMoments, "k", 2 * CellMoments.k)
    query = query_of("moments")
    assert farthest(query)["replace_one"] > 1.01 * query.bound().replace_one


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


def test_slack_covers_what_rounding_adds():
    query = query_of("moments", 10**6)
    values = np.random.default_rng(0).uniform(-1, 1, 2000)
    rows = np.column_stack([np.zeros((2000, 2)), values])
    exact = np.stack([values, CellMoments.k * (values**2 - 0.5)], axis=1)
    exact *= query.weights[0]
    found = np.array([total(query, row[None]) for row in rows])
    # Values are of the grid from the start; what is left is the rounding of squares.
    grid = nearest(values, query.unit)
    exact[:, 1] = query.weights[0] * CellMoments.k * (grid**2 - 0.5)
    exact[:, 0] = query.weights[0] * grid
    moved = np.linalg.norm(found - exact, axis=1).max()
    assert 0 < 2 * moved <= query.slack(Layout(1)) < 1e-6


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


def test_users_of_one_row_are_records():
    rows, n = RECORDS, len(RECORDS)
    source, query = of_users(rows, np.arange(n), n)
    assert np.array_equal(query.total(source, None), total(query, rows))


def test_a_user_counts_as_the_mean_of_the_own_rows():
    rows, codes = random_users()
    source, query = of_users(rows, codes, 300)
    found = query.total(source, None)
    each = np.stack([total(query, row[None]) for row in rows])
    shares = equal_shares(codes, 300)
    assert found == pytest.approx(shares @ each, abs=1e-6)
    histogram, *_ = query.read(found)
    assert histogram.sum() == pytest.approx(len(np.unique(codes)), abs=1e-6)


def test_users_are_charged_for_the_empty_list_too():
    bound = query_of("all").bound()
    assert bound.zero_out_user == bound.zero_out
    assert bound.replace_user == max(bound.replace_one, bound.zero_out)


@pytest.mark.parametrize("n_rows", [1, 3, 7, 1023, 1024])
@pytest.mark.parametrize("n_users", [2, 1000, 2**30])
def test_shares_on_the_grid_add_up_to_one_at_the_most(n_rows, n_users):
    unit = unit_for(n_users)
    shares = equal_shares(np.zeros(n_rows, dtype=int), 1)
    whole = below(shares, unit) / unit
    assert (whole == np.floor(whole)).all()
    assert 1 - 1024 * unit <= whole.sum() * unit <= 1


@pytest.mark.parametrize("n_rows", [3, 700, 1000])
def test_a_user_is_in_one_cell_at_the_most(n_rows):
    # As the code reads shares: rounded to the nearest, 700 of them are more than 1.
    rows, codes = np.tile(RECORDS[0], (n_rows, 1)), np.zeros(n_rows, dtype=int)
    source = UserSource(rows, np.zeros(n_rows), equal_shares(codes, 1), 2**30)
    query = query_of("histogram", 2**30)
    (counts,) = query.read(query.total(source, None))
    assert 0.99 < counts.sum() <= 1


def test_twin_that_rounds_shares_to_the_nearest_is_caught():
    unit, sizes = unit_for(2**30), range(1, 1025)
    totals = [k * nearest(np.array([1 / k]), unit)[0] for k in sizes]
    assert max(totals) > 1 + 1e-5
    assert max(k * below(np.array([1 / k]), unit)[0] for k in sizes) == 1


def test_slack_covers_what_rounding_of_shares_adds():
    rng, n_users, n_rows = np.random.default_rng(0), 2**30, 1000
    query = query_of("moments", n_users)
    moved = 0.0
    for _ in range(20):
        values = rng.uniform(-1, 1, n_rows)
        rows = np.column_stack([np.zeros((n_rows, 2)), values])
        shares = equal_shares(np.zeros(n_rows, dtype=int), 1)
        source = UserSource(rows, np.zeros(n_rows), shares, n_users)
        grid, share = nearest(values, query.unit), below(shares, query.unit)
        exact = np.array([share @ grid, CellMoments.k * (share @ (grid**2 - 0.5))])
        found = query.total(source, None)
        moved = max(moved, np.linalg.norm(found - query.weights[0] * exact))
    slack = query.slack(Layout(1, rows_of_unit=1024))
    assert query.slack(Layout(1)) < slack
    assert 0 < 2 * moved <= slack < 1e-2
