"""Scores of features: norms of the rows of a gradient sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.privacy.release._plan import Bound, Layout
from skdp.sums._exact import on_grid
from skdp.sums._gradient import ClippedGradient, LinearGradient

# A feature's score is the norm of its row of the gradient sum, or the distance of that
# row from a public point. Proofs: ``docs/proofs/sparse.md``.


# Public points are clipped to this multiple of the largest gradient sum. It is far from
# overflow, and larger than any selection can distinguish.
_FARTHEST = 1e12


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureScore(LinearGradient):
    """Scores of some features at `weights`, which are released.

    Public: `among`, of shape (n_candidates,), and `place`, of shape (n_candidates,
    n_outputs).
    """

    among: IntArray
    place: FloatArray

    @classmethod
    def of(
        cls,
        gradients: ClippedGradient,
        weights: FloatArray,
        *,
        place: FloatArray | None = None,
        among: IntArray | None = None,
    ) -> Self:
        """The query at released weights.

        `weights`, of shape (n_columns, n_outputs), are released. A score is the norm of
        ``place - gradient sum``. `place`, of shape (n_features, n_outputs), is public,
        None for 0; the candidates `among` are public, None for all features.
        """
        if among is None:
            among = np.arange(gradients.objective.n_features)
        near = np.zeros((len(among), weights.shape[1]))
        if place is not None:
            farthest = _FARTHEST * _largest(gradients)
            near = np.clip(place[among], -farthest, farthest)
        return cls(gradients, on_grid(weights), "features", among=among, place=near)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.among),)

    def bound(self) -> Bound:
        """Largest change of any score: of one entry of a row times the residual."""
        radius = self.family.radius_at(self.weights)
        return self.family.bound(radius, self.part, self.family.entry_bound)

    def slack(self, layout: Layout) -> float:
        """Lemma 2 of the proof page."""
        settings, norm = self.family, self.family.norm_of(self.weights)
        of_sums = settings.grid_slack(layout, settings.entry_bound, norm)
        farthest = float(np.linalg.norm(self.place, axis=1).max(initial=0.0))
        largest = farthest + _largest(settings)
        n_outputs = settings.objective.loss.n_outputs
        return of_sums + 2 * (n_outputs + 8) * UNIT_ROUNDOFF * largest

    def answer(self, gradient: FloatArray) -> FloatArray:
        difference = self.place - super().answer(gradient)[self.among]
        scores: FloatArray = np.linalg.norm(difference, axis=1)
        return scores

    def features(self, chosen: IntArray) -> IntArray:
        """The chosen features, in increasing order."""
        return np.sort(self.among[chosen])


def _largest(gradients: ClippedGradient) -> float:
    """Bound on a score whose place is 0."""
    worst = gradients.objective.loss.zero_out_bound(np.inf)
    return gradients.objective.n_samples * gradients.entry_bound * worst
