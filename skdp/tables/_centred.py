"""Rows that are centred, scaled and clipped by released values; CSR stays CSR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, row_norms, with_entries
from skdp.tables._source import (
    SHARE_BITS,
    STORED_BYTES,
    Block,
    KeptRows,
    Remote,
    Room,
    Source,
    room_for,
)

# With at least so many numbers in a table in memory, compiled code for cells saves more
# time in a hundred passes than loading it takes.
WORTH_CELLS = 5_000_000


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
        return _terms_of(self.basis, self.parts)

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

    @property
    def n_bytes(self) -> int:
        return _bytes_of(self.states)

    def packed(self) -> CellRows | None:
        """The same rows, gridded, as cells; None if other weights than those of cells.

        A cell is in one state with weight 1, or between two neighbouring states of a
        part. Rows of numbers are not made of cells.
        """
        from skdp.tables._coded_kernel import pack_cells

        shape, states = (self.shape[0], len(self.parts)), self.states
        cells = np.empty(shape, _type_of_cells(self.parts))
        rows = states.data, states.indices, states.indptr
        part_of = np.repeat(np.arange(len(self.parts)), self.parts)
        is_of_cells = pack_cells(rows, part_of, _ends(self.parts), cells)
        return CellRows(cells, self.basis, self.parts) if is_of_cells else None

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.states @ (self.basis @ weights))

    @cached_property
    def T(self) -> _TransposedStates:
        """Transpose for products with residuals; cached, since SciPy copies."""
        return _TransposedStates(self.states.T, self.basis.T)


# Bits of a cell of 32 bits that are left for its state.
_STATE_BITS = 32 - SHARE_BITS - 2


def _type_of_cells(parts: tuple[int, ...]) -> Any:
    return np.uint32 if max(parts) < 1 << _STATE_BITS else np.uint64


def bytes_of_cells(parts: tuple[int, ...]) -> int:
    """Bytes of a row of cells, with its factor; public."""
    return int(len(parts) * np.dtype(_type_of_cells(parts)).itemsize + 8)


def _terms_of(basis: csr_array, parts: tuple[int, ...]) -> float:
    each = np.split(row_norms(basis), np.cumsum(parts)[:-1])
    return float(sum(part.max() for part in each)) * (1 + 1e-12)


def _ends(parts: tuple[int, ...]) -> NDArray[np.int64]:
    """Where each part starts among the states, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(parts)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class CellRows:
    """Gridded rows of states with one whole number for each part.

    Parameters
    ----------
    cells : ndarray of uint32 or uint64 of shape (n_rows, n_parts)
        See ``_coded_kernel.py``. Private.
    basis, parts
        As in `StateRows`.
    """

    cells: NDArray[Any]
    basis: csr_array
    parts: tuple[int, ...]
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.cells), self.basis.shape[1]

    @property
    def n_bytes(self) -> int:
        return int(self.cells.nbytes)

    @property
    def terms(self) -> float:
        return _terms_of(self.basis, self.parts)

    def __getitem__(self, rows: Any) -> CellRows:
        return CellRows(self.cells[rows], self.basis, self.parts)

    def unpacked(self) -> StateRows:
        """The same rows of states."""
        from skdp.tables._coded_kernel import unpack_cells

        most = 2 * self.cells.size
        shares, states = np.empty(most), np.empty(most, dtype=np.int32)
        starts = np.zeros(len(self.cells) + 1, dtype=np.int32)
        n = unpack_cells(self.cells, _ends(self.parts), shares, states, starts)
        shape = len(self.cells), sum(self.parts)
        found = csr_array((shares[:n], states[:n], starts), shape=shape)
        return StateRows(found, self.basis, self.parts)

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        return self.unpacked() @ weights

    @property
    def T(self) -> _TransposedStates:
        return self.unpacked().T

    # Tables for compiled code have one place more for each part, and one at the end.

    @property
    def starts(self) -> NDArray[np.int64]:
        """First place of each part in tables."""
        return _ends(self.parts)[:-1] + np.arange(len(self.parts))

    @property
    def places(self) -> NDArray[np.int64]:
        """Place of each state in tables."""
        n_states = self.basis.shape[0]
        return np.arange(n_states) + np.repeat(np.arange(len(self.parts)), self.parts)

    def table(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whole numbers of shape (n_states, n_outputs), each output in its table."""
        size = self.basis.shape[0] + len(self.parts) + 1
        table = np.zeros((values.shape[1], size), dtype=np.int64)
        table[:, self.places] = values.T
        return table

    def added_up(self, values: NDArray[np.int64]) -> FloatArray:
        """Weights of the states, in units, times whole numbers of the states.

        Returns
        -------
        ndarray of float64 of shape (n_rows, n_outputs)
        """
        from skdp.tables._coded_kernel import look_up_cells

        found = np.empty((values.shape[1], len(self.cells)))
        for own, table in zip(found, self.table(values), strict=True):
            look_up_cells(self.cells, self.starts, table, own)
        return found.T


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
    X : ndarray, CSR, StateRows or CellRows, (n_rows, n_features)
    centre : ndarray of float64 of shape (n_features,)
    factor : ndarray of float64 of shape (n_rows,)
    lengths : ndarray of float64 of shape (n_rows,) or None
        Norms before the factor; never below the exact norms. None: not kept.
    norm : float
        Clip of the rows: `factor` is at most ``1 / norm``.
    """

    X: Any
    centre: FloatArray
    factor: FloatArray
    lengths: FloatArray | None
    norm: float
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def norms(self) -> FloatArray:
        """Norms of the rows, at most 1; or bounds on them, if lengths are not kept."""
        if self.lengths is None:
            return np.ones(len(self.factor))
        return np.minimum(self.lengths * self.factor, 1.0)

    def __getitem__(self, rows: Any) -> CentredMatrix:
        lengths = None if self.lengths is None else self.lengths[rows]
        own = self.X[rows], self.centre, self.factor[rows], lengths
        return CentredMatrix(*own, self.norm)

    @property
    def n_bytes(self) -> int:
        lengths = 0 if self.lengths is None else self.lengths.nbytes
        return int(_bytes_of(self.X) + self.factor.nbytes + lengths)

    def packed(self) -> CentredMatrix:
        """The same rows with cells in place of states, if they are made of cells."""
        cells = self.X.packed() if isinstance(self.X, StateRows) else None
        return self if cells is None else replace(self, X=cells, lengths=None)

    def made(self) -> FloatArray:
        """The rows as an array, each computed separately."""
        X = self.X.unpacked() if isinstance(self.X, CellRows) else self.X
        X = X.states @ X.basis if isinstance(X, StateRows) else X
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
    """The centred rows of a source, computed once if they are kept (`room_for`).

    Parameters
    ----------
    source : Source
    encode : callable
        Maps the source's rows to rows of norm at most 1, each separately.
    centring : Centring
    room : Room or None, default=None
        Where rows are kept, for a part of a table on a worker, where the size of the
        whole table is not known. None: follows from the facts of the source.
    """

    def __init__(
        self,
        source: Source,
        encode: Any,
        centring: Centring,
        room: Room | None = None,
    ) -> None:
        self._source, self._encode, self._centring = source, encode, centring
        facts, d = source.facts, len(centring.centre)
        self._has_cells = not facts.holds_rows or facts.n_samples * d >= WORTH_CELLS
        shown = self.nothing().X.X
        own = [shown] if isinstance(shown, StateRows) else []
        amplified = [centring.amplified(X.terms) for X in own]
        self.facts = replace(
            facts,
            n_features=d,
            is_row_major=False,
            is_stable=facts.holds_rows,
            # Those of a row before it is centred.
            row_bytes=min(facts.row_bytes, facts.n_features * STORED_BYTES),
            amplification=max([centring.amplification, *amplified]),
            cells=sum(X.basis.shape[0] for X in own),
        )
        self._room = room_for(self, facts.n_samples, d) if room is None else room
        self._kept: KeptRows[Block] = KeptRows(self._room)
        if self._room.disk:  # readers would write the same rows once more
            self.facts = replace(self.facts, memory=0.0, disk=0.0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copy the arguments only: rows stay where they are.
        return type(self), (self._source, self._encode, self._centring, self._room)

    def blocks(self) -> Iterator[Block]:
        return self._kept.passed(self._read)

    @property
    def remote(self) -> Remote | None:
        return self._source.remote

    def nothing(self) -> Block:
        return self._nothing

    @cached_property
    def _nothing(self) -> Block:
        # Encoding no rows shows the public layout of encoded rows. Every sum asks.
        X = self._source.nothing().X
        if not self._source.facts.holds_rows:
            X = csr_array((0, self._source.n_features))
        return Block(self._centring.of(_gridded(self._encode(X))), np.empty(0))

    def _read(self) -> Iterator[Block]:
        for block in self._source.blocks():
            rows = self._centring.of(_gridded(self._encode(block.X)))
            yield replace(block, X=rows.packed() if self._has_cells else rows)


def _bytes_of(X: Any) -> int:
    if issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes if isinstance(X, np.ndarray) else X.n_bytes)


def _gridded(X: Any) -> Any:
    return X.gridded() if isinstance(X, StateRows) else X


def _scaled(X: Any, scale: FloatArray) -> Any:
    if isinstance(X, StateRows):
        return X.scaled(scale)
    if not issparse(X):
        return X * scale
    return with_entries(X, X.data * scale[X.indices])
