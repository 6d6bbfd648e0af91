"""The gradient sum at released weights: what every iterative solver asks.

Clipped rows and residuals on public grids, a weighted intercept, and the bound *at
these weights*. Proofs: ``docs/proofs/noisy_gd.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray
from skdp.data._source import Source
from skdp.objectives._linear import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_gradient import (
    ExactGradientSum,
    grid_bound,
    grid_slack,
    is_exact,
)
from skdp.queries._gradient_answer import GradientAnswer
from skdp.queries._gradient_sum import GradientSum, gradient_bound, rounding_slack
from skdp.queries._grid import on_grid

# Of weights, for the rounding of raw predictions.
_ROUNDED = 1 + 1e-12


@dataclass(frozen=True)
class Gradients:
    """Gradient sums of one objective.

    Every record's residual is clipped to the norm `residual_clip`. `intercept_weight`,
    in (0, 1], is a factor on the intercept's part of every query, undone after the
    noise.
    """

    objective: LinearObjective
    residual_clip: float = math.inf
    intercept_weight: float = 1.0

    def at(self, weights: FloatArray) -> Gradient:
        """The query at released weights of shape (n_columns, n_outputs).

        At the weights of the public grid that are nearest: post-processing.
        """
        return Gradient(self, on_grid(weights))

    @property
    def is_exact(self) -> bool:
        """Whether sums are of integers: rows and residuals are bounded."""
        return is_exact(self.objective, self.residual_clip)

    @property
    def length(self) -> float:
        """Largest norm of a row in the query."""
        objective = self.objective
        if not objective.fit_intercept:
            return objective.data_norm
        return objective.data_norm * math.hypot(1.0, self.intercept_weight)

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf)

    def bound(self, weights_norm: float) -> Bound:
        """Bound at weights of this spectral norm, as the query counts them."""
        objective, clip = self.objective, self.residual_clip
        bound = gradient_bound(objective, clip, weights_norm, self.intercept_weight)
        bound = grid_bound(bound, self.length, objective, clip)
        return bound.of_shares() if self.is_exact else bound


@dataclass(frozen=True, eq=False)
class Gradient(GradientAnswer):
    """The gradient sum at `weights`, which are released.

    Weights are of shape (n_columns, n_outputs).
    """

    family: Gradients
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    @property
    def _unit(self) -> FloatArray:
        """What each row of the sum is multiplied by in the query."""
        unit = np.ones((len(self.weights), 1))
        if self.family.objective.fit_intercept:
            unit[-1] = self.family.intercept_weight
        return unit

    def bound(self) -> Bound:
        norm = float(np.linalg.norm(self.weights / self._unit, 2))
        return self.family.bound(norm * _ROUNDED)

    def slack(self, layout: Layout) -> float:
        # What raw predictions err by.
        norm = float(np.linalg.norm(self.weights / self._unit))
        objective, clip = self.family.objective, self.family.residual_clip
        if self.family.is_exact:
            return grid_slack(objective, layout, self.family.length, norm, clip)
        return rounding_slack(
            objective,
            layout.largest_block,
            norm,
            layout.moved_rows,
            layout.amplification,
        )

    def open(self, source: Source) -> ExactGradientSum | GradientSum:
        of = ExactGradientSum if self.family.is_exact else GradientSum
        return of(source, self.family.objective, self.family.residual_clip)

    @property
    def is_whole(self) -> bool:
        return self.family.is_exact

    @property
    def at(self) -> FloatArray:
        return self.weights

    def answer(self, gradient: FloatArray) -> FloatArray:
        return self._unit * gradient

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum that a release stands for; post-processing."""
        return released / self._unit
