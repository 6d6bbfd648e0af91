"""Sums over records of one bounded number each, of their probabilities, or their rows.

Every number is clipped to a public interval and rounded to a whole multiple of a public
power of two, so that sums are exact in any order. Sensitivities are derived in
``docs/proofs/centred_descent.md``, Lemma 3.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray, IntArray
from skdp._rows import row_norms, scale_rows, with_entries
from skdp.data._source import Block, Source, counted
from skdp.losses._base import Loss
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum, nearest, unit_for
from skdp.queries._grid import on_grid
from skdp.queries._grid_rows import gridded
from skdp.queries._row_grid import LONGEST, grid_rows, squares_of
from skdp.queries._summed import Summed, Sums

# Charged on top of a bound, for the rounding of the bound itself.
_ROUNDED = 1 + 1e-12
# A ratio's denominator is at least this, so that it can be divided by.
_LEAST_VARIANCE = 1e-100


def _squares(rows: FloatArray) -> FloatArray:
    """Squared length of each row, added up in one order whatever stands beside it."""
    squares = rows[:, 0] ** 2
    for output in range(1, rows.shape[1]):
        squares = squares + rows[:, output] ** 2
    return np.asarray(squares)


@dataclass(frozen=True, eq=False)
class RecordSum(Summed):
    """Sum of one number per record, or a few, in an interval that contains 0.

    Parameters
    ----------
    n_samples : int
    """

    n_samples: int

    @property
    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """What a record's number is clipped to; public."""

    @abstractmethod
    def numbers(self, block: Block) -> FloatArray:
        """Of each row of a block, by itself, before they are clipped. Private.

        Of shape (n_rows,), or (n_rows, n_numbers).
        """

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def family(self) -> Hashable:
        return RecordSum

    @property
    def _largest(self) -> float:
        low, high = self.interval
        return max(-low, high)

    def bound(self) -> Bound:
        low, high = self.interval
        return Bound(
            zero_out=self._largest * _ROUNDED, replace_one=(high - low) * _ROUNDED
        ).of_shares()

    @property
    def unit(self) -> float:
        """Numbers are summed in whole multiples of this."""
        largest = 2.0 ** math.ceil(math.log2(self._largest))
        return largest * unit_for(self.n_samples)

    def slack(self, layout: Layout) -> float:
        # Two records, or the rows of two users, each rounded by half a unit.
        return layout.rows_of_unit * math.sqrt(math.prod(self.shape)) * self.unit

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        low, high = self.interval
        total, unit = WholeSum(self.shape), self.unit
        for block in blocks_of(reader, rows):
            numbers = np.clip(np.nan_to_num(self.numbers(block)), low, high)
            numbers = nearest(counted(numbers, block.present), unit)
            total.add(np.atleast_1d(numbers.sum(axis=0) / unit))
        return (total,)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * self.unit


@dataclass(frozen=True, eq=False)
class TargetSum(RecordSum):
    """Sum of the targets less a middle.

    Parameters
    ----------
    middle : float
        Released or public.
    half : float in (0, inf)
        To which the differences are clipped; likewise.
    """

    middle: float
    half: float

    @property
    def interval(self) -> tuple[float, float]:
        return -self.half, self.half

    def numbers(self, block: Block) -> FloatArray:
        return np.asarray(block.y - self.middle, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PredictionSum(RecordSum):
    """Sum of centred rows times released weights of one output.

    Parameters
    ----------
    coef : ndarray of float64 of shape (n_features, 1)
        Released.
    clip : float in (0, inf)
    """

    coef: FloatArray
    clip: float

    @property
    def interval(self) -> tuple[float, float]:
        return -self.clip, self.clip

    def numbers(self, block: Block) -> FloatArray:
        return np.asarray(gridded(block.X, 1.0).raw(on_grid(self.coef))[:, 0])


@dataclass(frozen=True, eq=False)
class ProbabilitySum(RecordSum):
    """Sum of the probabilities of the second of two labels, or of each of several.

    Parameters
    ----------
    loss : LogisticLoss or SoftmaxLoss
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released.
    constant : ndarray of float64 of shape (n_outputs,)
        Added to predictions; released.
    clip : float in (0, 1]
        Released; 1 for several labels.
    """

    loss: Loss
    coef: FloatArray
    constant: FloatArray
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.loss.n_outputs,)

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, self.clip

    def bound(self) -> Bound:
        if self.loss.n_outputs == 1:
            return super().bound()
        # Probabilities of a record add up to 1: they have at most that norm, and those
        # of two records are at most as far apart as two labels.
        return Bound(zero_out=_ROUNDED, replace_one=math.sqrt(2) * _ROUNDED).of_shares()

    def numbers(self, block: Block) -> FloatArray:
        raw = gridded(block.X, 1.0).raw(on_grid(self.coef)) + self.constant
        # Residuals of a record of the first label.
        found = self.loss.residual(np.zeros(len(raw)), raw)
        if self.loss.n_outputs == 1:
            return np.asarray(found[:, 0])
        found[:, 0] += 1
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class ErrorSum(RecordSum):
    """Sum of the lengths of residuals at released weights.

    Parameters
    ----------
    loss : Loss
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released.
    offset : ndarray of float64 of shape (n_outputs,)
        Added to predictions; released.
    clip : float in (0, inf)
        Largest length that counts; public or released.
    """

    loss: Loss
    coef: FloatArray
    offset: FloatArray
    clip: float

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, self.clip

    def numbers(self, block: Block) -> FloatArray:
        raw = gridded(block.X, 1.0).raw(on_grid(self.coef)) + self.offset
        return np.asarray(np.sqrt(_squares(self.loss.residual(block.y, raw))))


@dataclass(frozen=True, eq=False)
class NoiseRatio(RecordSum):
    """Sum of squared predictions over the variance that noise alone gives them.

    Parameters
    ----------
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released. Where outputs are centred, they add up to 0 in each prediction.
    variance : ndarray of float64 of shape (n_states,) or (1,)
        Of a prediction in each state, were the weights noise; or of rows of norm 1, in
        any direction. Released or public.
    most : float in (0, inf)
        To which a record's ratio is clipped.
    """

    coef: FloatArray
    variance: FloatArray
    most: float

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, self.most

    def numbers(self, block: Block) -> FloatArray:
        rows = gridded(block.X, 1.0)
        squares = _squares(rows.raw(on_grid(self.coef)))
        if len(self.variance) == 1:
            variance = self.variance[0] * np.minimum(row_norms(block.X), 1.0) ** 2
        else:
            variance = rows.variance_of(self.variance)
        return np.asarray(squares / np.maximum(variance, _LEAST_VARIANCE))


@dataclass(frozen=True, eq=False)
class RowSum(Summed):
    """Sums of rows clipped to a norm, over that norm, and of their squared norms.

    Parameters
    ----------
    n_samples, n_features : int
    data_norm : float in (0, inf)
    """

    n_samples: int
    n_features: int
    data_norm: float
    # What squared norms count: more would add to the bound of all numbers.
    weight: ClassVar[float] = 0.5

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_features + 1,)

    @property
    def family(self) -> Hashable:
        return RowSum

    def bound(self) -> Bound:
        # Of a row of norm 1; of two rows that are opposite.
        one = math.hypot(1.0, self.weight) * _ROUNDED
        return Bound(zero_out=one, replace_one=2 * one).of_shares()

    def slack(self, layout: Layout) -> float:
        # Rows are cut towards 0, and sums of whole numbers are exact.
        return 0.0

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total = WholeSum(self.shape)
        for block in blocks_of(reader, rows):
            entries = grid_rows(block.X, self.data_norm)
            squares = np.minimum(squares_of(entries) / LONGEST, LONGEST)
            if block.present is not None:
                shares = counted(np.ones(len(block.y)), block.present)
                entries, squares = scale_rows(entries, shares), squares * shares
            if issparse(entries):
                entries = with_entries(entries, np.trunc(entries.data))
            else:
                entries = np.trunc(entries)
            sums = np.asarray(entries.sum(axis=0)).ravel()
            total.add(np.append(sums, np.floor(squares).sum()))
        return (total,)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        found = sums[0].value() / LONGEST
        found[-1] *= self.weight
        return found

    @classmethod
    def read(cls, released: FloatArray) -> tuple[FloatArray, float]:
        """Sums of rows, and of their squared norms; post-processing."""
        return released[:-1], float(released[-1]) / cls.weight
