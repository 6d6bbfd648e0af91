"""Sums of shares in states: neighbours searched, bounds attained, and twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skdp import TableEncoder
from skdp.columns import Boolean, Categories, Dates, Range
from skdp.io._table import Table
from skdp.sums._counts import StateSums
from skdp.tables._memory import MemorySource

DAYS = Dates("2020-01-01", "2020-12-31", parts=["month", "weekday", "hour"])
PARTED = Dates("2020-01-01", "2020-12-31", parts=["month"], missing=True)
# Every cell beside every other, in tables of one kind each.
CELLS = {
    "numbers": ({"x": Range(0, 1)}, {"x": [0.0, 0.01, 0.4, 0.5, 1.0, math.inf]}),
    "numbers, or missing": (
        {"x": Range(0, 1, missing=True)},
        {"x": [0.0, 0.03, 1.0, -math.inf, math.nan]},
    ),
    "numbers with heaps": (
        {"x": Range(0, 1, missing=True, heaps=[0, 0.4])},
        {"x": [-math.inf, 0.0, 0.01, 0.4, 0.5, 1.0, math.nan]},
    ),
    "categories, unknown ones": ({"x": ["a", "b"]}, {"x": ["a", "b", "?"]}),
    "categories, or missing": (
        {"x": Categories(["a", "b"], missing=True)},
        {"x": ["a", "b", "?", None]},
    ),
    "truth values": (
        {"x": Boolean(), "z": Boolean(missing=True)},
        {"x": [True, False], "z": [True, False, None]},
    ),
    "dates of parts": (
        {"x": DAYS},
        {"x": np.array(["2020-01-01", "2020-12-31T12", "2020-06-15"], "M8[s]")},
    ),
    "dates of parts, or missing": (
        {"x": PARTED},
        {"x": pd.to_datetime(["2020-01-01", "2020-12-31", "1900-01-01", None])},
    ),
    "several": (
        {"x": Range(0, 1), "y": ["a", "b"], "z": PARTED},
        {
            "x": [0.0, 0.5, 1.0],
            "y": ["a", "b", "?"],
            "z": pd.to_datetime(["2020-01-01", "2020-12-31", None]),
        },
    ),
}
every_kind = pytest.mark.parametrize("kind", CELLS)


def states_of(kind, numeric="hats"):
    """Shares of every possible record in states, dense, and the parts."""
    declared, cells = CELLS[kind]
    rows = list(itertools.product(*cells.values()))
    table = pd.DataFrame(
        {name: [row[i] for row in rows] for i, name in enumerate(cells)}
    )
    for name, column in declared.items():
        if isinstance(column, Boolean):
            table[name] = table[name].astype("boolean")
    encoding, read = TableEncoder(declared, numeric=numeric)._fit(
        Table.of(table), lambda n, d: 9
    )
    return encoding.states(read).toarray(), encoding.parts


def query_of(states, parts):
    return StateSums(states.shape[1], len(states), len(parts))


def total(query, states, present=None):
    source = MemorySource(csr_array(states), np.zeros(len(states)), present)
    return query.total(query.open(source), None)


def farthest(states, parts):
    """By adjacency, the largest change of the sums over all neighbours."""
    query, n = query_of(states, parts), len(states)
    sums = total(query, states)
    gone = [total(query, states, np.arange(n) != i) for i in range(n)]
    return {
        "zero_out": max(np.linalg.norm(sums - less) for less in gone),
        "replace_one": max(
            np.linalg.norm(a - b) for a, b in itertools.combinations(gone, 2)
        ),
    }


@every_kind
@pytest.mark.parametrize("numeric", ["hats", "bins", "linear"])
def test_bounds_are_attained_and_never_passed(kind, numeric):
    states, parts = states_of(kind, numeric)
    bound = query_of(states, parts).bound()
    assert states.min() >= 0
    for adjacency, found in farthest(states, parts).items():
        stated = bound.under(adjacency)
        assert 0.99 * stated <= found <= stated
        # Broken twins: one part fewer, and one record where two differ.
        fewer = StateSums(states.shape[1], len(states), len(parts) - 1)
        assert fewer.bound().under(adjacency) < found
    assert farthest(states, parts)["replace_one"] > 1.4 * bound.zero_out * 0.99


def test_a_missing_cell_is_in_one_part_only():
    states, parts = states_of("dates of parts, or missing")
    assert states[-1].sum() == 1 < len(parts)
