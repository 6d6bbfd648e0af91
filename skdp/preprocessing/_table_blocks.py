"""Blocks: what one declared column becomes, of norm at most 1.

A block gives each row a few entries at places that differ: `places` and `entries`, both
of shape (n_samples, at most a few). The norms are proved in
``docs/proofs/preprocessing.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from skdp._floats import FloatArray
from skdp.columns import Categories
from skdp.columns._declarations import PARTS
from skdp.preprocessing._table_axes import NumberAxis, TimeAxis
from skdp.preprocessing._table_cells import Cells

Sparse = tuple[np.ndarray, FloatArray]


class Block(Protocol):
    """How one column is encoded; public."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What the names of the features that come out add to the column's."""
        ...

    def encode(self, cells: Cells) -> Sparse:
        """Places and entries of each row."""
        ...

    def has_unknown(self, cells: Cells) -> bool:
        """Whether a cell was not declared."""
        ...

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """What a linear model with these weights, one row a feature, adds."""
        ...


@dataclass(frozen=True)
class Linear:
    """The position on the axis, in [-1, 1]."""

    axis: NumberAxis | TimeAxis

    @property
    def suffixes(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return ("",)

    def encode(self, cells: Cells) -> Sparse:
        """One entry in [-1, 1]."""
        return _at_first(self.axis.to_unit(cells.filled()))

    def has_unknown(self, cells: Cells) -> bool:
        """Nothing: values are clipped."""
        return False

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """The curve at both ends; straight in between."""
        return _curve(self, self.axis, np.array([-1.0, 1.0]), weights)


@dataclass(frozen=True)
class Bins:
    """Which of `count` equal intervals."""

    axis: NumberAxis | TimeAxis
    count: int

    @property
    def suffixes(self) -> tuple[str, ...]:
        """One feature an interval."""
        return tuple(f"_bin{i}" for i in range(self.count))

    def encode(self, cells: Cells) -> Sparse:
        """One entry, 1."""
        interval, _ = _intervals(self.axis.to_unit(cells.filled()), self.count)
        return interval[:, None], np.ones((len(interval), 1))

    def has_unknown(self, cells: Cells) -> bool:
        """Nothing: values are clipped."""
        return False

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """The steps, each from an edge to the next."""
        edges = self.axis.at(np.linspace(-1.0, 1.0, self.count + 1))
        return _table({"from": edges[:-1], "to": edges[1:]}, weights)


@dataclass(frozen=True)
class Hats:
    """The position on the axis, and hats on levels from coarse to fine.

    A hat is 1 at its knot and falls to 0 at the next ones: at each position two hats of
    a level have values f and 1 - f, the others 0. The position, in [-1, 1], has the
    largest weight, and each level, from coarse to fine, 1/sqrt(2) of the one before;
    all are divided by the root of the sum of their squares.
    """

    axis: NumberAxis | TimeAxis
    levels: tuple[int, ...]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The position, and one feature a hat."""
        hats = (f"_hat{k}_{i}" for k in self.levels for i in range(k + 1))
        return ("_linear", *hats)

    def encode(self, cells: Cells) -> Sparse:
        """One entry for the position, two for each level."""
        return self._at(self.axis.to_unit(cells.filled()))

    def has_unknown(self, cells: Cells) -> bool:
        """Nothing: values are clipped."""
        return False

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """The curve at all knots; straight in between, on the axis."""
        knots = {i / k for k in self.levels for i in range(k + 1)}
        positions = 2 * np.array(sorted(knots)) - 1
        return _curve(self, self.axis, positions, weights)

    def _at(self, positions: FloatArray) -> Sparse:
        linear, *hats = _hat_weights(len(self.levels))
        places = [np.zeros(len(positions), dtype=np.int64)]
        entries, offset = [linear * positions], 1
        for count, weight in zip(self.levels, hats, strict=True):
            knot, share = _intervals(positions, count)
            places += [offset + knot, offset + knot + 1]
            entries += [weight * (1 - share), weight * share]
            offset += count + 1
        return np.column_stack(places), np.column_stack(entries)


@dataclass(frozen=True)
class OneOf:
    """Which of the declared categories; zeros for any other."""

    declared: Categories

    @property
    def suffixes(self) -> tuple[str, ...]:
        """One feature a category."""
        return tuple(f"_{value}" for value in self.declared.values)

    def encode(self, cells: Cells) -> Sparse:
        """One entry: 1, or 0 at the first place."""
        codes = self._codes(cells)[:, None]
        return np.maximum(codes, 0), (codes >= 0).astype(np.float64)

    def has_unknown(self, cells: Cells) -> bool:
        """Whether a value was not declared."""
        return bool(((self._codes(cells) < 0) & ~cells.is_missing).any())

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """The weight of each category."""
        return _table({"value": list(self.declared.values)}, weights)

    def _codes(self, cells: Cells) -> np.ndarray:
        # Cell by cell: a look-up over the whole column would first find a common type
        # for it, and one record would change how all others are encoded.
        code_of = {value: i for i, value in enumerate(self.declared.values)}
        found = (_look_up(code_of, cell) for cell in cells.filled().tolist())
        codes = np.fromiter(found, dtype=np.int64, count=len(cells.values))
        return np.where(cells.is_missing, -1, codes)


@dataclass(frozen=True)
class Sign:
    """1 for True, -1 for False."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return ("",)

    def encode(self, cells: Cells) -> Sparse:
        """One entry, 1 or -1."""
        return _at_first(np.where(cells.filled().astype(bool), 1.0, -1.0))

    def has_unknown(self, cells: Cells) -> bool:
        """Nothing."""
        return False

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """What each truth value adds."""
        return _table({"value": [False, True]}, np.vstack([-weights, weights]))


@dataclass(frozen=True)
class Part:
    """Which month, weekday (Monday is 1), day of the month, or hour."""

    name: str

    @property
    def suffixes(self) -> tuple[str, ...]:
        """One feature a value."""
        return tuple(f"_{self.name}_{value}" for value in self._values())

    def encode(self, cells: Cells) -> Sparse:
        """One entry, 1."""
        place = _part(cells.filled(), self.name)[:, None]
        return place, np.ones(place.shape)

    def has_unknown(self, cells: Cells) -> bool:
        """Nothing."""
        return False

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """The weight of each value."""
        return _table({"value": list(self._values())}, weights)

    def _values(self) -> range:
        first = 0 if self.name == "hour" else 1
        return range(first, first + PARTS[self.name])


@dataclass(frozen=True)
class Joined:
    """Blocks side by side, each divided by the root of their number."""

    blocks: tuple[Block, ...]
    names: tuple[str, ...]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Those of all blocks."""
        return tuple(suffix for block in self.blocks for suffix in block.suffixes)

    def encode(self, cells: Cells) -> Sparse:
        """The entries of all blocks."""
        places, entries = zip(*(b.encode(cells) for b in self.blocks), strict=True)
        shifted = [p + start for p, start in zip(places, self._starts(), strict=False)]
        return np.hstack(shifted), np.hstack(entries) / math.sqrt(len(self.blocks))

    def has_unknown(self, cells: Cells) -> bool:
        """Whether a block knows a cell not."""
        return any(block.has_unknown(cells) for block in self.blocks)

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """One table below the other; what the column adds is the sum of the parts."""
        shares = np.split(weights / math.sqrt(len(self.blocks)), self._starts()[1:])
        tables = []
        for name, block, share in zip(self.names, self.blocks, shares, strict=True):
            table = block.effects(share).rename(columns={"value": "at"})
            table.insert(0, "part", name)
            tables.append(table)
        return _stacked(tables, weights)

    def _starts(self) -> list[int]:
        widths = [len(block.suffixes) for block in self.blocks]
        return [0, *np.cumsum(widths)[:-1].tolist()]


@dataclass(frozen=True)
class OrMissing:
    """A block for what is present, and one more feature for what is missing."""

    present: Block

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Those of the block, and one more."""
        return (*self.present.suffixes, "_missing")

    def encode(self, cells: Cells) -> Sparse:
        """The block's entries, or 1 at the last place."""
        places, entries = self.present.encode(cells)
        last = np.full((len(places), 1), len(self.present.suffixes))
        is_missing = cells.is_missing[:, None]
        entries = np.where(is_missing, 0.0, entries)
        return np.hstack([places, last]), np.hstack([entries, is_missing * 1.0])

    def has_unknown(self, cells: Cells) -> bool:
        """Whether the block knows a cell not."""
        return self.present.has_unknown(cells)

    def effects(self, weights: FloatArray) -> pd.DataFrame:
        """The block's table, and a row without a value for what is missing."""
        table = self.present.effects(weights[:-1])
        missing = pd.DataFrame([dict.fromkeys(table.columns)], dtype=object)
        missing[_effect_names(weights)] = weights[-1]
        return _stacked([table, missing], weights)


def _look_up(code_of: dict[Any, int], cell: Any) -> int:
    """Position of a cell's category, -1 if it is not declared."""
    try:
        return code_of.get(cell, -1)
    except Exception:  # what cannot be hashed or compared was not declared
        return -1


def dense(sparse: Sparse, width: int) -> FloatArray:
    """Places and entries as an array with `width` columns."""
    places, entries = sparse
    rows = np.zeros((len(places), width))
    np.put_along_axis(rows, places, entries, axis=1)
    return rows


def _hat_weights(n_levels: int) -> FloatArray:
    """Weights of the position and of each level; their squares add up to 1."""
    weights = 2.0 ** (-np.arange(n_levels + 1) / 2)
    return np.asarray(weights / np.sqrt(np.sum(weights**2)))


def _intervals(positions: FloatArray, count: int) -> tuple[np.ndarray, FloatArray]:
    """Which of `count` equal intervals of [-1, 1], and where in it, in [0, 1]."""
    shares = (positions + 1) / 2 * count
    interval = np.minimum(shares.astype(np.int64), count - 1)
    return interval, shares - interval


def _at_first(entries: FloatArray) -> Sparse:
    return np.zeros((len(entries), 1), dtype=np.int64), entries[:, None]


def _part(dates: np.ndarray, name: str) -> np.ndarray:
    """A part of each date, counted from 0."""
    if name == "hour":
        return np.asarray(dates.astype("datetime64[h]").astype(np.int64) % 24)
    days = dates.astype("datetime64[D]")
    if name == "weekday":  # 1970 began on a Thursday
        return np.asarray((days.astype(np.int64) + 3) % 7)
    months = dates.astype("datetime64[M]")
    if name == "month":
        return np.asarray(months.astype(np.int64) % 12)
    return np.asarray((days - months.astype("datetime64[D]")).astype(np.int64))


def _curve(
    block: Linear | Hats,
    axis: NumberAxis | TimeAxis,
    positions: FloatArray,
    weights: FloatArray,
) -> pd.DataFrame:
    encoded = block._at(positions) if isinstance(block, Hats) else _at_first(positions)
    return _table({"at": axis.at(positions)}, dense(encoded, len(weights)) @ weights)


def _table(labels: dict[str, Any], effects: FloatArray) -> pd.DataFrame:
    columns = zip(_effect_names(effects), effects.T, strict=True)
    return pd.DataFrame(labels | dict(columns))


def _stacked(tables: list[pd.DataFrame], weights: FloatArray) -> pd.DataFrame:
    """Tables whose labels are of different types, one below the other."""
    objects = [table.astype(object) for table in tables]
    floats = dict.fromkeys(_effect_names(weights), np.float64)
    return pd.concat(objects, ignore_index=True).astype(floats)


def _effect_names(effects: FloatArray) -> list[str]:
    n_curves = effects.shape[1]
    return ["effect"] if n_curves == 1 else [f"effect_{i}" for i in range(n_curves)]
