"""Sums that no order of the terms changes: whole numbers of a public unit.

Multiples of a power of two add up in double precision without rounding while no sum
passes 2^53 of them, so that neither the order of records nor that of blocks, threads or
lanes shows. Where terms are products, whole numbers are kept in two words.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray

# Relative to what is summed, finer ones would tell nothing more.
_FINEST = 40
# Of the lower word.
_LOW_BITS = 32


def unit_for(n_samples: int, most: float = 1.0) -> float:
    """A power of two, in units of which so many terms up to `most` add up exactly.

    Parameters
    ----------
    n_samples : int
    most : float in (0, inf)
        Largest magnitude of a term.
    """
    bits = math.ceil(math.log2(max(n_samples, 2))) + math.ceil(math.log2(most))
    return 2.0 ** -min(_FINEST, 52 - bits)


def nearest(values: FloatArray, unit: float) -> FloatArray:
    """Values rounded to multiples of a power of two; NaN stays."""
    return _on_grid(values, unit, np.rint)


def below(values: FloatArray, unit: float) -> FloatArray:
    """The largest multiples of a power of two that are not above the values."""
    return _on_grid(values, unit, np.floor)


def _on_grid(values: FloatArray, unit: float, rounded: Any) -> FloatArray:
    scaled: FloatArray = values * (1 / unit)
    rounded(scaled, out=scaled)
    scaled *= unit
    return scaled


def total_rounding(n_samples: int, record_norm: float, n_steps: int = 1) -> float:
    """By how much two neighbours' exact totals move apart when they become floats.

    A total is at most `n_samples` times `record_norm`; each of `n_steps` operations on
    it rounds to nearest.
    """
    return 2 * (n_steps + 1) * n_samples * record_norm * UNIT_ROUNDOFF


class WholeSum:
    """A sum of arrays of whole numbers, exact whatever their number.

    Parameters
    ----------
    shape : tuple of int
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high = np.zeros(shape, dtype=np.int64)
        self._low = np.zeros(shape, dtype=np.int64)

    def add(self, terms: Any) -> None:
        """Add whole numbers below 2^62, an array of int64 or of float64."""
        self._low += np.asarray(terms).astype(np.int64, copy=False)
        carried: IntArray = self._low >> _LOW_BITS
        self._high += carried
        self._low -= carried << _LOW_BITS

    @classmethod
    def of(cls, terms: Any) -> Self:
        """A sum of one array of whole numbers below 2^62."""
        total = cls(np.shape(terms))
        total.add(terms)
        return total

    @classmethod
    def of_words(cls, high: IntArray, low: IntArray) -> Self:
        """What two words stand for, the lower one not yet carried."""
        total = cls.of(low)
        total._high += high
        return total

    def include(self, other: WholeSum) -> None:
        self._high += other._high
        self.add(other._low)

    def value(self) -> FloatArray:
        """The total, rounded once."""
        # Both words are exact: the upper one has fewer than 53 bits of so few records.
        return np.asarray(self._high * 2.0**_LOW_BITS + self._low)
