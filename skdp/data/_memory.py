"""Records held in memory: NumPy arrays (dense) and SciPy CSR (sparse)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skdp._floats import FloatArray
from skdp.data._source import Block

# A block is read from memory once and used again from the last-level cache; smaller
# blocks would pay more for the interpreter than they gain.
_BLOCK_BYTES = 1 << 21
_MIN_ROWS, _MAX_ROWS, _SPARSE_ROWS = 64, 1 << 14, 1 << 16


def _rows_of_a_block(row_bytes: int) -> int:
    return min(max(_BLOCK_BYTES // row_bytes, _MIN_ROWS), _MAX_ROWS)


class MemorySource:
    """A source over arrays; keeps references, copies nothing, reads nothing yet.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features), float32 or float64
    y : ndarray of shape (n_samples,)
    present : ndarray of bool or float64 of shape (n_samples,), default=None
        Which records are present under zero_out adjacency, or shares with which rows
        count; None means all.
    """

    def __init__(
        self, X: Any, y: FloatArray, present: NDArray[Any] | None = None
    ) -> None:
        self._X, self._y, self._present = X, y, present
        self.n_samples, self.n_features = (int(size) for size in X.shape)
        self.is_sparse = issparse(X)
        self.is_row_major = (
            not issparse(X) and X.flags.c_contiguous and X.dtype.isnative
        )
        self.is_stable = type(self) is MemorySource  # as in `held`
        # Sparse rows have no public length: a fixed number of rows per block
        # keeps the layout a function of public facts.
        rows = _SPARSE_ROWS
        if not issparse(X):
            rows = _rows_of_a_block(max(1, self.n_features * X.dtype.itemsize))
        self.most_rows = rows
        self.largest_block = min(rows, self.n_samples)

    def without(self, row: int) -> MemorySource:
        """The same records with one of them null."""
        there = np.ones(self.n_samples, dtype=np.bool_)
        if self._present is not None:
            there = self._present.copy()
        there[row] = False
        return MemorySource(self._X, self._y, there)

    def nothing(self) -> Block:
        kind = csr_array if self.is_sparse else np.empty
        return Block(kind((0, self.n_features), dtype=self._X.dtype), np.empty(0))

    def whole(self) -> Block:
        """All records as one block, without a copy."""
        return Block(self._X, self._y, self._present)

    def blocks(self) -> Iterator[Block]:
        yield from self._blocks_of(self.n_samples)

    def _blocks_of(self, n_rows: int) -> Iterator[Block]:
        for start in range(0, n_rows, self.largest_block):
            rows = slice(start, min(start + self.largest_block, n_rows))
            present = None if self._present is None else self._present[rows]
            yield Block(self._rows(rows), self._y[rows], present)

    def _rows(self, rows: slice) -> Any:
        if not issparse(self._X):
            return self._X[rows]
        first, last = self._X.indptr[rows.start], self._X.indptr[rows.stop]
        shape = (rows.stop - rows.start, self.n_features)
        # Views set one by one: the constructor, like slicing, copies parts of arrays.
        block = csr_array(shape, dtype=self._X.dtype)
        block.data = self._X.data[first:last]
        block.indices = self._X.indices[first:last]
        block.indptr = self._X.indptr[rows.start : rows.stop + 1] - first
        return block
