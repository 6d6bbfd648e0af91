"""Counts at or below thresholds, centred, as one vector.

A record adds, for each threshold of its features, 1/2 if it is at or below and -1/2 if
it is above; the null record adds 0. Sensitivities are derived in
``docs/proofs/preprocessing.md``, Lemmas 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Source, counted
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum
from skdp.queries._summed import Summed, Sums

# In which shares of a half are summed, exactly for 2^16 rows of a block.
_UNIT = 2.0**-30


@dataclass(frozen=True, eq=False)
class Counts(Summed):
    """Half of (at or below - above), for two thresholds of each feature.

    `thresholds`, of shape (2, n_features), are public, or released.
    """

    thresholds: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.thresholds.size,)

    @property
    def family(self) -> Hashable:
        return Counts

    def bound(self) -> Bound:
        return count_bound(self.thresholds.shape[1])

    def slack(self, layout: Layout) -> float:
        # Halves are whole units; shares of halves are rounded to them.
        rows = layout.rows_of_unit
        return 2 * rows * math.sqrt(self.thresholds.size) * _UNIT / 2 * (rows > 1)

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total = WholeSum(self.shape)
        for block in blocks_of(reader, rows):
            parts = [
                np.where(threshold >= block.X, 0.5 / _UNIT, -0.5 / _UNIT)
                for threshold in self.thresholds
            ]
            units = [np.rint(counted(part, block.present)) for part in parts]
            total.add(np.concatenate([part.sum(axis=0) for part in units]))
        return (total,)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * _UNIT

    def at_or_below(self, released: FloatArray, n_samples: int) -> FloatArray:
        """The counts that a released vector stands for; post-processing."""
        return released.reshape(self.thresholds.shape) + n_samples / 2


def count_bound(n_features: int) -> Bound:
    """L2 bounds on the centred counts of two thresholds for each feature."""
    return Bound(
        zero_out=math.sqrt(n_features / 2) * (1 + 1e-12),
        replace_one=math.sqrt(2 * n_features) * (1 + 1e-12),
    ).of_shares()
