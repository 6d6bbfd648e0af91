"""Rows less a released centre, in released scales, clipped: CSR stays CSR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from skdp._floats import UNIT_ROUNDOFF, FloatArray
from skdp._rows import row_norms, with_entries
from skdp.data._source import Block, Source


@dataclass(frozen=True, eq=False)
class Centring:
    """What rows are centred, scaled and clipped by; released, or public.

    A row x becomes ``t = (x - centre) * scale``, and t over its norm, or over `norm` if
    that is more. Rows come out with norm at most 1.

    Parameters
    ----------
    centre, scale : ndarray of float64 of shape (n_features,)
    norm : float in (0, inf)
    """

    centre: FloatArray
    scale: FloatArray
    norm: float

    @property
    def amplification(self) -> float:
        """Norms of the terms of a product over that of the row, for rows up to 1."""
        moved = float(np.linalg.norm(self.centre * self.scale))
        # The intercept's terms are as large as ever where all others are small.
        return max(2 * (float(np.max(self.scale)) + moved) / self.norm, 1.0)

    def products(self, X: Any, coef: FloatArray) -> FloatArray:
        """What rows add to a prediction: ``factor * (x - centre) @ coef``, unscaled.

        `factor` is 1 for rows whose t is no longer than `norm`.
        """
        rows = self.of(X)
        factor = (rows.factor * self.norm)[:, None]
        return np.asarray(factor * (X @ coef - self.centre @ coef) + self.centre @ coef)

    def weights(self, inner: FloatArray) -> FloatArray:
        """Weights in units of the features, of weights of centred rows."""
        return np.asarray(inner * (self.scale / self.norm)[:, None])

    def of(self, X: Any) -> CentredRows:
        """Rows of norm at most 1.

        Parameters
        ----------
        X : ndarray or canonical CSR of float64 of shape (n_rows, n_features)
            Of norm at most 1.
        """
        centre, X = self.centre * self.scale, _scaled(X, self.scale)
        squares = row_norms(X) ** 2 - 2 * np.asarray(X @ centre) + centre @ centre
        # What is lost where the terms cancel is added, so that no row is longer than 1.
        terms = row_norms(X) + np.linalg.norm(centre)
        lost = 8 * (X.shape[1] + 64) * UNIT_ROUNDOFF * terms**2
        norms = np.sqrt(np.maximum(squares, 0.0) + lost)
        return CentredRows(X, centre, 1 / np.maximum(norms, self.norm), norms)


@dataclass(frozen=True)
class TargetScale:
    """Targets less a released middle, over a released half of their width, clipped."""

    middle: float = 0.0
    half: float = 1.0

    def of(self, targets: FloatArray) -> FloatArray:
        """Targets in [-1, 1]."""
        return np.asarray(np.clip((targets - self.middle) / self.half, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class CentredRows:
    """``(X - centre) * factor``, each row with its factor, for products only.

    Parameters
    ----------
    X : ndarray or CSR of float64 of shape (n_rows, n_features)
    centre : ndarray of float64 of shape (n_features,)
    factor : ndarray of float64 of shape (n_rows,)
    lengths : ndarray of float64 of shape (n_rows,)
        Norms before the factor; never below the true ones.
    """

    X: Any
    centre: FloatArray
    factor: FloatArray
    lengths: FloatArray
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.X.shape[0], self.X.shape[1]

    @property
    def norms(self) -> FloatArray:
        """Of the rows, at most 1."""
        return np.minimum(self.lengths * self.factor, 1.0)

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        raw = np.asarray(self.X @ weights) - self.centre @ weights
        factor = self.factor if weights.ndim == 1 else self.factor[:, None]
        return np.asarray(factor * raw)

    @property
    def T(self) -> _Transposed:
        """For products with residuals."""
        return _Transposed(self)


@dataclass(frozen=True, eq=False)
class _Transposed:
    rows: CentredRows

    def __matmul__(self, residuals: FloatArray) -> FloatArray:
        weighted = self.rows.factor[:, None] * residuals
        centred = np.outer(self.rows.centre, weighted.sum(axis=0))
        return np.asarray(self.rows.X.T @ weighted) - centred


class CentredSource:
    """A source's rows, centred once and kept.

    Parameters
    ----------
    source : Source
    encode : callable
        From the source's rows to rows of norm at most 1, each by itself.
    centring : Centring
    targets : TargetScale or None
        None: targets as they are.
    """

    is_row_major = False

    def __init__(
        self,
        source: Source,
        encode: Any,
        centring: Centring,
        targets: TargetScale | None = None,
    ) -> None:
        self._blocks = [
            Block(
                centring.of(encode(block.X)),
                block.y if targets is None else targets.of(block.y),
                block.present,
            )
            for block in source.blocks()
        ]
        self.n_samples, self.n_features = source.n_samples, len(centring.centre)
        self.largest_block, self.is_stable = source.largest_block, True
        self.amplification = centring.amplification

    def blocks(self) -> Iterator[Block]:
        """The centred blocks."""
        return iter(self._blocks)


def _scaled(X: Any, scale: FloatArray) -> Any:
    if not issparse(X):
        return X * scale
    return with_entries(X, X.data * scale[X.indices])
