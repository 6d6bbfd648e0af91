"""How many records have each code of some columns, as one vector.

A record adds 1 to one number of each column, a row of a user its share. Sensitivities
are derived in ``docs/proofs/newton_boosting.md``, Lemma 5.
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

# In which shares of rows are counted: exactly for 2^31 rows of a block, or users.
_UNIT = 2.0**-22


@dataclass(frozen=True)
class CodeCounts(Summed):
    """Counts of codes, one column after the other.

    Parameters
    ----------
    columns : tuple of int
        Which columns.
    n_bins : tuple of int
        How many codes each of them has.
    """

    columns: tuple[int, ...]
    n_bins: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self.n_bins),)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        n_columns = len(self.columns)
        return Bound(
            zero_out=math.sqrt(n_columns) * (1 + 1e-12),
            replace_one=math.sqrt(2 * n_columns) * (1 + 1e-12),
        ).of_shares()

    def slack(self, layout: Layout) -> float:
        # Counts are whole units, and exact; rounded down, shares are shares still.
        return 0.0

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total = WholeSum(self.shape)
        for block in blocks_of(reader, rows):
            units = np.floor(counted(np.full(len(block.y), 1 / _UNIT), block.present))
            is_there = units > 0
            codes, units = block.X[is_there], units[is_there]
            each = [
                np.bincount(codes[:, column], units, minlength=size)
                for column, size in zip(self.columns, self.n_bins, strict=True)
            ]
            total.add(np.concatenate(each))
        return (total,)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * _UNIT
