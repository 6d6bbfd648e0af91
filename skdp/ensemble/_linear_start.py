"""A private additive linear model that boosting continues.

Each column of codes has features of its own: hats from coarse to fine, and a position,
of what is in order, an indicator of anything else. Rows are centred by released counts,
and a solver of noisy gradients finds their weights. In its sums records whose row is
long count less, as if with a weight, so that none adds more than a unit row, and two
labels count by their declared weights; raw predictions remain sums of one curve a
column. Proofs: ``docs/proofs/linear_start.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from skdp._floats import FloatArray
from skdp.columns import Range
from skdp.data import CodeBasis, CodeSource, TargetScale, WithOffset, added_up
from skdp.data._source import Source
from skdp.ensemble._trees import CodedColumns
from skdp.losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from skdp.losses._weighted import typical_weight, weighted
from skdp.objectives import LinearObjective
from skdp.preprocessing._table_axes import NumberAxis
from skdp.preprocessing._table_blocks import Curve
from skdp.privacy import Budget
from skdp.privacy._adjacency import TableRelation
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Part
from skdp.queries._loss_facts import LeafLoss
from skdp.solvers._base import Solver
from skdp.solvers._budget_parts import level_of, part_of
from skdp.solvers._centred_rules import (
    by_rule,
    curve_intervals,
    expected_of,
    spectrum_of,
)
from skdp.solvers._margins import even_margins
from skdp.solvers._progress import Progress
from skdp.solvers._shrunken import Shrunken, shrunken
from skdp.solvers._strength import strength_of

# Length of rows that count in full, over their root mean square.
_FULL = 0.7
_LEAST_NORM = 1e-3
# Residuals beyond it are clipped, as in DPLinearRegression.
_RESIDUAL_BOUND = 4.0


@dataclass(frozen=True, eq=False)
class Curves:
    """What each code of each column adds to raw predictions.

    Parameters
    ----------
    tables : tuple of ndarray of float64 of shape (n_codes, n_outputs)
        One a column. Private output.
    deviations : tuple of ndarray of float64 of shape (n_codes, n_outputs)
        Of the noise in each, less its mean over the codes.
    """

    tables: tuple[FloatArray, ...]
    deviations: tuple[FloatArray, ...]

    def at(self, codes: Any) -> FloatArray:
        """Raw predictions of coded records: (n_samples, n_outputs)."""
        ends = np.cumsum([len(table) for table in self.tables])
        starts = np.concatenate([[0], ends]).astype(np.int64)
        return added_up(np.ascontiguousarray(codes), starts, self.tables)

    def before(self, source: Source) -> WithOffset:
        """A source whose records start at their curves."""
        return WithOffset(source, self.at)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearStart:
    """How the linear model is fitted, all decided.

    Parameters
    ----------
    inner : Solver
        Of noisy gradients, of answers about unit rows.
    objective : LinearObjective
    features : tuple of ndarray of float64 of shape (n_codes, n_features_of_column)
        Of each code, before they are centred.
    level : float
        Noise of the plan in units of what the whole budget would get.
    start : ndarray of float64 of shape (n_outputs,) or None, default=None
        Raw predictions of everybody as labels weigh, which are released before; of no
        regression.
    targets : TargetScale or None, default=None
        Of a regression, likewise.
    """

    inner: Solver
    objective: LinearObjective
    features: tuple[FloatArray, ...]
    level: float
    start: FloatArray | None = None
    targets: TargetScale | None = None

    @classmethod
    def planned(
        cls,
        loss: LeafLoss,
        n_outputs: int,
        n_samples: int,
        columns: CodedColumns,
        adjacency: TableRelation,
        budget: Budget,
        share: float,
        label_weights: tuple[float, ...] = (),
    ) -> LinearStart:
        """Everything by rule, for a share of mu^2 of the budget.

        Parameters
        ----------
        loss : {"logistic", "softmax", "squared"}
        n_outputs, n_samples : int
        columns : CodedColumns
        adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
        budget : Budget
            With a delta above 0.
        share : float in (0, 1]
        label_weights : tuple of float in (0, 1], default=()
            Declared; empty: all labels alike.
        """
        own = part_of(budget, share)
        linear = weighted(_loss_of(loss, n_outputs), label_weights)
        n_telling = n_samples * typical_weight(linear)
        strength = strength_of(n_telling, own, adjacency)
        n_columns = len(columns.n_bins)
        features = features_of(columns, curve_intervals(strength, n_columns))
        objective = LinearObjective(
            loss=linear,
            n_samples=n_samples,
            n_features=sum(part.shape[1] for part in features),
            data_norm=1.0,
            product_norm=math.inf,
            adjacency=adjacency,
            expected=expected_of(linear, strength, spectrum_of(features)),
        )
        inner = shrunken(by_rule, objective, own, strength)
        level = level_of(inner, objective, budget, share)
        return cls(inner=inner, objective=objective, features=features, level=level)

    @property
    def part(self) -> Part:
        """Of the plan."""
        return Part(self.inner.plan(self.objective), self.level)

    @property
    def params(self) -> dict[str, Any]:
        """Of the solver, for the record."""
        return {"solver": self.inner.named, **self.inner.params}

    def sensitivity(self) -> float:
        """Largest of one query, under the adjacency."""
        return self.inner.sensitivity(self.objective)

    def view(self, margins: tuple[FloatArray, ...], source: Source) -> CodeSource:
        """Coded records as rows, and targets on a released scale."""
        return CodeSource(source, centred(self.features, margins), self.targets)

    def run(
        self, answers: Answers, margins: tuple[FloatArray, ...], progress: Progress
    ) -> tuple[FloatArray, Curves]:
        """Walk over released values; ask what `part` declared.

        Parameters
        ----------
        answers : Answers
            Of `part`, over records as `view` shows them.
        margins : tuple of ndarray of float64 of shape (n_codes,)
            Released shares of the codes of each column, or even ones.
        progress : Progress

        Returns
        -------
        intercept : ndarray of float64 of shape (n_outputs,)
        curves : Curves
        """
        basis = centred(self.features, margins)
        offset = () if self.start is None else tuple(self.start.tolist())
        objective = replace(
            self.objective, product_norm=max(basis.norm, 1.0), offset=offset
        )
        noise = self._noise(answers, objective)
        found = self.inner.run(answers, objective, progress)
        coef, intercept = found.unpack(objective)
        scale = self.targets or TargetScale()
        tables = basis.tables(scale.half * coef.T)
        kept = 1.0 if found.shrinkage is None else found.shrinkage
        deviations = tuple(
            np.outer(np.linalg.norm(p - p.mean(axis=0), axis=1), scale.half * noise)
            * kept
            for p in basis.parts
        )
        curves = Curves(tables, deviations)
        released: FloatArray = scale.middle + scale.half * intercept
        return released, curves

    def _noise(self, part: Answers, objective: LinearObjective) -> FloatArray:
        """Deviation in a weight of what noise alone would make, drawn once more.

        Where there is no signal noise adds up to the most. Of each output.
        """
        again: Answers = part.noise_alone(seed=0)
        inner = self.inner
        if isinstance(inner, Shrunken):
            again, inner = again.part(0), inner.inner
        coef, _ = inner.run(again, objective, Progress()).unpack(objective)
        return np.asarray(np.sqrt(np.mean(coef**2, axis=1)))


def features_of(columns: CodedColumns, n_intervals: int) -> tuple[FloatArray, ...]:
    """Of each code of each column: hats and position at its middle, or an indicator.

    Missing values have an indicator too.
    """
    facts = zip(columns.n_bins, columns.is_ordered, columns.missing, strict=True)
    return tuple(
        _features(n_bins - (missing is not None), is_ordered, missing, n_intervals)
        for n_bins, is_ordered, missing in facts
    )


def _features(
    n_values: int, is_ordered: bool, missing: int | None, n_intervals: int
) -> FloatArray:
    own = np.eye(n_values)
    if is_ordered and n_values > 2:
        most = min(n_intervals, n_values)
        levels = tuple(2**k for k in range(2, most.bit_length()))
        curve = Curve(NumberAxis(Range(-1, 1)), levels)
        knots = curve.basis * curve.weight
        middles = (np.arange(n_values) + 0.5) / n_values * (len(knots) - 1)
        at = np.arange(len(knots))
        own = np.column_stack([np.interp(middles, at, each) for each in knots.T])
    return own if missing is None else np.asarray(block_diag(own, 1.0))


def centred(
    features: tuple[FloatArray, ...], margins: tuple[FloatArray, ...]
) -> CodeBasis:
    """Less their means, over the length of rows that count in full; post-processing."""
    parts = [f - p @ f for f, p in zip(features, margins, strict=True)]
    squares = [
        p @ np.sum(part**2, axis=1) for part, p in zip(parts, margins, strict=True)
    ]
    norm = max(_FULL * math.sqrt(sum(squares)), _LEAST_NORM)
    return CodeBasis(tuple(part / norm for part in parts))


def even(columns: CodedColumns) -> tuple[FloatArray, ...]:
    """Shares of codes that nothing is known of."""
    return tuple(even_margins((size,)) for size in columns.n_bins)


def _loss_of(loss: LeafLoss, n_outputs: int) -> Loss:
    made: dict[str, Callable[[], Loss]] = {
        "logistic": LogisticLoss,
        "softmax": partial(SoftmaxLoss, n_outputs),
        "squared": partial(SquaredLoss, _RESIDUAL_BOUND, target_bound=1.0),
    }
    return made[loss]()
