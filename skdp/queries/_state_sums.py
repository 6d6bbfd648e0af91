"""Sums of shares in states: the histograms of all declared columns as one vector.

A record has shares in a few states, at least 0, which add up to at most 1 in each of
its parts. They are rounded down to whole units, whose sums are exact in any order.
Sensitivities are derived in ``docs/proofs/centred_descent.md``, Lemma 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray, IntArray
from skdp._rows import scale_rows, with_entries
from skdp.data._source import Source, counted
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum, below, unit_for
from skdp.queries._summed import Summed, Sums


def even_knots(n_intervals: int) -> tuple[float, ...]:
    """Ends of so many intervals of equal length over [-1, 1]."""
    return tuple(np.linspace(-1.0, 1.0, n_intervals + 1).tolist())


@dataclass(frozen=True)
class StateSums(Summed):
    """How much all records together are in each state, and their targets at each knot.

    Parameters
    ----------
    n_states, n_samples : int
    most_parts : int
        In how many parts one record can be at once.
    knots : tuple of float, default=()
        Rising numbers. A target has shares in the two knots beside it, in proportion to
        its distance from the other, so that the mean over knots is that of the targets.
        Empty: targets are not asked for.
    n_labels : int, default=0
        How many labels there are, where targets are labels 0, 1, ...: a record is
        wholly in one of them. Not with `knots`.
    """

    n_states: int
    n_samples: int
    most_parts: int
    knots: tuple[float, ...] = ()
    n_labels: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_states + self._n_knots,)

    @property
    def _n_knots(self) -> int:
        return len(self.knots) or self.n_labels

    @property
    def _parts(self) -> int:
        return self.most_parts + (self._n_knots > 0)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        return Bound(
            zero_out=math.sqrt(self._parts) * (1 + 1e-12),
            replace_one=math.sqrt(2 * self._parts) * (1 + 1e-12),
        ).of_shares()

    @property
    def unit(self) -> float:
        """Whole numbers are summed in this; all sums are exact in double precision."""
        return unit_for(self.n_samples)

    def slack(self, layout: Layout) -> float:
        # Rounded down, shares are shares still, and their sums are exact.
        return 0.0

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        states, knots = np.zeros(self.n_states), np.zeros(self._n_knots)
        for block in blocks_of(reader, rows):
            shares = counted(np.ones(len(block.y)), block.present)
            if self.n_states:
                X = block.X if block.present is None else scale_rows(block.X, shares)
                states += np.asarray(self._whole(X).sum(axis=0)).ravel()
            if self.knots:
                knots += self._at_knots(block.y, shares)
            if self.n_labels:
                own = below(shares, self.unit)
                # What stands in the place of a null record may be no label.
                labels = np.clip(block.y, 0, self.n_labels - 1).astype(np.int64)
                knots += np.bincount(labels, own, self.n_labels)
        return (WholeSum.of(np.concatenate([states, knots]) / self.unit),)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * self.unit

    def _whole(self, X: Any) -> Any:
        """Shares in whole units."""
        if not issparse(X):
            return below(X.astype(np.float64, copy=False), self.unit)
        return with_entries(X, below(X.data.astype(np.float64, copy=False), self.unit))

    def _at_knots(self, targets: FloatArray, own: FloatArray) -> FloatArray:
        """Sums of the targets' shares in their two neighbouring knots.

        `own` is with which share each row counts.
        """
        places = np.array(self.knots)
        last = len(places) - 2
        inside = np.clip(targets, places[0], places[-1])
        knot = np.minimum(np.searchsorted(places, inside, side="right") - 1, last)
        share = (inside - places[knot]) / (places[knot + 1] - places[knot])
        sums = np.bincount(knot, below((1 - share) * own, self.unit), last + 2)
        above = np.bincount(knot + 1, below(share * own, self.unit), last + 2)
        return np.asarray(sums + above)
