"""Sums of the second moments of clipped rows and targets, as one vector.

In units of the public bounds: u is a row divided by `data_norm`, so of norm at most
1, and v a target divided by `target_bound`, so in [-1, 1]. One record contributes

    (svec(u u'), sqrt(2) t u, k u v, k t v),

where svec stacks the diagonal and sqrt(2) times the upper triangle, so that norms are
Frobenius norms; t is the constant in the intercept's column (0 without an intercept)
and k the weight of the targets; parts of weight 0 are left out. The number of records
is public and not summed.
Sensitivities are derived in ``docs/proofs/adassp.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import UNIT_ROUNDOFF, FloatArray
from skdp._rows import HUGE, bring_to_norm, row_norms, scale_rows
from skdp.data import Block, Source
from skdp.losses import SquaredLoss
from skdp.objectives import LinearObjective
from skdp.privacy._adjacency import Adjacency


@dataclass(frozen=True)
class MomentWeights:
    """Public weights of the parts of the query.

    Parameters
    ----------
    intercept : float in [0, 1]
        t above; 0 if the problem has no intercept.
    target : float in [0, inf)
        k above; 0 without targets.
    """

    intercept: float
    target: float

    def record_norm(self) -> float:
        """Largest norm of what one record contributes: zero_out, Lemma 1."""
        t, k = self.intercept, self.target
        return math.sqrt(1 + 2 * t**2 + k**2 * (1 + t**2))

    def record_distance(self) -> float:
        """Largest distance between two records' contributions: replace_one, Lemma 2."""
        t, k = self.intercept, self.target
        both, apart = 2 * t**2 + k**2, abs(k**2 - 2 * t**2)
        c = min(1.0, both / 2)
        same = 2 * (1 - c**2) + 2 * both * (1 + c)
        c = min(1.0, apart / 2)
        opposite = 2 * (1 - c**2) + 2 * both + 2 * apart * c + 4 * k**2 * t**2
        return math.sqrt(max(same, opposite))

    def sensitivity(self, adjacency: Adjacency) -> float:
        """L2 sensitivity of the sum, in exact arithmetic."""
        distances = {
            "zero_out": self.record_norm(),
            "replace_one": self.record_distance(),
        }
        return distances[adjacency] * (1 + 1e-12)

    def rounding_slack(self, objective: LinearObjective, largest_block: int) -> float:
        """Bound on what floating point adds to the sensitivity (Lemma 3)."""
        n, b, d = objective.n_samples, largest_block, objective.n_features
        summation = 2 * n * (b + n / b + 16) * UNIT_ROUNDOFF
        one_row = 16 * (d + 64) * UNIT_ROUNDOFF
        return self.record_norm() * (summation + one_row)


@dataclass(frozen=True)
class Moments:
    """Sums over the records, exact or released.

    Parameters
    ----------
    rows_rows : ndarray of shape (d, d)
        Sum of u u'.
    rows : ndarray of shape (d,)
        Sum of u; zeros without an intercept.
    rows_targets : ndarray of shape (d,)
        Sum of u v.
    targets : float
        Sum of v; 0 without an intercept.
    """

    rows_rows: FloatArray
    rows: FloatArray
    rows_targets: FloatArray
    targets: float

    @classmethod
    def of(
        cls, source: Source, loss: SquaredLoss | None, objective: LinearObjective
    ) -> Moments:
        """The exact sums; reads the source once. Private. No loss: no targets."""
        d = objective.n_features
        rows_rows, rows_targets = np.zeros((d, d)), np.zeros(d)
        rows, targets = np.zeros(d), 0.0
        for block in source.blocks():
            y = np.zeros(len(block.y))
            if loss is not None:
                y = loss.clip_targets(block.y) / loss.target_bound
            for X, v in _clipped(block, y, objective.data_norm):
                product = X.T @ X
                rows_rows += product.toarray() if issparse(product) else product
                rows_targets += X.T @ v
                if objective.fit_intercept:
                    rows += np.asarray(X.sum(axis=0)).ravel()
                    targets += float(v.sum())
        return cls(rows_rows, rows, rows_targets, targets)

    def as_query(self, weights: MomentWeights) -> FloatArray:
        """The vector of the module's docstring."""
        t, k = weights.intercept, weights.target
        above = np.triu_indices(len(self.rows), 1)
        parts = [np.diag(self.rows_rows), math.sqrt(2) * self.rows_rows[above]]
        if k > 0:
            parts += [k * self.rows_targets]
        if t > 0:
            parts += [math.sqrt(2) * t * self.rows]
        if t > 0 and k > 0:
            parts += [np.array([k * t * self.targets])]
        return np.concatenate(parts)

    @classmethod
    def from_query(
        cls, query: FloatArray, n_features: int, weights: MomentWeights
    ) -> Moments:
        """The sums that a released vector stands for."""
        d, t, k = n_features, weights.intercept, weights.target
        sizes = [d, d * (d - 1) // 2, d * (k > 0), d * (t > 0)]
        diagonal, upper, rows_targets, rows, targets = np.split(query, np.cumsum(sizes))
        rows_rows = np.zeros((d, d))
        rows_rows[np.triu_indices(d, 1)] = upper / math.sqrt(2)
        rows_rows += rows_rows.T + np.diag(diagonal)
        return cls(
            rows_rows,
            rows / (math.sqrt(2) * t) if t > 0 else np.zeros(d),
            rows_targets / k if k > 0 else np.zeros(d),
            float(targets[0]) / (k * t) if t > 0 and k > 0 else 0.0,
        )


def query_size(objective: LinearObjective, *, has_targets: bool = True) -> int:
    """Numbers in the query."""
    d = objective.n_features
    of_rows = d * (d + 1) // 2 + d * objective.fit_intercept
    return of_rows + (d + objective.fit_intercept) * has_targets


def _clipped(block: Block, v: FloatArray, bound: float) -> list[tuple[Any, FloatArray]]:
    """Rows in units of `bound` with their targets; 0 for null records.

    Rows whose squares overflow come apart: the products of all others must not depend
    on whether some record is huge.
    """
    X = block.X.astype(np.float64, copy=False)
    norms = row_norms(X)
    factor = 1 / np.maximum(norms, bound)
    is_huge = ~(norms < HUGE)
    factor[is_huge] = 0.0
    if block.present is not None:
        is_huge &= block.present
        factor[~block.present] = 0.0
        v = np.where(block.present, v, 0.0)
    parts = [(scale_rows(X, factor), np.where(is_huge, 0.0, v))]
    huge = np.flatnonzero(is_huge)
    if len(huge):
        parts.append((bring_to_norm(X[huge], 1.0), v[huge]))
    return parts
