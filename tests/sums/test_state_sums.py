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
from skdp.preprocessing._blocks import OrMissing
from skdp.privacy.release._plan import Layout
from skdp.sums._counts import StateSums, even_knots
from skdp.sums._exact import below, nearest
from skdp.tables._memory import MemorySource
from tests.preprocessing.tables import DECLARED, frame

DAYS = Dates("2020-01-01", "2020-12-31", parts=["month", "weekday", "hour"])
PARTED = Dates("2020-01-01", "2020-12-31", parts=["month"], missing=True)
# Every cell beside every other, in tables of one kind each.
CELLS = {
    "numbers": ({"x": Range(0, 1)}, {"x": [0.0, 0.01, 0.4, 0.5, 1.0, math.inf]}),
    "numbers, or missing": (
        {"x": Range(0, 1, missing=True)},
        {"x": [0.0, 0.03, 1.0, -math.inf, math.nan]},
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


@every_kind
def test_shares_of_a_part_add_up_to_at_most_one(kind):
    states, parts = states_of(kind)
    ends = np.cumsum(parts)[:-1]
    for part in np.split(states, ends, axis=1):
        assert (part.sum(axis=1) <= 1 + 1e-15).all()


def test_a_missing_cell_is_in_one_part_only():
    states, parts = states_of("dates of parts, or missing")
    assert states[-1].sum() == 1 < len(parts)


def test_twin_of_a_missing_cell_in_two_states_is_found(monkeypatch):
    honest = OrMissing.shares

    def twice(self, cells):
        states, shares = honest(self, cells)
        plain, given = self.present.shares(cells)
        return np.hstack([plain, states]), np.hstack([given, shares])

    monkeypatch.setattr(OrMissing, "shares", twice)
    states, parts = states_of("numbers, or missing")
    bound = query_of(states, parts).bound()
    assert farthest(states, parts)["zero_out"] > 1.3 * bound.zero_out


TARGETS = np.array([-1.0, -0.99, 0.0, 0.3, 1.0, 7.0])


def target_sums(targets, present=None, *, query=None):
    """Sums at knots, of tables without columns."""
    query = query or StateSums(0, len(targets), 0, knots=even_knots(4))
    rows = csr_array((len(targets), 1))
    return query.total(MemorySource(rows, targets, present), None)


def test_targets_are_one_part_more():
    n = len(TARGETS)
    query = StateSums(0, n, 0, knots=even_knots(4))
    gone = [target_sums(TARGETS, np.arange(n) != i) for i in range(n)]
    alone = [np.linalg.norm(target_sums(TARGETS) - less) for less in gone]
    apart = [np.linalg.norm(a - b) for a, b in itertools.combinations(gone, 2)]
    bound = query.bound()
    assert 0.999 * bound.zero_out <= max(alone) <= bound.zero_out
    assert 0.999 * bound.replace_one <= max(apart) <= bound.replace_one
    assert StateSums(9, n, 3, knots=even_knots(4)).bound() == StateSums(9, n, 4).bound()
    # Broken twin: targets that are no part of their own.
    assert StateSums(9, n, 3).bound().zero_out < StateSums(9, n, 4).bound().zero_out


def test_targets_are_at_their_knots():
    sums = target_sums(TARGETS)
    assert sums.sum() == pytest.approx(len(TARGETS))
    knots = np.linspace(-1, 1, 5)
    # Hats keep the mean; what lies beyond is clipped.
    assert sums @ knots == pytest.approx(np.clip(TARGETS, -1, 1).sum())


def test_random_records_of_the_mixed_table():
    rng = np.random.default_rng(0)
    blocks = TableEncoder(DECLARED)
    encoding, cells = blocks._fit(Table.of(frame(400)), lambda n, d: 17)
    states = encoding.states(cells).toarray()
    bound = query_of(states, encoding.parts).bound()
    pairs = rng.integers(0, 400, size=(2000, 2))
    apart = np.linalg.norm(states[pairs[:, 0]] - states[pairs[:, 1]], axis=1)
    assert apart.max() <= bound.replace_one
    assert np.linalg.norm(states, axis=1).max() <= bound.zero_out


def test_shares_are_rounded_down_and_nothing_is_charged():
    n = 200_000
    shares = np.full((n, 1), 1 / 3)
    states = csr_array(np.hstack([shares, 1 - shares]))
    query = StateSums(2, n, 1)
    sums = query.total(MemorySource(states, np.zeros(n)), None)
    exact = n * np.array([1 / 3, 2 / 3])
    assert (sums <= exact).all()
    assert (sums >= exact - n * query.unit).all()
    assert np.array_equal(sums / query.unit, np.rint(sums / query.unit))
    assert sums.max() / query.unit < 2**53
    assert query.slack(Layout(n)) == 0.0


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-4])
def test_shares_rounded_down_add_up_to_at_most_one(unit):
    shares = np.random.default_rng(0).random(10_000)
    shares[:3] = 0.0, 1.0, 2.0**-60
    assert (below(shares, unit) + below(1 - shares, unit)).max() <= 1
    # Broken twin: the nearest ones, of which several may be more than a record is.
    three = np.array([5.6 * unit, 5.6 * unit, 1 - 11.2 * unit])
    assert nearest(three, unit).sum() > 1 >= below(three, unit).sum()
