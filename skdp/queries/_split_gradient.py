"""Gradient sums of the features and of the intercept, in queries of their own.

The intercept is one weight of large curvature: a few per cent of the budget find it, at
new weights of the features as often as they change. Asked beside d features it would
make every row longer, and answer for weights that the same step replaces. Proofs:
``docs/proofs/iht.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Source
from skdp.objectives._linear import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_gradient import ExactGradientSum, grid_bound, grid_slack
from skdp.queries._gradient_answer import GradientAnswer
from skdp.queries._grid import on_grid
from skdp.queries._summed import Sums

# Of weights, for the rounding of raw predictions.
_ROUNDED = 1 + 1e-12


def split_bound(
    objective: LinearObjective, residual_clip: float, weights_norm: float = math.inf
) -> Bound:
    """L2 bound of either query at public weights, in exact arithmetic.

    Both relations: Lemma 1 of ``docs/proofs/iht.md``.

    Residuals are clipped to the norm `residual_clip`; `weights_norm` is the spectral
    norm of the released weights, the intercept's included.
    """
    one_record = objective.data_norm * min(
        objective.loss.zero_out_bound(objective.row_norm * weights_norm), residual_clip
    )
    bound = Bound(zero_out=one_record, replace_one=2 * one_record)
    bound = grid_bound(bound, objective.data_norm, objective, residual_clip)
    return bound.of_shares()


@dataclass(frozen=True)
class SplitGradients:
    """Both parts of the gradient sums of one objective.

    Every record's residual is clipped to the norm `residual_clip`.
    """

    objective: LinearObjective
    residual_clip: float

    def features(self, weights: FloatArray) -> FeaturesPart:
        """The features' rows at released weights of shape (n_columns, n_outputs)."""
        return FeaturesPart(self, on_grid(weights))

    def intercept(self, weights: FloatArray) -> InterceptPart:
        """The intercept's row at released weights."""
        return InterceptPart(self, on_grid(weights))


@dataclass(frozen=True, eq=False)
class SplitGradient(GradientAnswer):
    """A part of the gradient sum at `weights`, which are released.

    Weights are of shape (n_columns, n_outputs).
    """

    family: SplitGradients
    weights: FloatArray

    @property
    def at(self) -> FloatArray:
        return self.weights

    def bound(self) -> Bound:
        norm = float(np.linalg.norm(self.weights, 2)) * _ROUNDED
        return split_bound(self.family.objective, self.family.residual_clip, norm)

    def slack(self, layout: Layout) -> float:
        length = float(np.linalg.norm(self.weights))
        objective, clip = self.family.objective, self.family.residual_clip
        return grid_slack(objective, layout, objective.data_norm, length, clip)

    def open(self, source: Source) -> ExactGradientSum:
        return ExactGradientSum(
            source, self.family.objective, self.family.residual_clip
        )


class FeaturesPart(SplitGradient):
    """The features' rows of the sum."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.family.objective.n_features, self.weights.shape[1]

    def answer(self, gradient: FloatArray) -> FloatArray:
        return gradient[: self.family.objective.n_features]


class InterceptPart(SplitGradient):
    """The intercept's row of the sum."""

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, self.weights.shape[1]

    def whole_sums(self, reader: ExactGradientSum, rows: IntArray | None) -> Sums:
        return reader.whole_of_intercept(self.weights)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return self.answer(self.open(source).value_of_intercept(sums))

    def total(self, reader: ExactGradientSum, rows: IntArray | None) -> FloatArray:
        return self.answer(reader.of_intercept(self.weights))

    def answer(self, gradient: FloatArray) -> FloatArray:
        return gradient
