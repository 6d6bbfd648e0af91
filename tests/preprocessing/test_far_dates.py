"""Dates of any unit and any bits have a state of their own, in memory and anywhere."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from skdp import (
    TableEncoder,
)
from skdp.columns import Dates, Range
from skdp.ensemble import _trees
from skdp.preprocessing import _blocks, _cells
from skdp.preprocessing._cells import clipped_dates

N = 60
PARTS = ("day", "month", "hour", "weekday")
KNOWN = {"d": Dates("2000-01-01", "2020-01-01", parts=PARTS), "x": Range(0, 1)}
UNITS = ("ns", "us", "ms", "s")
LARGEST = 2**63 - 1
# Whole numbers of any unit: the ends of int64, and beside them.
COUNTS = (-LARGEST, -LARGEST + 1, -(10**17), -1, 0, 1, 10**17, LARGEST - 1, LARGEST)
OBJECTS = (
    datetime.date.min,
    datetime.date.max,
    datetime.datetime.min,
    datetime.datetime.max,
    np.datetime64(LARGEST, "s"),
    np.datetime64(-LARGEST, "D"),
    pd.Timestamp.min,
    pd.Timestamp.max,
)


def table(last=0, unit="s"):
    """Ordinary dates, the last one of any count of its unit."""
    per_day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 86_400
    counts = (np.arange(N) * 100 + 11_000) * per_day
    counts[-1] = last
    dates = pd.Series(counts.astype(f"datetime64[{unit}]"))
    return pd.DataFrame({"d": dates, "x": np.linspace(0, 1, N)})


Y = np.arange(N) % 2


@pytest.mark.parametrize("unit", UNITS)
def test_states_stay_within_their_block(unit):
    encoder = TableEncoder(KNOWN, numeric="bins").fit(table())
    ordinary = encoder.transform(table())
    for count in COUNTS:
        encoded = encoder.transform(table(count, unit))
        assert encoded.shape == ordinary.shape
        n_states = np.count_nonzero(encoded, axis=1)
        assert (n_states == np.count_nonzero(ordinary[0])).all()
        assert np.array_equal(encoded[:-1], ordinary[:-1])


def test_dates_among_objects():
    X = table()
    for cell in OBJECTS:
        cells = X["d"].astype(object)
        cells.iloc[-1] = cell
        TableEncoder(KNOWN).fit_transform(X.assign(d=cells))


def test_parts_beyond_the_declared_interval_keep_their_meaning():
    X = table().assign(d=pd.to_datetime(["2035-07-04T05:00"] * N))
    bins = _trees.bins_of(("d",), (KNOWN["d"],))
    cells = _cells.read_cells(X["d"], KNOWN["d"], "d")
    names = [name.removeprefix("d_") for name in bins.names[1:]]
    found = dict(zip(names, bins.codes([cells])[0, 1:].tolist(), strict=True))
    assert found == {"day": 3, "month": 6, "hour": 5, "weekday": 2}


@pytest.mark.parametrize("unit", [*UNITS, "m", "h", "D", "W", "M", "Y", "ps", "as"])
def test_clipping_is_exact_within_and_total_beyond(unit):
    ends = np.array(["1990-01-01", "2010-12-31T23:59:59.999999"], "datetime64[us]")
    counts = np.array([*COUNTS, -(2**63)], dtype=np.int64)
    dates = counts.astype(f"datetime64[{unit}]")
    found = clipped_dates(dates, ends)
    assert ((ends[0] <= found) & (found <= ends[1])).all()
    for own in (found, clipped_dates(dates, _cells._CALENDAR)):
        # The earliest date of a unit is no late one.
        assert (np.diff(own[: len(COUNTS)].astype(np.int64)) >= 0).all()
    assert found[-1] == ends[0]  # NaT
    if unit in ("ps", "as"):  # which reach no year but 1970
        return
    inside = np.array(["1995-05-05"], "datetime64[D]").astype(f"datetime64[{unit}]")
    assert clipped_dates(inside, ends)[0] == inside.astype("datetime64[us]")[0]


# ---------------------------------------------------------------------- broken twins


def unclipped(cells, declared):
    """Dates as they came, which a part of them overflows."""
    if cells.values.dtype.kind == "M":
        return cells.values
    return np.array(cells.values, dtype="datetime64[us]")


def unchecked(block, cells):
    with np.errstate(all="ignore"):
        return block.shares(cells)


def codes_of(unit, count):
    bins = _trees.bins_of(("d",), (KNOWN["d"],))
    cells = _cells.read_cells(table(count, unit)["d"], KNOWN["d"], "d")
    block = next(c.block for c in bins.columns if c.name == "d_day")
    states, _ = _blocks.encoded(block, cells)
    return states[-1, 0], bins.codes([cells])[-1], bins.n_bins


@pytest.mark.parametrize("unit", UNITS)
def test_broken_twin_without_clip_and_border_is_found(unit, monkeypatch):
    monkeypatch.setattr(_cells, "_points", unclipped)
    monkeypatch.setattr(_blocks, "encoded", unchecked)
    ends = [codes_of(unit, count)[0] for count in (-LARGEST, LARGEST)]
    assert not all(0 <= state < 31 for state in ends)


@pytest.mark.parametrize("unit", UNITS)
def test_the_border_holds_without_the_clip(unit, monkeypatch):
    monkeypatch.setattr(_cells, "_points", unclipped)
    for count in (-LARGEST, LARGEST):
        state, codes, n_bins = codes_of(unit, count)
        assert 0 <= state < 31
        assert (codes < np.array(n_bins)).all()
