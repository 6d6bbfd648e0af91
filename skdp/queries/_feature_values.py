"""Gradients of some chosen features and of the intercept, of shortened rows.

Noise for few numbers, in proportion to the norm of the chosen part of a row. Proofs:
``docs/proofs/peeling.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Source
from skdp.data._views import ColumnsOf
from skdp.objectives._linear import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_gradient import ExactGradientSum, grid_bound, grid_slack
from skdp.queries._features import prediction_bound
from skdp.queries._gradient_answer import GradientAnswer
from skdp.queries._grid import on_grid

# Constant in the intercept's column of a query, in units of the chosen rows' norm.
_INTERCEPT_SHARE = 0.3


@dataclass(frozen=True)
class ValueRows:
    """Public facts of the rows of some chosen features and the intercept.

    `objective` is of the chosen columns alone. The chosen part of a row is shortened to
    the norm `row_norm`, and the intercept's row of the query counted with `constant`.
    """

    objective: LinearObjective
    row_norm: float
    constant: float

    @classmethod
    def of(cls, objective: LinearObjective, count: int, shortening: float) -> Self:
        """For `count` chosen features; without one, of the intercept alone.

        `shortening` is in units of the norm of rows whose features are all alike.
        """
        # Records without a column could not be read, not even for the intercept.
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
        """L2 bound of the values, but for rounding; Lemma 3 of the proof page."""
        one_record = min(self.objective.loss.zero_out_bound(prediction), residual_clip)
        two_records = 2 * one_record
        bound = Bound(
            # For the rounding of the length and of the product.
            zero_out=self.length * one_record * (1 + 1e-12),
            replace_one=self.length * two_records * (1 + 1e-12),
        )
        bound = grid_bound(bound, self.length, self.objective, residual_clip)
        return bound.of_shares()

    @property
    def length(self) -> float:
        """Largest norm of a row in the query."""
        # The intercept's entry is a column of the row like any other: one joint norm.
        return math.hypot(self.row_norm, self.constant)


@dataclass(frozen=True)
class Values:
    """Gradients of chosen features and of the intercept.

    `objective` is of all features, and `chosen` of them are released, in rising order.
    Every record's residual is clipped to the norm `residual_clip`; `shortening` is as
    for `ValueRows`. Both may be infinite.
    """

    objective: LinearObjective
    chosen: tuple[int, ...]
    residual_clip: float
    shortening: float

    def at(self, weights: FloatArray) -> Value:
        """The query at released weights of shape (n_columns, n_outputs).

        They are 0 but for the chosen features and the intercept.
        """
        return Value(self, weights)

    @cached_property
    def rows(self) -> ValueRows:
        """Public facts of the rows that are summed."""
        return ValueRows.of(self.objective, len(self.chosen), self.shortening)

    @cached_property
    def columns(self) -> IntArray:
        """What a reader reads; it has a column, of which nothing need be asked."""
        return np.array(self.chosen or (0,), dtype=np.int64)

    @cached_property
    def read_rows(self) -> IntArray:
        """The weights' rows that a reader's rows stand for, the intercept's last."""
        d = self.objective.n_features
        return np.append(self.columns, np.arange(d, self.objective.n_columns))

    @cached_property
    def is_asked(self) -> NDArray[np.bool_]:
        """Which of a reader's rows are released."""
        left_out = len(self.columns) - len(self.chosen)
        return np.arange(len(self.read_rows)) >= left_out

    @cached_property
    def unit(self) -> FloatArray:
        """A reader's weights in units of the weights: its constant is another."""
        unit = np.ones((len(self.read_rows), 1))
        if self.objective.fit_intercept:
            part = self.rows.objective
            unit[-1] = self.objective.intercept_value / part.intercept_value
        return unit

    @cached_property
    def counted(self) -> FloatArray:
        """What each of a reader's rows is multiplied by in the query."""
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
        """The gradient sum that a release stands for, 0 where not asked."""
        asked, values = self.family.is_asked, np.zeros_like(self.weights)
        # After the noise, so that no record is in it: post-processing.
        unit = (self.family.unit / self.family.counted)[asked]
        values[self.family.read_rows[asked]] = released * unit
        return values


class ValueSum(ExactGradientSum):
    """Sums of gradients of shortened rows, with predictions of the rows as they are."""

    def __init__(self, source: Source, values: Values) -> None:
        rows = values.rows
        columns = ColumnsOf(source, values.columns)
        super().__init__(columns, rows.objective, values.residual_clip)
        self._row_norm, self._is_short = rows.row_norm, rows.is_short

    def _in_sums(self, products: Any) -> Any:
        return products.shortened(self._row_norm) if self._is_short else products
