"""Sums of shares in states: the histograms of all declared columns as one vector.

A record has shares in a few states, at least 0, which add up to at most 1 in each of
its parts. Sensitivities are derived in ``docs/proofs/preconditioning.md``, Lemma 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp._rows import scale_rows
from skdp.data import Source
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of


@dataclass(frozen=True)
class StateSums:
    """How much all records together are in each state.

    Parameters
    ----------
    n_states, n_samples : int
    most_parts : int
        In how many parts one record can be at once.
    """

    n_states: int
    n_samples: int
    most_parts: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_states,)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        return Bound(
            zero_out=math.sqrt(self.most_parts) * (1 + 1e-12),
            replace_one=math.sqrt(2 * self.most_parts) * (1 + 1e-12),
        )

    def slack(self, layout: Layout) -> float:
        # As in Lemma 4 of docs/proofs/noisy_gd.md: n / b blocks of b records.
        n, b = self.n_samples, layout.largest_block
        summation = 2 * n * (b + n / b + 16) * UNIT_ROUNDOFF
        return math.sqrt(self.most_parts) * summation

    def open(self, source: Source) -> Source:
        return source

    def total(self, reader: Source, rows: IntArray | None) -> FloatArray:
        total = np.zeros(self.n_states)
        for block in blocks_of(reader, rows):
            X = block.X
            if block.present is not None:
                X = scale_rows(X, block.present.astype(np.float64))
            total += np.asarray(X.sum(axis=0)).ravel()
        return total
