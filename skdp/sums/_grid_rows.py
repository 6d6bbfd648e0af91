"""Rows as whole numbers of bounded norm: exact products and sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._arrays import HUGE, FloatArray, bring_to_norm, row_norms, with_entries
from skdp.sums._adder import without_nulls
from skdp.sums._exact import (
    MOST_ROWS,
    RESIDUAL_BITS,
    ROW_BITS,
    WholeSum,
    norm_exponent,
    units_of,
)
from skdp.tables._centred import CellRows, CentredMatrix, StateRows
from skdp.tables._coded import CodeRows, added_up
from skdp.tables._source import SHARE_BITS, Block

# ------------------------------------------------ Rows as integers of norm at most 2^22
# Each row is rounded and clipped by the rule of Lemma 11 in
# ``docs/proofs/gradient_descent.md``: a number x becomes
# ``floor(x 2^22 / norm + 1/2)``; a row whose squares then add up to more than 4^22 is
# shortened, and its entries are rounded towards 0. Squares are integers. Either double
# precision adds them up exactly, or their sum shows that the row must be scaled by a
# power of two first. So every bit of the result depends on the row alone, in any layout
# and on any engine.


LONGEST = 2.0**ROW_BITS
# Slightly less, to cover the rounding of a root, a quotient and a product.
SHORTENED = LONGEST * (1 - 2.0**-50)
# Sums of squares of integers are exact below twice this, in any order.
MOST_SQUARES = 2.0**52
_LARGEST_SCALE = np.finfo(np.float64).max


def scale_of(norm: float) -> float:
    """Factor on the entries, limited for norms that are too small for any fit."""
    return min(LONGEST / norm, _LARGEST_SCALE)


def grid_rows(X: Any, norm: float) -> Any:
    """Rows clipped to `norm`, as integers in units of 2^-22 of it.

    Parameters
    ----------
    X : ndarray or canonical CSR of shape (n_rows, n_features)
    norm : float in (0, inf)

    Returns
    -------
    C-ordered ndarray of float64 or CSR of float64
        Integers, with rows of norm at most 2^22 in exact arithmetic.
    """
    grid = _rounded(X, scale_of(norm))
    finish_rows(X, grid, squares_of(grid), norm)
    return grid


def finish_rows(X: Any, grid: Any, squares: FloatArray, norm: float) -> None:
    """Shorten the rows of `grid` that are too long; `squares` are squared norms."""
    is_far = ~(squares < MOST_SQUARES)
    is_long = (squares > LONGEST**2) & ~is_far
    if is_long.any():
        factor = np.ones(len(squares))
        factor[is_long] = SHORTENED / np.sqrt(squares[is_long])
        _shorten(grid, factor)
    if is_far.any():
        far = _of_far(X[np.flatnonzero(is_far)], norm)
        if issparse(grid):
            grid.data[_spread(X, is_far)] = far.data
        else:
            grid[is_far] = far


def _of_far(X: Any, norm: float) -> Any:
    """The grid of rows that are many times the norm, or whose squares overflow.

    Each row is scaled by a power of two that follows from the row's entries.
    """
    # Validated rows are finite; no power of two would bring others within reach.
    X = _finite(X)
    scale = scale_of(norm)
    largest = abs(X).max(axis=1)
    largest = largest.toarray() if issparse(largest) else np.asarray(largest)
    exponents = np.frexp(largest.ravel().astype(np.float64))[1]
    power = ROW_BITS - math.frexp(scale)[1] - exponents
    while True:
        grid = _rounded(_times_power(X, power), scale)
        squares = squares_of(grid)
        is_far = ~(squares < MOST_SQUARES)
        if not is_far.any():
            _shorten(grid, SHORTENED / np.sqrt(np.maximum(squares, 1.0)))
            return grid
        power -= 4 * is_far


def _finite(X: Any) -> Any:
    """Rows with NaN replaced by 0, and infinity by the largest number."""
    return with_entries(X, np.nan_to_num(X.data)) if issparse(X) else np.nan_to_num(X)


def _times_power(X: Any, power: Any) -> Any:
    """Rows times powers of two, in two steps, since a power may overflow."""
    half = power // 2
    first, second = np.ldexp(1.0, half), np.ldexp(1.0, power - half)
    if issparse(X):
        wide = X.data.astype(np.float64)
        return with_entries(X, wide * _spread(X, first) * _spread(X, second))
    return X.astype(np.float64) * first[:, None] * second[:, None]


def _rounded(X: Any, scale: float) -> Any:
    if issparse(X):
        return with_entries(X, _rounded(X.data, scale))
    grid = np.multiply(X, scale, dtype=np.float64, order="C")
    grid += 0.5
    return np.floor(grid, out=grid)


def _shorten(grid: Any, factor: FloatArray) -> None:
    if issparse(grid):
        grid.data *= _spread(grid, factor)
        grid = grid.data
    else:
        grid *= factor[:, None]
    np.trunc(grid, out=grid)


def squares_of(grid: Any) -> FloatArray:
    """Squared norms of rows, exact below 2^53 and never too small above it."""
    if issparse(grid):
        squares = with_entries(grid, grid.data * grid.data)
        return np.asarray(squares @ np.ones(grid.shape[1]))
    return np.asarray(np.einsum("ij,ij->i", grid, grid))


def _spread(X: Any, values: Any) -> Any:
    """Each row's value, repeated for each of the row's entries."""
    return np.repeat(values, np.diff(X.indptr))


# ---------------------------------------------------------------- Kinds of gridded rows
# Each kind has exact products and exact sums: `raw` computes raw predictions, each from
# one row, `add` adds rows times whole numbers, `features` computes the features that
# sums represent, and `bits` is the precision of the residuals in sums.


# Bits of weighted residuals, of rows made of states and of rows made of codes.
_STATE_BITS, _CODE_BITS = 26, 30
# Bits of the contribution of states and codes to raw predictions. Products with weights
# of states are below 2^60.
_STATE_TABLE_BITS, _CODE_TABLE_BITS = 40, 50
# Bits of nonnegative numbers of states; a row of 2^13 parts adds up below 2^63.
_MEAN_BITS = 30


class GridRows(Protocol):
    """Rows of one block: integer vectors, or a public map of integer vectors."""

    @property
    def bits(self) -> int:
        """Bits of the summed residuals."""
        ...

    @property
    def factor(self) -> FloatArray | None:
        """Factor on each record's residual in the sums, at most 1."""
        ...

    @property
    def n_bytes(self) -> int:
        """Memory of the rows, without memory that blocks share."""
        ...

    def raw(self, weights: FloatArray) -> FloatArray:
        """Products with the features' weights, plus the intercept's weight if any."""
        ...

    def total(self, n_outputs: int) -> WholeSum: ...

    def add(self, total: WholeSum, units: FloatArray) -> None:
        """Add rows times `units`, whole numbers of shape (n_rows, n_outputs)."""
        ...

    def features(self, sums: FloatArray) -> FloatArray:
        """Features of the sums of rows, of shape (n_features, n_outputs)."""
        ...


@dataclass(frozen=True, eq=False)
class _PlainGrid:
    """Rows of integers in units of ``norm 2^-22``."""

    entries: Any
    norm: float
    bits: ClassVar[int] = RESIDUAL_BITS
    factor: ClassVar[FloatArray | None] = None

    @property
    def unit(self) -> float:
        return self.norm / LONGEST

    def total(self, n_outputs: int) -> WholeSum:
        shape = self.entries.shape[1], n_outputs
        return WholeSum(shape, ROW_BITS + RESIDUAL_BITS)

    def features(self, sums: FloatArray) -> FloatArray:
        return sums * self.unit

    def largest(self, bound: float) -> float:
        """The largest integer that represents at most `bound`."""
        return math.floor(min(bound / self.unit * (1 - 2.0**-50), LONGEST))


@dataclass(frozen=True, eq=False)
class DenseGrid(_PlainGrid):
    """An array of float32 or float64 with integers.

    `norms`, if requested, are the norms of the rows before rounding.
    """

    norms: FloatArray | None = None

    @property
    def n_bytes(self) -> int:
        beside = 0 if self.norms is None else self.norms.nbytes
        return int(self.entries.nbytes + beside)

    def __getitem__(self, rows: Any) -> Self:
        norms = None if self.norms is None else self.norms[rows]
        return replace(self, entries=self.entries[rows], norms=norms)

    def in_double(self) -> Self:
        if self.entries.dtype == np.float64:
            return self
        return replace(self, entries=self.entries.astype(np.float64))

    def raw(self, weights: FloatArray) -> FloatArray:
        d = self.entries.shape[1]
        products = self.entries @ weights[:d]
        if len(weights) > d:
            products += LONGEST * weights[d]
        products *= self.unit
        return np.asarray(products)

    def add(self, total: WholeSum, units: FloatArray) -> None:
        for start in range(0, len(units), MOST_ROWS):
            run = units[start : start + MOST_ROWS]
            part = self.entries[start : start + MOST_ROWS].T @ run
            total.add(part.astype(np.int64), len(run))

    def clipped(self, bound: float) -> Self:
        """The same rows with every entry clipped to `bound`."""
        limit = self.largest(bound)
        return replace(self, entries=np.clip(self.entries, -limit, limit))

    def shortened(self, norm: float) -> Self:
        """The same rows clipped to `norm`."""
        entries = self.entries.astype(np.float64)
        factor = _shortening(squares_of(entries), self.largest(norm))
        return replace(self, entries=np.trunc(entries * factor[:, None]))


@dataclass(frozen=True, eq=False)
class SparseGrid(_PlainGrid):
    """CSR of int64; its sums need no blocks."""

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, entries=self.entries[rows])

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

    def add(self, total: WholeSum, units: FloatArray) -> None:
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
class _StatesGrid(ABC):
    """Centred rows as integer weights of the states of their cells.

    `rows` have the maps from states to features.
    """

    rows: CentredMatrix
    bits: ClassVar[int] = _STATE_BITS
    # Sums of this many weights of states times residuals are below 2^62.
    most_rows: ClassVar[int] = 2 ** (62 - SHARE_BITS - _STATE_BITS)

    def in_double(self) -> Self:
        return self

    def table(self, weights: FloatArray) -> tuple[NDArray[np.int64], float]:
        """What states add to raw predictions, as integers, and their unit."""
        X, own = self.rows.X, weights[: self.rows.shape[1]]
        return _table(X.basis @ own, own, X.terms, _STATE_TABLE_BITS)

    @abstractmethod
    def _added_up(self, table: NDArray[np.int64]) -> FloatArray:
        """Sums of the states' numbers, each times the state's weight in units."""

    def raw(self, weights: FloatArray) -> FloatArray:
        d = self.rows.shape[1]
        own, (table, unit) = weights[:d], self.table(weights)
        products = self._added_up(table) * (unit / 2**SHARE_BITS)
        products -= self.rows.centre @ own
        products *= self.rows.factor[:, None]
        if len(weights) > d:
            products += weights[d]
        return np.asarray(products)

    def variance_of(self, values: FloatArray) -> FloatArray:
        """Variance of predictions, from the variance of each state's contribution."""
        table, unit = _whole(values)
        sums = self._added_up(table[:, None])[:, 0]
        return np.asarray(sums * (unit / 2**SHARE_BITS) * self.rows.factor**2)

    def total(self, n_outputs: int) -> WholeSum:
        shape = self.rows.X.basis.shape[0] + 1, n_outputs
        return WholeSum(shape, SHARE_BITS + _STATE_BITS)

    def features(self, sums: FloatArray) -> FloatArray:
        by_state = self.rows.X.basis.T @ (sums[:-1] / 2**SHARE_BITS)
        moved = np.outer(self.rows.centre, sums[-1])
        return np.asarray((by_state - moved) / self.rows.norm)


@dataclass(frozen=True, eq=False)
class StateGrid(_StatesGrid):
    """The same as CSR, for few rows and for rows of numbers."""

    shares: Any
    factor: FloatArray

    @classmethod
    def of(cls, rows: CentredMatrix) -> Self:
        shares = rows.X.states
        units = np.floor(shares.data * 2.0**SHARE_BITS).astype(np.int64)
        factor = rows.factor * rows.norm
        return cls(rows, with_entries(shares, units), factor)

    @property
    def n_bytes(self) -> int:
        # The weights are stored twice, with the same indices.
        numbers = self.shares.data.nbytes + self.factor.nbytes
        return int(self.rows.n_bytes + numbers)

    @cached_property
    def _by_state(self) -> Any:
        """Cached, since SciPy copies a matrix to transpose it."""
        return self.shares.T

    def _added_up(self, table: NDArray[np.int64]) -> FloatArray:
        return np.asarray((self.shares @ table).astype(np.float64))

    def add(self, total: WholeSum, units: FloatArray) -> None:
        n, most = len(units), self.most_rows
        for start in range(0, n, most):
            run = units[start : start + most].astype(np.int64)
            shares = (
                self._by_state if n <= most else self.shares[start : start + most].T
            )
            part = np.vstack([shares @ run, run.sum(axis=0)])
            total.add(part, len(run))


@dataclass(frozen=True, eq=False)
class CellGrid(_StatesGrid):
    """The same with one whole number for each cell, for compiled code."""

    @property
    def factor(self) -> FloatArray:
        return self.rows.factor * self.rows.norm

    @property
    def n_bytes(self) -> int:
        return self.rows.n_bytes

    @property
    def passed(self) -> tuple[NDArray[Any], FloatArray]:
        """What the kernel takes of each row."""
        return self.rows.X.cells, self.rows.factor

    @property
    def kernel(self) -> Any:
        from skdp.sums._gradient_kernel import add_cell_gradients

        return add_cell_gradients

    def tables(self, weights: FloatArray) -> tuple[Any, ...]:
        """What the kernel adds to raw predictions, and how it centres them."""
        X, (exact, unit) = self.rows.X, self.table(weights)
        moved = self.rows.centre @ weights[: self.rows.shape[1]]
        unit /= 2**SHARE_BITS
        return X.starts, X.table(exact), unit, moved, self.rows.norm

    def sums(self, found: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums by state, and of residuals, from those of the kernel."""
        return found[:, np.append(self.rows.X.places, -1)].T

    def _added_up(self, table: NDArray[np.int64]) -> FloatArray:
        return np.asarray(self.rows.X.added_up(table))


@dataclass(frozen=True, eq=False)
class CodeGrid:
    """Rows of codes: integer tables of the codes' contributions, and sums by code.

    Compiled code adds their gradients up, in one pass.
    """

    rows: CodeRows
    factor: FloatArray
    bits: ClassVar[int] = _CODE_BITS
    most_rows: ClassVar[int] = 2 ** (62 - _CODE_BITS)

    @classmethod
    def of(cls, rows: CodeRows) -> Self:
        return cls(rows, rows.factor)

    @property
    def passed(self) -> tuple[NDArray[np.uint8], FloatArray]:
        return self.rows.codes, self.factor

    @property
    def kernel(self) -> Any:
        from skdp.sums._gradient_kernel import add_code_gradients

        return add_code_gradients

    @property
    def n_bytes(self) -> int:
        return int(self.rows.codes.nbytes + self.factor.nbytes)

    def in_double(self) -> Self:
        return self

    def table(self, weights: FloatArray) -> tuple[NDArray[np.int64], float]:
        """What codes add to raw predictions, as integers, and their unit."""
        basis, own = self.rows.basis, weights[: self.rows.shape[1]]
        exact = np.concatenate(basis.tables(own))
        return _table(exact, own, basis.terms, _CODE_TABLE_BITS)

    def tables(self, weights: FloatArray) -> tuple[Any, ...]:
        """What the kernel adds to raw predictions: starts, entries and their unit."""
        table, unit = self.table(weights)
        return self.rows.basis.starts, np.ascontiguousarray(table.T), unit

    def sums(self, found: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums by code from those of the kernel."""
        return found.T

    def raw(self, weights: FloatArray) -> FloatArray:
        table, unit = self.table(weights)
        sums = added_up(self.rows.codes, self.rows.basis.starts, (table,))
        raw = sums.astype(np.float64) * unit
        if len(weights) > self.rows.shape[1]:
            raw += weights[-1]
        return np.asarray(raw)

    def variance_of(self, values: FloatArray) -> FloatArray:
        """Variance of predictions, from the variance of each code's contribution."""
        table, unit = _whole(values)
        codes, starts = self.rows.codes, self.rows.basis.starts
        return added_up(codes, starts, (table[:, None],))[:, 0] * unit

    def total(self, n_outputs: int) -> WholeSum:
        return WholeSum((int(self.rows.basis.starts[-1]), n_outputs), _CODE_BITS)

    def features(self, sums: FloatArray) -> FloatArray:
        return self.rows.basis.features(sums)


def _whole(values: FloatArray) -> tuple[NDArray[np.int64], float]:
    """Nonnegative numbers as integers, and their unit."""
    largest = max(float(values.max()), np.finfo(np.float64).tiny)
    table = np.floor(values / largest * 2.0**_MEAN_BITS + 0.5).astype(np.int64)
    return table, largest / 2**_MEAN_BITS


def _table(
    exact: FloatArray, weights: FloatArray, terms: float, bits: int
) -> tuple[NDArray[np.int64], float]:
    """Contributions of states or codes to raw predictions, as integers, and their unit.

    The sum for one record is below 2^bits: `terms` bounds the sum of the norms of the
    parts of a row.
    """
    exponent = norm_exponent(weights) + math.frexp(terms)[1] - bits
    units = np.floor(np.ldexp(exact, -exponent) + 0.5)
    return units.astype(np.int64), 2.0**exponent


def gridded(X: Any, norm: float, entry_bound: float = math.inf) -> Any:
    """Rows of a block on their grid, clipped to `norm`, with entries to `entry_bound`.

    Raises
    ------
    ValueError
        If rows made of parts, whose norm is 1, are requested with another norm.
    """
    if isinstance(X, CentredMatrix | CodeRows | DenseGrid) and norm != 1:
        raise ValueError(
            "Rows that are centred or made of codes must have norm 1. Got an objective "
            f"with data_norm={norm:g}. Use an objective with data_norm=1."
        )
    if isinstance(X, CodeRows):
        return CodeGrid.of(X)
    if isinstance(X, CentredMatrix):
        if isinstance(X.X, CellRows):
            return CellGrid(X)
        if isinstance(X.X, StateRows):
            return StateGrid.of(X)
        X = X.made()
    if isinstance(X, DenseGrid):  # a view has made the grid
        rows: Any = X
    elif issparse(X):
        entries = grid_rows(X, norm)
        rows = SparseGrid(with_entries(entries, entries.data.astype(np.int64)), norm)
    else:
        rows = DenseGrid(grid_rows(X, norm), norm)
    return rows.clipped(entry_bound) if entry_bound < norm else rows


# ------------------------------------------------ Clipped rows in products with weights
# `fit` and `predict` clip rows in the same way.


# Rows in single precision of at least this norm are handled separately in products with
# weights in single precision, which overflow long before squares in double precision.
_HUGE_SINGLE = 1e15


def clipped_products(X: Any, coef: NDArray[Any], norm: float) -> NDArray[Any]:
    """Products of released weights with rows that are clipped as in `fit`.

    A row's products depend on the row alone. For rows within the norm they are equal to
    ``X @ coef``, bit for bit.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features), float32 or float64
        CSR must be canonical.
    coef : ndarray of shape (n_features, n_outputs)
    norm : float in (0, inf]
        inf: nothing is clipped.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        In the dtype of ``X @ coef``.
    """
    if math.isinf(norm):
        return np.asarray(X @ coef)
    huge_from = HUGE if X.dtype == np.float64 else max(norm, _HUGE_SINGLE)
    with np.errstate(over="ignore", invalid="ignore"):  # in rows handled separately
        raw = RowClip.of(X, norm, huge_from).predict(X, coef)
    return raw.astype(np.result_type(X, coef), copy=False)


@dataclass(frozen=True)
class RowClip:
    """The clip of the rows of one block.

    Rows whose squares overflow are clipped and handled separately. All other rows use
    the products of the unchanged block, so that their rounding does not depend on
    whether some record is huge.
    """

    factor: FloatArray | None = None  # None: nothing is clipped
    huge: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    huge_rows: Any = None

    @classmethod
    def of(cls, X: Any, bound: float, huge_from: float = HUGE) -> RowClip:
        """Clip to norm `bound`; rows of norm `huge_from` or more are separate."""
        norms = row_norms(X)
        factor = bound / np.maximum(norms, bound)
        huge = np.flatnonzero(~(norms < huge_from))
        if not len(huge):
            return cls(factor)
        # Their squares overflow, so a factor computed from this norm would be wrong.
        factor[huge] = 1.0
        return cls(factor, huge, bring_to_norm(X[huge], bound))

    def factors_of_ordinary(self, block: Block) -> FloatArray:
        """Factors of rows, 0 for the separate rows and for null records."""
        factors = np.ones(len(block.y)) if self.factor is None else self.factor.copy()
        factors[self.huge] = 0.0
        return without_nulls(factors, block)

    def huge_part(self, block: Block) -> Block | None:
        """The separate rows, clipped; None if there are none."""
        if not len(self.huge):
            return None
        return replace(block.part(self.huge), X=self.huge_rows)

    def predict(self, X: Any, coef: FloatArray) -> FloatArray:
        """Raw predictions of the clipped rows."""
        raw = np.asarray(X @ coef, dtype=np.float64)
        if self.factor is not None:
            raw *= self.factor[:, None]
        if len(self.huge):
            raw[self.huge] = _one_by_one(self.huge_rows, coef)
        return raw

    def add_gradients(self, X: Any, total: FloatArray, residual: FloatArray) -> None:
        """Add the products of clipped rows and residuals; overwrites `residual`."""
        apart = 0.0
        if len(self.huge):
            apart = self.huge_rows.T @ residual[self.huge]
            residual[self.huge] = 0.0
        if self.factor is not None:
            residual *= self.factor[:, None]
        total += X.T @ residual + apart


def _one_by_one(rows: Any, coef: NDArray[Any]) -> NDArray[Any]:
    """Products in which the rounding of a row does not depend on the number of rows."""
    if issparse(rows):
        return np.asarray(rows @ coef)
    return np.concatenate([row @ coef for row in np.split(rows, len(rows))])
