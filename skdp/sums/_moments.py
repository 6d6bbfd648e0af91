"""Sums of second moments and of curvatures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._arrays import FloatArray, IntArray, with_entries
from skdp.losses._objective import LinearObjective
from skdp.losses._plain import plain_curvature, plain_error, plain_residual
from skdp.privacy.release._query import Bound, Layout
from skdp.sums._exact import Summed, Sums, WholeSum, blocks_of, on_grid, total_rounding
from skdp.sums._grid_rows import LONGEST, gridded
from skdp.tables._source import Block, Source

# ------------------------------------------- Second moments of clipped rows and targets
# In units of the public bounds: u is a row divided by `data_norm`, so of norm at most
# 1, and v a target divided by `target_bound`, so in [-1, 1]. One record contributes
#
#     (svec(u u'), sqrt(2) t u, k u v, k t v, h v^2),
#
# where svec stacks the diagonal and sqrt(2) times the upper triangle, so that norms are
# Frobenius norms; t is the constant in the intercept's column (0 without an intercept),
# k the weight of the targets and h the weight of their squares; parts of weight 0 are
# left out. The number of records is public and not summed. Rows and targets are whole
# numbers of a public unit, and rows are never longer than the bound, so all sums are
# exact in any order. A row of a user, and the constant 1 beside it, are multiplied by
# the root of the row's share first. Sensitivities are derived in
# ``docs/proofs/adassp.md``.


# The bound of rows, and the bound of targets, in whole numbers.
_LARGEST = 2.0**21
# Number of rows whose products of whole numbers add up exactly: 42 + 11 = 53 bits in
# double precision; 64-bit integers, for sparse rows, hold more of them.
_DENSE_ROWS, _SPARSE_ROWS = 1 << 11, 1 << 16
# Squared norms below this are exact.
_EXACT = 2.0**53
# From this fraction of too long rows on, all rows are multiplied, in place.
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
        """Largest norm of one record's contribution: zero_out, Lemma 1."""
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
        # Squares of two targets differ by at most 1.
        return math.sqrt(max(same, opposite) + self.squares**2)

    def bound(self) -> Bound:
        """L2 bounds on the sum, in exact arithmetic."""
        return Bound(
            zero_out=self.record_norm() * (1 + 1e-12),
            replace_one=self.record_distance() * (1 + 1e-12),
        ).with_user_bounds()


@dataclass(frozen=True)
class Moments:
    """Sums over the records, exact or released.

    `rows_rows`, of shape (d, d), is the sum of u u', `rows` of u, `rows_targets` of
    u v, `targets` of v, and `squares` of v^2. `rows` and `targets` are 0 without an
    intercept, and `squares` is 0 if it has no weight.
    """

    rows_rows: FloatArray
    rows: FloatArray
    rows_targets: FloatArray
    targets: float
    squares: float = 0.0


@dataclass(frozen=True)
class MomentSums(Summed):
    """The vector of the section's comment, summed over all records.

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
        """Number of entries of each part: u u', u v, u, v, v^2."""
        d, t, k = self.n_features, self.weights.intercept > 0, self.weights.target > 0
        has_squares = self.weights.squares > 0
        return d * (d + 1) // 2, d * k, d * t, int(t and k), int(has_squares)

    @property
    def family(self) -> Hashable:
        return self

    def bound(self) -> Bound:
        return self.weights.bound()

    def slack(self, layout: Layout) -> float:
        # Lemma 3: sums are exact until they become floats times two weights.
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
        # Reused, since new memory each time would take longer than the arithmetic.
        scratch = np.empty((_DENSE_ROWS, self.n_features))
        for block in blocks_of(reader, rows):
            for X, v, root in self._pieces(block):
                rows = whole_rows(X, self.data_norm, scratch)
                total.add(*_of_roots(rows, v, root))
        return total.whole()

    def _pieces(self, block: Block) -> Iterator[tuple[Any, FloatArray, FloatArray]]:
        """Present rows, as many as add up exactly, with targets and roots of shares."""
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
        """Sums as the vector of the section's comment."""
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
        """The sums that a released vector represents; post-processing."""
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
    """The diagonal and sqrt(2) times the upper triangle: keeps the Frobenius norm."""
    above = matrix[np.triu_indices(len(matrix), 1)]
    return np.concatenate([np.diag(matrix), math.sqrt(2) * above])


def of_svec(vector: FloatArray, size: int) -> FloatArray:
    """The symmetric matrix with `size` rows that a vector of `svec` represents."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / math.sqrt(2)
    matrix += matrix.T + np.diag(vector[:size])
    return matrix


class _Total:
    def __init__(self, n_features: int, weights: MomentWeights) -> None:
        d = n_features
        self._rows_rows, self._rows_targets = WholeSum((d, d)), WholeSum((d,))
        self._rows, self._targets = WholeSum((d,)), WholeSum(())
        self._squares = WholeSum(())
        self._has_rows, self._has_squares = weights.intercept > 0, weights.squares > 0
        # Sum of the last rows, not yet in whole sums, and their number.
        self._part, self._n_part = np.zeros((d, d)), 0

    def add(self, X: Any, v: FloatArray, constant: FloatArray) -> None:
        """Add rows, with targets and constants, at most as many as add up exactly."""
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
    """The moments that whole sums represent, in units of the bounds."""
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
    """Roots of the shares of a block's rows, cut to whole numbers of 2^-21.

    A record has 2^21, a null record 0. The squares of a user's roots add up to at most
    4^21.
    """
    if block.present is None:
        return np.full(len(block.y), _LARGEST)
    return np.floor(np.sqrt(block.present.astype(np.float64)) * _LARGEST)


def _of_roots(
    rows: Any, v: FloatArray, root: FloatArray
) -> tuple[Any, FloatArray, FloatArray]:
    """Rows and targets times the roots, cut towards 0, and the roots.

    A row is then a root times a row of norm at most the bound, and likewise its target:
    the contribution is the share times a possible contribution of a record.
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
        The numbers of a row depend on the row alone.
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
    """Entries in units; an infinite entry belongs to a row far beyond the bound."""
    scale = _LARGEST / bound
    if math.isfinite(scale):
        np.multiply(X, scale, out=out, dtype=np.float64)
        return out
    mantissa, exponent = math.frexp(bound)
    np.multiply(X, _LARGEST / mantissa, out=out, dtype=np.float64)
    np.ldexp(out, -exponent, out=out)
    return out


def _moved(X: FloatArray, largest: FloatArray) -> FloatArray:
    """Rows times powers of two, so that the largest entry is in [2^21, 2^22)."""
    return np.asarray(np.ldexp(X, 22 - np.frexp(largest)[1]))


def _rounded(scaled: FloatArray) -> FloatArray:
    """The nearest whole numbers, in place."""
    return np.rint(scaled, out=scaled)


def _shrinking(squares: FloatArray) -> FloatArray:
    """Factors that keep each row, rounded down, within the bound.

    Exactly 1 for rows within the bound.
    """
    # The factor 1 - 2^-50 exceeds the errors of sums, root, quotient and product.
    factors = _LARGEST * (1 - 2.0**-50) / np.sqrt(np.maximum(squares, 1.0))
    return np.where(squares > _LARGEST**2, factors, 1.0)


# ------------------------------------------ Gradients, curvatures and squared gradients
# The sums are at released weights. Rows are divided by `data_norm`, residuals and
# curvatures by their bounds: u is a row of norm at most 1, with the constant t if there
# is an intercept, r a residual in [-1, 1] and c a curvature in [0, 1]. One record
# contributes
#
#     (r u, h c svec(u u'), q r^2 svec(u u')),
#
# where svec stacks the diagonal and sqrt(2) times the upper triangle, h is the weight
# of the curvatures and q the weight of the squares; the last part is left out if q is
# 0. The summed numbers are whole: r u and the root of c times u, rounded, and their
# products, so all sums are exact in any order. Sensitivities are derived in
# ``docs/proofs/noisy_newton.md``.


_ROWS = 1 << 11
# Factor that covers the rounding of norms.
_ABOVE = 1 + 1e-12


@dataclass(frozen=True)
class NewtonWeights:
    """Public weights of the parts of the query.

    `intercept` is t above, in (0, 1], `curvature` is h and `squares` is q.
    """

    intercept: float
    curvature: float
    squares: float


@dataclass(frozen=True)
class NewtonAnswer:
    """Sums over the records, exact or released, of rows with their constant t.

    Parameters
    ----------
    gradient : ndarray of shape (n_columns,)
        Sum of ``residual * u``.
    curvature, squares : ndarray of shape (n_columns, n_columns)
        Sums of ``curvature * u u'`` and of ``residual^2 * u u'``; the latter are zeros
        if they have no weight.
    """

    gradient: FloatArray
    curvature: FloatArray
    squares: FloatArray


@dataclass(frozen=True)
class NewtonSums:
    """The queries of one objective with one output and a `plain_curvature`."""

    objective: LinearObjective
    parts: NewtonWeights

    def at(self, weights: FloatArray) -> NewtonSum:
        """The query at released weights of shape (n_columns, 1).

        The query uses the nearest weights of the public grid: post-processing.
        """
        return NewtonSum(self, on_grid(weights))

    @property
    def largest_residual(self) -> float:
        """Unit of the residuals."""
        return self.objective.loss.zero_out_bound(math.inf)

    def noise(self, deviation: float) -> tuple[float, float]:
        """Noise of the gradient and of diagonal curvatures in `NewtonSum.read`.

        Standard deviations, if an entry of the query has `deviation`; public.
        """
        bend = self.objective.loss.smoothness / self.parts.curvature
        return deviation * self.largest_residual, deviation * bend

    @property
    def constant(self) -> FloatArray:
        """Ratio of the columns of u to the columns of ``(row / data_norm, 1)``."""
        unit = np.ones(self.objective.n_columns)
        if self.objective.fit_intercept:
            unit[-1] = self.parts.intercept
        return unit

    @property
    def length(self) -> float:
        """Largest squared norm of u."""
        t = self.parts.intercept if self.objective.fit_intercept else 0.0
        return 1 + t**2

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf)

    def bound(self, radius: float) -> Bound:
        """Bound at weights whose raw predictions are at most `radius`."""
        p, objective = self.length, self.objective
        residual = objective.loss.zero_out_bound(radius) / self.largest_residual
        residual += plain_error(objective.loss) / self.largest_residual
        of_gradient = residual**2
        of_matrices = self.parts.curvature**2 + (self.parts.squares * residual**2) ** 2
        # Lemma 1, and Lemma 2 in its two cases.
        one = of_gradient * p + of_matrices * p**2
        apart = of_gradient * 4 * p + of_matrices * p**2
        between = min(of_gradient / (2 * of_matrices), p)
        both = of_gradient * 2 * (p + between) + of_matrices * 2 * (p**2 - between**2)
        rounded = self._rounded()
        return Bound(
            zero_out=math.sqrt(one) * _ABOVE + rounded,
            replace_one=math.sqrt(max(apart, both)) * _ABOVE + 2 * rounded,
        )

    def _rounded(self) -> float:
        """Effect of whole numbers on the norm of a record's contribution (Lemma 3)."""
        off = math.sqrt(self.objective.n_columns) / 2 / _LARGEST
        of_product = off * (2 * math.sqrt(self.length) + off)
        weights = self.parts.curvature + self.parts.squares
        return (off + weights * of_product) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class NewtonSum(Summed):
    """The vector of the section's comment at `weights`, which are released."""

    of: NewtonSums
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        d = self.of.objective.n_columns
        return (d + (1 + (self.of.parts.squares > 0)) * (d * (d + 1) // 2),)

    @property
    def family(self) -> Hashable:
        # No rows are kept between queries.
        return NewtonSum

    def bound(self) -> Bound:
        objective = self.of.objective
        features = self.weights[: objective.n_features]
        reach = float(np.linalg.norm(features))
        if objective.fit_intercept:
            reach += abs(float(self.weights[-1, 0]))
        return self.of.bound(objective.data_norm * reach * _ABOVE)

    def slack(self, layout: Layout) -> float:
        # Sums are exact until they become floats times a weight and a unit.
        worst = self.of.worst.zero_out
        assert worst is not None
        return total_rounding(self.of.objective.n_samples, worst, n_steps=3)

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        d, squares = self.of.objective.n_columns, self.of.parts.squares
        gradient = WholeSum((d,))
        products = [WholeSum((d, d)) for _ in range(1 + (squares > 0))]
        for block in blocks_of(reader, rows):
            for tilted, bent in self._pieces(block):
                gradient.add(tilted.sum(axis=0))
                for total, part in zip(products, (bent, tilted), strict=False):
                    total.add(part.T @ part)
        return gradient, *products

    def _pieces(self, block: Block) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Rows times residuals and times roots of curvatures, in whole numbers."""
        X, y = block.X, block.y
        if block.present is not None:
            X, y = X[block.present], y[block.present]
        for start in range(0, len(y), _ROWS):
            yield self._piece(X[start : start + _ROWS], y[start : start + _ROWS])

    def _piece(self, X: Any, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        objective, loss = self.of.objective, self.of.objective.loss
        grid = gridded(X, objective.data_norm).in_double()
        residual = plain_residual(loss, y, grid.raw(self.weights))
        curvature = plain_curvature(loss, residual) / loss.smoothness
        residual = residual / self.of.largest_residual
        rows = grid.entries.toarray() if issparse(grid.entries) else grid.entries
        rows = rows * (_LARGEST / LONGEST)
        if objective.fit_intercept:
            constant = np.full((len(y), 1), self.of.parts.intercept * _LARGEST)
            rows = np.hstack([rows, constant])
        return np.rint(rows * residual), np.rint(rows * np.sqrt(curvature))

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        gradient, *products = sums
        parts = [gradient.value() / _LARGEST]
        weights = self.of.parts.curvature, self.of.parts.squares
        for weight, total in zip(weights, products, strict=False):
            parts.append(weight * svec(total.value() * _LARGEST**-2))
        return np.concatenate(parts)

    def read(self, released: FloatArray) -> NewtonAnswer:
        """The sums that a released vector represents; post-processing."""
        d, parts = self.of.objective.n_columns, self.of.parts
        gradient, curvature, squares = np.split(released, [d, d + d * (d + 1) // 2])
        residual, bend = self.of.largest_residual, self.of.objective.loss.smoothness
        of_squares = np.zeros((d, d))
        if parts.squares > 0:
            of_squares = of_svec(squares, d) * (residual**2 / parts.squares)
        return NewtonAnswer(
            gradient * residual,
            of_svec(curvature, d) * (bend / parts.curvature),
            of_squares,
        )
