"""Histograms, cross-tables and moments of declared columns, as one weighted vector.

A record adds 1 to one number of each histogram and cross-table, and its value and
square to the moments of each column that has such; a user adds the mean of this over
the own rows. Every part is multiplied by a public weight. Sensitivities are derived in
``docs/proofs/describe.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Block, Source, has_shares
from skdp.privacy._adjacency import Adjacency
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import (
    WholeSum,
    below,
    nearest,
    total_rounding,
    unit_for,
)
from skdp.queries._summed import Summed, Sums


class TablePart(ABC):
    """Numbers that are summed of each record; public.

    Attributes
    ----------
    zero_out, replace_one : float
        Largest norm of what one record adds, and largest distance between two.
    """

    zero_out: ClassVar[float]
    replace_one: ClassVar[float]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the sums."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def rounded(self, rows_of_unit: int) -> float:
        """By how many units what a record, or a user, adds may be rounded; L2."""
        return 0.0

    def moved(self, adjacency: Adjacency) -> float:
        """How far one record can move the sums."""
        return {"zero_out": self.zero_out, "replace_one": self.replace_one}[adjacency]

    @property
    def factors(self) -> FloatArray:
        """By what each sum is multiplied within the part, of shape (size,)."""
        return np.ones(self.size)

    @abstractmethod
    def whole(self, X: Any, unit: float, shares: FloatArray | None) -> FloatArray:
        """Sums over present rows, as whole numbers of units. Private.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
        unit : float
        shares : ndarray of shape (n_rows,) or None
            With which rows of users count, multiples of the unit; None: each with 1.
        """


@dataclass(frozen=True)
class Table(TablePart):
    """How many records are in each cell: a histogram, or a cross-table of several.

    Parameters
    ----------
    columns : tuple of int
        Which columns of a row hold codes.
    cells : tuple of tuple of int
        For each of them the cell of each code: 0, 1, ..., each at least once.
    """

    zero_out = 1.0
    replace_one = math.sqrt(2)

    columns: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(max(cells) + 1 for cells in self.cells)

    def whole(self, X: Any, unit: float, shares: FloatArray | None) -> FloatArray:
        places = [
            np.array(cells)[X[:, column].astype(np.int64)]
            for column, cells in zip(self.columns, self.cells, strict=True)
        ]
        flat = np.ravel_multi_index(places, self.shape)
        # Sums of multiples of the unit, which are exact.
        return np.bincount(flat, shares, self.size) / unit


@dataclass(frozen=True)
class Moments(TablePart):
    """Sums of v and of k (v^2 - 1/2) for values v in [-1, 1]; missing ones add 0.

    Parameters
    ----------
    column : int
        Which column of a row holds the value; NaN if it is missing.
    """

    # The largest weight of squares that costs nothing under replace_one.
    k: ClassVar[float] = math.sqrt(2)
    zero_out = math.sqrt(1.5)
    replace_one = 2.0

    column: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)

    def rounded(self, rows_of_unit: int) -> float:
        # The square of each value; of users each row's pair once more, times its share.
        again = rows_of_unit * math.hypot(1.0, self.k) / 2 if rows_of_unit > 1 else 0.0
        return self.k / 2 + again

    @property
    def factors(self) -> FloatArray:
        return np.array([1.0, self.k])

    def whole(self, X: Any, unit: float, shares: FloatArray | None) -> FloatArray:
        values = X[:, self.column]
        is_there = ~np.isnan(values)
        values = nearest(values[is_there], unit)
        squares = nearest(values * values - 0.5, unit)
        if shares is not None:
            values = nearest(values * shares[is_there], unit)
            squares = nearest(squares * shares[is_there], unit)
        return np.array([values.sum(), squares.sum()]) / unit


@dataclass(frozen=True)
class TableSums(Summed):
    """Sums of several parts, each multiplied by its weight.

    Parameters
    ----------
    parts : tuple of TablePart
    weights : tuple of float
    n_samples : int
    """

    parts: tuple[TablePart, ...]
    weights: tuple[float, ...]
    n_samples: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(part.size for part in self.parts),)

    @property
    def family(self) -> Hashable:
        return TableSums

    def bound(self) -> Bound:
        return Bound(
            zero_out=self._moved("zero_out") * (1 + 1e-12),
            replace_one=self._moved("replace_one") * (1 + 1e-12),
        ).of_shares()

    def _moved(self, adjacency: Adjacency) -> float:
        """All parts at once: one record can be the worst for each of them."""
        return math.hypot(
            *(
                weight * part.moved(adjacency)
                for part, weight in zip(self.parts, self.weights, strict=True)
            )
        )

    @property
    def unit(self) -> float:
        """Values are rounded to this; all sums are exact in double precision."""
        return unit_for(self.n_samples)

    def slack(self, layout: Layout) -> float:
        # Squares are rounded to units, of either side; totals are scaled.
        rounded = math.hypot(
            *(
                w * part.rounded(layout.rows_of_unit)
                for part, w in zip(self.parts, self.weights, strict=True)
            )
        )
        each = 2 * rounded * (self.unit + 2.0**-51)
        return each + total_rounding(self.n_samples, self._moved("zero_out"), 2)

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total = WholeSum(self.shape)
        for block in blocks_of(reader, rows):
            X, shares = _present(block, self.unit)
            total.add(
                np.concatenate([p.whole(X, self.unit, shares) for p in self.parts])
            )
        return (total,)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return np.asarray(sums[0].value() * self.unit * self._factors)

    @cached_property
    def _factors(self) -> FloatArray:
        """By what each sum is multiplied in the vector."""
        pairs = zip(self.parts, self.weights, strict=True)
        return np.concatenate([weight * part.factors for part, weight in pairs])

    def read(self, released: FloatArray) -> list[FloatArray]:
        """The sums of each part that a released vector stands for; post-processing."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        return [
            found.reshape(part.shape)
            for found, part in zip(
                np.split(released / self._factors, ends), self.parts, strict=True
            )
        ]


def _present(block: Block, unit: float) -> tuple[Any, FloatArray | None]:
    """Rows that are there, and shares of users' rows on the grid.

    Shares are rounded down, so that those of a user add up to 1 at the most still.
    """
    if block.present is None:
        return block.X, None
    if not has_shares(block.present):
        return block.X[block.present], None
    return block.X, below(block.present, unit)
