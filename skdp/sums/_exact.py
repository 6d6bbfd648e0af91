"""Exact sums of whole numbers on a public grid, which are equal in any order."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.tables._source import Block, Source

# ----------------------------------------------- Sums of whole numbers of a public unit
# Multiples of a power of two add up in double precision without rounding as long as no
# sum exceeds 2^53 units, so the order of records, blocks, threads and vector lanes does
# not matter. If terms are products, whole numbers are kept in two words.


# Finest unit, in bits below the largest term; finer units would not help.
_FINEST = 40
# Bits of the lower word.
_LOW_BITS = 32


def unit_for(n_samples: int, most: float = 1.0) -> float:
    """A power of two, in units of which `n_samples` terms up to `most` add exactly.

    Parameters
    ----------
    n_samples : int
    most : float in (0, inf)
        Largest magnitude of a term.
    """
    bits = math.ceil(math.log2(max(n_samples, 2))) + math.ceil(math.log2(most))
    return 2.0 ** -min(_FINEST, 52 - bits)


def nearest(values: FloatArray, unit: float) -> FloatArray:
    """Values rounded to multiples of a power of two; NaN stays NaN."""
    return _on_grid(values, unit, np.rint)


def below(values: FloatArray, unit: float) -> FloatArray:
    """The largest multiples of a power of two that are at most the values."""
    return _on_grid(values, unit, np.floor)


def _on_grid(values: FloatArray, unit: float, rounded: Any) -> FloatArray:
    scaled: FloatArray = values * (1 / unit)
    rounded(scaled, out=scaled)
    scaled *= unit
    return scaled


def total_rounding(n_samples: int, record_norm: float, n_steps: int = 1) -> float:
    """Bound on the effect of rounding on the distance of two neighbours' totals.

    A total is at most `n_samples` times `record_norm`, and each of `n_steps` operations
    on it rounds to nearest.
    """
    return 2 * (n_steps + 1) * n_samples * record_norm * UNIT_ROUNDOFF


class WholeSum:
    """An exact sum of arrays of whole numbers, the same for any order and any parts.

    Parameters
    ----------
    shape : tuple of int
    bits : int in [0, 62], default=62
        A row adds at most 2^bits to any sum.
    """

    def __init__(self, shape: tuple[int, ...], bits: int = 62) -> None:
        self._high = np.zeros(shape, dtype=np.int64)
        self._low = np.zeros(shape, dtype=np.int64)
        self._most, self._rows = 2 ** (62 - bits), 0

    def add(self, terms: Any, n_rows: int = 1) -> None:
        """Add the sum over `n_rows` rows, an array of int64 or float64.

        It must consist of whole numbers of magnitude at most 2^62.
        """
        if self._rows + n_rows > self._most:
            self._carry()
        self._low += np.asarray(terms).astype(np.int64, copy=False)
        self._rows += n_rows

    def _carry(self) -> None:
        carried: IntArray = self._low >> _LOW_BITS
        self._high += carried
        self._low -= carried << _LOW_BITS
        self._rows = 0  # the remainder is far below the last bit of 64

    def include(self, other: WholeSum) -> None:
        self._carry()
        other._carry()
        self._high += other._high
        self._low += other._low

    def value(self) -> FloatArray:
        """The total, rounded once."""
        # Both words are exact: with few records the upper word is below 53 bits.
        self._carry()
        return np.asarray(self._high * 2.0**_LOW_BITS + self._low)


# --------------------------------------------- Public grids for exact sums over records
# Rows are integers of 22 bits, residuals of 18 bits and weights of 30 bits. All sums of
# products of a row with weights, and of 2^13 rows with residuals, are integers below
# 2^53, so they are exact in double precision for any order of addition. See Lemma 11 of
# ``docs/proofs/gradient_descent.md``.


ROW_BITS, RESIDUAL_BITS = 22, 18
# Number of products of rows and residuals whose sum is exact in double precision.
MOST_ROWS = 2 ** (53 - ROW_BITS - RESIDUAL_BITS)
_WEIGHT_BITS = 30
# Powers of two from this exponent on are ordinary doubles, with room for rows' units.
_LEAST_EXPONENT = -900


def norm_exponent(weights: FloatArray) -> int:
    """The smallest e with ``|weights| < 2^e``, up to rounding; public."""
    largest = float(np.max(np.abs(weights), initial=0.0))
    if largest == 0.0:
        return _LEAST_EXPONENT + _WEIGHT_BITS
    # Squares of very large weights overflow, and squares of very small ones underflow.
    norm = largest * float(np.linalg.norm(weights / largest))
    return max(math.frexp(norm)[1], _LEAST_EXPONENT + _WEIGHT_BITS)


def on_grid(weights: FloatArray, bits: int = _WEIGHT_BITS) -> FloatArray:
    """Released weights, rounded to 2^-bits of their norm; post-processing."""
    unit = 2.0 ** (norm_exponent(weights) - bits)
    units = np.floor(weights / unit + 0.5)
    return np.asarray(units * unit)


def units_of(weights: FloatArray) -> tuple[IntArray, float]:
    """Weights of `on_grid` as integers, of norm below 2^33, and their unit."""
    # Two more bits, since rounding may have moved the norm above a power of two.
    unit = 2.0 ** (norm_exponent(weights) - _WEIGHT_BITS - 2)
    return (weights / unit).astype(np.int64), unit


# ----------------------------------------- Queries whose answer follows from exact sums
# Parts of the records can be added up separately, because exact sums do not depend on
# the place of a record, on the division into parts, or on the order of the parts.


# Sums of whole numbers, one for each kind of number. Private.
Sums = tuple[WholeSum, ...]


class Summed(ABC):
    """A query whose answer follows from sums of whole numbers alone."""

    @property
    def is_whole(self) -> bool:
        """Whether the answer follows from sums of whole numbers; public."""
        return True

    @abstractmethod
    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        """The sums over all records of a reader, or over `rows`. Private."""

    @abstractmethod
    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        """The exact answer. Private; no record of `source` is read."""

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        """The exact answer over all records, or over increasing `rows`. Private."""
        return self.from_whole(reader, self.whole_sums(reader, rows))


def added(parts: list[Sums]) -> Sums:
    """Sums over the union of one or more parts."""
    total, *others = parts
    for part in others:
        for own, other in zip(total, part, strict=True):
            own.include(other)
    return total


# ---------------------------------------------------------------- Blocks of chosen rows


def blocks_of(source: Source, rows: IntArray | None) -> Iterator[Block]:
    """All blocks, or the chosen rows of each; `rows` are increasing. Private."""
    return source.blocks() if rows is None else chosen(source.blocks(), rows)


def chosen(blocks: Iterable[Block], rows: IntArray) -> Iterator[Block]:
    """The chosen rows of blocks that have any; `rows` are increasing. Private."""
    start = 0
    for block in blocks:
        end = start + len(block.y)
        first, last = np.searchsorted(rows, [start, end])
        if first < last:
            yield block.part(rows[first:last] - start)
        start = end
