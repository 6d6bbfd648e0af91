"""Rows as whole numbers of bounded norm: exact products and sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._arrays import HUGE, FloatArray, bring_to_norm, row_norms, with_entries
from skdp.sums._exact import (
    MOST_ROWS,
    RESIDUAL_BITS,
    ROW_BITS,
    ExactTotal,
    norm_exponent,
    units_of,
)
from skdp.tables._centred import SHARE_BITS, CentredMatrix, StateRows
from skdp.tables._coded import CodeRows, added_up, summed_by_code
from skdp.tables._source import Block

# ------------------------------------------------------------------------------------
# Rows as integers of norm at most 2^22, each by itself: clipped by being rounded
# The rule of Lemma 4 in ``docs/proofs/noisy_gd.md``: a number x becomes ``floor(x 2^22
# / norm + 1/2)``; a row whose squares then add up to more than 4^22 is shortened, its
# entries cut towards 0. Squares are integers that double precision adds up exactly, or
# they tell that the row has to be scaled by a power of two first, so the outcome is
# that of the row alone, to the last bit, in any layout and on any engine.


LONGEST = 2.0**ROW_BITS
# A little less, for the rounding of a root, a quotient and a product.
SHORTENED = LONGEST * (1 - 2.0**-50)
# Sums of squares of integers are exact below twice this, in any order.
MOST_SQUARES = 2.0**52
_LARGEST_SCALE = np.finfo(np.float64).max


def scale_of(norm: float) -> float:
    """What entries are multiplied by; less for norms below all that can be fitted."""
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
        Integers; of norm at most 2^22, in exact arithmetic.
    """
    grid = _rounded(X, scale_of(norm))
    finish_rows(X, grid, squares_of(grid), norm)
    return grid


def finish_rows(X: Any, grid: Any, squares: FloatArray, norm: float) -> None:
    """Shorten the rows of `grid` that are too long, `squares` long squared."""
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
    """The grid of rows many times as long as the norm, or longer than can be squared.

    They are scaled by powers of two that follow from their own entries.
    """
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
            _shorten(grid, SHORTENED / np.sqrt(squares))
            return grid
        power -= 4 * is_far


def _times_power(X: Any, power: Any) -> Any:
    """Rows times powers of two, in two steps: one of them may be no double."""
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
    """Of the rows' norms: exact below 2^53, and above, not less than it."""
    if issparse(grid):
        squares = with_entries(grid, grid.data * grid.data)
        return np.asarray(squares @ np.ones(grid.shape[1]))
    return np.asarray(np.einsum("ij,ij->i", grid, grid))


def _spread(X: Any, values: Any) -> Any:
    """Of each row's value one for each of its entries."""
    return np.repeat(values, np.diff(X.indptr))


# ------------------------------------------------------------------------------------
# Rows on a grid, by how they are stored: exact products and exact sums of each kind
# Every kind has `raw` (raw predictions, of each row by itself), `add` (adds up rows
# times whole numbers), `features` (what those sums stand for), and how fine the
# residuals of its sums are.


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

    rows: CentredMatrix
    shares: Any
    factor: FloatArray
    bits: ClassVar[int] = _STATE_BITS
    # Sums of so many shares times weighted residuals are below 2^62.
    most_rows: ClassVar[int] = 2 ** (62 - SHARE_BITS - _STATE_BITS)

    @classmethod
    def of(cls, rows: CentredMatrix) -> Self:
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
    if isinstance(X, CentredMatrix | CodeRows | DenseGrid) and norm != 1:
        raise ValueError(
            "Rows that are centred or made of codes have norm 1. Got an objective with "
            f"data_norm={norm:g}. Use one with data_norm=1."
        )
    if isinstance(X, CodeRows):
        return CodeGrid.of(X)
    if isinstance(X, CentredMatrix):
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


# ------------------------------------------------------------------------------------
# How rows are clipped to a norm in products with weights, in fit and predict


# Rows in single precision of at least this norm are kept apart where products with
# weights are in single precision too: these overflow long before squares in double do.
_HUGE_SINGLE = 1e15


def clipped_products(X: Any, coef: NDArray[Any], norm: float) -> NDArray[Any]:
    """Products of rows, clipped as `fit` clips them, with released weights.

    A row's products depend on that row alone. Rows within the norm have those of
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
        Of the dtype of ``X @ coef``.
    """
    if math.isinf(norm):
        return np.asarray(X @ coef)
    huge_from = HUGE if X.dtype == np.float64 else max(norm, _HUGE_SINGLE)
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that are kept apart
        raw = RowClip.of(X, norm, huge_from).predict(X, coef)
    return raw.astype(np.result_type(X, coef), copy=False)


@dataclass(frozen=True)
class RowClip:
    """What clips the rows of one block.

    Rows whose squares overflow are kept apart, already clipped: the products of the
    block as it is serve all other rows, whose rounding must not depend on whether some
    record is huge.
    """

    factor: FloatArray | None = None  # None: nothing is clipped
    huge: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    huge_rows: Any = None

    @classmethod
    def of(cls, X: Any, bound: float, huge_from: float = HUGE) -> RowClip:
        """For rows of norm at most `bound`; kept apart are those of `huge_from`."""
        norms = row_norms(X)
        factor = bound / np.maximum(norms, bound)
        huge = np.flatnonzero(~(norms < huge_from))
        if not len(huge):
            return cls(factor)
        # Their squares overflow, so that no factor of this norm would be right.
        factor[huge] = 1.0
        return cls(factor, huge, bring_to_norm(X[huge], bound))

    def factors_of_ordinary(self, block: Block) -> FloatArray:
        """Factors with 0 for the rows kept apart and the null records."""
        factors = np.ones(len(block.y)) if self.factor is None else self.factor.copy()
        factors[self.huge] = 0.0
        if block.present is not None:
            factors[~block.present] = 0.0
        return factors

    def huge_part(self, block: Block) -> Block | None:
        """The rows kept apart, clipped; None if there are none."""
        if not len(self.huge):
            return None
        present = None if block.present is None else block.present[self.huge]
        return Block(self.huge_rows, block.y[self.huge], present)

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
    """Products whose rounding in one row does not depend on how many rows there are."""
    if issparse(rows):
        return np.asarray(rows @ coef)
    return np.concatenate([row @ coef for row in np.split(rows, len(rows))])
