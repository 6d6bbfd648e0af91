"""A private additive linear model that boosting continues.

Each column of codes has its features: hats from coarse to fine and a position for
ordered codes, an indicator for any other code. Rows are centred by released counts, and
the descent and the gate of linear models (`skdp.solvers._centred_descent`) find their
weights, starting at a released base. In gradient sums a record with a long row counts
less, as if it had a weight, so that no record adds more than a unit row does. Two
labels count by their declared weights. Raw predictions remain sums of one curve a
column. Proofs: ``docs/proofs/default.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from skdp._arrays import FloatArray
from skdp._fit import Progress
from skdp.ensemble._trees import CodedColumns
from skdp.losses._base import Loss
from skdp.losses._classification import without_weights
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import QuantileLoss, SquaredLoss
from skdp.preprocessing._blocks import Curve, NumberAxis
from skdp.privacy.accounting._relations import TableRelation
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Part
from skdp.solvers._centred_descent import Descended, GatedDescent, Start, share_of
from skdp.solvers._centred_rows import preconditioner_of
from skdp.solvers._default_rules import Pace, Shares, curve_intervals, row_norm
from skdp.solvers._run_noise import (
    Principal,
    effect_noise,
    leading,
    principal,
    state_variances,
)
from skdp.solvers._target_base import Base, is_of_squares
from skdp.tables._coded import CodeBasis, CodeSource, added_up
from skdp.tables._columns import Range
from skdp.tables._source import Source

# Larger residuals are clipped, as in DPLinearRegression.
_RESIDUAL_BOUND = 4.0
# Half the width of a quantile's kink, as in DPQuantileRegressor.
_KINK = 0.05
# Ratio of signal to noise, for a table of ten columns and two labels, below which
# columns have no hats. It grows with the number of labels, among which records are
# divided. On validation parts hats of two labels and of numbers lose .042, .013 and
# .003 of log-loss or R2 from 11 to 24; from 26 to 69 they gain .005 to .020 in four
# cells and lose .006 in one (errors are .01 to .03). Hats of ten labels lose .14, .04,
# .015 and .008 from 17 to 120 (`python -m benchmarks boosting_straight`).
_STRAIGHT_BELOW = 25.0
# The same for squared errors. Later runs of this command with more fits and one table
# more: hats lose .07, .05 and .013 of R2 from 24 to 59, lose .012 at 80, and gain .012
# at 87.
_STRAIGHT_SQUARES_BELOW = 60.0
# Number of columns up to which steps go as much farther as in `DPLogisticRegression`
# where labels are nearly certain: by the ratio of the constant's errors to these. With
# more columns the power of this ratio falls. Predictions of long rows are not clipped,
# so that noise in the weights of many columns costs more. With a power of 1 digits, of
# 64 columns, lose .02 of log-loss at epsilon 4; with 1/2 breast_cancer, of 30, loses
# .009 at 1, and covertype_types, of 12, loses .004 at .1 and gains .002 at 4 (zero_out:
# `python -m benchmarks boosting_hats`).
_FEW_COLUMNS = 32
# Hats of fine curves weigh more, by this power of the number of intervals: more signal
# admits rougher curves. The second number has the intervals of the coarsest hats.
# Figures of others are in docs/notebook/benchmarks.md (`python -m benchmarks
# boosting_hats`).
_FINE, _COARSEST = 0.25, 2


@dataclass(frozen=True, eq=False)
class Curves:
    """What each code of each column adds to raw predictions.

    Parameters
    ----------
    tables : tuple of ndarray of float64 of shape (n_codes, n_outputs)
        One a column. Private output.
    covariances : tuple of ndarray of float64 of shape (n_codes, n_codes)
        Covariance of the noise in a column's entries less their mean over the records;
        the same for all outputs.
    alone : ndarray of float64 of shape (n_columns,)
        Estimated share of a column's variance that other columns do not explain.
    start : Start
        The weights and the constant, at which another fit may start.
    n_intervals : int
        Intervals of the finest level of a curve.
    information : float
        Squared signal-to-noise ratio of all fits that the weights come from.
    """

    tables: tuple[FloatArray, ...]
    covariances: tuple[FloatArray, ...]
    alone: FloatArray
    start: Start
    n_intervals: int
    information: float

    def at(self, codes: Any) -> FloatArray:
        """Raw predictions of coded records: (n_samples, n_outputs)."""
        ends = np.cumsum([len(table) for table in self.tables])
        starts = np.concatenate([[0], ends]).astype(np.int64)
        return added_up(np.ascontiguousarray(codes), starts, self.tables)


@dataclass(frozen=True, eq=False)
class CentredCodes:
    """Features of codes, centred by released shares.

    Parameters
    ----------
    basis : CodeBasis
    margins : tuple of ndarray of float64 of shape (n_codes,)
        Released share of each code of each column.
    """

    basis: CodeBasis
    margins: tuple[FloatArray, ...]

    @cached_property
    def principal(self) -> list[Principal]:
        """Principal directions of each column's features."""
        pairs = zip(self.basis.parts, self.margins, strict=True)
        return [principal(*pair) for pair in pairs]

    def view(self, source: Source) -> CodeSource:
        """Coded records as rows."""
        return CodeSource(source, self.basis)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearStart:
    """The planned fit of the linear model; every parameter is set.

    Parameters
    ----------
    objective : LinearObjective
    features : tuple of ndarray of float64 of shape (n_codes, n_features_of_column)
        Features of each code, before centring.
    descent : GatedDescent
    share : float in (0, 1]
        Share of mu squared for the descent and its gate.
    n_intervals : int
        Intervals of the finest level of a curve.
    signal_to_noise : float
        n mu of the whole budget.
    rest : GatedDescent or None
        The rest of the descent, which is asked for if trees do not help.
    rest_share : float in [0, 1), default=0.0
        Share of mu squared for it.
    before : Curves or None, default=None
        The curves of a released model, at whose weights the descent starts.
    """

    objective: LinearObjective
    features: tuple[FloatArray, ...]
    n_intervals: int
    descent: GatedDescent
    share: float
    signal_to_noise: float
    rest: GatedDescent | None = None
    rest_share: float = 0.0
    before: Curves | None = None

    @classmethod
    def planned(
        cls,
        loss: Loss,
        n_samples: int,
        columns: CodedColumns,
        adjacency: TableRelation,
        signal_to_noise: float,
        share: float,
        rest: float = 0.0,
        before: Curves | None = None,
    ) -> LinearStart:
        """The linear model with every parameter decided by rule.

        Parameters
        ----------
        loss : Loss
        n_samples : int
        columns : CodedColumns
        adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
        signal_to_noise : float in (0, inf)
            n mu of the whole budget.
        share : float in (0, 1]
        rest : float in [0, 1), default=0.0
            Share of mu squared for the rest of the descent.
        before : Curves or None, default=None
        """
        left = math.sqrt(share + rest) * signal_to_noise
        least = _STRAIGHT_BELOW * max(loss.n_outputs, 2) / 2
        if is_of_squares(loss):
            least = _STRAIGHT_SQUARES_BELOW
        n_intervals = curve_intervals(left, len(columns.n_bins), least)
        past = 0.0
        if before is not None:
            n_intervals, past = before.n_intervals, before.information
        features = features_of(columns, n_intervals)
        objective = LinearObjective(
            loss=loss,
            n_samples=n_samples,
            n_features=sum(part.shape[1] for part in features),
            data_norm=1.0,
            product_norm=math.inf,
            adjacency=adjacency,
        )

        def descent(own: float, flow: float) -> GatedDescent:
            # Columns and targets are released earlier, by lines of the whole plan.
            shares = Shares.of(loss, math.sqrt(own) * signal_to_noise, 0.0)
            shares = replace(shares, targets=0.0, mean=0.0)
            pace = Pace.of(objective, flow, len(features))
            if not loss.form.is_of_numbers:
                pace = replace(pace, reach=min(_FEW_COLUMNS / len(features), 1.0))
            return GatedDescent(shares=shares, pace=pace)

        # Rows are not clipped in predictions: a long row learns more in a step, and has
        # more noise. Of no factor, this one and its square, this one did best on the
        # tables; the square lost .005 of log-loss on kddcup99.
        short = math.sqrt(min(row_norm(1.0, len(columns.n_bins)), 1.0))
        left, first = short * left, short * math.sqrt(share) * signal_to_noise
        # As far as one fit with the information of this one and of all before.
        before_them = short * math.sqrt(past)
        left, first = math.hypot(left, before_them), math.hypot(first, before_them)
        return cls(
            objective=objective,
            features=features,
            n_intervals=n_intervals,
            descent=descent(share, first),
            share=share,
            signal_to_noise=signal_to_noise,
            rest=descent(rest, left - first) if rest else None,
            rest_share=rest,
            before=before,
        )

    @property
    def part(self) -> Part:
        return Part(self.descent.plan(), 1 / math.sqrt(self.share))

    @property
    def params(self) -> dict[str, Any]:
        """Hyper-parameters of the descent, for the record."""
        own = {**self.descent.pace.params, "shares": vars(self.descent.shares)}
        if self.before is not None:
            own["learned_share"] = self._learned(self.share)
        return own

    def _learned(self, share: float) -> float:
        """Share of what is learned with this share of mu squared that is added."""
        past = 0.0 if self.before is None else self.before.information
        return share_of(math.sqrt(share) * self.signal_to_noise, past)

    def sensitivity(self) -> float:
        """Largest sensitivity of one query, under the adjacency."""
        both = [self.descent] if self.rest is None else [self.descent, self.rest]
        return max(descent.sensitivity(self.objective) for descent in both)

    def rows(self, margins: tuple[FloatArray, ...]) -> CentredCodes:
        """Rows of codes, centred by released shares of the codes of each column."""
        return CentredCodes(centred(self.features, margins), margins)

    def run(
        self,
        answers: Answers,
        rows: CentredCodes,
        base: Base,
        progress: Progress,
        before: Descended | None = None,
    ) -> Descended:
        """Weights from released values; asks what `part` or `rest` declared.

        Parameters
        ----------
        answers : Answers
            Answers of the part, over records in the form of ``rows.view``.
        rows : CentredCodes
        base : Base
            Released location of the targets.
        progress : Progress
        before : Descended or None, default=None
            The first part of the descent, before its rest.
        """
        norm = max(rows.basis.norm, 1.0)
        objective = replace(self.objective, product_norm=norm)
        variances = partial(state_variances, rows.principal, are_weighted=True)
        descent, share, start = self.descent, self.share, None
        if before is not None and self.rest is not None:
            descent, share = self.rest, self.share + self.rest_share
        if self.before is not None:
            start = replace(self.before.start, share=self._learned(share))
        ends = np.cumsum([part.shape[1] for part in rows.basis.parts])
        features = np.split(np.arange(ends[-1]), ends[:-1])
        facts = zip(features, rows.principal, strict=True)
        return descent.run(
            *(answers, objective, base, variances, progress, before, start),
            directions=leading(rows.principal),
            preconditioner=preconditioner_of(facts, descent.pace),
        )

    def curves(self, rows: CentredCodes, found: Descended, share: float) -> Curves:
        """The weights, found with this share of mu, as one curve for each column."""
        noise = effect_noise(rows.principal, found.noise)
        covariances = tuple(found.kept**2 * each @ each.T for each in noise.deviations)
        information = share * (found.kept * self.signal_to_noise) ** 2
        if self.before is not None:
            information += self.before.information
        return Curves(
            rows.basis.tables(found.weights),
            covariances,
            noise.alone,
            Start(found.weights, found.constant, noise=found.noise.without_steps()),
            self.n_intervals,
            information,
        )


def features_of(columns: CodedColumns, n_intervals: int) -> tuple[FloatArray, ...]:
    """Features of each code of each column.

    An ordered code has hats and a position, at its middle, and an indicator beside them
    if it is a heap; any other code and a missing value have an indicator.
    """
    facts = zip(
        columns.n_bins, columns.is_ordered, columns.missing, columns.heaps, strict=True
    )
    return tuple(
        _features(n - (missing is not None), is_ordered, missing, heaps, n_intervals)
        for n, is_ordered, missing, heaps in facts
    )


def _features(
    n_values: int,
    is_ordered: bool,
    missing: int | None,
    heaps: tuple[int, ...],
    n_intervals: int,
) -> FloatArray:
    own = np.eye(n_values)
    if is_ordered and n_values > 2:
        most = min(n_intervals, n_values)
        powers = (2**k for k in range(1, most.bit_length()))
        # A curve of up to three intervals is a straight line.
        levels = tuple(k for k in powers if k >= _COARSEST) if most > 3 else ()
        curve = Curve(NumberAxis(Range(-1, 1)), levels)
        knots = curve.basis * curve.weight
        # Hats of four intervals have the same weight, whichever are the coarsest.
        finest = max(levels, default=4)
        knots[:, 1:] *= (finest / 4) ** _FINE * 2 / math.sqrt(_COARSEST)
        middles = (np.arange(n_values) + 0.5) / n_values * (len(knots) - 1)
        at = np.arange(len(knots))
        hats = [np.interp(middles, at, each) for each in knots.T]
        own = np.column_stack([*hats, np.eye(n_values)[:, list(heaps)]])
    return own if missing is None else np.asarray(block_diag(own, 1.0))


def centred(
    features: tuple[FloatArray, ...], margins: tuple[FloatArray, ...]
) -> CodeBasis:
    """Features less their means, over the norm that clips rows; post-processing."""
    parts = [f - p @ f for f, p in zip(features, margins, strict=True)]
    squares = [
        p @ np.sum(part**2, axis=1) for part, p in zip(parts, margins, strict=True)
    ]
    norm = row_norm(sum(squares), len(parts))
    return CodeBasis(tuple(part / norm for part in parts))


def shares_or_even(
    columns: CodedColumns, released: Mapping[int, FloatArray]
) -> tuple[FloatArray, ...]:
    """Released shares of the codes of each column, and equal shares of the others."""
    sizes = enumerate(columns.n_bins)
    return tuple(released.get(j, np.full(size, 1 / size)) for j, size in sizes)


def linear_loss(loss: Loss) -> Loss:
    """Loss of the linear model before trees with this loss.

    With more than two labels, weights act after the linear model only. It tells labels
    of little weight apart, which would drown in the noise of the heaviest label
    otherwise.
    """
    if isinstance(loss, SquaredLoss):
        return replace(loss, residual_bound=_RESIDUAL_BOUND)
    if isinstance(loss, QuantileLoss):
        return replace(loss, h=_KINK)
    return loss if loss.n_outputs == 1 else without_weights(loss)
