"""Blocks: how one declared column is encoded, and its axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from skdp._arrays import FloatArray
from skdp._input import middle_and_half, to_unit
from skdp.preprocessing._cells import Cells
from skdp.tables._columns import PARTS, Categories, Dates, Range

# ------------------------------------------------ Axes: positions in declared intervals


_SECOND = np.timedelta64(1, "s")
_EPOCH = np.datetime64(0, "s")


@dataclass(frozen=True)
class NumberAxis:
    """The interval of a `Range`."""

    declared: Range

    def clipped(self, values: np.ndarray) -> FloatArray:
        """Numbers in [low, high]."""
        with np.errstate(all="ignore"):
            return np.clip(values.astype(np.float64), *self._ends())

    def to_unit(self, values: np.ndarray) -> FloatArray:
        """Numbers, clipped, as positions in [-1, 1]; the last step clips."""
        low, high = self._ends()
        with np.errstate(all="ignore"):
            values = values.astype(np.float64)
        if not self.declared.log:
            return to_unit(values, low, high)
        log = np.log if self.declared.low > 0 else np.log1p
        start, end = log(low), log(high)
        shares = (log(np.clip(values, low, high)) - start) / (end - start)
        return np.asarray(np.clip(2 * shares - 1, -1.0, 1.0))

    def at(self, positions: FloatArray) -> np.ndarray:
        """Numbers at positions in [-1, 1]."""
        low, high = self._ends()
        if not self.declared.log:
            middle, half = middle_and_half(low, high)
            found = middle + positions * half
        else:
            log, exp = (
                (np.log, np.exp) if self.declared.low > 0 else (np.log1p, np.expm1)
            )
            start, end = log(low), log(high)
            found = exp(start + (positions + 1) / 2 * (end - start))
        return np.asarray(np.clip(found, low, high))

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return np.asarray(float(self.declared.low)), np.asarray(
            float(self.declared.high)
        )


@dataclass(frozen=True)
class TimeAxis:
    """The interval of `Dates`."""

    declared: Dates

    def clipped(self, values: np.ndarray) -> FloatArray:
        """Dates in [first, last], in seconds since 1970."""
        return self._seconds_axis().clipped(seconds(values))

    def to_unit(self, values: np.ndarray) -> FloatArray:
        """Dates, clipped, as positions in [-1, 1]."""
        return self._seconds_axis().to_unit(seconds(values))

    def at(self, positions: FloatArray) -> np.ndarray:
        """Dates at positions in [-1, 1], to the second."""
        found = self._seconds_axis().at(positions)
        return np.asarray(_EPOCH + np.round(found) * _SECOND)

    def _seconds_axis(self) -> NumberAxis:
        ends = np.array([self.declared.first, self.declared.last], "datetime64[us]")
        low, high = seconds(ends)
        return NumberAxis(Range(float(low), float(high)))


def seconds(dates: np.ndarray) -> FloatArray:
    """Seconds since 1970 of dates in any unit; NaT as 0."""
    if np.datetime_data(dates.dtype)[0] in ("Y", "M", "generic"):
        dates = dates.astype("datetime64[D]")
    unit, count = np.datetime_data(dates.dtype)
    counts = dates.astype(np.int64).astype(np.float64)
    length = float(np.ones((), f"timedelta64[{count}{unit}]") / _SECOND)
    return np.where(np.isnat(dates), 0.0, counts * length)


# ------------------------------------------ Blocks: the encoding of one declared column
# A block gives each cell weights in a few different states: `states` and `shares`, both
# of shape (n_samples, at most a few). Encoded rows have norm at most 1, as
# ``docs/proofs/preprocessing.md`` proves.


Sparse = tuple[np.ndarray, FloatArray]
# Least number of intervals between a curve's states, however coarse its hats. The
# released share of each state has noise, and a coarse curve needs few of them. In 64
# cells of eight tables of 364 to 13,440 records (`python -m benchmarks
# least_intervals`) log-loss or 1 - R2 falls by .003 on average from 16 to 8: by .005 to
# .07 in ten cells, and it rises by .007 to .02 in three. With 4 it rises by up to .04.
_LEAST_INTERVALS = 8


class ColumnBlock(Protocol):
    """How one column is encoded; public.

    A cell is in one state, or between two neighbouring states. Its shares in the states
    are at least 0, and add up to at most 1 in each part of the block. The encoded cell
    is ``shares @ basis``.
    """

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of the names of the features; the prefix is the column's name."""
        ...

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of states of each part; the states of a part exclude each other."""
        ...

    @property
    def basis(self) -> FloatArray:
        """Features of each state, (n_states, n_features); rows of norm at most 1."""
        ...

    @property
    def weight(self) -> float:
        """The divisor of the basis, if an indicator has weight 1."""
        ...

    @property
    def n_lines(self) -> int:
        """Number of features if numbers were encoded as lines."""
        ...

    def shares(self, cells: Cells) -> Sparse:
        """Each cell's states, and its shares in them; only `encoded` calls this."""
        ...

    def has_unknown(self, cells: Cells) -> bool:
        """Whether a cell holds an undeclared value."""
        ...

    def labels(self) -> pd.DataFrame:
        """The values of each state, one row for each state."""
        ...


@dataclass(frozen=True)
class Curve:
    """The position on the axis, and hats on levels from coarse to fine.

    A hat is 1 at its knot and falls to 0 at the next ones: at each position two hats of
    a level have values f and 1 - f, the others 0. The position, in [-1, 1], has the
    largest weight, and each level, from coarse to fine, 1/sqrt(2) of the one before;
    all are divided by the root of the sum of their squares. Without levels it is the
    position alone. States are knots, at least as close as those of the finest level.

    A heap is one more state: the curve at its value, and an indicator.

    Parameters
    ----------
    axis : NumberAxis or TimeAxis
    levels : tuple of int
        Intervals of each level; each divides the next.
    heaps : tuple of float, default=()
        Rising, within the interval of the axis.
    """

    axis: NumberAxis | TimeAxis
    levels: tuple[int, ...] = ()
    heaps: tuple[float, ...] = ()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The position, and one feature for each hat and each heap."""
        hats = (f"_hat{k}_{i}" for k in self.levels for i in range(k + 1))
        heaps = (f"_at_{heap}" for heap in self.heaps)
        return ("_linear" if self.levels else "", *hats, *heaps)

    @property
    def parts(self) -> tuple[int, ...]:
        """One state for each knot, then one for each heap."""
        return (self._intervals + 1 + len(self.heaps),)

    @property
    def n_lines(self) -> int:
        return 1 + len(self.heaps)

    @property
    def basis(self) -> FloatArray:
        """Position, hats and indicators at each knot and each heap."""
        hats = _hats(self.levels, self._intervals, self.weight)
        if not self.heaps:
            return hats
        positions = self.axis.to_unit(np.array(self.heaps))
        knot, share = _intervals(positions, self._intervals)
        between = (1 - share)[:, None] * hats[knot] + share[:, None] * hats[knot + 1]
        n_knots, n_heaps = len(hats), len(self.heaps)
        indicators = np.eye(n_knots + n_heaps, n_heaps, -n_knots) / self.weight
        return np.hstack([np.vstack([hats, between]), indicators])

    def shares(self, cells: Cells) -> Sparse:
        values = cells.filled()
        knot, share = _intervals(self.axis.to_unit(values), self._intervals)
        first = knot
        if self.heaps:
            heaps, clipped = np.array(self.heaps), self.axis.clipped(values)
            heap = np.searchsorted(heaps[:-1], clipped)
            is_heap = heaps[heap] == clipped
            first = np.where(is_heap, self._intervals + 1 + heap, knot)
            share = np.where(is_heap, 0.0, share)
        return np.column_stack([first, knot + 1]), np.column_stack([1 - share, share])

    def has_unknown(self, cells: Cells) -> bool:
        """Never: values are clipped."""
        return False

    def labels(self) -> pd.DataFrame:
        """The knots, between which curves are linear, and then the heaps."""
        knots = self.axis.at(np.linspace(-1.0, 1.0, self._intervals + 1))
        if not self.heaps:
            return pd.DataFrame({"at": knots})
        is_heap = [False] * len(knots) + [True] * len(self.heaps)
        return pd.DataFrame({"at": [*knots, *self.heaps], "heap": is_heap})

    @property
    def weight(self) -> float:
        """Root of the sum of the squares of the weights in a state."""
        weights = _hat_weights(len(self.levels))
        # As the indicator of a category. With 2 the heaps of kddcup99 gain .0021 of
        # log-loss at epsilon 1, and those of Adult lose .0020 (and .0026 at 0.3).
        heap = [1.0] if self.heaps else []
        return float(np.linalg.norm([*weights, *heap]))

    @property
    def _intervals(self) -> int:
        return _n_intervals(self.levels)


@dataclass(frozen=True)
class Intervals:
    """Indicators of `count` equal intervals, which heaps split further.

    Parameters
    ----------
    axis : NumberAxis or TimeAxis
    count : int
    is_whole : bool, default=False
        Whether values are whole numbers, and the ends of intervals halves.
    heaps : tuple of float, default=()
        Values with intervals of their own, rising; see `split_at_heaps`.
    splits : tuple of float, default=()
        Least number of each interval that heaps add, rising.
    """

    axis: NumberAxis | TimeAxis
    count: int
    is_whole: bool = False
    heaps: tuple[float, ...] = ()
    splits: tuple[float, ...] = ()
    weight: ClassVar[float] = 1.0

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(f"_bin{i}" for i in range(self._n))

    @property
    def parts(self) -> tuple[int, ...]:
        return (self._n,)

    @property
    def n_lines(self) -> int:
        return 1

    @property
    def basis(self) -> FloatArray:
        return np.eye(self._n)

    def shares(self, cells: Cells) -> Sparse:
        return _wholly_in(self._interval(cells.filled()))

    def has_unknown(self, cells: Cells) -> bool:
        """Never: values are clipped."""
        return False

    def labels(self) -> pd.DataFrame:
        """Both ends of each interval, and whether it is a heap."""
        return pd.DataFrame(self.ends)

    @property
    def ends(self) -> dict[str, np.ndarray]:
        """``from`` and ``to`` of each interval, and ``heap`` if there are heaps."""
        edges = self.edges
        ends = {"from": edges[:-1], "to": edges[1:]}
        if not self.heaps:
            return ends
        return ends | {"heap": np.isin(np.arange(self._n), self.heap_intervals)}

    @property
    def edges(self) -> np.ndarray:
        """Ends of all intervals, in units of the column."""
        equal = self.axis.at(np.linspace(-1.0, 1.0, self.count + 1))
        if not self.splits:
            return equal
        shown = np.array(self.splits)
        for heap, after in zip(self.heaps, _after(np.array(self.heaps)), strict=True):
            shown[shown == after] = heap
        return np.sort(np.concatenate([equal, shown]))

    @property
    def heap_intervals(self) -> np.ndarray:
        """Index of the interval of each heap."""
        return self._interval(np.array(self.heaps))

    def at(self, places: FloatArray) -> np.ndarray:
        """Values at places: k + f is at the fraction f of the interval k."""
        if not self.splits:
            return self.axis.at(2 * places / self.count - 1)
        equal = np.linspace(-1.0, 1.0, self.count + 1)
        splits = self.axis.to_unit(np.array(self.splits))
        positions = np.sort(np.concatenate([equal, splits]))
        return self.axis.at(np.interp(places, np.arange(self._n + 1), positions))

    def _interval(self, values: np.ndarray) -> np.ndarray:
        """Index of the interval of each value."""
        equal, _ = _intervals(self.axis.to_unit(values), self.count)
        if not self.splits:
            return equal
        return equal + np.searchsorted(self.splits, self.axis.clipped(values), "right")

    @property
    def _n(self) -> int:
        """Number of all intervals."""
        return self.count + len(self.splits)


def _after(values: FloatArray) -> FloatArray:
    """The next double; after 0 a normal one, which all processors tell from 0."""
    tiny = np.finfo(np.float64).tiny
    return np.maximum(np.nextafter(values, np.inf), values + tiny)


# A heap this close to an edge, as a fraction of its interval, is at the edge.
_AT_EDGE = 1e-9


def split_at_heaps(equal: Intervals, declared: Range) -> Intervals:
    """Intervals in which each heap is alone, with what is left below and above it.

    The interval of a heap holds one number or, of whole numbers, what rounds to it. No
    interval is added that would hold no declared value.

    Parameters
    ----------
    equal : Intervals
        Equal intervals.
    declared : Range
    """
    if not declared.heaps:
        return equal
    heaps = np.array(declared.heaps, dtype=np.float64)
    _, place = _intervals(equal.axis.to_unit(heaps), equal.count)
    if equal.is_whole:
        first, after = heaps - 0.5, heaps + 0.5
        low, high = equal.axis.at(np.array([-1.0, 1.0]))
        near = 0.75 * equal.count / (high - low)
    else:
        first, after, near = heaps, _after(heaps), _AT_EDGE
    is_below = (place > near) & (heaps > declared.low)
    is_above = (place < 1 - near) & (heaps < declared.high)
    splits = np.unique(np.concatenate([first[is_below], after[is_above]]))
    return replace(equal, heaps=declared.heaps, splits=tuple(splits.tolist()))


@dataclass(frozen=True)
class OneOf:
    """Indicators of the declared categories; zeros for any other category."""

    declared: Categories
    weight: ClassVar[float] = 1.0

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(f"_{value}" for value in self.declared.values)

    @property
    def parts(self) -> tuple[int, ...]:
        return (len(self.declared.values),)

    @property
    def n_lines(self) -> int:
        return len(self.suffixes)

    @property
    def basis(self) -> FloatArray:
        return np.eye(len(self.declared.values))

    def shares(self, cells: Cells) -> Sparse:
        """One category, or none."""
        codes = self._codes(cells)[:, None]
        return np.maximum(codes, 0), (codes >= 0).astype(np.float64)

    def has_unknown(self, cells: Cells) -> bool:
        return bool(((self._codes(cells) < 0) & ~cells.is_missing).any())

    def labels(self) -> pd.DataFrame:
        return pd.DataFrame({"value": list(self.declared.values)})

    def _codes(self, cells: Cells) -> np.ndarray:
        # Cell by cell: a look-up of the whole column would first find a common type for
        # it, and one record would change the encoding of all others.
        code_of = {value: i for i, value in enumerate(self.declared.values)}
        if cells.distinct is not None:
            values, own = cells.distinct
            codes = np.array([look_up(code_of, value) for value in values])[own]
            return np.where(cells.is_missing, -1, codes)
        found = (look_up(code_of, cell) for cell in cells.filled().tolist())
        codes = np.fromiter(found, dtype=np.int64, count=len(cells.values))
        return np.where(cells.is_missing, -1, codes)


@dataclass(frozen=True)
class Sign:
    """1 for True, -1 for False."""

    # As the indicators of two categories.
    weight: ClassVar[float] = math.sqrt(0.5)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return ("",)

    @property
    def parts(self) -> tuple[int, ...]:
        """False, True."""
        return (2,)

    @property
    def n_lines(self) -> int:
        return len(self.suffixes)

    @property
    def basis(self) -> FloatArray:
        """-1, 1."""
        return np.array([[-1.0], [1.0]])

    def shares(self, cells: Cells) -> Sparse:
        return _wholly_in(cells.filled().astype(bool).astype(np.int64))

    def has_unknown(self, cells: Cells) -> bool:
        return False

    def labels(self) -> pd.DataFrame:
        return pd.DataFrame({"value": [False, True]})


@dataclass(frozen=True)
class DatePart:
    """Indicators of the month, weekday (Monday is 1), day of the month, or hour."""

    name: str
    weight: ClassVar[float] = 1.0

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(f"_{self.name}_{value}" for value in self._values())

    @property
    def parts(self) -> tuple[int, ...]:
        return (len(self._values()),)

    @property
    def n_lines(self) -> int:
        return len(self.suffixes)

    @property
    def basis(self) -> FloatArray:
        return np.eye(len(self._values()))

    def shares(self, cells: Cells) -> Sparse:
        return _wholly_in(_part(cells.filled(), self.name))

    def has_unknown(self, cells: Cells) -> bool:
        return False

    def labels(self) -> pd.DataFrame:
        return pd.DataFrame({"value": list(self._values())})

    def _values(self) -> range:
        first = 0 if self.name == "hour" else 1
        return range(first, first + PARTS[self.name])


@dataclass(frozen=True)
class Joined:
    """Blocks side by side, each divided by the root of their number."""

    blocks: tuple[ColumnBlock, ...]
    names: tuple[str, ...]

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(suffix for block in self.blocks for suffix in block.suffixes)

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(size for block in self.blocks for size in block.parts)

    @property
    def weight(self) -> float:
        """The weight of the first block."""
        return self.blocks[0].weight

    @property
    def n_lines(self) -> int:
        return sum(block.n_lines for block in self.blocks)

    @property
    def basis(self) -> FloatArray:
        """The bases of the blocks along the diagonal."""
        along = block_diag(*(block.basis for block in self.blocks))
        return np.asarray(along / math.sqrt(len(self.blocks)))

    def shares(self, cells: Cells) -> Sparse:
        return side_by_side(self.blocks, [encoded(b, cells) for b in self.blocks])

    def has_unknown(self, cells: Cells) -> bool:
        """Whether a cell is unknown to a block."""
        return any(block.has_unknown(cells) for block in self.blocks)

    def labels(self) -> pd.DataFrame:
        """The labels of all blocks, with the name of each block in ``part``."""
        tables = []
        for name, block in zip(self.names, self.blocks, strict=True):
            table = block.labels().rename(columns={"value": "at"}).astype(object)
            table.insert(0, "part", name)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)


@dataclass(frozen=True)
class OrMissing:
    """A block for present values, and one more feature for missing values."""

    present: ColumnBlock

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the block, and one more."""
        return (*self.present.suffixes, "_missing")

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts of the block, one of them with one more state."""
        *others, last = self.present.parts
        return (*others, last + 1)

    @property
    def weight(self) -> float:
        return self.present.weight

    @property
    def n_lines(self) -> int:
        """The lines of the block, and one more."""
        return self.present.n_lines + 1

    @property
    def basis(self) -> FloatArray:
        """The block's basis, and one feature for the last state."""
        return np.asarray(block_diag(self.present.basis, 1.0))

    def shares(self, cells: Cells) -> Sparse:
        """The block's states, or the last one."""
        states, shares = encoded(self.present, cells)
        last = np.full((len(states), 1), sum(self.present.parts))
        is_missing = cells.is_missing[:, None]
        shares = np.where(is_missing, 0.0, shares)
        return np.hstack([states, last]), np.hstack([shares, is_missing * 1.0])

    def has_unknown(self, cells: Cells) -> bool:
        """Whether a cell is unknown to the block."""
        return self.present.has_unknown(cells)

    def labels(self) -> pd.DataFrame:
        """The block's labels, and a row without a value for missing cells."""
        present = self.present.labels().astype(object)
        missing = pd.DataFrame([dict.fromkeys(present.columns)], dtype=object)
        return pd.concat([present, missing], ignore_index=True)


def encoded(block: ColumnBlock, cells: Cells) -> Sparse:
    """The states of cells and their shares in them, whatever the cells hold.

    This is the border between cells and everything that counts them. Compiled loops use
    a state as a position in memory, and proofs assume that a record's shares in the
    states of a part add up to at most 1. So a cell with an invalid state or an invalid
    share gets no share at all: it adds nothing.
    """
    # Whether NumPy warns of an operation follows from the cells.
    with np.errstate(all="ignore"):
        states, shares = block.shares(cells)
    if not len(states):
        return states, shares
    n_states = sum(block.parts)
    is_fine = states.min() >= 0 and states.max() < n_states
    if is_fine and shares.min() >= 0 and shares.max() <= 1:  # False of a NaN
        return states, shares
    is_there = (states >= 0) & (states < n_states) & (shares >= 0) & (shares <= 1)
    is_there = np.broadcast_to(is_there.all(axis=1, keepdims=True), states.shape)
    return np.where(is_there, states, 0), np.where(is_there, shares, 0.0)


def side_by_side(blocks: tuple[ColumnBlock, ...], each: list[Sparse]) -> Sparse:
    """States of several blocks, numbered consecutively."""
    widths = [own.shape[1] for own, _ in each]
    shape = len(each[0][0]), sum(widths)
    # Narrow, since copies into rows take longer than encoding does.
    states, shares = np.empty(shape, dtype=np.int32), np.empty(shape)
    at = start = 0
    for block, width, (own, own_shares) in zip(blocks, widths, each, strict=True):
        np.add(own, start, out=states[:, at : at + width], casting="unsafe")
        shares[:, at : at + width] = own_shares
        at, start = at + width, start + sum(block.parts)
    return states, shares


def look_up(code_of: dict[Any, int], cell: Any) -> int:
    """Position of a cell's category, -1 if it is not declared."""
    try:
        return code_of.get(cell, -1)
    except Exception:  # what cannot be hashed or compared was not declared
        return -1


# Rows are encoded block by block, and many columns share the same levels.
@lru_cache(maxsize=8)
def _hats(levels: tuple[int, ...], n_intervals: int, weight: float) -> FloatArray:
    """Position and hats at each knot, as a read-only array."""
    linear, *hats = _hat_weights(len(levels)) / weight
    positions = np.linspace(-1.0, 1.0, n_intervals + 1)
    columns = [linear * positions[:, None]]
    for count, own in zip(levels, hats, strict=True):
        knots = np.linspace(-1.0, 1.0, count + 1)
        distance = np.abs(positions[:, None] - knots) * (count / 2)
        columns.append(own * np.maximum(1 - distance, 0.0))
    found = np.hstack(columns)
    found.flags.writeable = False
    return found


def _n_intervals(levels: tuple[int, ...]) -> int:
    """Number of intervals between the states of a curve."""
    count = max(levels, default=1)
    return count * -(-_LEAST_INTERVALS // count)


def _hat_weights(n_levels: int) -> FloatArray:
    """Weights of the position and of each level, where an indicator has weight 1."""
    return np.array([2.0, *(2.0 ** (-(level + 1) / 2) for level in range(n_levels))])


def _intervals(positions: FloatArray, count: int) -> tuple[np.ndarray, FloatArray]:
    """Index of the interval among `count` equal ones, and the place in it in [0, 1]."""
    shares = (positions + 1) / 2 * count
    interval = np.minimum(shares.astype(np.int64), count - 1)
    return interval, shares - interval


def _wholly_in(states: np.ndarray) -> Sparse:
    return states[:, None], np.ones((len(states), 1))


def _part(dates: np.ndarray, name: str) -> np.ndarray:
    """A part of each date, counted from 0; of dates within the calendar."""
    if name == "hour":
        return np.asarray(dates.astype("datetime64[h]").astype(np.int64) % 24)
    days = dates.astype("datetime64[D]")
    if name == "weekday":  # 1970 began on a Thursday
        return np.asarray((days.astype(np.int64) + 3) % 7)
    months = dates.astype("datetime64[M]")
    if name == "month":
        return np.asarray(months.astype(np.int64) % 12)
    return np.asarray((days - months.astype("datetime64[D]")).astype(np.int64))
