"""Sums of per-record gradients of a linear model over clipped rows.

These sums are computed in floating point. Every row is scaled to a norm of at most
`data_norm`, the null record is masked in the last step, and the rounding error of the
sum has a bound that can be charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, with_entries
from skdp.losses._classification import clip_of
from skdp.losses._objective import LinearObjective
from skdp.sums._adder import present_rows, weighed
from skdp.sums._exact import blocks_of
from skdp.sums._grid_rows import RowClip
from skdp.tables._source import Block, Source

# With at least so many numbers in a table, compiled code saves more time than loading
# it takes.
_WORTH_COMPILING = 10_000_000


def rounding_slack(
    objective: LinearObjective,
    largest_block: int,
    weights_norm: float,
    moved_rows: int = 1,
    amplification: float = 1.0,
) -> float:
    """Bound on the effect of rounding on the sensitivity of a gradient sum.

    Two computed sums differ by the exact difference plus two errors. The first is twice
    the error of one sum: with blocks of b rows, then n / b blocks, in any order inside,
    the relative error is below (b + n / b + 16) units in the last place of the sum of
    the records' norms. The second is the error of every row that is computed
    differently: the error of its factor and residual, and of its raw prediction, which
    grows with the weights. If the layout of the blocks is public, one record is
    computed differently; if not, all `moved_rows`. See Lemma 13 of the proof page. All
    errors are multiplied by `amplification`, for the terms that cancel in centred rows.
    """
    n, b, d = objective.n_samples, largest_block, objective.n_features
    worst = objective.loss.zero_out_bound(math.inf)
    record = objective.row_norm * worst
    summation = 2 * n * (b + n / b + 16) * UNIT_ROUNDOFF
    one_row = 8 * (d + 64) * UNIT_ROUNDOFF
    row_norm = objective.row_norm * amplification
    raw_error = (d + 16) * UNIT_ROUNDOFF * row_norm * weights_norm
    moved = 2 * min(1.0, objective.loss.smoothness * raw_error / worst)
    rows = summation + moved_rows * one_row
    return record * (amplification * rows + moved_rows * moved)


class GradientSum:
    """Sums of gradients over a source; each call reads the source once.

    The source is private. Every record's residual is clipped to the norm
    `residual_clip`; with an infinite `data_norm` of the objective no row is clipped.
    """

    def __init__(
        self,
        source: Source,
        objective: LinearObjective,
        residual_clip: float = math.inf,
    ) -> None:
        self._source, self._objective = source, objective
        self._residual_clip = residual_clip
        # Clips of the blocks' rows, kept if the source repeats the same blocks.
        self._is_stable = source.facts.is_stable
        self._clips: dict[int, RowClip] = {}
        self._factors: dict[int, FloatArray] = {}
        self._is_compiled = (
            objective.loss.n_outputs == 1
            and math.isfinite(objective.data_norm)
            and objective.n_samples * objective.n_features >= _WORTH_COMPILING
            and source.facts.is_row_major
            and not objective.offset
        )
        self._double = np.empty((0, 0))

    def __call__(
        self, weights: FloatArray, rows: NDArray[np.int64] | None = None
    ) -> FloatArray:
        """Sum over the records of the gradients at `weights`, of the same shape.

        With increasing `rows`, the sum is over these records only.
        """
        total = np.zeros_like(weights)
        if rows is None and self._is_compiled:
            self._add_compiled(total, weights)
            return total
        blocks = self._blocks() if rows is None else self._sampled_blocks(rows)
        for X, clip, block in blocks:
            raw = self._raw(X, clip, weights)
            self._add_gradients(total, X, clip, raw, block)
        return total

    def with_value(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Sum of the losses and sum of the gradients at `weights`."""
        value, total = 0.0, np.zeros_like(weights)
        for X, clip, block in self._blocks():
            raw = self._raw(X, clip, weights)
            losses = self._objective.loss.value(block.y, raw)
            value += float(np.sum(weighed(losses, block)))
            self._add_gradients(total, X, clip, raw, block)
        return value, total

    def products(
        self, coef: FloatArray, rows: NDArray[np.int64] | None = None
    ) -> Iterator[tuple[FloatArray, Block]]:
        """Clipped rows times weights of shape (n_features, n_outputs), by blocks."""
        blocks = self._blocks() if rows is None else self._sampled_blocks(rows)
        for X, clip, block in blocks:
            yield clip.predict(X, coef), block

    def _blocks(self) -> Iterator[tuple[Any, RowClip, Block]]:
        """Blocks in double precision with the clips of their rows."""
        for i, block in enumerate(self._source.blocks()):
            clip = self._clip(i, block)  # before memory holds a double precision copy
            yield self._in_double(block.X), clip, block

    def _clip(self, i: int, block: Block) -> RowClip:
        """The clip of the rows of block number i."""
        if i in self._clips:
            return self._clips[i]
        bound = self._objective.data_norm
        clip = RowClip() if math.isinf(bound) else RowClip.of(block.X, bound)
        if self._is_stable:
            self._clips[i] = clip
        return clip

    def _ordinary_factors(self, i: int, clip: RowClip, block: Block) -> FloatArray:
        """Factors of the rows of block number i, except rows kept apart."""
        if i in self._factors:
            return self._factors[i]
        factors = clip.factors_of_ordinary(block)
        if self._is_stable:
            self._factors[i] = factors
        return factors

    def _sampled_blocks(
        self, rows: NDArray[np.int64]
    ) -> Iterator[tuple[Any, RowClip, Block]]:
        """The chosen rows of each block, with their clips."""
        bound = self._objective.data_norm
        for block in blocks_of(self._source, rows):
            if not len(block.y):
                continue
            # A sampled null record leaves no trace, not even in the rounding of other
            # records: as if it had not been sampled.
            there = present_rows(block)
            X = there.X.astype(np.float64, copy=False)
            clip = RowClip() if math.isinf(bound) else RowClip.of(X, bound)
            yield X, clip, replace(there, X=X)

    def _add_compiled(self, total: FloatArray, weights: FloatArray) -> None:
        """Add the gradients of dense rows and one output, with one visit per row."""
        from skdp.sums._gradient_kernel import add_double_gradients as add_gradients

        d = self._objective.n_features
        intercept = weights[d, 0] if self._objective.fit_intercept else 0.0
        for i, block in enumerate(self._source.blocks()):
            clip = self._clip(i, block)
            part = np.zeros(d)
            residuals = add_gradients(
                block.X,
                self._ordinary_factors(i, clip, block),
                block.y,
                weights[:d, 0],
                self._objective.intercept_value * intercept,
                int(self._objective.loss.form),
                self._objective.loss.form_constants,
                self._residual_clip,
                part,
            )
            total[:d, 0] += part
            if self._objective.fit_intercept:
                total[d] += self._objective.intercept_value * residuals
            apart = clip.huge_part(block)
            if apart is not None:
                alone = RowClip(huge=np.arange(len(apart.y)), huge_rows=apart.X)
                raw = self._raw(apart.X, alone, weights)
                self._add_gradients(total, apart.X, alone, raw, apart)

    def _in_double(self, X: Any) -> Any:
        # The sum is taken in double precision for every storage: in single precision
        # its rounding error would exceed the sensitivity.
        if X.dtype == np.float64:
            return X
        if issparse(X):
            return with_entries(X, X.data.astype(np.float64))
        if self._double.shape != X.shape:
            self._double = np.empty(X.shape)
        np.copyto(self._double, X)
        return self._double

    def _raw(self, X: Any, clip: RowClip, weights: FloatArray) -> FloatArray:
        d = self._objective.n_features
        raw = clip.predict(X, weights[:d])
        if self._objective.fit_intercept:
            raw += self._objective.intercept_value * weights[d]
        return raw + self._objective.offset if self._objective.offset else raw

    def _residual(self, raw: FloatArray, block: Block) -> FloatArray:
        """Clipped residuals, 0 for null records."""
        residual = self._objective.loss.residual(block.y, raw)
        if math.isfinite(self._residual_clip):
            norms = np.sqrt(np.einsum("ij,ij->i", residual, residual))[:, None]
            limit = clip_of(self._objective.loss, block.y, self._residual_clip)
            residual *= limit / np.maximum(norms, limit)
        return weighed(residual, block)

    def _add_gradients(
        self, total: FloatArray, X: Any, clip: RowClip, raw: FloatArray, block: Block
    ) -> None:
        d = self._objective.n_features
        residual = self._residual(raw, block)
        if self._objective.fit_intercept:
            total[d] += self._objective.intercept_value * residual.sum(axis=0)
        clip.add_gradients(X, total[:d], residual)
