"""Counts of thresholds, codes, states and cells."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdp._arrays import FloatArray
from skdp._input import to_unit
from skdp.privacy.accounting._relations import Adjacency
from skdp.privacy.release._plan import Bound
from skdp.sums._adder import ABOVE, BoundedSum, Entries, Form
from skdp.sums._exact import nearest, unit_for
from skdp.tables._source import Block

# --------------------------------------------------------- Centred counts at thresholds
# For each threshold of its features a record adds 1/2 if it is at or below and -1/2 if
# it is above; the null record adds 0. Sensitivities are derived in
# ``docs/proofs/preprocessing.md``, Lemma 3.


@dataclass(frozen=True, eq=False)
class Counts(BoundedSum):
    """Half of the count at or below minus the count above, for two thresholds each.

    `thresholds`, of shape (2, n_features), has two thresholds of each feature; they are
    public or released.
    """

    thresholds: FloatArray
    unit: ClassVar[float] = 2.0**-30
    is_gridded: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.thresholds.size,)

    def row_bound(self) -> Bound:
        n_features = self.thresholds.shape[1]
        return Bound(
            zero_out=math.sqrt(n_features / 2) * ABOVE,
            replace_one=math.sqrt(2 * n_features) * ABOVE,
        )

    def added(self, block: Block) -> tuple[Form, ...]:
        return tuple(np.where(each >= block.X, 0.5, -0.5) for each in self.thresholds)

    def at_or_below(self, released: FloatArray, n_samples: int) -> FloatArray:
        """The counts at or below, from a released vector; this is post-processing."""
        return released.reshape(self.thresholds.shape) + n_samples / 2


# ---------------------------------------------------------------------- Counts of codes
# A record adds 1 to one entry of each column, and a row of a user adds its weight. With
# labels the entry is one of those of the record's label. Sensitivities are derived in
# ``docs/proofs/boosting.md``, Lemma 3, and in L1 in ``docs/proofs/preprocessing.md``,
# Lemma 6.


def _of_parts(n_parts: int, norm: int) -> Bound:
    """Bound on weights of at least 0 with a sum of at most 1 in each part of a row."""
    gone, replaced = float(n_parts), 2.0 * n_parts
    if norm == 2:
        gone, replaced = math.sqrt(gone), math.sqrt(replaced)
    return Bound(zero_out=gone * ABOVE, replace_one=replaced * ABOVE, norm=norm)


@dataclass(frozen=True)
class CodeCounts(BoundedSum):
    """Counts of codes or of groups of codes, one column after the other.

    With labels, each column has the counts of one label after those of another.

    Parameters
    ----------
    columns : tuple of int
        Indices of the counted columns.
    groups : tuple of tuple of int
        The group of each code of each counted column, from 0; codes of a group are
        counted together.
    norm : {1, 2}, default=2
        Norm of the bound.
    n_labels : int, default=1
        Number of labels, if targets are labels 0, 1, ...; 1: targets are not read.
    """

    columns: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    norm: int = 2
    n_labels: int = 1
    # Sums are exact for 2^31 users.
    unit: ClassVar[float] = 2.0**-22
    rounding: ClassVar[Any] = np.floor

    @property
    def n_groups(self) -> tuple[int, ...]:
        """Number of groups of each counted column."""
        return tuple(max(group) + 1 for group in self.groups)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_labels * sum(self.n_groups),)

    def row_bound(self) -> Bound:
        return _of_parts(len(self.columns), self.norm)

    def added(self, block: Block) -> tuple[Form, ...]:
        forms = []
        for column, group, size in zip(
            self.columns, self.groups, self.n_groups, strict=True
        ):
            place = np.array(group, dtype=np.uint8)[block.X[:, column]]
            if self.n_labels > 1:
                place = place + block.y.astype(np.int64) * size
            forms.append(Entries((place,), size * self.n_labels))
        return tuple(forms)


# ------------------------------------------------- Sums of two numbers for each feature
# In units of the declared bounds a value is v in [-1, 1]. One record contributes, for
# each feature, (a, k b) with a in [-1, 1] and b in [-1/2, 1/2]:
#
# ``SQUARES``
#     a = v, b = v^2 - 1/2, k = sqrt(2).
# ``PRESENCE``
#     a = v and b = 1/2 where a value is present, a = 0 and b = -1/2 where it is
#     missing,
#     k = sqrt(3).
#
# k is the largest weight that does not increase the bound under replace_one; b is
# centred, because the null record contributes 0. All numbers are rounded to whole
# units, so that sums are exact in any order. Sensitivities are derived in
# ``docs/proofs/preprocessing.md``.


@dataclass(frozen=True)
class Pairs:
    """One kind of pairs (a, k b).

    `split` maps values in [-1, 1] of shape (n_rows, n_features), NaN if missing, to
    (a, b); `weight` is k in the section's comment.
    """

    split: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    weight: float

    def record_norm(self, n_features: int) -> float:
        """Largest norm of one record's contribution: zero_out, Lemmas 1, 2."""
        return math.sqrt(n_features * (1 + self.weight**2 / 4))

    def record_distance(self, n_features: int) -> float:
        """Largest distance between two contributions: replace_one, Lemmas 1, 2."""
        return 2 * math.sqrt(n_features)

    def bound(self, n_features: int) -> Bound:
        """L2 bounds on the contribution of one row, in exact arithmetic."""
        return Bound(
            zero_out=self.record_norm(n_features) * ABOVE,
            replace_one=self.record_distance(n_features) * ABOVE,
        )


@dataclass(frozen=True, eq=False)
class PairSums(BoundedSum):
    """The sums of pairs over all records.

    `low` and `high` are the declared bounds of the features.
    """

    pairs: Pairs
    low: FloatArray
    high: FloatArray
    n_samples: int
    is_gridded: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (2 * len(self.low),)

    def row_bound(self) -> Bound:
        return self.pairs.bound(len(self.low))

    @property
    def unit(self) -> float:
        """Unit of the whole numbers; all sums are exact in double precision."""
        return unit_for(self.n_samples)

    @property
    def arithmetic(self) -> float:
        # Each b is rounded to units.
        root = math.sqrt(len(self.low))
        return self.pairs.weight * root * (self.unit / 2 + 2.0**-52)

    @property
    def total_norm(self) -> float:
        return self.n_samples * self.pairs.record_norm(len(self.low))

    def added(self, block: Block) -> tuple[Form, ...]:
        values = nearest(to_unit(block.X, self.low, self.high), self.unit)
        first, second = self.pairs.split(values)
        # The first numbers are whole units already.
        return first, nearest(second, self.unit)

    @property
    def scale(self) -> FloatArray:
        return np.repeat([1.0, self.pairs.weight], len(self.low))

    def read(self, released: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of a, and of b + 1/2, from a released vector."""
        first, second = released.reshape(2, -1)
        return first, second / self.pairs.weight + self.n_samples / 2


def shrunken_mean(total: FloatArray, count: Any, sigma: float) -> FloatArray:
    """Means of values in [-1, 1] from noisy sums and counts; 0 where noise dominates.

    The mean is shrunk as with a uniform prior on [-1, 1] (variance 1/3). `sigma` is the
    standard deviation of the noise in `total`.
    """
    count = np.maximum(count, 0.0)
    below = count**2 + 3 * sigma**2
    mean = np.divide(total * count, below, out=np.zeros_like(total), where=below > 0)
    return np.asarray(np.clip(mean, -1.0, 1.0))


def _squares(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values, values * values - 0.5


def _presence(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    is_missing = np.isnan(values)
    return np.where(is_missing, 0.0, values), np.where(is_missing, -0.5, 0.5)


SQUARES = Pairs(_squares, math.sqrt(2))
PRESENCE = Pairs(_presence, math.sqrt(3))


# --------------------------------------------------- Histograms of all declared columns
# A record has nonnegative weights for a few states; in each part of the record the
# weights have a sum of at most 1. They are rounded down to whole units, so that sums
# are exact in any order. Sensitivities are derived in ``docs/proofs/default.md``,
# Lemma 1.


def even_knots(n_intervals: int) -> tuple[float, ...]:
    """Ends of `n_intervals` intervals of equal length over [-1, 1]."""
    return tuple(np.linspace(-1.0, 1.0, n_intervals + 1).tolist())


@dataclass(frozen=True)
class StateSums(BoundedSum):
    """Sums of the records' weights for each state, and of their targets at each knot.

    Parameters
    ----------
    n_states, n_samples : int
    most_parts : int
        Largest number of parts that one record can have.
    knots : tuple of float, default=()
        Increasing numbers. A target has weights for its two neighbouring knots, in
        proportion to its distance from the other knot, so that the mean over knots is
        the mean of the targets. Empty: targets are not counted.
    n_labels : int, default=0
        Number of labels if targets are labels 0, 1, ..., of which a record has one. Not
        with `knots`.
    norm : {1, 2}, default=2
        Norm of the bound.
    """

    n_states: int
    n_samples: int
    most_parts: int
    knots: tuple[float, ...] = ()
    n_labels: int = 0
    norm: int = 2
    rounding: ClassVar[Any] = np.floor

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_states + self._n_knots,)

    @property
    def _n_knots(self) -> int:
        return len(self.knots) or self.n_labels

    @property
    def _parts(self) -> int:
        return self.most_parts + (self._n_knots > 0)

    def row_bound(self) -> Bound:
        return _of_parts(self._parts, self.norm)

    @property
    def unit(self) -> float:
        """Unit of the whole numbers; all sums are exact in double precision."""
        return unit_for(self.n_samples)

    def added(self, block: Block) -> tuple[Form, ...]:
        forms = list[Form]()
        if self.n_states:
            forms.append(block.X)
        if self.knots:
            forms.append(self._at_knots(block.y))
        if self.n_labels:
            forms.append(Entries((block.y.astype(np.int64),), self.n_labels))
        return tuple(forms)

    def _at_knots(self, targets: FloatArray) -> Entries:
        """The targets' weights for their two neighbouring knots."""
        places = np.array(self.knots)
        last = len(places) - 2
        inside = np.clip(targets, places[0], places[-1])
        knot = np.minimum(np.searchsorted(places, inside, side="right") - 1, last)
        share = (inside - places[knot]) / (places[knot + 1] - places[knot])
        return Entries((knot, knot + 1), last + 2, (1 - share, share))


# ----------------------------- Histograms, cross-tables and moments of declared columns
# A record adds 1 to one entry of each histogram and cross-table, and its value and
# square to the moments of each column that has moments; a user adds the mean over the
# user's rows. Every part is multiplied by a public weight. Sensitivities are derived in
# ``docs/proofs/preprocessing.md``.


class TablePart(ABC):
    """Sums of one kind over the records; public.

    Attributes
    ----------
    zero_out, replace_one : float
        Largest norm of one record's contribution, and largest distance of two
        contributions.
    rounding : float
        Norm of the rounding of a record's contribution, in units.
    n_rounded : int
        Number of entries that are off the grid after multiplication by a user's weight.
    """

    zero_out: ClassVar[float]
    replace_one: ClassVar[float]
    rounding: ClassVar[float] = 0.0
    n_rounded: ClassVar[int] = 0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the sums."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def moved(self, adjacency: Adjacency) -> float:
        """Largest change of the sums by one record."""
        return {"zero_out": self.zero_out, "replace_one": self.replace_one}[adjacency]

    @property
    def factors(self) -> FloatArray:
        """Factor on each sum within the part, of shape (size,)."""
        return np.ones(self.size)

    @abstractmethod
    def added(self, X: np.ndarray, unit: float) -> tuple[Form, ...]:
        """The contribution of each row, in whole multiples of `unit`. Private."""


@dataclass(frozen=True)
class CellCounts(TablePart):
    """Numbers of records in each cell: a histogram, or a cross-table of columns.

    Parameters
    ----------
    columns : tuple of int
        Indices of the columns that hold codes.
    cells : tuple of tuple of int
        For each column, the cell of each code: 0, 1, ..., each at least once.
    """

    zero_out = 1.0
    replace_one = math.sqrt(2)

    columns: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(max(cells) + 1 for cells in self.cells)

    def added(self, X: np.ndarray, unit: float) -> tuple[Form, ...]:
        places = [
            np.array(cells)[X[:, column].astype(np.int64)]
            for column, cells in zip(self.columns, self.cells, strict=True)
        ]
        place = np.ravel_multi_index(places, self.shape)
        return (Entries((place,), self.size),)


@dataclass(frozen=True)
class CellMoments(TablePart):
    """Sums of v and k (v^2 - 1/2) over values v in [-1, 1]; missing values add 0.

    Parameters
    ----------
    column : int
        Index of the column that holds the value; NaN if it is missing.
    """

    # The largest weight of squares that does not increase the bound under replace_one.
    k: ClassVar[float] = math.sqrt(2)
    zero_out = math.sqrt(1.5)
    replace_one = 2.0
    rounding = math.sqrt(2) / 2
    n_rounded = 2

    column: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)

    @property
    def factors(self) -> FloatArray:
        return np.array([1.0, self.k])

    def added(self, X: np.ndarray, unit: float) -> tuple[Form, ...]:
        values = nearest(X[:, self.column], unit)
        squares = nearest(values * values - 0.5, unit)
        is_missing = np.isnan(values)
        values[is_missing] = squares[is_missing] = 0.0
        return values, squares


@dataclass(frozen=True)
class TableSums(BoundedSum):
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
    is_gridded: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(part.size for part in self.parts),)

    def row_bound(self) -> Bound:
        return Bound(
            zero_out=self._moved("zero_out") * ABOVE,
            replace_one=self._moved("replace_one") * ABOVE,
        )

    def _moved(self, adjacency: Adjacency) -> float:
        """Largest change of all parts together, since a record may change all parts."""
        return math.hypot(
            *(
                weight * part.moved(adjacency)
                for part, weight in zip(self.parts, self.weights, strict=True)
            )
        )

    @property
    def unit(self) -> float:
        """Unit to which values are rounded; sums are exact in double precision."""
        return unit_for(self.n_samples)

    @property
    def n_rounded(self) -> int:
        # Weights of counts are rounded down.
        return sum(part.n_rounded for part in self.parts)

    @property
    def arithmetic(self) -> float:
        # Squares are rounded to units.
        roundings = [
            weight * part.rounding
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        return math.hypot(*roundings) * (self.unit + 2.0**-51)

    @property
    def total_norm(self) -> float:
        return self.n_samples * self._moved("zero_out")

    def added(self, block: Block) -> tuple[Form, ...]:
        return tuple(f for part in self.parts for f in part.added(block.X, self.unit))

    @cached_property
    def scale(self) -> FloatArray:
        """Factor on each sum in the vector."""
        pairs = zip(self.parts, self.weights, strict=True)
        return np.concatenate([weight * part.factors for part, weight in pairs])

    def read(self, released: FloatArray) -> list[FloatArray]:
        """The sums of each part from a released vector; this is post-processing."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        return [
            found.reshape(part.shape)
            for found, part in zip(
                np.split(released / self.scale, ends), self.parts, strict=True
            )
        ]
