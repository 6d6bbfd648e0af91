"""Public grids, on which sums over records are sums of integers: exact in any order.

Rows are integers of 22 bits, residuals of 18, weights of 30: every sum of products of a
row with weights, and of 2^13 rows with residuals, is an integer below 2^53, which
double precision holds whatever is added first. Lemma 4 of ``docs/proofs/noisy_gd.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray, IntArray
from skdp.queries._exact_sums import WholeSum

ROW_BITS, RESIDUAL_BITS = 22, 18
# Of products whose sums double precision holds.
MOST_ROWS = 2 ** (53 - ROW_BITS - RESIDUAL_BITS)
_WEIGHT_BITS = 30
# From where on powers of two are ordinary doubles, with room for those of rows.
_LEAST_EXPONENT = -900


def norm_exponent(weights: FloatArray) -> int:
    """The least e of which ``|weights| < 2^e``, but for rounding; public."""
    largest = float(np.max(np.abs(weights), initial=0.0))
    if largest == 0.0:
        return _LEAST_EXPONENT + _WEIGHT_BITS
    # Squares of the largest weights overflow, those of the smallest vanish.
    norm = largest * float(np.linalg.norm(weights / largest))
    return max(math.frexp(norm)[1], _LEAST_EXPONENT + _WEIGHT_BITS)


def on_grid(weights: FloatArray, bits: int = _WEIGHT_BITS) -> FloatArray:
    """Released weights, rounded to 2^-bits of their norm; post-processing."""
    unit = 2.0 ** (norm_exponent(weights) - bits)
    units = np.floor(weights / unit + 0.5)
    return np.asarray(units * unit)


def units_of(weights: FloatArray) -> tuple[IntArray, float]:
    """Weights of `on_grid` as integers, of norm below 2^33, and their unit."""
    # Two bits more: rounding may have carried the norm over a power of two.
    unit = 2.0 ** (norm_exponent(weights) - _WEIGHT_BITS - 2)
    return (weights / unit).astype(np.int64), unit


class ExactTotal:
    """Sums of integers in two words, the same for any order and any parts.

    Parameters
    ----------
    shape : tuple of int
    bits : int in [0, 62]
        No record adds more than 2^bits to any of the sums.
    """

    def __init__(self, shape: tuple[int, ...], bits: int) -> None:
        self._low = np.zeros(shape, dtype=np.int64)
        self._high = np.zeros(shape, dtype=np.int64)
        self._most, self._rows = 2 ** (62 - bits), 0

    def add(self, part: NDArray[np.int64], n_rows: int) -> None:
        """Add what `n_rows` records, at most ``2^(62 - bits)``, sum up to."""
        if self._rows + n_rows > self._most:
            self._carry()
        self._low += part
        self._rows += n_rows

    def _carry(self) -> None:
        self._high += self._low >> 32
        self._low &= 0xFFFFFFFF
        self._rows = 0  # what is left is far below the last bit of 64

    def whole(self) -> WholeSum:
        return WholeSum.of_words(self._high, self._low)

    def value(self) -> FloatArray:
        """The sums, each rounded once."""
        return self.whole().value()
