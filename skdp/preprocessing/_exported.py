"""Declared columns as plain facts, from which `skdp._predictor` reads a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.preprocessing._blocks import (
    ColumnBlock,
    Curve,
    DatePart,
    Intervals,
    Joined,
    NumberAxis,
    OneOf,
    OrMissing,
    Sign,
    TimeAxis,
    _hat_weights,
    _intervals,
)
from skdp.preprocessing._encoder import TableEncoder
from skdp.tables._columns import PARTS, Range

Axis = NumberAxis | TimeAxis
# Units of a part and of what it is a part of, and the code of the first part, which for
# the weeks of NumPy is a Thursday.
_PARTS = {
    "month": ("M8[M]", "M8[Y]", 0),
    "weekday": ("M8[D]", "M8[W]", 3),
    "day": ("M8[D]", "M8[M]", 0),
    "hour": ("M8[h]", "M8[D]", 0),
}
# A code that stands for no state: all features are 0.
_NONE = -1
# What cells of each kind are read as.
_NUMBERS = {"dtype": "float", "unit": 1.0, "blank": 0}
_DATES = {"dtype": "datetime64[us]", "unit": 1e-6, "blank": 0}


def features(encoder: TableEncoder) -> list[dict[str, Any]]:
    """The features of a fitted encoder, in their order.

    Each entry gives one or more features of the column ``of``, at position ``at``:

    * ``is``: how a cell is read. ``curve``: as the position in [-1, 1], as hats with
      `levels` intervals and, if there are `heaps`, as zeros and a one at the heap of
      the cell. ``category``, ``interval``, ``part``: as one of `size` zeros and ones.
      All are multiplied by `weight`.
    * ``missing``: what stands for a missing cell; None if there may be none.
    * ``other``: what stands for an undeclared category; None if there may be none.
    """
    encoding, found = encoder._encoding, []
    pairs = zip(encoding.names, encoding.blocks, strict=True)
    for at, (name, block) in enumerate(pairs):
        other = None if encoder.handle_unknown == "error" else _NONE
        for each in _features(block, encoding.scale, other):
            found.append({"of": name, "at": at, "missing": None} | each)
    return found


def _features(
    block: ColumnBlock, scale: float, other: int | None
) -> Iterator[dict[str, Any]]:
    if isinstance(block, OrMissing):
        for each in _features(block.present, scale, other):
            yield each | {"missing": 0.0 if each["is"] == "curve" else _NONE}
        # Of no value at all: 0, and the weight where the cell is missing.
        none = {"values": [], "dtype": "object", "blank": 0, "other": 0.0}
        yield {"is": "category", **none, "missing": scale, "weight": 1}
    elif isinstance(block, Joined):
        for part in block.blocks:
            yield from _features(part, scale / math.sqrt(len(block.blocks)), other)
    elif isinstance(block, Curve):
        by_level = scale * _hat_weights(len(block.levels)) / block.weight
        weight = np.repeat(by_level, [1, *(n + 1 for n in block.levels)]).tolist()
        weight += [scale / block.weight] * len(block.heaps)
        curve = _curve(block.axis, list(block.levels), weight)
        yield curve | {"heaps": list(block.heaps)} if block.heaps else curve
    elif isinstance(block, Sign):
        yield _curve(NumberAxis(Range(0, 1)), [], [scale])
    else:
        yield coded(block, other) | {"size": sum(block.parts), "weight": scale}


def coded(block: ColumnBlock, other: int | None) -> dict[str, Any]:
    """How a present cell gets its code, which is its state in this block.

    Parameters
    ----------
    block : Intervals, OneOf, Sign or DatePart
    other : int or None
        The code of an undeclared category; None if there may be none.
    """
    if isinstance(block, DatePart):
        part = [*_PARTS[block.name], PARTS[block.name]]
        return {"is": "part", "part": part, **_DATES}
    if isinstance(block, Intervals):
        return {"edges": exact_edges(block).tolist(), **_read(block.axis, "interval")}
    assert isinstance(block, (OneOf, Sign))
    values = [False, True] if isinstance(block, Sign) else list(block.declared.values)
    category = {"values": values, "dtype": "object", "blank": values[0]}
    return {"is": "category", **category, "other": other}


def _curve(axis: Axis, levels: list[int], weight: list[float]) -> dict[str, Any]:
    declared = _of_numbers(axis).declared
    logarithm = "log" if declared.low > 0 else "log1p"
    curve = {
        "ends": [float(declared.low), float(declared.high)],
        "scale": logarithm if declared.log else "positive",
        "levels": levels,
    }
    return _read(axis, "curve") | curve | {"weight": weight}


def _read(axis: Axis, kind: str) -> dict[str, Any]:
    cells = _NUMBERS if isinstance(axis, NumberAxis) else _DATES
    return {"is": kind, **cells}


def _of_numbers(axis: Axis) -> NumberAxis:
    return axis if isinstance(axis, NumberAxis) else axis._seconds_axis()


def exact_edges(block: Intervals) -> FloatArray:
    """Edges of intervals, the least number of each interval, to the last bit.

    Positions are rounded, so that edges that were computed directly could put a number
    at an edge into the wrong interval.

    Returns
    -------
    ndarray of float64 of shape (n_intervals + 1,)
        In units of the column; seconds since 1970 for dates.
    """
    axis = _of_numbers(block.axis)
    start, end = float(axis.declared.low), float(axis.declared.high)
    codes = np.arange(1, block.count)
    low, high = np.full(len(codes), start), np.full(len(codes), end)
    while True:
        middle = low / 2 + high / 2
        if not ((low < middle) & (middle < high)).any():
            inner = np.sort(np.concatenate([high, block.splits]))
            return np.concatenate([[start], inner, [end]])
        is_above = _intervals(axis.to_unit(middle), block.count)[0] >= codes
        high = np.where(is_above, middle, high)
        low = np.where(is_above, low, middle)
