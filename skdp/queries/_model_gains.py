"""Sums of how much less is lost with shares of boosted trees than with none.

Raw predictions follow from released values, so that a record's gains are a function of
the record alone; each is clipped. Sensitivities are derived in
``docs/proofs/newton_boosting.md``, Lemma 7.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.data._source import Source
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_sums import WholeSum, unit_for
from skdp.queries._leaf_sums import LeafReader, LeafSums, Trees
from skdp.queries._loss_facts import PLAIN, LeafLoss, LossFacts
from skdp.queries._summed import Summed, Sums

# Sums of terms up to it are exact in double precision.
MOST_GAIN = 64.0


@dataclass(frozen=True, eq=False)
class ModelGains(Summed):
    """Sums of the gains by shares of what all trees add to raw predictions.

    Its source is that of `LeafSums`, whose reader it shares.

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared", "poisson", "quantile"}
    trees : Trees
    start : ndarray of float64 of shape (n_outputs,)
        Released raw predictions before any tree.
    values : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        Released.
    shares : tuple of float
        In (0, 1].
    clip : float in (0, 64]
        A record's gain by a share is clipped to so many times the share.
    n_samples : int
    facts : LossFacts
    """

    loss: LeafLoss
    trees: Trees
    start: FloatArray
    values: FloatArray
    shares: tuple[float, ...]
    clip: float
    n_samples: int
    facts: LossFacts = PLAIN

    def __post_init__(self) -> None:
        if not 0 < self.clip <= MOST_GAIN:
            raise ValueError(
                "Gains must be clipped to a number above 0 and up to 64. "
                f"Got {self.clip}. Use less."
            )

    @property
    def norm(self) -> float:
        """Of a record's gains together, at most."""
        return self.clip * math.hypot(*self.shares) * (1 + 1e-12)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.shares),)

    @property
    def family(self) -> Hashable:
        return (LeafSums, self.trees, len(self.start))

    @property
    def unit(self) -> float:
        """Whole numbers are summed in this; all sums are exact in double precision."""
        return unit_for(self.n_samples, MOST_GAIN)

    def bound(self) -> Bound:
        return Bound(zero_out=self.norm, replace_one=2 * self.norm).of_shares()

    def slack(self, layout: Layout) -> float:
        # Each gain of a record, or of a user's rows, is rounded to units, twice for
        # neighbours.
        one = layout.rows_of_unit * (self.unit / 2 + self.clip * UNIT_ROUNDOFF)
        return 2 * math.sqrt(len(self.shares)) * one

    def open(self, source: Source) -> LeafReader:
        return LeafReader(source, self.trees, len(self.start))

    def whole_sums(self, reader: LeafReader, rows: IntArray | None) -> Sums:
        raw = reader.raw(self.start, self.values)
        limits = np.asarray(self.shares), self.clip, 1 / self.unit
        facts = self.facts.numbers(self.loss, len(self.start))
        sums = reader.gains(self.loss, facts, raw, self.start, *limits, rows)
        return (WholeSum.of(sums),)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * self.unit
