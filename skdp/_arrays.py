"""Types of arrays, norms and clips of rows, and conversion of released numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

# ------------------------------------------------------------------- Types and rounding


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Largest relative error of one rounded operation in double precision.
UNIT_ROUNDOFF = 2.0**-53


# ------------------------------------------------------------ Norms and scaling of rows
# Rows are dense or CSR, and no finite entry overflows.


# Rows of at least this norm are scaled in two steps; far below the square root of the
# largest double.
HUGE = 1e100


def with_entries(X: Any, entries: NDArray[Any]) -> Any:
    """CSR with other numbers in the same places; indices are shared, not copied."""
    # Views set one by one: the constructor copies parts of the arrays.
    changed = csr_array(X.shape, dtype=entries.dtype)
    changed.data, changed.indices, changed.indptr = entries, X.indices, X.indptr
    return changed


def clip_entries(X: Any, bound: float) -> Any:
    """A copy of rows, dense or CSR, with every entry clipped to a magnitude."""
    limit = _within(bound, X.dtype)
    if not issparse(X):
        return np.clip(X, -limit, limit)
    return with_entries(X, np.clip(X.data, -limit, limit))


def _within(bound: float, dtype: Any) -> Any:
    """The largest number of a dtype that is at most `bound`.

    In single precision the nearest one may be larger, and the sensitivity with it.
    """
    with np.errstate(over="ignore"):
        nearest = np.float64(bound).astype(dtype)
    return nearest if float(nearest) <= bound else np.nextafter(nearest, dtype.type(0))


def row_norms(X: Any) -> FloatArray:
    """L2 norms of the rows; inf where a square overflows. CSR must be canonical."""
    norms = getattr(X, "norms", None)  # of centred rows, which compute them once asked
    if norms is not None:
        return np.asarray(norms)
    if issparse(X):
        squares = with_entries(X, np.square(X.data, dtype=np.float64))
        return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())
    # Row-major, since otherwise the last bit of a row's norm depends on the presence of
    # other rows. A single row is repeated, since with many columns it is added up in
    # runs.
    n = X.shape[0]
    X = np.ascontiguousarray(np.repeat(X, 2, axis=0) if n == 1 else X, dtype=np.float64)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)[:n]), dtype=np.float64)


def row_products(X: Any, weights: FloatArray) -> FloatArray:
    """Dense rows times weights of shape (n_outputs, n_features), one row at a time.

    The last bits of a BLAS product depend on the number of rows and on their positions.
    """
    X, weights = (np.ascontiguousarray(own, dtype=np.float64) for own in (X, weights))
    return np.asarray(np.einsum("ij,kj->ik", X, weights))


def scale_rows(X: Any, factor: FloatArray) -> Any:
    """Rows times one factor each, in double precision; CSR stays of its class."""
    if not issparse(X):
        return X * factor[:, None]
    data = X.data * np.repeat(factor, np.diff(X.indptr))
    return type(X)((data, X.indices, X.indptr), shape=X.shape)


def bring_to_norm(rows: Any, norm: float) -> Any:
    """Rows of norm at least `HUGE` scaled to `norm`."""
    largest = abs(rows).max(axis=1)
    largest = largest.toarray() if issparse(largest) else np.asarray(largest)
    rows = scale_rows(rows, 1 / largest.ravel().astype(np.float64))
    return scale_rows(rows, norm / row_norms(rows))


def clip_rows(X: Any, norm: float) -> Any:
    """Rows longer than `norm` scaled down to it; shorter rows as they are."""
    norms = row_norms(X)
    clipped = scale_rows(X, norm / np.maximum(norms, norm))
    huge = np.flatnonzero(~(norms < HUGE))
    if len(huge):
        clipped = _put_rows(clipped, huge, bring_to_norm(X[huge], norm))
    return clipped


def _put_rows(X: Any, at: np.ndarray, rows: Any) -> Any:
    """X with some of its rows replaced by `rows`."""
    if not issparse(X):
        X[at] = rows
        return X
    entries = np.repeat(np.isin(np.arange(X.shape[0]), at), np.diff(X.indptr))
    X.data[entries] = rows.data
    return X


def rows_at(rows: Any, positions: NDArray[np.int64] | slice) -> Any:
    """Some rows of an array, CSR, data frame, source or sequence; None stays None.

    For an array of positions the result is a copy, which the caller may change.
    """
    if rows is None:
        return None
    if hasattr(rows, "taking"):  # a source: nothing is read
        return rows.taking(positions)
    if hasattr(rows, "iloc"):
        some = rows.iloc[positions]
        # pandas makes a view if all rows are taken in their order.
        return some if isinstance(positions, slice) else some.copy()
    if not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    is_array = isinstance(rows, np.ndarray)
    if is_array and rows.flags.f_contiguous and not rows.flags.c_contiguous:
        # Keep the order in memory, on which the speed of a fit depends.
        if isinstance(positions, slice):
            return rows[positions]
        return np.take(rows.T, positions, axis=1).T
    return rows[positions]


def copied(rows: Any) -> Any:
    """A copy of rows, in the same layout, that the caller may change; None stays None.

    A source is returned as it is, since it is read again each time.
    """
    if rows is None or hasattr(rows, "taking"):
        return rows
    if isinstance(rows, np.ndarray):
        return rows.copy(order="K")
    return rows.copy() if hasattr(rows, "copy") else rows


@dataclass(frozen=True, eq=False)
class RowsForEach:
    """The same records in the form that each of several models takes.

    Parameters
    ----------
    tables : tuple of arrays, CSR or data frames, of shape (n_rows, ...)
    """

    tables: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (count_rows(self.tables[0]),)

    def taking(self, positions: NDArray[np.int64] | slice) -> RowsForEach:
        return RowsForEach(tuple(rows_at(table, positions) for table in self.tables))


def rows_in_places(rows: Any, positions: NDArray[np.int64]) -> Any:
    """The rows at `positions`, as many as there are, with the old index of a frame.

    The index is kept because repeated labels would make joins within a step fail.
    """
    if isinstance(rows, RowsForEach):
        return RowsForEach(
            tuple(rows_in_places(table, positions) for table in rows.tables)
        )
    some = rows_at(rows, positions)
    if hasattr(some, "iloc"):
        some.index = rows.index
    return some


def rows_repeated(rows: Any, positions: NDArray[np.int64]) -> Any:
    """The rows at `positions`, which may repeat; a frame gets a new index."""
    some = rows_at(rows, positions)
    if isinstance(some, RowsForEach):
        return RowsForEach(tuple(map(_counted_off, some.tables)))
    return _counted_off(some)


def _counted_off(rows: Any) -> Any:
    return rows.reset_index(drop=True) if hasattr(rows, "iloc") else rows


def columns_at(X: Any, columns: NDArray[np.int64]) -> Any:
    """Some columns of rows, dense or CSR."""
    if issparse(X):
        return X[:, columns]
    return np.take(X, columns, axis=1)  # row-major, which indexing is not


def count_rows(rows: Any) -> int:
    """Number of records, public."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


# ------------------------------------------------ Released numbers as fitted attributes


def in_dtype(released: np.ndarray, dtype: Any) -> np.ndarray:
    """Released numbers in the dtype of X; its largest number replaces an overflow."""
    largest = np.finfo(dtype).max
    clipped = np.clip(released, -largest, largest)
    return np.asarray(clipped.astype(dtype, copy=False))
