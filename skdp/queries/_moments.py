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
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp._rows import HUGE, bring_to_norm, row_norms, scale_rows
from skdp.data import Block, Source
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of


@dataclass(frozen=True)
class MomentWeights:
    """Public weights of the parts of the query.

    `intercept` is t above, in [0, 1], 0 if the problem has none; `target` is k above, 0
    without targets.
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

    def bound(self) -> Bound:
        """L2 bounds on the sum, in exact arithmetic."""
        return Bound(
            zero_out=self.record_norm() * (1 + 1e-12),
            replace_one=self.record_distance() * (1 + 1e-12),
        )


@dataclass(frozen=True)
class Moments:
    """Sums over the records, exact or released.

    `rows_rows`, of shape (d, d), is the sum of u u', `rows` that of u, `rows_targets`
    that of u v, and `targets` that of v. `rows` and `targets` are 0 without an
    intercept.
    """

    rows_rows: FloatArray
    rows: FloatArray
    rows_targets: FloatArray
    targets: float


@dataclass(frozen=True)
class MomentSums:
    """The vector of the module's docstring, summed over all records.

    Rows are clipped to the norm `data_norm`, and targets, if they have a weight, to the
    magnitude `target_bound`.
    """

    weights: MomentWeights
    n_samples: int
    n_features: int
    data_norm: float
    target_bound: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self._sizes),)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Numbers in each part: diagonal, triangle, u v, u, v."""
        d, t, k = self.n_features, self.weights.intercept > 0, self.weights.target > 0
        return d, d * (d - 1) // 2, d * k, d * t, int(t and k)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        return self.weights.bound()

    def slack(self, layout: Layout) -> float:
        # Lemma 3.
        n, b, d = self.n_samples, layout.largest_block, self.n_features
        summation = 2 * n * (b + n / b + 16) * UNIT_ROUNDOFF
        one_row = 16 * (d + 64) * UNIT_ROUNDOFF
        return self.weights.record_norm() * (summation + layout.moved_rows * one_row)

    def open(self, source: Source) -> Source:
        return source

    def total(self, reader: Source, rows: IntArray | None) -> FloatArray:
        return self.stack(self.sums(reader, rows))

    def sums(self, source: Source, rows: IntArray | None = None) -> Moments:
        """The exact sums. Private."""
        d = self.n_features
        rows_rows, rows_targets = np.zeros((d, d)), np.zeros(d)
        sum_of_rows, targets = np.zeros(d), 0.0
        for block in blocks_of(source, rows):
            for X, v in _clipped(block, self._unit_targets(block), self.data_norm):
                product = X.T @ X
                rows_rows += product.toarray() if issparse(product) else product
                rows_targets += X.T @ v
                if self.weights.intercept > 0:
                    sum_of_rows += np.asarray(X.sum(axis=0)).ravel()
                    targets += float(v.sum())
        return Moments(rows_rows, sum_of_rows, rows_targets, targets)

    def _unit_targets(self, block: Block) -> FloatArray:
        if self.weights.target == 0:
            return np.zeros(len(block.y))
        bound = self.target_bound
        return np.asarray(np.clip(block.y, -bound, bound) / bound)

    def stack(self, moments: Moments) -> FloatArray:
        """Sums as the vector of the module's docstring."""
        t, k = self.weights.intercept, self.weights.target
        above = np.triu_indices(self.n_features, 1)
        parts = [np.diag(moments.rows_rows), math.sqrt(2) * moments.rows_rows[above]]
        if k > 0:
            parts += [k * moments.rows_targets]
        if t > 0:
            parts += [math.sqrt(2) * t * moments.rows]
        if t > 0 and k > 0:
            parts += [np.array([k * t * moments.targets])]
        return np.concatenate(parts)

    def read(self, released: FloatArray) -> Moments:
        """The sums that a released vector stands for; post-processing."""
        d, t, k = self.n_features, self.weights.intercept, self.weights.target
        diagonal, upper, rows_targets, rows, targets = np.split(
            released, np.cumsum(self._sizes[:-1])
        )
        rows_rows = np.zeros((d, d))
        rows_rows[np.triu_indices(d, 1)] = upper / math.sqrt(2)
        rows_rows += rows_rows.T + np.diag(diagonal)
        return Moments(
            rows_rows,
            rows / (math.sqrt(2) * t) if t > 0 else np.zeros(d),
            rows_targets / k if k > 0 else np.zeros(d),
            float(targets[0]) / (k * t) if t > 0 and k > 0 else 0.0,
        )


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
