"""Sums of per-record gradients of a linear model over clipped rows.

The only arithmetic between private records and a query. Every row is scaled to
norm at most `data_norm` (clip, never look), the null record is masked at the last
step, and the rounding error of the sum is bounded so that it can be charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skdp.data import Block, Source
from skdp.losses import Loss
from skdp.solvers._base import Problem

FloatArray = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53
_HUGE = 1e100  # far below the square root of the largest double


def query_sensitivity(
    loss: Loss,
    problem: Problem,
    residual_clip: float = math.inf,
    weights_norm: float = math.inf,
    intercept_weight: float = 1.0,
) -> float:
    """L2 sensitivity of the gradient sum at public weights, in exact arithmetic.

    Parameters
    ----------
    loss : Loss
    problem : Problem
    residual_clip : float in (0, inf], default=inf
        Norm to which every record's residual is clipped.
    weights_norm : float in [0, inf], default=inf
        Spectral norm of the released weights at which the gradient is taken. The
        bound may depend on it because the weights are already public. With an
        `intercept_weight` the intercept's weights count divided by it.
    intercept_weight : float in (0, 1], default=1.0
        Factor on the intercept's row of the query.

    Returns
    -------
    float
        Under ``problem.adjacency``; both cases are derived separately on the proof
        page ``docs/proofs/noisy_gd.md``.
    """
    rho = problem.data_norm
    if problem.fit_intercept:
        rho *= math.sqrt(1 + intercept_weight**2)
    radius = rho * weights_norm
    one_record = min(loss.zero_out_bound(radius), residual_clip)
    two_records = 2 * one_record
    if math.isinf(residual_clip):  # clipping does not shrink every diameter
        two_records = min(two_records, loss.replace_one_bound(radius))
    return rho * {"zero_out": one_record, "replace_one": two_records}[problem.adjacency]


def rounding_slack(loss: Loss, problem: Problem, largest_block: int) -> float:
    """Bound on what floating point adds to the sensitivity of a gradient sum.

    Two computed sums differ by the exact difference, plus twice the error of one
    sum (blocks of b rows, then n / b blocks, any order inside: relative error below
    (b + n / b + 16) units in the last place of the sum of the records' norms), plus
    the error of one row's scale and residual. Lemma 4 of the proof page.
    """
    n, b = problem.n_samples, largest_block
    record = problem.row_norm * loss.zero_out_bound(math.inf)
    relative = (b + n / b + 16) * _UNIT_ROUNDOFF
    one_row = 8 * (problem.n_features + 64) * _UNIT_ROUNDOFF
    return record * (2 * n * relative + one_row)


def _row_norms(X: Any) -> FloatArray:
    if issparse(X):
        squares = csr_array(
            (X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape
        )
        return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())
    X = X.astype(np.float64, copy=False)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)), dtype=np.float64)


def _clip_huge_rows(X: Any, norms: FloatArray, bound: float) -> tuple[Any, FloatArray]:
    """Clip the rows whose squares overflow, in a copy, and say that they are clipped.

    Without it a row of 1e200 would have an infinite norm and 0 * inf = NaN would
    reach the sum: one record could destroy the release.
    """
    huge = ~(norms < _HUGE)
    if issparse(X):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        largest = np.ones(X.shape[0])
        np.maximum.at(largest, rows, np.abs(X.data))
        shrink = np.where(huge, largest, 1.0)
        X = csr_array((X.data / shrink[rows], X.indices, X.indptr), shape=X.shape)
        factor = np.where(huge, bound / np.where(huge, _row_norms(X), 1.0), 1.0)
        X = csr_array((X.data * factor[rows], X.indices, X.indptr), shape=X.shape)
    else:
        X = X.copy()
        X[huge] /= np.abs(X[huge]).max(axis=1, keepdims=True)
        X[huge] *= (bound / _row_norms(X[huge]))[:, None]
    return X, np.where(huge, bound, norms)


class GradientSum:
    """Sums of gradients over a source; each call reads the source once.

    Parameters
    ----------
    source : Source
        Private.
    loss : Loss
    problem : Problem
        With an infinite `data_norm` no row is clipped.
    residual_clip : float in (0, inf], default=inf
        Norm to which every record's residual is clipped.
    """

    def __init__(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        residual_clip: float = math.inf,
    ) -> None:
        self._source, self._loss, self._problem = source, loss, problem
        self._residual_clip = residual_clip
        self._factors: dict[int, FloatArray] = {}
        self._double = np.empty((0, 0))

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Sum over the records of the gradients at `weights`, same shape."""
        total = np.zeros_like(weights)
        for X, factor, block in self._blocks():
            raw = self._raw(X, factor, weights)
            self._add_gradients(total, X, factor, raw, block)
        return total

    def with_value(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Sum of the losses and sum of the gradients at `weights`."""
        value, total = 0.0, np.zeros_like(weights)
        for X, factor, block in self._blocks():
            raw = self._raw(X, factor, weights)
            value += float(np.sum(self._loss.value(block.y, raw)))
            self._add_gradients(total, X, factor, raw, block)
        return value, total

    def _blocks(self) -> Iterator[tuple[Any, FloatArray | None, Block]]:
        """Blocks in double precision with the factor that clips each of their rows."""
        bound = self._problem.data_norm
        for i, block in enumerate(self._source.blocks()):
            X = self._in_double(block.X)
            if math.isinf(bound):
                yield X, None, block
                continue
            factor = self._factors.get(i)
            if factor is None:
                norms = _row_norms(X)
                ordinary = bool(np.all(norms < _HUGE))
                if not ordinary:
                    X, norms = _clip_huge_rows(X, norms, bound)
                factor = bound / np.maximum(norms, bound)
                if ordinary:
                    self._factors[i] = factor
            yield X, factor, block

    def _in_double(self, X: Any) -> Any:
        # The sum is taken in double precision whatever the storage is: in single
        # precision its rounding error would exceed the sensitivity.
        if issparse(X) or X.dtype == np.float64:
            return X
        if self._double.shape != X.shape:
            self._double = np.empty(X.shape)
        np.copyto(self._double, X)
        return self._double

    def _raw(
        self, X: Any, factor: FloatArray | None, weights: FloatArray
    ) -> FloatArray:
        d = self._problem.n_features
        raw = np.asarray(X @ weights[:d], dtype=np.float64)
        if factor is not None:
            raw *= factor[:, None]
        if self._problem.fit_intercept:
            raw += self._problem.intercept_value * weights[d]
        return raw

    def _add_gradients(
        self,
        total: FloatArray,
        X: Any,
        factor: FloatArray | None,
        raw: FloatArray,
        block: Block,
    ) -> None:
        d = self._problem.n_features
        residual = self._loss.residual(block.y, raw)
        if math.isfinite(self._residual_clip):
            norms = np.sqrt(np.einsum("ij,ij->i", residual, residual))
            limit = self._residual_clip
            residual *= (limit / np.maximum(norms, limit))[:, None]
        if block.present is not None:
            residual[~block.present] = 0.0
        if self._problem.fit_intercept:
            total[d] += self._problem.intercept_value * residual.sum(axis=0)
        if factor is not None:
            residual *= factor[:, None]
        total[:d] += X.T @ residual
