"""Sums of clipped residuals of ratings, where who rated what is public.

Ratings are counted from the middle of their bounds in units of the bounds' width, so
that no choice of units overflows. Proofs: ``docs/proofs/mf_rating_value.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.decomposition._pattern_embedding import values_of
from skdp.decomposition._prediction_parts import Part
from skdp.decomposition._rating_source import RatingSource
from skdp.decomposition._ratings import Pattern
from skdp.privacy._query import Bound, Layout


@dataclass(frozen=True, eq=False)
class RatingValues:
    """Values of which residuals are taken, and in what units.

    `pattern` is public, and `bounds` are those of the ratings.
    """

    pattern: Pattern
    bounds: tuple[float, float]

    def read(self, source: RatingSource) -> FloatArray:
        """Values in the units of the queries, pair by pair. Private."""
        low, high = self.bounds
        values = np.asarray(source.ratings.values, dtype=np.float64)
        return np.asarray((values - (low / 2 + high / 2)) / (high - low))


@dataclass(frozen=True, eq=False)
class ResidualSum:
    """A part's sums over residuals against predictions, which are released.

    Residuals, clipped to `clip`, are multiplied with rows of norm at most 1 of `part`,
    which is public by now; `predictions`, of shape (n_ratings,), are in the units of
    the queries.
    """

    family: RatingValues
    part: Part
    predictions: FloatArray
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape(self.family.pattern)

    def bound(self) -> Bound:
        return Bound(rating_value=2 * self.clip)

    def slack(self, layout: Layout) -> float:
        # The difference, so that bound and slack add up to the product itself.
        whole = residual_sensitivity(self.clip, self.family.pattern)
        return whole - 2 * self.clip

    def open(self, source: RatingSource) -> FloatArray:
        return self.family.read(source)

    def total(self, reader: FloatArray, rows: IntArray | None) -> FloatArray:
        residuals = clipped(reader - self.predictions, self.clip)
        return self.part.sums(values_of(self.family.pattern, residuals))


def clipped(residuals: FloatArray, clip: float) -> FloatArray:
    """Within twice the clip of each other, whatever the values were."""
    return np.clip(residuals, -clip, clip)


def residual_sensitivity(clip: float, pattern: Pattern) -> float:
    """Of sums of residuals within `clip` times rows of norm 1: Lemmas 1 and 3."""
    longest = max(
        pattern.by_user.counts.max(initial=0), pattern.by_item.counts.max(initial=0)
    )
    terms = int(longest) + max(pattern.n_users, pattern.n_items) + 256
    return 2 * clip * (1 + 4 * len(pattern) * terms * UNIT_ROUNDOFF)
