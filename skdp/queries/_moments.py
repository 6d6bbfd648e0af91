"""Sums of the second moments of clipped rows and targets, as one vector.

In units of the public bounds: u is a row divided by `data_norm`, so of norm at most
1, and v a target divided by `target_bound`, so in [-1, 1]. One record contributes

    (svec(u u'), sqrt(2) t u, k u v, k t v, h v^2),

where svec stacks the diagonal and sqrt(2) times the upper triangle, so that norms are
Frobenius norms; t is the constant in the intercept's column (0 without an intercept), k
the weight of the targets and h that of their squares; parts of weight 0 are left out.
The number of records is public and not summed.
Rows and targets are whole numbers of a public unit, and rows are never longer than the
bound, so that all sums are exact in any order. A row of a user is multiplied by the
root of its share, and so is the constant 1 beside it, before they are. Sensitivities
are derived in ``docs/proofs/adassp.md``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray, IntArray
from skdp._rows import with_entries
from skdp.data._source import Block, Source
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum, total_rounding
from skdp.queries._summed import Summed, Sums

# The bound of rows, and that of targets, in whole numbers.
_LARGEST = 2.0**21
# Rows of which products of whole numbers add up exactly: 42 + 11 = 53 bits in double
# precision; whole numbers of 64 bits hold more of them.
_DENSE_ROWS, _SPARSE_ROWS = 1 << 11, 1 << 16
# Squared norms below it are exact.
_EXACT = 2.0**53
# Share of rows that are too long from which on all are multiplied, in place.
_MANY = 0.1


@dataclass(frozen=True)
class MomentWeights:
    """Public weights of the parts of the query.

    `intercept` is t above, in [0, 1], 0 if the problem has none; `target` is k above, 0
    without targets, and `squares` is h, 0 without the squares of the targets.
    """

    intercept: float
    target: float
    squares: float = 0.0

    def record_norm(self) -> float:
        """Largest norm of what one record contributes: zero_out, Lemma 1."""
        t, k = self.intercept, self.target
        return math.sqrt(1 + 2 * t**2 + k**2 * (1 + t**2) + self.squares**2)

    def record_distance(self) -> float:
        """Largest distance between two records' contributions: replace_one, Lemma 2."""
        t, k = self.intercept, self.target
        both, apart = 2 * t**2 + k**2, abs(k**2 - 2 * t**2)
        c = min(1.0, both / 2)
        same = 2 * (1 - c**2) + 2 * both * (1 + c)
        c = min(1.0, apart / 2)
        opposite = 2 * (1 - c**2) + 2 * both + 2 * apart * c + 4 * k**2 * t**2
        # Two squares of targets are at most 1 apart.
        return math.sqrt(max(same, opposite) + self.squares**2)

    def bound(self) -> Bound:
        """L2 bounds on the sum, in exact arithmetic."""
        return Bound(
            zero_out=self.record_norm() * (1 + 1e-12),
            replace_one=self.record_distance() * (1 + 1e-12),
        ).of_shares()


@dataclass(frozen=True)
class Moments:
    """Sums over the records, exact or released.

    `rows_rows`, of shape (d, d), is the sum of u u', `rows` that of u, `rows_targets`
    that of u v, `targets` that of v, and `squares` that of v^2. `rows` and `targets`
    are 0 without an intercept, and `squares` if they have no weight.
    """

    rows_rows: FloatArray
    rows: FloatArray
    rows_targets: FloatArray
    targets: float
    squares: float = 0.0


@dataclass(frozen=True)
class MomentSums(Summed):
    """The vector of the module's docstring, summed over all records.

    Rows are clipped to the norm `data_norm`, and targets, if they have a weight, to the
    magnitude `target_bound`.
    """

    weights: MomentWeights
    n_samples: int
    n_features: int
    data_norm: float
    target_bound: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self._sizes),)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Numbers in each part: u u', u v, u, v, v^2."""
        d, t, k = self.n_features, self.weights.intercept > 0, self.weights.target > 0
        has_squares = self.weights.squares > 0
        return d * (d + 1) // 2, d * k, d * t, int(t and k), int(has_squares)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        return self.weights.bound()

    def slack(self, layout: Layout) -> float:
        # Lemma 3: sums are exact, until they become floats times two weights.
        return total_rounding(self.n_samples, self.weights.record_norm(), n_steps=3)

    def open(self, source: Source) -> Source:
        return source

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return self.stack(_moments(sums))

    def sums(self, source: Source, rows: IntArray | None = None) -> Moments:
        """The exact sums. Private."""
        return _moments(self.whole_sums(source, rows))

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total = _Total(self.n_features, self.weights)
        # Kept, since memory that is new each time takes longer than the arithmetic.
        scratch = np.empty((_DENSE_ROWS, self.n_features))
        for block in blocks_of(reader, rows):
            for X, v, root in self._pieces(block):
                rows = whole_rows(X, self.data_norm, scratch)
                total.add(*_of_roots(rows, v, root))
        return total.whole()

    def _pieces(self, block: Block) -> Iterator[tuple[Any, FloatArray, FloatArray]]:
        """Rows that count, as many as add up exactly, with targets and roots."""
        X, v, root = block.X, self._whole_targets(block.y), whole_roots(block)
        if block.present is not None:
            X, v, root = X[root > 0], v[root > 0], root[root > 0]
        size = _SPARSE_ROWS if issparse(X) else _DENSE_ROWS
        if len(v) <= size:
            yield X, v, root
            return
        for start in range(0, len(v), size):
            run = slice(start, start + size)
            yield X[run], v[run], root[run]

    def _whole_targets(self, y: FloatArray) -> FloatArray:
        if self.weights.target == 0:
            return np.zeros(len(y))
        bound = self.target_bound
        return np.asarray(np.rint(np.clip(y, -bound, bound) / bound * _LARGEST))

    def stack(self, moments: Moments) -> FloatArray:
        """Sums as the vector of the module's docstring."""
        t, k = self.weights.intercept, self.weights.target
        parts = [svec(moments.rows_rows)]
        if k > 0:
            parts += [k * moments.rows_targets]
        if t > 0:
            parts += [math.sqrt(2) * t * moments.rows]
        if t > 0 and k > 0:
            parts += [np.array([k * t * moments.targets])]
        if self.weights.squares > 0:
            parts += [np.array([self.weights.squares * moments.squares])]
        return np.concatenate(parts)

    def read(self, released: FloatArray) -> Moments:
        """The sums that a released vector stands for; post-processing."""
        d, t, k = self.n_features, self.weights.intercept, self.weights.target
        products, rows_targets, rows, targets, squares = np.split(
            released, np.cumsum(self._sizes[:-1])
        )
        return Moments(
            of_svec(products, d),
            rows / (math.sqrt(2) * t) if t > 0 else np.zeros(d),
            rows_targets / k if k > 0 else np.zeros(d),
            float(targets[0]) / (k * t) if t > 0 and k > 0 else 0.0,
            float(squares[0]) / self.weights.squares if len(squares) else 0.0,
        )


def svec(matrix: FloatArray) -> FloatArray:
    """The diagonal and sqrt(2) times the upper triangle: of the Frobenius norm."""
    above = matrix[np.triu_indices(len(matrix), 1)]
    return np.concatenate([np.diag(matrix), math.sqrt(2) * above])


def of_svec(vector: FloatArray, size: int) -> FloatArray:
    """The symmetric matrix, of so many rows, that a vector of `svec` stands for."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / math.sqrt(2)
    matrix += matrix.T + np.diag(vector[:size])
    return matrix


class _Total:
    """Sums of whole numbers."""

    def __init__(self, n_features: int, weights: MomentWeights) -> None:
        d = n_features
        self._rows_rows, self._rows_targets = WholeSum((d, d)), WholeSum((d,))
        self._rows, self._targets = WholeSum((d,)), WholeSum(())
        self._squares = WholeSum(())
        self._has_rows, self._has_squares = weights.intercept > 0, weights.squares > 0
        # What is not in whole sums yet, of so many rows.
        self._part, self._n_part = np.zeros((d, d)), 0

    def add(self, X: Any, v: FloatArray, constant: FloatArray) -> None:
        """Add rows, at most as many as add up exactly, with targets and constants."""
        if issparse(X):
            self._rows_rows.add((X.T @ X).toarray())
            v, constant = v.astype(np.int64), constant.astype(np.int64)
        else:
            self._add_products(X)
        self._rows_targets.add(X.T @ v)
        if self._has_squares:
            self._squares.add(v @ v)
        if self._has_rows:
            self._rows.add(X.T @ constant)
            self._targets.add(constant @ v)

    def _add_products(self, X: FloatArray) -> None:
        if self._n_part + len(X) > _DENSE_ROWS:
            self._flush()
        self._part += X.T @ X
        self._n_part += len(X)

    def _flush(self) -> None:
        self._rows_rows.add(self._part)
        self._part[:], self._n_part = 0.0, 0

    def whole(self) -> Sums:
        """Sums of u u', of u, of u v, of v and of v^2."""
        self._flush()
        of_targets = self._rows_targets, self._targets, self._squares
        return self._rows_rows, self._rows, *of_targets


def _moments(sums: Sums) -> Moments:
    """What whole sums stand for, in units of the bounds."""
    rows_rows, rows, rows_targets, targets, squares = sums
    square = _LARGEST**-2
    return Moments(
        rows_rows.value() * square,
        rows.value() * square,
        rows_targets.value() * square,
        float(targets.value()) * square,
        float(squares.value()) * square,
    )


def whole_roots(block: Block) -> FloatArray:
    """Roots of the shares of a block's rows, in whole numbers of 2^-21, cut.

    Those of records are 2^21, or 0 of null records. The squares of a user's add up to
    at most 4^21.
    """
    if block.present is None:
        return np.full(len(block.y), _LARGEST)
    return np.floor(np.sqrt(block.present.astype(np.float64)) * _LARGEST)


def _of_roots(
    rows: Any, v: FloatArray, root: FloatArray
) -> tuple[Any, FloatArray, FloatArray]:
    """Rows and targets times the roots, cut towards 0, and the roots.

    A row is then a root times a row that is no longer than the bound, and so is its
    target: what they contribute is the share times what a record may.
    """
    if (root == _LARGEST).all():
        return rows, v, root
    shrinking, v = root / _LARGEST, np.trunc(v * (root / _LARGEST))
    if not issparse(rows):
        return np.trunc(rows * shrinking[:, None]), v, root
    data = rows.data * np.repeat(shrinking, np.diff(rows.indptr))
    return with_entries(rows, np.trunc(data).astype(np.int64)), v, root


def whole_rows(X: Any, bound: float, scratch: FloatArray | None = None) -> Any:
    """Rows in whole numbers of ``bound / 2^21``, clipped to 2^21.

    Parameters
    ----------
    X : ndarray or canonical CSR of shape (n_rows, n_features), float32 or float64
    bound : float in (0, inf)
    scratch : ndarray of float64 of at least n_rows rows, or None, default=None
        Overwritten by dense rows; None: new memory.

    Returns
    -------
    ndarray of float64 or CSR of int64
        A row's numbers depend on nothing but the row.
    """
    if not issparse(X):
        out = np.empty(X.shape) if scratch is None else scratch[: len(X)]
        return _whole_dense(X, bound, out)
    return _whole_sparse(with_entries(X, X.data.astype(np.float64)), bound)


def _whole_dense(X: np.ndarray, bound: float, q: FloatArray) -> FloatArray:
    q = _rounded(_in_units(X, bound, q))
    squares = np.einsum("ij,ij->i", q, q)
    far = np.flatnonzero(~(squares < _EXACT))
    if len(far):
        rows = np.nan_to_num(X[far].astype(np.float64))
        q[far] = _rounded(_moved(rows, np.max(np.abs(rows), axis=1)[:, None]))
        squares[far] = np.sum(np.square(q[far].astype(np.int64)), axis=1)
    long = np.flatnonzero(squares > _LARGEST**2)
    if len(long) > _MANY * len(q):
        q *= _shrinking(squares)[:, None]
        np.trunc(q, out=q)
    elif len(long):
        q[long] = np.trunc(q[long] * _shrinking(squares[long])[:, None])
    return q


def _whole_sparse(X: Any, bound: float) -> Any:
    counts = np.diff(X.indptr)
    q = _rounded(_in_units(X.data, bound, np.empty(X.data.shape)))
    squares = np.asarray(with_entries(X, q * q).sum(axis=1), dtype=np.float64).ravel()
    is_far = ~(squares < _EXACT)
    if is_far.any():
        rows = X[is_far]
        rows.data = np.nan_to_num(rows.data)
        largest = abs(rows).max(axis=1).toarray().ravel()
        moved = _rounded(_moved(rows.data, np.repeat(largest, counts[is_far])))
        q[np.repeat(is_far, counts)] = moved
        rows.data = np.square(moved.astype(np.int64))
        squares[is_far] = np.asarray(rows.sum(axis=1)).ravel()
    if np.any(squares > _LARGEST**2):
        q = np.trunc(q * np.repeat(_shrinking(squares), counts))
    return with_entries(X, q.astype(np.int64))


def _in_units(X: np.ndarray, bound: float, out: FloatArray) -> FloatArray:
    """Entries in units; infinite ones are of rows that are far beyond the bound."""
    scale = _LARGEST / bound
    if math.isfinite(scale):
        np.multiply(X, scale, out=out, dtype=np.float64)
        return out
    mantissa, exponent = math.frexp(bound)
    np.multiply(X, _LARGEST / mantissa, out=out, dtype=np.float64)
    np.ldexp(out, -exponent, out=out)
    return out


def _moved(X: FloatArray, largest: FloatArray) -> FloatArray:
    """Rows times powers of two: the largest entry is from 2^21 to below 2^22."""
    return np.asarray(np.ldexp(X, 22 - np.frexp(largest)[1]))


def _rounded(scaled: FloatArray) -> FloatArray:
    """The nearest whole numbers, in place."""
    return np.rint(scaled, out=scaled)


def _shrinking(squares: FloatArray) -> FloatArray:
    """Factors by which no row is longer than the bound, once it is rounded down.

    Exactly 1 for rows that are not.
    """
    # The part of 2^-50 is more than sums, root, quotient and product can be off.
    factors = _LARGEST * (1 - 2.0**-50) / np.sqrt(np.maximum(squares, 1.0))
    return np.where(squares > _LARGEST**2, factors, 1.0)
