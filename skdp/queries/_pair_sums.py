r"""Sums over records of two numbers for each feature, as one vector.

In units of the declared bounds a value is v in [-1, 1]. One record contributes, for
each feature, (a, k b) with a in [-1, 1] and b in [-1/2, 1/2]:

``SQUARES``
    a = v, b = v^2 - 1/2, k = sqrt(2).
``PRESENCE``
    a = v and b = 1/2 where a value is present, a = 0 and b = -1/2 where it is missing,
    k = sqrt(3).

k is the largest weight that costs nothing under replace_one; b is centred, because the
null record contributes 0. All numbers are rounded to whole units, whose sums are exact
in any order. Sensitivities are derived in ``docs/proofs/preprocessing.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._bounds import to_unit
from skdp._floats import FloatArray, IntArray
from skdp.data._source import Source, counted, has_shares
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum, nearest, total_rounding, unit_for
from skdp.queries._summed import Summed, Sums


@dataclass(frozen=True)
class Pairs:
    """One kind of pairs.

    `split` takes values in [-1, 1] of shape (n_rows, n_features), NaN if missing, to
    (a, b); `weight` is k above.
    """

    split: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    weight: float

    def record_norm(self, n_features: int) -> float:
        """Largest norm of what one record contributes: zero_out, Lemmas 1, 3."""
        return math.sqrt(n_features * (1 + self.weight**2 / 4))

    def record_distance(self, n_features: int) -> float:
        """Largest distance between two contributions: replace_one, Lemmas 2, 4."""
        return 2 * math.sqrt(n_features)

    def bound(self, n_features: int) -> Bound:
        """L2 bounds on the vector of sums, in exact arithmetic."""
        return Bound(
            zero_out=self.record_norm(n_features) * (1 + 1e-12),
            replace_one=self.record_distance(n_features) * (1 + 1e-12),
        ).of_shares()


@dataclass(frozen=True, eq=False)
class PairSums(Summed):
    """The sums of pairs over all records.

    Bounds are the declared ones of the features.
    """

    pairs: Pairs
    low: FloatArray
    high: FloatArray
    n_samples: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (2 * len(self.low),)

    @property
    def family(self) -> Hashable:
        return PairSums

    def bound(self) -> Bound:
        return self.pairs.bound(len(self.low))

    @property
    def unit(self) -> float:
        """Whole numbers are summed in this; all sums are exact in double precision."""
        return unit_for(self.n_samples)

    def slack(self, layout: Layout) -> float:
        # Lemma 7: each b is rounded to units, and the total is multiplied by k.
        root, half = math.sqrt(len(self.low)), self.unit / 2
        # Of users each row's a and b once more, times their shares.
        again = layout.rows_of_unit * half if layout.rows_of_unit > 1 else 0.0
        rounded = self.pairs.weight * root * (half + again + 2.0**-52) + root * again
        halves = self.pairs.weight * root / 2
        return 2 * rounded + total_rounding(self.n_samples, halves)

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        sums = np.zeros((2, len(self.low)))
        for block in blocks_of(reader, rows):
            values = nearest(to_unit(block.X, self.low, self.high), self.unit)
            first, second = self.pairs.split(values)
            # The first are whole already.
            for total, part in zip(
                sums, (first, nearest(second, self.unit)), strict=True
            ):
                part = counted(part, block.present)
                if has_shares(block.present):
                    part = nearest(part, self.unit)
                total += part.sum(axis=0)
        return (WholeSum.of(sums / self.unit),)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        total = sums[0].value() * self.unit
        total[1] *= self.pairs.weight
        return total.ravel()

    def read(self, released: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of a, and of b + 1/2, that a released vector stands for."""
        first, second = released.reshape(2, -1)
        return first, second / self.pairs.weight + self.n_samples / 2


def shrunken_mean(total: FloatArray, count: Any, sigma: float) -> FloatArray:
    """Means of values in [-1, 1] from noisy sums and counts; 0 where noise rules.

    The mean is shrunk as if it had been uniform on [-1, 1] (variance 1/3). `sigma` is
    the standard deviation of the noise in `total`.
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
