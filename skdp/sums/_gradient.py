"""The sum of clipped gradients of a linear model at released weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.losses._base import plain_error
from skdp.losses._classification import heaviest_pair
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._plan import Bound, Layout
from skdp.sums._exact import RESIDUAL_BITS, Sums, on_grid
from skdp.sums._floating import GradientSum, rounding_slack
from skdp.sums._gradient_sum import ExactGradientSum, Part, ReaderQuery
from skdp.tables._source import Source

# -------------------------------------- The contribution of a record, and its bounds
# A record contributes its row times its residual, at released weights. Both are
# clipped, and the bound holds *at these weights*. Proofs:
# ``docs/proofs/gradient_descent.md``, Lemmas 2 to 12; for settings of sparse models
# ``docs/proofs/sparse.md``.


# Factor on the weights' norm that covers the rounding of raw predictions.
_ROUNDED = 1 + 1e-12
# Value of the intercept's column if columns are chosen, in units of the rows' norm.
_INTERCEPT_SHARE = 0.3


class RowFacts(NamedTuple):
    """Public facts of the rows in a query.

    `norm` is the largest norm of a row's features in the sum, `constant` the entry of
    the intercept's column, and `objective` the objective for the rows that are read.
    """

    objective: LinearObjective
    norm: float
    constant: float


@dataclass(frozen=True)
class ClippedGradient:
    """Settings of a sum of gradients: rows times residuals.

    Parameters
    ----------
    objective : LinearObjective
    residual_clip : float in (0, inf], default=inf
        Norm to which every record's residual is clipped.
    intercept_weight : float in (0, 1], default=1.0
        Factor on the intercept's row of the query, which is undone after the noise.
        With `columns`, the query has another, fixed factor.
    columns : tuple of int or None, default=None
        Chosen features, in increasing order. Only these are read, and the weights of
        all others are 0. None: all features.
    shortening : float in (0, inf], default=inf
        With `columns`, rows in sums, but not in products, are shortened to this
        multiple of the norm that a row of equal entries has in these columns.
    entry_clip : float in (0, inf], default=inf
        Magnitude to which entries in sums, but not in products, are clipped.
    user_clip : float in (0, 1] or None, default=None
        Norm to which a user's contribution is clipped, in units of the largest
        contribution of a record. None: rows of users count with their weights.
    uses_entry_bound : bool, default=False
        Whether raw predictions are bounded by the entries' bound too, and not only by
        norms. With `columns` they always are.
    """

    objective: LinearObjective
    residual_clip: float = math.inf
    intercept_weight: float = 1.0
    columns: tuple[int, ...] | None = None
    shortening: float = math.inf
    entry_clip: float = math.inf
    user_clip: float | None = None
    uses_entry_bound: bool = False

    def at(self, weights: FloatArray, part: Part = "all") -> LinearGradient:
        """The query at released weights of shape (n_columns, n_outputs).

        The query uses the nearest weights on the public grid, which is post-processing.
        `part` says which rows of the gradient are asked for.
        """
        if self.columns is not None:
            weights = weights[self.rows_read] * self.scale
        return LinearGradient(self, on_grid(weights), part)

    def reader(self, source: Source) -> ExactGradientSum | GradientSum:
        """A reader with exact sums, or floating-point sums if there are no bounds."""
        is_changed = self.columns is not None or math.isfinite(self.entry_clip)
        if self.is_exact or is_changed or self.user_clip is not None:
            return ExactGradientSum(source, self)
        return GradientSum(source, self.objective, self.residual_clip)

    @cached_property
    def is_exact(self) -> bool:
        """Whether sums are of integers, since rows and residuals are bounded."""
        return math.isfinite(self.objective.data_norm * self.largest_residual)

    @cached_property
    def largest_residual(self) -> float:
        """Largest norm of a clipped residual at any weights; the unit of its grid."""
        return min(self.objective.loss.zero_out_bound(math.inf), self.residual_clip)

    @property
    def entry_bound(self) -> float:
        """Largest magnitude of an entry in sums."""
        return min(self.objective.entry_bound, self.entry_clip)

    # ------------------------------------------------------------- chosen columns

    @cached_property
    def rows(self) -> RowFacts:
        """Public facts of the rows that are summed."""
        objective = self.objective
        if self.columns is None:
            constant = self.intercept_weight * objective.intercept_value
            constant *= objective.fit_intercept
            return RowFacts(objective, objective.data_norm, constant)
        # A reader needs at least one column, even for the intercept alone.
        n = max(1, len(self.columns))
        norm = min(objective.data_norm, math.sqrt(n) * objective.entry_bound)
        alike = objective.data_norm * math.sqrt(n / objective.n_features)
        shortened = min(norm, self.shortening * alike)
        part = replace(objective, n_features=n, n_nonzero=n, data_norm=norm)
        constant = _INTERCEPT_SHARE * shortened if objective.fit_intercept else 0.0
        return RowFacts(part, shortened if self.columns else 0.0, constant)

    @cached_property
    def columns_read(self) -> IntArray:
        """The columns that a reader reads, at least one even if none is chosen."""
        if self.columns is None:
            return np.arange(self.objective.n_features)
        return np.array(self.columns or (0,), dtype=np.int64)

    @cached_property
    def rows_read(self) -> IntArray:
        """Rows of the weights that a reader's rows represent, the intercept's last."""
        d = self.objective.n_features
        return np.append(self.columns_read, np.arange(d, self.objective.n_columns))

    def _of_intercept(self, value: float) -> FloatArray:
        """A factor on each of a reader's rows: 1, and `value` for the intercept's."""
        factor = np.ones((self.rows.objective.n_columns, 1))
        if self.objective.fit_intercept:
            factor[-1] = value
        return factor

    @cached_property
    def scale(self) -> FloatArray:
        """A reader's weights in units of the weights; its constant may differ."""
        ratio = self.objective.intercept_value / self.rows.objective.intercept_value
        return self._of_intercept(ratio)

    @cached_property
    def weight(self) -> FloatArray:
        """Factor on each of a reader's rows in the query."""
        if self.columns is None:
            return self._of_intercept(self.intercept_weight)
        return self._of_intercept(
            self.rows.constant / self.rows.objective.intercept_value
        )

    # --------------------------------------------------------------------- bounds

    def length(self, part: Part = "all") -> float:
        """Largest norm of a row in the query."""
        if part == "features":
            of_entries = math.sqrt(self.rows.objective.n_features) * self.entry_clip
            return min(self.rows.norm, of_entries)
        if part == "intercept":
            return self.rows.constant
        if self.columns is not None:
            return math.hypot(self.rows.norm, self.rows.constant)
        norm = self.objective.data_norm
        if self.objective.fit_intercept:
            norm *= math.sqrt(1 + self.intercept_weight**2)
        return norm

    @property
    def reach(self) -> float:
        """Largest norm of a row in products with weights."""
        objective = self.objective
        if objective.product_norm is None:
            return self.length()
        # Rows in products differ from rows in sums (docs/proofs/default.md).
        weight = self.intercept_weight * objective.fit_intercept
        return math.hypot(objective.product_norm, objective.data_norm * weight)

    def radius(self, weights_norm: float) -> float:
        """Bound on raw predictions at weights of this spectral norm.

        The intercept's weights are divided by `intercept_weight`.
        """
        return self.reach * weights_norm + math.hypot(*self.objective.offset)

    def norm_of(self, weights: FloatArray, order: int | None = None) -> float:
        """Norm of a reader's weights, divided by `intercept_weight`."""
        if self.columns is None:
            weights = weights / self.weight
        if order == 2:  # NumPy's norm takes three times as long for the same number
            return float(np.linalg.svd(weights, compute_uv=False).max(initial=0.0))
        return float(np.linalg.norm(weights, order))

    def bound_at(self, weights: FloatArray, part: Part = "all") -> Bound:
        """Bound at a reader's weights, which are released."""
        return self.bound(self.radius_at(weights), part)

    def radius_at(self, weights: FloatArray) -> float:
        """Bound on raw predictions at a reader's weights."""
        objective = self.rows.objective
        by_entries = self.uses_entry_bound or self.columns is not None
        if by_entries and objective.product_norm is None:
            offset = math.hypot(*objective.offset)
            return prediction_bound(objective, weights) + offset
        return self.radius(self.norm_of(weights, 2) * _ROUNDED)

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf)

    def bound(
        self, radius: float, part: Part = "all", length: float | None = None
    ) -> Bound:
        """Bound for raw predictions of norm at most `radius`, in the query's units.

        It covers the rounding of residuals to their grid. `length` bounds a row in the
        query, by default in the L2 norm.
        """
        bound = self.real_bound(radius, part, length)
        if not self.is_exact:
            return bound
        added = (self.length(part) if length is None else length) * self.grid_error()
        one_record = bound.under("zero_out") + added
        if self.user_clip is not None:
            # A user's contribution lies in a ball (docs/proofs/gradient_descent.md,
            # Lemma 12).
            most = self.user_clip * one_record
            return Bound(zero_out_user=most, replace_user=2 * most)
        replaced = bound.under("replace_one") + 2 * added
        return Bound(zero_out=one_record, replace_one=replaced).with_user_bounds()

    def real_bound(
        self, radius: float, part: Part = "all", length: float | None = None
    ) -> Bound:
        """`bound` for residuals and rows in real numbers, of records.

        Both adjacencies are derived separately: Lemmas 2 to 10 of
        ``docs/proofs/gradient_descent.md``, and Lemma 11f for rows of which the query
        has a part.
        """
        loss, clip = self.objective.loss, self.residual_clip
        length = self.length(part) if length is None else length
        one_record = min(loss.zero_out_bound(radius), clip)
        two_records = 2 * one_record
        if self.columns is not None:
            # The factor covers rounding of the length and of the product.
            return Bound(
                zero_out=length * one_record * _ROUNDED,
                replace_one=length * two_records * _ROUNDED,
            )
        if part != "all":
            # The intercept moves all predictions by the same number, so two opposite
            # rows may have equal residuals and both count in full.
            return Bound(zero_out=length * one_record, replace_one=length * two_records)
        # Diameters hold if raw predictions are products of the rows that are in the
        # sum; clipping does not reduce every diameter.
        is_of_rows = self.objective.product_norm is None and not self.objective.offset
        if math.isinf(clip) and is_of_rows:
            two_records = min(two_records, loss.replace_one_bound(radius))
        # With equal signs the intercept's parts cancel each other (Lemma 6).
        pair = max(2 * self.objective.data_norm, heaviest_pair(loss, clip) * length)
        replaced = min(length * two_records, one_record * pair)
        return Bound(zero_out=length * one_record, replace_one=replaced)

    def grid_error(self) -> float:
        """Error of a record's residual on its grid: Lemma 11.

        It is the error of plain arithmetic, and half of a unit in every output.
        """
        return plain_error(self.objective.loss, self.residual_clip) + self.half_unit

    @cached_property
    def half_unit(self) -> float:
        """Half of a unit of residuals in every output, and the rounding of a clip."""
        k = self.objective.loss.n_outputs
        half = math.sqrt(k) / 2 * 2.0**-RESIDUAL_BITS + (k + 16) * 2.0**-48
        return self.largest_residual * half

    def grid_slack(self, layout: Layout, length: float, weights_norm: float) -> float:
        """Bound on the effect of rounding on the sensitivity of exact sums.

        It covers the rounding of sums to double precision, and the terms of Lemma 11e
        for rows that are made of parts.
        """
        objective, largest = self.rows.objective, self.largest_residual
        of_all = 8 * objective.n_samples * UNIT_ROUNDOFF * length * largest
        if not layout.cells:
            return of_all
        terms, k = layout.amplification, objective.loss.n_outputs
        rows = layout.rows_of_unit
        raw = terms * weights_norm * (objective.n_features + 64) * 2.0**-39
        of_record = min(largest, objective.loss.smoothness * raw)
        of_record += rows * terms * math.sqrt(k) * 2.0**-28 * largest
        maps = terms * (layout.cells + objective.n_features + 16)
        return 2 * length * of_record + of_all * (1 + maps)


def prediction_bound(objective: LinearObjective, weights: FloatArray) -> float:
    """Bound on the norm of any clipped row's raw prediction at released weights."""
    d = objective.n_features
    rows = np.sqrt(np.einsum("ij,ij->i", weights, weights))
    of_entries = objective.entry_bound * float(rows[:d].sum())
    of_rows = objective.data_norm * float(np.linalg.norm(weights[:d], 2))
    constant = objective.intercept_value * float(rows[d:].sum())
    return (min(of_entries, of_rows) + constant) * (1 + 1e-12)


# ---------------------------------------------------------------------------- The query


@dataclass(frozen=True, eq=False)
class LinearGradient(ReaderQuery):
    """A part of the gradient sum at released `weights`.

    The weights are those of a reader, of shape (n_columns, n_outputs).
    """

    family: ClippedGradient
    part: Part = "all"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights[self._asked].shape

    def bound(self) -> Bound:
        return self._bound

    @cached_property
    def _bound(self) -> Bound:
        """Kept, since `Answers` ask for it before the read, and again for the noise."""
        return self.family.bound_at(self.weights, self.part)

    def slack(self, layout: Layout) -> float:
        # Norm of the weights, for the error of raw predictions.
        settings, norm = self.family, self.family.norm_of(self.weights)
        if settings.is_exact:
            return settings.grid_slack(layout, settings.length(self.part), norm)
        return rounding_slack(
            settings.objective,
            layout.largest_block,
            norm,
            layout.moved_rows,
            layout.amplification,
        )

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        sums: Sums = reader.whole_sums(self.weights, rows, self.part)
        return sums

    def answer(self, gradient: FloatArray) -> FloatArray:
        asked = self._asked
        return self.family.weight[asked] * gradient[asked]

    @property
    def _asked(self) -> slice:
        """The rows of a reader's sum that are asked for; the intercept's comes last."""
        if self.part == "intercept":
            return slice(-1, None)
        d = self.family.rows.objective.n_features
        return slice(None, d if self.part == "features" else None)

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum from a released vector; this is post-processing.

        Rows that were not released are 0.
        """
        settings, asked = self.family, self._asked
        if settings.user_clip is not None:
            # A user's largest contribution is that of a record.
            return released / settings.weight / settings.user_clip
        # Division follows the noise, so it reads no record.
        if self.part == "all" and settings.columns is None:
            return released / settings.weight
        found = np.zeros((settings.objective.n_columns, released.shape[1]))
        unit = settings.scale / settings.weight
        found[settings.rows_read[asked]] = released * unit[asked]
        return found
