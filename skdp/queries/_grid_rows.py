"""Rows on a grid, by how they are stored: exact products and exact sums of each kind.

Every kind has `raw` (raw predictions, of each row by itself), `add` (adds up rows times
whole numbers), `features` (what those sums stand for), and how fine the residuals of
its sums are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp._rows import with_entries
from skdp.data._centred import SHARE_BITS, CentredRows, StateRows
from skdp.data._code_rows import CodeRows, added_up, summed_by_code
from skdp.queries._grid import (
    MOST_ROWS,
    RESIDUAL_BITS,
    ROW_BITS,
    ExactTotal,
    norm_exponent,
    units_of,
)
from skdp.queries._row_grid import LONGEST, SHORTENED, grid_rows, squares_of

# Of weighted residuals of rows by way of states, and of those of codes.
_STATE_BITS, _CODE_BITS = 26, 30
# Of what states and codes add to raw predictions; times shares below 2^60.
_STATE_TABLE_BITS, _CODE_TABLE_BITS = 40, 50
# Of numbers of at least 0 that states have; a row of 2^13 parts adds up below 2^63.
_MEAN_BITS = 30


class GridRows(Protocol):
    """Rows of one block, each an integer vector or a public map of one."""

    @property
    def bits(self) -> int:
        """Of the residuals that are summed."""
        ...

    @property
    def factor(self) -> FloatArray | None:
        """What each record's residual is multiplied by in the sums, up to 1."""
        ...

    @property
    def n_bytes(self) -> int:
        """What they take in memory, but for what blocks share."""
        ...

    def raw(self, weights: FloatArray) -> FloatArray:
        """Products with the features' weights and the intercept's, if it is there."""
        ...

    def total(self, n_outputs: int) -> ExactTotal: ...

    def add(self, total: ExactTotal, units: FloatArray) -> None:
        """Add rows times `units`, whole numbers of shape (n_rows, n_outputs)."""
        ...

    def features(self, sums: FloatArray) -> FloatArray:
        """What sums of rows stand for, of shape (n_features, n_outputs)."""
        ...


@dataclass(frozen=True, eq=False)
class _PlainGrid:
    """Rows that are integers in units of ``norm 2^-22``."""

    entries: Any
    norm: float
    bits: ClassVar[int] = RESIDUAL_BITS
    factor: ClassVar[FloatArray | None] = None

    @property
    def unit(self) -> float:
        return self.norm / LONGEST

    def total(self, n_outputs: int) -> ExactTotal:
        shape = self.entries.shape[1], n_outputs
        return ExactTotal(shape, ROW_BITS + RESIDUAL_BITS)

    def features(self, sums: FloatArray) -> FloatArray:
        return sums * self.unit

    def largest(self, bound: float) -> float:
        """The largest integer that stands for no more than `bound`."""
        return math.floor(min(bound / self.unit * (1 - 2.0**-50), LONGEST))


@dataclass(frozen=True, eq=False)
class DenseGrid(_PlainGrid):
    """An array of float32, which holds them, or of float64.

    `norms` are those of the rows before they were rounded, where they are asked for.
    """

    norms: FloatArray | None = None

    @property
    def n_bytes(self) -> int:
        beside = 0 if self.norms is None else self.norms.nbytes
        return int(self.entries.nbytes + beside)

    def in_double(self) -> Self:
        return replace(self, entries=self.entries.astype(np.float64, copy=False))

    def raw(self, weights: FloatArray) -> FloatArray:
        d = self.entries.shape[1]
        products = self.entries @ weights[:d]
        if len(weights) > d:
            products += LONGEST * weights[d]
        products *= self.unit
        return np.asarray(products)

    def add(self, total: ExactTotal, units: FloatArray) -> None:
        for start in range(0, len(units), MOST_ROWS):
            run = units[start : start + MOST_ROWS]
            part = self.entries[start : start + MOST_ROWS].T @ run
            total.add(part.astype(np.int64), len(run))

    def clipped(self, bound: float) -> Self:
        """The same rows with every entry within `bound`."""
        limit = self.largest(bound)
        return replace(self, entries=np.clip(self.entries, -limit, limit))

    def shortened(self, norm: float) -> Self:
        """The same rows, none longer than `norm`."""
        entries = self.entries.astype(np.float64)
        factor = _shortening(squares_of(entries), self.largest(norm))
        return replace(self, entries=np.trunc(entries * factor[:, None]))


@dataclass(frozen=True, eq=False)
class SparseGrid(_PlainGrid):
    """CSR of int64, in which sums need no blocks."""

    @property
    def n_bytes(self) -> int:
        return _n_bytes(self.entries)

    def in_double(self) -> Self:
        return self

    def raw(self, weights: FloatArray) -> FloatArray:
        d = self.entries.shape[1]
        units, unit = units_of(weights)
        products = self.entries @ units[:d]
        if len(weights) > d:
            products += int(LONGEST) * units[d]
        return np.asarray(products.astype(np.float64) * unit * self.unit)

    def add(self, total: ExactTotal, units: FloatArray) -> None:
        total.add(self.entries.T @ units.astype(np.int64), len(units))

    def clipped(self, bound: float) -> Self:
        limit = int(self.largest(bound))
        return self._with(np.clip(self.entries.data, -limit, limit))

    def shortened(self, norm: float) -> Self:
        counts = np.diff(self.entries.indptr)
        entries = self.entries.data.astype(np.float64)
        squares = squares_of(with_entries(self.entries, entries))
        factor = np.repeat(_shortening(squares, self.largest(norm)), counts)
        return self._with(np.trunc(entries * factor).astype(np.int64))

    def _with(self, entries: NDArray[np.int64]) -> Self:
        return replace(self, entries=with_entries(self.entries, entries))


def _n_bytes(entries: Any) -> int:
    parts = entries.data, entries.indices, entries.indptr
    return sum(int(part.nbytes) for part in parts)


def _shortening(squares: FloatArray, longest: float) -> FloatArray:
    shortened = longest * (SHORTENED / LONGEST)
    factor = shortened / np.sqrt(np.maximum(squares, 1.0))
    return np.where(squares > longest**2, factor, 1.0)


@dataclass(frozen=True, eq=False)
class StateGrid:
    """Centred rows by way of the states of their cells: shares are integers."""

    rows: CentredRows
    shares: Any
    factor: FloatArray
    bits: ClassVar[int] = _STATE_BITS
    # Sums of so many shares times weighted residuals are below 2^62.
    most_rows: ClassVar[int] = 2 ** (62 - SHARE_BITS - _STATE_BITS)

    @classmethod
    def of(cls, rows: CentredRows) -> Self:
        shares = rows.X.states
        units = np.floor(shares.data * 2.0**SHARE_BITS).astype(np.int64)
        factor = rows.factor * rows.norm
        return cls(rows, with_entries(shares, units), factor)

    @property
    def n_bytes(self) -> int:
        # Of the shares there are two forms, in the same places.
        numbers = (self.shares.data, self.factor, self.rows.factor, self.rows.lengths)
        return _n_bytes(self.shares) + sum(int(each.nbytes) for each in numbers)

    @cached_property
    def _by_state(self) -> Any:
        """Kept, since SciPy copies what it transposes."""
        return self.shares.T

    def in_double(self) -> Self:
        return self

    def raw(self, weights: FloatArray) -> FloatArray:
        X, d = self.rows.X, self.rows.shape[1]
        own = weights[:d]
        table, unit = _table(X.basis @ own, own, X.terms, _STATE_TABLE_BITS)
        products = (self.shares @ table).astype(np.float64) * (unit / 2**SHARE_BITS)
        products -= self.rows.centre @ own
        products *= self.rows.factor[:, None]
        if len(weights) > d:
            products += weights[d]
        return np.asarray(products)

    def variance_of(self, values: FloatArray) -> FloatArray:
        """Of predictions, by variances of unscaled ones, one of each state."""
        table, unit = _whole(values)
        sums = (self.shares @ table).astype(np.float64)
        return np.asarray(sums * (unit / 2**SHARE_BITS) * self.rows.factor**2)

    def total(self, n_outputs: int) -> ExactTotal:
        shape = self.shares.shape[1] + 1, n_outputs
        return ExactTotal(shape, SHARE_BITS + _STATE_BITS)

    def add(self, total: ExactTotal, units: FloatArray) -> None:
        n, most = len(units), self.most_rows
        for start in range(0, n, most):
            run = units[start : start + most].astype(np.int64)
            shares = (
                self._by_state if n <= most else self.shares[start : start + most].T
            )
            part = np.vstack([shares @ run, run.sum(axis=0)])
            total.add(part, len(run))

    def features(self, sums: FloatArray) -> FloatArray:
        by_state = self.rows.X.basis.T @ (sums[:-1] / 2**SHARE_BITS)
        moved = np.outer(self.rows.centre, sums[-1])
        return np.asarray((by_state - moved) / self.rows.norm)


@dataclass(frozen=True, eq=False)
class CodeGrid:
    """Rows of codes: tables of what codes add are integers, and so are sums by code."""

    rows: CodeRows
    factor: FloatArray
    bits: ClassVar[int] = _CODE_BITS

    @classmethod
    def of(cls, rows: CodeRows) -> Self:
        return cls(rows, rows.T.weights)

    @property
    def n_bytes(self) -> int:
        return int(self.rows.codes.nbytes + self.factor.nbytes)

    def in_double(self) -> Self:
        return self

    def raw(self, weights: FloatArray) -> FloatArray:
        basis, d = self.rows.basis, self.rows.shape[1]
        exact = np.concatenate(basis.tables(weights[:d]))
        table, unit = _table(exact, weights[:d], basis.terms, _CODE_TABLE_BITS)
        sums = added_up(self.rows.codes, basis.starts, (table,))
        raw = sums.astype(np.float64) * unit
        if len(weights) > d:
            raw += weights[d]
        return np.asarray(raw)

    def variance_of(self, values: FloatArray) -> FloatArray:
        """Of predictions, by variances of the parts of a row, one of each code."""
        table, unit = _whole(values)
        codes, starts = self.rows.codes, self.rows.basis.starts
        return added_up(codes, starts, (table[:, None],))[:, 0] * unit

    def total(self, n_outputs: int) -> ExactTotal:
        return ExactTotal((int(self.rows.basis.starts[-1]), n_outputs), _CODE_BITS)

    def add(self, total: ExactTotal, units: FloatArray) -> None:
        values = np.ascontiguousarray(units, dtype=np.int64)
        part = summed_by_code(self.rows.codes, self.rows.basis.starts, values)
        total.add(part, len(units))

    def features(self, sums: FloatArray) -> FloatArray:
        return self.rows.basis.features(sums)


def _whole(values: FloatArray) -> tuple[NDArray[np.int64], float]:
    """Numbers of at least 0 as integers, and their unit."""
    largest = max(float(values.max()), np.finfo(np.float64).tiny)
    table = np.floor(values / largest * 2.0**_MEAN_BITS + 0.5).astype(np.int64)
    return table, largest / 2**_MEAN_BITS


def _table(
    exact: FloatArray, weights: FloatArray, terms: float, bits: int
) -> tuple[NDArray[np.int64], float]:
    """What states or codes add to raw predictions, as integers, and their unit.

    What one record adds up is below 2^bits: `terms` bounds the sum of the norms of what
    a row is the sum of.
    """
    exponent = norm_exponent(weights) + math.frexp(terms)[1] - bits
    units = np.floor(np.ldexp(exact, -exponent) + 0.5)
    return units.astype(np.int64), 2.0**exponent


def gridded(X: Any, norm: float, entry_bound: float = math.inf) -> Any:
    """Rows of a block on their grid, clipped to `norm`, entries to `entry_bound`.

    Raises
    ------
    ValueError
        If rows that are made of parts, whose norm is 1, are asked for in another.
    """
    if isinstance(X, CentredRows | CodeRows | DenseGrid) and norm != 1:
        raise ValueError(
            "Rows that are centred or made of codes have norm 1. Got an objective with "
            f"data_norm={norm:g}. Use one with data_norm=1."
        )
    if isinstance(X, CodeRows):
        return CodeGrid.of(X)
    if isinstance(X, CentredRows):
        if isinstance(X.X, StateRows):
            return StateGrid.of(X)
        X = X.made()
    if isinstance(X, DenseGrid):  # a view has put them there
        rows: Any = X
    elif issparse(X):
        entries = grid_rows(X, norm)
        rows = SparseGrid(with_entries(entries, entries.data.astype(np.int64)), norm)
    else:
        rows = DenseGrid(grid_rows(X, norm), norm)
    return rows.clipped(entry_bound) if entry_bound < norm else rows
