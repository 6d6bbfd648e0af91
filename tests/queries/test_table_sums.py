"""Sums of declared tables: neighbours searched, bounds attained, and twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdp.data import MemorySource
from skdp.privacy._query import Layout
from skdp.queries._exact_sums import nearest
from skdp.queries._table_sums import Moments, Table, TableSums

# Codes of two columns, and a value: everything that a record may be.
VALUES = (-1.0, -0.4, 0.0, 1 / 3, 1.0, math.nan)
RECORDS = np.array(list(itertools.product(range(3), range(2), VALUES)))
HISTOGRAM = Table((0,), ((0, 1, 2),))
MERGED = Table((0,), ((0, 0, 1),))
CROSS = Table((0, 1), ((0, 1, 2), (0, 1)))
MOMENTS = Moments(2)
PARTS = {
    "histogram": (HISTOGRAM,),
    "merged cells": (MERGED,),
    "cross-table": (CROSS,),
    "moments": (MOMENTS,),
    "all": (HISTOGRAM, Table((1,), ((0, 1),)), MOMENTS, CROSS),
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
    monkeypatch.setattr(Moments, "k", 2 * Moments.k)
    query = query_of("moments")
    assert farthest(query)["replace_one"] > 1.01 * query.bound().replace_one


def test_the_null_record_is_left_out_whatever_stands_in_its_row():
    query, there = query_of("all"), np.arange(len(RECORDS)) != 3
    other = RECORDS.copy()
    other[3] = RECORDS[-2]
    assert np.array_equal(total(query, RECORDS, there), total(query, other, there))
    assert not np.array_equal(total(query, RECORDS), total(query, other))


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


def test_any_blocks_and_any_order_give_the_same_bits():
    rng = np.random.default_rng(0)
    n = 3000
    rows = np.column_stack(
        [rng.integers(0, 3, n), rng.integers(0, 2, n), rng.uniform(-1, 1, n)]
    )
    query = query_of("all", n)
    found = []
    for order in (np.arange(n), rng.permutation(n)):
        for block in (1, 7, 1000, n):
            source = MemorySource(rows[order], np.zeros(n))
            source.largest_block = block
            found.append(query.total(source, None))
    assert all(np.array_equal(found[0], other) for other in found)


def test_slack_covers_what_rounding_adds():
    query = query_of("moments", 10**6)
    values = np.random.default_rng(0).uniform(-1, 1, 2000)
    rows = np.column_stack([np.zeros((2000, 2)), values])
    exact = np.stack([values, Moments.k * (values**2 - 0.5)], axis=1)
    exact *= query.weights[0]
    found = np.array([total(query, row[None]) for row in rows])
    # Values are of the grid from the start; what is left is the rounding of squares.
    grid = nearest(values, query.unit)
    exact[:, 1] = query.weights[0] * Moments.k * (grid**2 - 0.5)
    exact[:, 0] = query.weights[0] * grid
    moved = np.linalg.norm(found - exact, axis=1).max()
    assert 0 < 2 * moved <= query.slack(Layout(1)) < 1e-6
