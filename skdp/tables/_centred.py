"""Rows that are centred, scaled and clipped by released values; CSR stays CSR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, row_norms, with_entries
from skdp.tables._source import STORED_BYTES, Block, Remote, Source

# Weights of states are multiples of 2 to minus this power, so that sums are exact.
SHARE_BITS = 20


def _slack(n_features: int) -> float:
    """Bound on the rounding error of a row's squared norm, over that of its terms."""
    return 8 * (n_features + 64) * UNIT_ROUNDOFF


@dataclass(frozen=True, eq=False)
class Centring:
    """The centre, scale and clip of rows; released or public.

    A row x becomes ``t = (x - centre) * scale``, divided by the larger of the norm of t
    and `norm`, so that rows have norm at most 1.

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
        """Norms of a product's terms over the norm of the row, for rows of norm 1."""
        return self.amplified(float(np.max(self.scale)))

    def amplified(self, terms: float) -> float:
        """The same, for scaled rows whose terms have norms that add up to `terms`."""
        moved = float(np.linalg.norm(self.centre * self.scale))
        # The intercept's terms keep their size even if all others are small.
        return max(2 * (terms + moved) / self.norm, 1.0)

    def products(self, X: Any, coef: FloatArray) -> FloatArray:
        """Contribution of rows to a prediction: ``factor * (x - centre) @ coef``.

        `coef` has the units of the features. `factor` is 1 for rows whose t has a norm
        of at most `norm`.
        """
        rows = self.of(X)
        factor = (rows.factor * self.norm)[:, None]
        return np.asarray(factor * (X @ coef - self.centre @ coef) + self.centre @ coef)

    @property
    def facts(self) -> dict[str, Any]:
        """What a reader needs for `products`."""
        return {
            "center": self.centre,
            "scale": self.scale,
            "norm": self.norm,
            "slack": _slack(len(self.centre)),
        }

    def weights(self, inner: FloatArray) -> FloatArray:
        """Weights in units of the features, from weights of centred rows."""
        return np.asarray(inner * (self.scale / self.norm)[:, None])

    def of(self, X: Any) -> CentredMatrix:
        """Rows of norm at most 1.

        Parameters
        ----------
        X : ndarray, canonical CSR or StateRows, of float64, (n_rows, n_features)
            Rows of norm at most 1.
        """
        centre, X = self.centre * self.scale, _scaled(X, self.scale)
        lengths = row_norms(X)
        squares = lengths**2 - 2 * np.asarray(X @ centre) + centre @ centre
        # Add the rounding error of cancelling terms, so that no row is longer than 1.
        own = X.terms if isinstance(X, StateRows) else lengths
        terms = own + float(np.linalg.norm(centre))
        lost = _slack(X.shape[1]) * terms**2
        norms = np.sqrt(np.maximum(squares, 0.0) + lost)
        factor = 1 / np.maximum(norms, self.norm)
        return CentredMatrix(X, centre, factor, norms, self.norm)


@dataclass(frozen=True, eq=False)
class StateRows:
    """Rows as weights of states times a basis, for products only.

    A cell has weights for two states but entries in many features, so products that go
    through the states are much faster.

    Parameters
    ----------
    states : CSR of float64 of shape (n_rows, n_states)
        Private.
    basis : CSR of float64 of shape (n_states, n_features)
    parts : tuple of int
        Number of states of each part; in each part the weights have a sum of at most 1.
    """

    states: csr_array
    basis: csr_array
    parts: tuple[int, ...]
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.states.shape[0], self.basis.shape[1]

    @property
    def norms(self) -> FloatArray:
        return row_norms(self.states @ self.basis)

    @property
    def terms(self) -> float:
        """Largest sum of the norms of a row's terms; from public facts."""
        each = np.split(row_norms(self.basis), np.cumsum(self.parts)[:-1])
        return float(sum(part.max() for part in each)) * (1 + 1e-12)

    def gridded(self) -> StateRows:
        """Rows whose weights are rounded down to multiples of 2^-20."""
        units = np.floor(self.states.data * 2.0**SHARE_BITS)
        shares = with_entries(self.states, units / 2.0**SHARE_BITS)
        return StateRows(shares, self.basis, self.parts)

    def scaled(self, scale: FloatArray) -> StateRows:
        """Rows whose features are multiplied by a scale."""
        basis = with_entries(self.basis, self.basis.data * scale[self.basis.indices])
        return StateRows(self.states, basis, self.parts)

    def __getitem__(self, rows: Any) -> StateRows:
        return StateRows(self.states[rows], self.basis, self.parts)

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.states @ (self.basis @ weights))

    @cached_property
    def T(self) -> _TransposedStates:
        """Transpose for products with residuals; cached, since SciPy copies."""
        return _TransposedStates(self.states.T, self.basis.T)


@dataclass(frozen=True, eq=False)
class _TransposedStates:
    states: Any
    basis: Any

    def __matmul__(self, residuals: FloatArray) -> FloatArray:
        return np.asarray(self.basis @ (self.states @ residuals))


@dataclass(frozen=True, eq=False)
class CentredMatrix:
    """``(X - centre) * factor``, each row with its factor, for products only.

    Parameters
    ----------
    X : ndarray, CSR or StateRows of float64 of shape (n_rows, n_features)
    centre : ndarray of float64 of shape (n_features,)
    factor : ndarray of float64 of shape (n_rows,)
    lengths : ndarray of float64 of shape (n_rows,)
        Norms before the factor; never below the exact norms.
    norm : float
        Clip of the rows: `factor` is at most ``1 / norm``.
    """

    X: Any
    centre: FloatArray
    factor: FloatArray
    lengths: FloatArray
    norm: float
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def norms(self) -> FloatArray:
        """Norms of the rows, at most 1."""
        return np.minimum(self.lengths * self.factor, 1.0)

    def __getitem__(self, rows: Any) -> CentredMatrix:
        of_rows = self.factor[rows], self.lengths[rows]
        return CentredMatrix(self.X[rows], self.centre, *of_rows, self.norm)

    def made(self) -> FloatArray:
        """The rows as an array, each computed separately."""
        X = self.X.states @ self.X.basis if isinstance(self.X, StateRows) else self.X
        X = X.toarray() if issparse(X) else X
        return np.asarray((X - self.centre) * self.factor[:, None])

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        raw = np.asarray(self.X @ weights) - self.centre @ weights
        factor = self.factor if weights.ndim == 1 else self.factor[:, None]
        return np.asarray(factor * raw)

    @property
    def T(self) -> _Transposed:
        """Transpose for products with residuals."""
        return _Transposed(self)


@dataclass(frozen=True, eq=False)
class _Transposed:
    rows: CentredMatrix

    def __matmul__(self, residuals: FloatArray) -> FloatArray:
        weighted = self.rows.factor[:, None] * residuals
        centred = np.outer(self.rows.centre, weighted.sum(axis=0))
        return np.asarray(self.rows.X.T @ weighted) - centred


class CentredSource(Source):
    """The centred rows of a source, computed once if the source has them in memory.

    Parameters
    ----------
    source : Source
    encode : callable
        Maps the source's rows to rows of norm at most 1, each separately.
    centring : Centring
    """

    def __init__(self, source: Source, encode: Any, centring: Centring) -> None:
        self._source, self._encode, self._centring = source, encode, centring
        facts = source.facts
        self._blocks = list(self._read()) if facts.holds_rows else []
        rows = [block.X.X for block in self._blocks]
        if not facts.holds_rows:
            rows = [self.nothing().X.X]
        made = [each for each in rows if isinstance(each, StateRows)]
        amplified = [centring.amplified(X.terms) for X in made]
        self.facts = replace(
            facts,
            n_features=len(centring.centre),
            is_row_major=False,
            is_stable=facts.holds_rows,
            # Those of a row before it is centred.
            row_bytes=min(facts.row_bytes, facts.n_features * STORED_BYTES),
            amplification=max([centring.amplification, *amplified]),
            cells=max([X.states.shape[1] for X in made], default=0),
        )

    def blocks(self) -> Iterator[Block]:
        return iter(self._blocks) if self.facts.holds_rows else self._read()

    @property
    def remote(self) -> Remote | None:
        return self._source.remote

    def nothing(self) -> Block:
        # Encoding no rows shows the public layout of encoded rows.
        rows = csr_array((0, self._source.n_features))
        return Block(self._centred(rows), np.empty(0))

    def _read(self) -> Iterator[Block]:
        for block in self._source.blocks():
            yield replace(block, X=self._centred(block.X))

    def _centred(self, X: Any) -> CentredMatrix:
        return self._centring.of(_gridded(self._encode(X)))


def _gridded(X: Any) -> Any:
    return X.gridded() if isinstance(X, StateRows) else X


def _scaled(X: Any, scale: FloatArray) -> Any:
    if isinstance(X, StateRows):
        return X.scaled(scale)
    if not issparse(X):
        return X * scale
    return with_entries(X, X.data * scale[X.indices])
