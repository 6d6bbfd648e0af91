"""The sum of a gradient's part and of its change since the last weights.

What recursive momentum asks: a record adds ``(1 - refresh)`` of how its gradient has
changed, and ``refresh`` of the gradient itself, each clipped. Proofs:
``docs/proofs/srm.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Source
from skdp.losses._plain import plain_error
from skdp.objectives._linear import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_gradient import ExactGradientSum, Kept, clipped, grid_slack
from skdp.queries._grid import RESIDUAL_BITS, on_grid
from skdp.queries._grid_rows import GridRows

# Of weights, for the rounding of raw predictions.
_ROUNDED = 1 + 1e-12
# By which a raw prediction errs in double precision, over its bound; and twice that.
_RAW_ERROR = 2.0**-51


@dataclass(frozen=True)
class MovedGradients:
    """Sums of one objective.

    Parameters
    ----------
    objective : LinearObjective
        With a finite `data_norm` and a loss of bounded residuals.
    residual_clip, change_clip : float in (0, inf]
        Norms to which a record's residual and the change of it are clipped.
    refresh : float in [0, 1]
        Share of the gradient itself; 0: changes alone.
    """

    objective: LinearObjective
    residual_clip: float
    change_clip: float
    refresh: float

    def at(self, weights: FloatArray, before: FloatArray) -> MovedGradient:
        """The query at released weights, and at those before them.

        Both of shape (n_columns, n_outputs), on the public grid that is nearest.
        """
        return MovedGradient(self, on_grid(weights), on_grid(before))

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf, math.inf)

    @property
    def largest(self) -> float:
        """Largest norm of a record's part over its row's, at any weights."""
        return self._part(math.inf, math.inf)

    def _part(self, radius: float, moved: float) -> float:
        """For raw predictions within `radius` that have moved by `moved` at most."""
        loss = self.objective.loss
        residual = loss.zero_out_bound(radius)
        change = min(2 * loss.zero_out_bound(math.inf), loss.smoothness * moved)
        change = min(change, self.change_clip)
        kept = (1 - self.refresh) * change
        return kept + self.refresh * min(residual, self.residual_clip)

    def bound(self, weights_norm: float, moved_norm: float) -> Bound:
        """Bound at weights of this spectral norm that have moved by this one."""
        objective, loss = self.objective, self.objective.loss
        length = reach = objective.row_norm
        if objective.product_norm is not None:
            # Rows in products are not those in sums.
            ahead = objective.data_norm if objective.fit_intercept else 0.0
            reach = math.hypot(objective.product_norm, ahead)
        radius = reach * weights_norm + math.hypot(*objective.offset)
        part = self._part(radius, reach * moved_norm)
        k = loss.n_outputs
        rounded = math.sqrt(k) / 2 * 2.0**-RESIDUAL_BITS + (k + 16) * 2.0**-48
        part += 2 * plain_error(loss) + self.largest * rounded
        return Bound(zero_out=length * part, replace_one=2 * length * part)


@dataclass(frozen=True, eq=False)
class MovedGradient:
    """The sum at `weights` and at those `before`, both of them released."""

    family: MovedGradients
    weights: FloatArray
    before: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def bound(self) -> Bound:
        norm, earlier, moved = (
            float(np.linalg.norm(w, 2)) * _ROUNDED
            for w in (self.weights, self.before, self.weights - self.before)
        )
        # Two predictions that are close are apart by their rounding as well.
        return self.family.bound(norm, moved + _RAW_ERROR * (norm + earlier))

    def slack(self, layout: Layout) -> float:
        # Both residuals are rounded, and their raw predictions err.
        norm = float(np.linalg.norm(self.weights) + np.linalg.norm(self.before))
        objective = self.family.objective
        return 2 * grid_slack(objective, layout, objective.row_norm, norm)

    def open(self, source: Source) -> MovedGradientSum:
        return MovedGradientSum(source, self.family)

    def total(self, reader: MovedGradientSum, rows: IntArray | None) -> FloatArray:
        return reader.since(self.before)(self.weights, rows)


class MovedGradientSum(ExactGradientSum):
    """Exact sums over a source, which is private; rows are kept as for gradients."""

    def __init__(self, source: Source, family: MovedGradients) -> None:
        super().__init__(source, family.objective)
        self._family, self._largest = family, family.largest
        self._is_compiled = False
        self._before: FloatArray = np.zeros(family.objective.shape)

    def since(self, before: FloatArray) -> MovedGradientSum:
        """The sums of what has changed since these weights."""
        self._before = before
        return self

    def _residual(self, rows: GridRows, block: Kept, weights: FloatArray) -> FloatArray:
        """What multiplies each row, 0 for null records."""
        family = self._family
        own = super()._residual(rows, block, weights)
        change = own - super()._residual(rows, block, self._before)
        if math.isfinite(family.change_clip):
            change = clipped(change, family.change_clip)
        if math.isfinite(family.residual_clip):
            own = clipped(own, family.residual_clip)
        return np.asarray((1 - family.refresh) * change + family.refresh * own)
