"""The adder: weights, null rows, rounding and sums in any order, for every query.

A query states the contribution of one row, as one `Form` or several, and its bound. The
adder multiplies by the weights of users' rows, leaves null rows out, rounds to whole
units of a power of two, and adds up. The sums have the same bits in any order and for
any parts. See ``docs/proofs/adder.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skdp._arrays import FloatArray, IntArray, with_entries
from skdp.privacy.release._plan import Bound, Layout
from skdp.sums._exact import Summed, Sums, WholeSum, blocks_of, total_rounding
from skdp.tables._source import Block, has_shares

# Factor on a bound that covers the rounding of the bound and of a user's weights.
ABOVE = 1 + 1e-12
# Operations on a total: conversion to a double, and multiplications by public factors.
_TOTAL_STEPS = 3
# A weight, or None where every row counts 1.
Weights = FloatArray | None


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of otherwise empty vectors: row i adds values[j][i] at places[j][i].

    Parameters
    ----------
    places : tuple of ndarray of int of shape (n_rows,)
    size : int
        Length of a row's vector.
    values : tuple of ndarray of float64 of shape (n_rows,), or None, default=None
        None: a row counts as 1 at each place. Weights of counts are rounded down, so
        that the counts of a user have a sum of at most 1.
    """

    places: tuple[np.ndarray, ...]
    size: int
    values: tuple[FloatArray, ...] | None = None


@dataclass(frozen=True, eq=False)
class Products:
    """Products of a row's parts: for each pair (i, j), part i times part j transposed.

    Each part is multiplied by the square root of the row's weight and then rounded
    towards 0.

    Parameters
    ----------
    parts : tuple of ndarray of float64 or CSR of int64, of shape (n_rows, d)
        Whole numbers in units of `ROOT_UNIT`, with a norm of at most 2^21 in each row.
    pairs : tuple of pairs of int
        Pairs of indices of parts. For a part times itself, only the upper triangle is
        added, with the diagonal first.
    """

    parts: tuple[Any, ...]
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled loop over the rows that applies weights and rounds as the adder does.

    `sums` maps the weights, and the number of units in 1, to sums in whole units.
    """

    sums: Callable[[Any, float], np.ndarray]


# The contribution of each row of a block: a dense array with one row or number for each
# row; CSR; or one of the classes above.
Form = FloatArray | Entries | Products | Compiled | Any

# Unit of the parts of `Products`.
ROOT_UNIT = 2.0**-21
# Number of rows whose products add up exactly: 42 + 11 = 53 bits in double precision;
# more for sparse rows, whose sums are 64-bit integers.
_DENSE_PRODUCTS, _SPARSE_PRODUCTS = 1 << 11, 1 << 16


class BoundedSum(Summed):
    """The sum over rows of bounded vectors; public.

    Attributes
    ----------
    rounding : ufunc
        How numbers are rounded to whole units: `np.rint`, or `np.floor` or `np.trunc`
        where numbers are not negative or norms must not grow.
    is_gridded : bool
        Whether the contributions of rows are whole units already. Those of users' rows
        are rounded after the multiplication by their weights.
    """

    rounding: ClassVar[Any] = np.rint
    is_gridded: ClassVar[bool] = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """A power of two; totals are whole multiples of it."""

    @property
    def scale(self) -> Any:
        """Public factor on each total."""
        return 1.0

    @property
    def n_rounded(self) -> int:
        """Largest number of a row's entries that rounding may move."""
        return math.prod(self.shape)

    @property
    def arithmetic(self) -> float:
        """Norm of the floating-point error of one row's contribution, with the scale.

        0.0 if the bound holds for the computed numbers.
        """
        return 0.0

    @property
    def total_norm(self) -> float:
        """Largest norm of the totals; 0.0 if they are exact in double precision.

        Totals are exact up to 2^53 units, if scales are powers of two.
        """
        return 0.0

    @property
    def family(self) -> Hashable:
        """Queries of equal families may share a reader."""
        return type(self)

    @abstractmethod
    def row_bound(self) -> Bound:
        """Bound of one row, under both adjacencies of records, with the scale."""

    @abstractmethod
    def added(self, block: Block) -> Form | tuple[Form, ...]:
        """The contribution of each row, before scale and weight; forms are joined.

        It depends on each row separately. With a unit of 1, dense numbers must be new
        arrays, since they are rounded in place. Private.
        """

    def bound(self) -> Bound:
        """Bound of a record or of a user: Lemma 1 of the adder's page."""
        return self.row_bound().with_user_bounds()

    def slack(self, layout: Layout) -> float:
        """Bound on the effect of rounding: Lemma 2 of the adder's page."""
        rows = float(layout.rows_of_unit)
        if self.rounding is not np.rint or (rows == 1 and self.is_gridded):
            rows = 0.0
        elif rows > 1:
            rows *= 1 + 2.0**-20  # weights, and their products, are rounded once
        norm = float(self.n_rounded ** (1 / self.row_bound().norm))
        rounded = rows * self.unit * float(np.max(np.abs(self.scale))) * norm
        totals = total_rounding(1, self.total_norm, _TOTAL_STEPS)
        return rounded + 2 * self.arithmetic + totals

    def open(self, source: Any) -> Any:
        return source

    def pieces(self, reader: Any, rows: IntArray | None) -> Iterator[Block]:
        """All rows, or the chosen ones, in blocks for `added`. Private."""
        for block in blocks_of(reader, rows):
            yield present_rows(block)

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        total = WholeSum(self.shape)
        for block in self.pieces(reader, rows):
            total.add(self._units_of(block))
        return (total,)

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        return np.asarray(sums[0].value() * self.unit * self.scale)

    def _units_of(self, block: Block) -> np.ndarray:
        """The sum over a block, in whole units."""
        forms = self.added(block)
        if not isinstance(forms, tuple):
            forms = (forms,)
        parts = [self._units(form, block) for form in forms]
        units = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return units.reshape(self.shape)

    def _units(self, form: Any, block: Block) -> np.ndarray:
        """The sum of a form over the rows of a block, in whole units."""
        per_unit = 1 / self.unit
        if isinstance(form, Compiled):
            return form.sums(kernel_weights(block), per_unit)
        weights = row_weights(block)
        if isinstance(form, Products):
            return _products(form, weights)
        # Exact, since the unit is a power of two.
        factor: Any = per_unit if weights is None else weights * per_unit
        if isinstance(form, Entries):
            return self._entries(form, factor)
        if issparse(form):
            if weights is None:
                units = self._rounded(form.data, factor)
            else:
                units = np.repeat(factor, np.diff(form.indptr))
                units *= form.data
                self.rounding(units, out=units)
            return np.asarray(with_entries(form, units).sum(axis=0)).ravel()
        if weights is None and self.is_gridded:
            return np.atleast_1d(form.sum(axis=0)) * per_unit
        if weights is not None and form.ndim > 1:
            factor = factor[:, None]
        return np.atleast_1d(self._rounded(form, factor).sum(axis=0))

    def _entries(self, form: Entries, factor: Any) -> np.ndarray:
        if form.values is not None:
            weights = [self._rounded(values, factor) for values in form.values]
        elif np.ndim(factor):
            weights = [np.floor(factor)] * len(form.places)
        else:
            counts = sum(np.bincount(each, minlength=form.size) for each in form.places)
            return np.asarray(counts * factor)
        pairs = zip(form.places, weights, strict=True)
        return np.asarray(sum(np.bincount(*pair, form.size) for pair in pairs))

    def _rounded(self, values: np.ndarray, factor: Any) -> FloatArray:
        """Values times factors as whole numbers."""
        if np.ndim(factor) == 0 and factor == 1:
            # In place, since new memory would take longer than the arithmetic.
            return np.asarray(self.rounding(values, out=values), dtype=np.float64)
        units = np.asarray(values * factor, dtype=np.float64)
        self.rounding(units, out=units)
        return units


# ------------------------------------------------------------ Weights, and null rows
# No other module reads the weights of a block. Compiled loops get them from
# `kernel_weights`, and also multiply by the weight first and round then.


def kernel_weights(block: Block) -> NDArray[Any] | None:
    """For compiled loops: whether each row is present, or its weight. Private.

    None: every row has weight 1.
    """
    return block.present


def row_weights(block: Block) -> Weights:
    """Weights of users' rows. Private.

    None: a row has weight 1, or is a null record.
    """
    weights = kernel_weights(block)
    return weights if has_shares(weights) else None


def present_rows(block: Block) -> Block:
    """The rows that count, with their weights, without null rows. Private."""
    weights = kernel_weights(block)
    if weights is None:
        return block
    is_there = weights > 0
    if not is_there.all():
        block = block.part(is_there)
    return block if has_shares(weights) else replace(block, present=None)


def without_nulls(values: FloatArray, block: Block) -> FloatArray:
    """Values of a block's rows, overwritten with 0 where a row is null. Private.

    It is for rows that are kept from one pass to the next, which include null rows.
    """
    weights = kernel_weights(block)
    if weights is not None:
        values[weights == 0] = 0.0
    return values


def weighed(values: FloatArray, block: Block) -> FloatArray:
    """Values of rows times their weights, in place; 0 for null rows. Private."""
    values, weights = without_nulls(values, block), row_weights(block)
    if weights is not None:
        values *= weights.reshape(-1, *[1] * (values.ndim - 1))
    return values


def cut_by_weights(units: FloatArray, block: Block) -> FloatArray:
    """Whole numbers times the weights of users' rows, rounded towards 0. Private."""
    weights = row_weights(block)
    return units if weights is None else cut(units, weights)


def cut(units: FloatArray, factor: FloatArray) -> FloatArray:
    """Rows times their factors, rounded towards 0 to whole numbers.

    This rounding makes no contribution longer.
    """
    whole = units * (factor if units.ndim == 1 else factor[:, None])
    return np.trunc(whole, out=whole)


def rows_of_users(block: Block) -> tuple[IntArray, csr_array]:
    """Users of a block's present rows, and a matrix that adds up each user's rows.

    Only users in the block are included, so that the time does not grow with the number
    of blocks times the number of users.
    """
    weights = kernel_weights(block)
    if block.users is None or weights is None:
        raise TypeError(
            "Sums by user must be over rows whose users are known. Got other rows."
        )
    rows = np.flatnonzero(weights)
    users, codes = np.unique(block.users[rows], return_inverse=True)
    shape = len(users), len(weights)
    return users, csr_array((np.ones(len(rows)), (codes, rows)), shape)


def joined(blocks: Sequence[Block], X: Any) -> Block:
    """One block of rows X, with the targets and weights of several blocks. Private."""
    y, weights = np.concatenate([block.y for block in blocks]), None
    if any(block.present is not None for block in blocks):
        weights = np.concatenate([_there(block) for block in blocks])
    return Block(X, y, weights)


def only_rows(block: Block, rows: IntArray) -> Block:
    """The block with all rows null except the chosen ones. Private."""
    there = _there(block)
    chosen = np.zeros_like(there)
    chosen[rows] = there[rows]
    return replace(block, present=chosen)


def _there(block: Block) -> NDArray[Any]:
    """The weights of a block's rows, or whether they are present, as an array."""
    if block.present is None:
        return np.ones(len(block.y), dtype=np.bool_)
    return block.present


def exact_runs(blocks: Iterable[Block]) -> Iterator[Block]:
    """The rows of blocks in runs whose products add up exactly.

    Small dense blocks are joined, since each run costs a matrix of products.
    """
    kept, n_kept = list[Block](), 0
    for block in blocks:
        most = _SPARSE_PRODUCTS if issparse(block.X) else _DENSE_PRODUCTS
        for start in range(0, len(block.y), most):
            run = block.part(slice(start, start + most))
            if n_kept + len(run.y) > most or issparse(block.X):
                yield from _together(kept)
                kept, n_kept = [], 0
            kept.append(run)
            n_kept += len(run.y)
    yield from _together(kept)


def _together(blocks: list[Block]) -> Iterator[Block]:
    """One block with the rows of all blocks; nothing if there are none."""
    if len(blocks) < 2:
        yield from blocks
    else:
        yield joined(blocks, np.concatenate([block.X for block in blocks]))


def _products(form: Products, weights: Weights) -> np.ndarray:
    parts = form.parts
    if weights is not None:
        roots = whole_roots(weights) * ROOT_UNIT
        parts = tuple(_shortened(part, roots) for part in parts)
    sums = list[np.ndarray]()
    for i, j in form.pairs:
        found = parts[i].T @ parts[j]
        found = found.toarray() if issparse(found) else found
        is_triangle = i == j and found.ndim == 2
        sums.append(found.take(_triangle(len(found))) if is_triangle else found.ravel())
    return np.concatenate(sums)


def whole_roots(weights: FloatArray) -> FloatArray:
    """Square roots of weights, rounded down to whole multiples of `ROOT_UNIT`.

    The squares of a user's roots, in this unit, have a sum of at most 4^21.
    """
    return np.floor(np.sqrt(weights) / ROOT_UNIT)


@lru_cache(maxsize=1)
def _triangle(size: int) -> IntArray:
    """Places of the diagonal, and then of the triangle above it, in a square matrix."""
    rows, columns = np.triu_indices(size, 1)
    diagonal = np.arange(size) * (size + 1)
    return np.concatenate([diagonal, rows * size + columns])


def _shortened(part: Any, factors: FloatArray) -> Any:
    """Rows times factors up to 1, rounded towards 0 to whole numbers."""
    if issparse(part):
        data = cut(part.data, np.repeat(factors, np.diff(part.indptr)))
        return with_entries(part, data.astype(np.int64))
    return cut(part, factors).astype(part.dtype, copy=False)
