"""Scores of features, and gradients of chosen features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._query import Bound, Layout
from skdp.sums._exact import on_grid
from skdp.sums._gradient import (
    ExactGradientSum,
    FeaturesPart,
    GradientAnswer,
    grid_bound,
    grid_slack,
)
from skdp.tables._source import Source
from skdp.tables._views import ColumnsOf

# ------------------------------------------------- Scores of features, and their bounds
# A feature's score is the norm of its row of the gradient sum, or of that row's
# distance from a public place. Proofs: ``docs/proofs/peeling.md``.


# Public places are clipped to this multiple of the largest gradient sum: far from
# overflow, and farther than any selection can distinguish.
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
    """Largest change of any feature's score by one record, before rounding.

    Both relations are derived separately on the proof page, Lemma 1.

    Residuals are clipped to the norm `residual_clip` and entries of scores to the
    magnitude `entry_clip`; `prediction` bounds the norm of raw predictions at the
    released weights.
    """
    one_record = min(objective.loss.zero_out_bound(prediction), residual_clip)
    two_records = 2 * one_record
    entry = min(objective.entry_bound, entry_clip)
    bound = Bound(zero_out=entry * one_record, replace_one=entry * two_records)
    return grid_bound(bound, entry, objective, residual_clip).with_user_bounds()


def rows_bound(
    objective: LinearObjective, residual_clip: float, prediction: float
) -> Bound:
    """L2 bound of the features' rows of the gradient sum, before rounding.

    The intercept moves all predictions by the same number, so that two opposite rows
    may have equal residuals and both count in full (``docs/proofs/two_stage.md``,
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
    return bound.with_user_bounds()


class BoundedFeatures(FeaturesPart):
    """The features' rows; the bound uses what clipped entries can predict."""

    def bound(self) -> Bound:
        objective = self.family.objective
        prediction = prediction_bound(objective, self.weights)
        return rows_bound(objective, self.family.residual_clip, prediction)


@dataclass(frozen=True)
class GradientScores:
    """Features' scores from the gradient of one objective.

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
        """Bound on a score whose place is 0."""
        worst = self.objective.loss.zero_out_bound(math.inf)
        return self.objective.n_samples * self.entry_bound * worst

    def at(
        self,
        weights: FloatArray,
        *,
        place: FloatArray | None = None,
        among: IntArray | None = None,
    ) -> FeatureScore:
        """The query at released weights.

        `weights`, of shape (n_columns, n_outputs), are released. A score is the norm of
        ``place - gradient sum``. `place`, of shape (n_features, n_outputs), is public,
        None for 0; the candidates `among` are public, None for all features.
        """
        d = self.objective.n_features
        among = np.arange(d) if among is None else among
        near = np.zeros((len(among), weights.shape[1]))
        if place is not None:
            farthest = _FARTHEST * self.largest
            near = np.clip(place[among], -farthest, farthest)
        return FeatureScore(self, on_grid(weights), among, near)


@dataclass(frozen=True, eq=False)
class FeatureScore(GradientAnswer):
    """Scores of some features at `weights`, which are released.

    Public: `among`, of shape (n_candidates,), and `place`, of shape (n_candidates,
    n_outputs).
    """

    family: GradientScores
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
        """The chosen features, in rising order."""
        return np.sort(self.among[chosen])


class ScoreSum(ExactGradientSum):
    """Sums of gradients whose rows are clipped again, but not for predictions."""

    def __init__(self, source: Source, scores: GradientScores) -> None:
        super().__init__(source, scores.objective, scores.residual_clip)
        self._entry_clip = scores.entry_bound
        self._is_clipped = scores.entry_bound < scores.objective.entry_bound

    def _in_sums(self, products: Any) -> Any:
        # Clip the rows already clipped to `data_norm`: in rows far beyond `data_norm`
        # an entry would keep almost no part of a score.
        return products.clipped(self._entry_clip) if self._is_clipped else products


# -------------------------------------- Gradients of chosen features, of shortened rows
# Few numbers get noise, in proportion to the norm of the chosen part of a row. Proofs:
# ``docs/proofs/peeling.md``.


# Constant in the intercept's column of a query, in units of the chosen rows' norm.
_INTERCEPT_SHARE = 0.3


@dataclass(frozen=True)
class ValueRows:
    """Public facts of the rows, reduced to chosen features and the intercept.

    `objective` has the chosen columns alone. The chosen part of a row is shortened to
    the norm `row_norm`, and `constant` is the intercept's entry in a row of the query.
    """

    objective: LinearObjective
    row_norm: float
    constant: float

    @classmethod
    def of(cls, objective: LinearObjective, count: int, shortening: float) -> Self:
        """Rows of `count` chosen features, or of the intercept alone if it is 0.

        `shortening` is in units of the norm of rows whose features are all alike.
        """
        # A reader needs at least one column, even for the intercept alone.
        columns = max(1, count)
        norm = min(objective.data_norm, math.sqrt(columns) * objective.entry_bound)
        alike = objective.data_norm * math.sqrt(columns / objective.n_features)
        shortened = min(norm, shortening * alike)
        part = replace(objective, n_features=columns, n_nonzero=columns, data_norm=norm)
        constant = _INTERCEPT_SHARE * shortened if objective.fit_intercept else 0.0
        return cls(part, shortened if count else 0.0, constant)

    @property
    def is_short(self) -> bool:
        """Whether rows are shortened."""
        return 0 < self.row_norm < self.objective.data_norm

    def bound(self, residual_clip: float, prediction: float = math.inf) -> Bound:
        """L2 bound of the values, before rounding; Lemma 3 of the proof page."""
        one_record = min(self.objective.loss.zero_out_bound(prediction), residual_clip)
        two_records = 2 * one_record
        bound = Bound(
            # The factor covers rounding of the length and of the product.
            zero_out=self.length * one_record * (1 + 1e-12),
            replace_one=self.length * two_records * (1 + 1e-12),
        )
        bound = grid_bound(bound, self.length, self.objective, residual_clip)
        return bound.with_user_bounds()

    @property
    def length(self) -> float:
        """Largest norm of a row in the query."""
        # The intercept's entry is a column of the row: one joint norm.
        return math.hypot(self.row_norm, self.constant)


@dataclass(frozen=True)
class Values:
    """Gradients of chosen features and of the intercept.

    `objective` has all features; `chosen` features are released, in rising order.
    Every record's residual is clipped to the norm `residual_clip`; `shortening` is as
    for `ValueRows`. Both may be infinite.
    """

    objective: LinearObjective
    chosen: tuple[int, ...]
    residual_clip: float
    shortening: float

    def at(self, weights: FloatArray) -> Value:
        """The query at released weights of shape (n_columns, n_outputs).

        Weights are 0 except for the chosen features and the intercept.
        """
        return Value(self, weights)

    @cached_property
    def rows(self) -> ValueRows:
        """Public facts of the rows that are summed."""
        return ValueRows.of(self.objective, len(self.chosen), self.shortening)

    @cached_property
    def columns(self) -> IntArray:
        """The columns that a reader reads, at least one even if none is chosen."""
        return np.array(self.chosen or (0,), dtype=np.int64)

    @cached_property
    def read_rows(self) -> IntArray:
        """Rows of the weights that a reader's rows represent, the intercept's last."""
        d = self.objective.n_features
        return np.append(self.columns, np.arange(d, self.objective.n_columns))

    @cached_property
    def is_asked(self) -> NDArray[np.bool_]:
        """Whether each of a reader's rows is released."""
        left_out = len(self.columns) - len(self.chosen)
        return np.arange(len(self.read_rows)) >= left_out

    @cached_property
    def unit(self) -> FloatArray:
        """A reader's weights in units of the weights; its constant differs."""
        unit = np.ones((len(self.read_rows), 1))
        if self.objective.fit_intercept:
            part = self.rows.objective
            unit[-1] = self.objective.intercept_value / part.intercept_value
        return unit

    @cached_property
    def counted(self) -> FloatArray:
        """Factor on each of a reader's rows in the query."""
        counted = np.ones((len(self.read_rows), 1))
        if self.objective.fit_intercept:
            counted[-1] = self.rows.constant / self.rows.objective.intercept_value
        return counted


@dataclass(frozen=True, eq=False)
class Value(GradientAnswer):
    """Gradients of chosen features and of the intercept at `weights`.

    `weights`, of shape (n_columns, n_outputs), are released.
    """

    family: Values
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return int(self.family.is_asked.sum()), self.weights.shape[1]

    @property
    def at(self) -> FloatArray:
        return on_grid(self.weights[self.family.read_rows] * self.family.unit)

    def bound(self) -> Bound:
        rows, clip = self.family.rows, self.family.residual_clip
        prediction = prediction_bound(rows.objective, self.at)
        return rows.bound(clip, prediction)

    def slack(self, layout: Layout) -> float:
        norm, rows = float(np.linalg.norm(self.at)), self.family.rows
        clip = self.family.residual_clip
        return grid_slack(rows.objective, layout, rows.length, norm, clip)

    def open(self, source: Source) -> ValueSum:
        return ValueSum(source, self.family)

    def answer(self, gradient: FloatArray) -> FloatArray:
        counted = self.family.counted * gradient
        return counted[self.family.is_asked]

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum from a released vector, 0 where nothing was released."""
        asked, values = self.family.is_asked, np.zeros_like(self.weights)
        # Division follows the noise, so it reads no record: post-processing.
        unit = (self.family.unit / self.family.counted)[asked]
        values[self.family.read_rows[asked]] = released * unit
        return values


class ValueSum(ExactGradientSum):
    """Sums of gradients of shortened rows; predictions use the rows unshortened."""

    def __init__(self, source: Source, values: Values) -> None:
        rows = values.rows
        columns = ColumnsOf(source, values.columns)
        super().__init__(columns, rows.objective, values.residual_clip)
        self._row_norm, self._is_short = rows.row_norm, rows.is_short

    def _in_sums(self, products: Any) -> Any:
        return products.shortened(self._row_norm) if self._is_short else products
