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
    """How much all records together are in each state, and their targets at each knot.

    Parameters
    ----------
    n_states, n_samples : int
    most_parts : int
        In how many parts one record can be at once.
    n_intervals : int, default=0
        Between knots that are evenly spread over [-1, 1], in which targets are a part
        of their own; 0 asks of no targets.
    """

    n_states: int
    n_samples: int
    most_parts: int
    n_intervals: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_states + self._n_knots,)

    @property
    def _n_knots(self) -> int:
        return self.n_intervals + 1 if self.n_intervals else 0

    @property
    def _parts(self) -> int:
        return self.most_parts + (self.n_intervals > 0)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        return Bound(
            zero_out=math.sqrt(self._parts) * (1 + 1e-12),
            replace_one=math.sqrt(2 * self._parts) * (1 + 1e-12),
        )

    def slack(self, layout: Layout) -> float:
        # As in Lemma 4 of docs/proofs/noisy_gd.md: n / b blocks of b records.
        n, b = self.n_samples, layout.largest_block
        summation = 2 * n * (b + n / b + 16) * UNIT_ROUNDOFF
        return math.sqrt(self._parts) * summation

    def open(self, source: Source) -> Source:
        return source

    def total(self, reader: Source, rows: IntArray | None) -> FloatArray:
        states, knots = np.zeros(self.n_states), np.zeros(self._n_knots)
        for block in blocks_of(reader, rows):
            X, y = block.X, block.y
            if block.present is not None:
                X = scale_rows(X, block.present.astype(np.float64))
                y = y[block.present]
            if self.n_states:
                states += np.asarray(X.sum(axis=0)).ravel()
            if self.n_intervals:
                knots += _at_knots(y, self.n_intervals)
        return np.concatenate([states, knots])


def _at_knots(targets: FloatArray, n_intervals: int) -> FloatArray:
    """Sums of the targets' shares in their two neighbouring knots."""
    places = (np.clip(targets, -1.0, 1.0) + 1) / 2 * n_intervals
    knot = np.minimum(places.astype(np.int64), n_intervals - 1)
    share = places - knot
    sums = np.bincount(knot, 1 - share, n_intervals + 1)
    return np.asarray(sums + np.bincount(knot + 1, share, n_intervals + 1))
