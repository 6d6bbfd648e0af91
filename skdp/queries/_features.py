"""Which features: what one record can do to a feature's score.

A feature's score is the norm of its row of the gradient sum, or of that row's distance
from a public place. Proofs: ``docs/proofs/peeling.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.data._source import Source
from skdp.objectives._linear import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_gradient import ExactGradientSum, grid_bound, grid_slack
from skdp.queries._gradient_answer import GradientAnswer
from skdp.queries._grid import on_grid
from skdp.queries._split_gradient import FeaturesPart

# Public places are kept this near, in units of the largest gradient sum: far from
# overflow, and farther than any selection can tell apart.
_FARTHEST = 1e12


def prediction_bound(objective: LinearObjective, weights: FloatArray) -> float:
    """Bound on the norm of any clipped row's raw prediction at released weights."""
    d = objective.n_features
    rows = np.sqrt(np.einsum("ij,ij->i", weights, weights))
    of_entries = objective.entry_bound * float(rows[:d].sum())
    of_rows = objective.data_norm * float(np.linalg.norm(weights[:d], 2))
    constant = objective.intercept_value * float(rows[d:].sum())
    return (min(of_entries, of_rows) + constant) * (1 + 1e-12)


def feature_bound(
    objective: LinearObjective,
    residual_clip: float = math.inf,
    prediction: float = math.inf,
    entry_clip: float = math.inf,
) -> Bound:
    """By how much one record can change any one feature's score, but for rounding.

    Both relations are derived separately on the proof page, Lemma 1.

    Residuals are clipped to the norm `residual_clip` and entries of scores to the
    magnitude `entry_clip`; `prediction` bounds the norm of raw predictions at the
    released weights.
    """
    one_record = min(objective.loss.zero_out_bound(prediction), residual_clip)
    two_records = 2 * one_record
    entry = min(objective.entry_bound, entry_clip)
    bound = Bound(zero_out=entry * one_record, replace_one=entry * two_records)
    return grid_bound(bound, entry, objective, residual_clip).of_shares()


def rows_bound(
    objective: LinearObjective, residual_clip: float, prediction: float
) -> Bound:
    """L2 bound of the features' rows of the gradient sum, but for rounding.

    The intercept moves all predictions by the same number, so that opposite rows may
    have residuals alike: two records count twice (``docs/proofs/two_stage.md``,
    Lemma 2).

    Residuals are clipped to the norm `residual_clip`; `prediction` bounds the norm of
    raw predictions at the released weights.
    """
    one_record = min(objective.loss.zero_out_bound(prediction), residual_clip)
    bound = Bound(
        zero_out=one_record * objective.data_norm,
        replace_one=2 * one_record * objective.data_norm,
    )
    bound = grid_bound(bound, objective.data_norm, objective, residual_clip)
    return bound.of_shares()


class BoundedFeatures(FeaturesPart):
    """The features' rows, bounded by what clipped entries can predict too."""

    def bound(self) -> Bound:
        objective = self.family.objective
        prediction = prediction_bound(objective, self.weights)
        return rows_bound(objective, self.family.residual_clip, prediction)


@dataclass(frozen=True)
class Scores:
    """Features' scores by the gradient of one objective.

    Residuals are clipped to the norm `residual_clip`, and entries to the magnitude
    `entry_clip` in scores, not in predictions. Both may be infinite.
    """

    objective: LinearObjective
    residual_clip: float = math.inf
    entry_clip: float = math.inf

    @property
    def entry_bound(self) -> float:
        """Largest magnitude of an entry in a score."""
        return min(self.objective.entry_bound, self.entry_clip)

    @property
    def largest(self) -> float:
        """Bound on a score without a place."""
        worst = self.objective.loss.zero_out_bound(math.inf)
        return self.objective.n_samples * self.entry_bound * worst

    def at(
        self,
        weights: FloatArray,
        *,
        place: FloatArray | None = None,
        among: IntArray | None = None,
    ) -> Score:
        """The query at released weights.

        `weights`, of shape (n_columns, n_outputs), are released. A score is the norm of
        ``place - gradient sum``; `place`, of shape (n_features, n_outputs), is public,
        None for 0, and so are the candidates `among`, None for all features.
        """
        d = self.objective.n_features
        among = np.arange(d) if among is None else among
        near = np.zeros((len(among), weights.shape[1]))
        if place is not None:
            farthest = _FARTHEST * self.largest
            near = np.clip(place[among], -farthest, farthest)
        return Score(self, on_grid(weights), among, near)


@dataclass(frozen=True, eq=False)
class Score(GradientAnswer):
    """Scores of some features at `weights`, which are released.

    Public: `among`, of shape (n_candidates,), and `place`, of shape (n_candidates,
    n_outputs).
    """

    family: Scores
    weights: FloatArray
    among: IntArray
    place: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.among),)

    def bound(self) -> Bound:
        scores = self.family
        objective, clip = scores.objective, scores.residual_clip
        prediction = prediction_bound(objective, self.weights)
        return feature_bound(objective, clip, prediction, scores.entry_clip)

    def slack(self, layout: Layout) -> float:
        """Lemma 2 of the proof page."""
        scores, length = self.family, float(np.linalg.norm(self.weights))
        objective, clip = scores.objective, scores.residual_clip
        of_sums = grid_slack(objective, layout, scores.entry_bound, length, clip)
        farthest = float(np.linalg.norm(self.place, axis=1).max(initial=0.0))
        largest = farthest + scores.largest
        of_norms = 2 * (objective.loss.n_outputs + 8) * UNIT_ROUNDOFF * largest
        return of_sums + of_norms

    def open(self, source: Source) -> ScoreSum:
        return ScoreSum(source, self.family)

    @property
    def at(self) -> FloatArray:
        return self.weights

    def answer(self, gradient: FloatArray) -> FloatArray:
        difference = self.place - gradient[self.among]
        scores: FloatArray = np.linalg.norm(difference, axis=1)
        return scores

    def read(self, chosen: IntArray) -> IntArray:
        """The features that a choice stands for, in rising order."""
        return np.sort(self.among[chosen])


class ScoreSum(ExactGradientSum):
    """Sums of gradients whose rows are clipped once more, but not for predictions."""

    def __init__(self, source: Source, scores: Scores) -> None:
        super().__init__(source, scores.objective, scores.residual_clip)
        self._entry_clip = scores.entry_bound
        self._is_clipped = scores.entry_bound < scores.objective.entry_bound

    def _in_sums(self, products: Any) -> Any:
        # Of the clipped rows: of the rows as they are, those far beyond `data_norm`
        # would have next to no part in a score.
        return products.clipped(self._entry_clip) if self._is_clipped else products
