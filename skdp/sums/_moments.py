"""Sums of second moments, of clusters and of curvatures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from scipy.sparse import issparse

from skdp._arrays import FloatArray, IntArray, row_norms, with_entries
from skdp._input import to_unit
from skdp.losses._base import plain_curvature, plain_error, plain_residual
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._plan import Bound
from skdp.sums._adder import ABOVE, ROOT_UNIT, BoundedSum, Products, exact_runs
from skdp.sums._exact import Sums, on_grid
from skdp.sums._grid_rows import DenseGrid, gridded
from skdp.sums._record_sums import RecordSum
from skdp.tables._source import Block

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
# exact in any order. A row of a user, and its constant 1, are first multiplied by the
# square root of the row's weight. Sensitivities are derived in
# ``docs/proofs/moments.md``.


# The bound of rows, and the bound of targets, in whole numbers.
_LARGEST = 2.0**21
# Squared norms below this are exact.
_EXACT = 2.0**53
# If at least this fraction of rows is too long, all rows are multiplied, in place.
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
        """L2 bounds on the contribution of one row, in exact arithmetic."""
        return Bound(
            zero_out=self.record_norm() * ABOVE,
            replace_one=self.record_distance() * ABOVE,
        )


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
class MomentSums(BoundedSum):
    """The vector of the section's comment, summed over all records.

    Rows are clipped to the norm `data_norm`, and targets, if they have a weight, to the
    magnitude `target_bound`.
    """

    weights: MomentWeights
    n_samples: int
    n_features: int
    data_norm: float
    target_bound: float = 1.0
    unit: ClassVar[float] = ROOT_UNIT**2
    rounding: ClassVar[Any] = np.trunc

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
    def scale(self) -> FloatArray:
        t, k, h = self.weights.intercept, self.weights.target, self.weights.squares
        others = np.repeat([k, math.sqrt(2) * t, k * t, h], self._sizes[1:])
        return np.concatenate([_svec_scale(self.n_features), others])

    def row_bound(self) -> Bound:
        return self.weights.bound()

    @property
    def total_norm(self) -> float:
        return self.n_samples * self.weights.record_norm()

    def pieces(self, reader: Any, rows: IntArray | None) -> Iterator[Block]:
        return exact_runs(super().pieces(reader, rows))

    def added(self, block: Block) -> Products:
        rows = whole_rows(block.X, self.data_norm)
        v, one = self._whole_targets(block.y), np.full(len(block.y), _LARGEST)
        if issparse(rows):
            v, one = v.astype(np.int64), one.astype(np.int64)
        pairs = ((0, 0), (0, 1), (0, 2), (1, 2), (1, 1))
        chosen = tuple(
            pair for pair, size in zip(pairs, self._sizes, strict=True) if size
        )
        return Products((rows, v, one), chosen)

    def _whole_targets(self, y: FloatArray) -> FloatArray:
        if self.weights.target == 0:
            return np.zeros(len(y))
        bound = self.target_bound
        return np.asarray(np.rint(np.clip(y, -bound, bound) / bound * _LARGEST))

    def read(self, released: FloatArray) -> Moments:
        """The sums that a released vector represents; this is post-processing."""
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


def _svec_scale(size: int) -> FloatArray:
    """Factors on the diagonal and on the triangle above it, as in an svec."""
    return np.repeat([1.0, math.sqrt(2)], [size, size * (size - 1) // 2])


def of_svec(vector: FloatArray, size: int) -> FloatArray:
    """The symmetric matrix with `size` rows that an svec represents."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / math.sqrt(2)
    matrix += matrix.T + np.diag(vector[:size])
    return matrix


def whole_rows(X: Any, bound: float) -> Any:
    """Rows as whole multiples of ``bound / 2^21``, clipped to a norm of 2^21.

    Parameters
    ----------
    X : ndarray or canonical CSR of shape (n_rows, n_features), float32 or float64
    bound : float in (0, inf)

    Returns
    -------
    ndarray of float64 or CSR of int64
        The numbers of a row depend on the row alone.
    """
    if not issparse(X):
        return _whole_dense(X, bound, np.empty(X.shape))
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
    """Entries in units; infinite entries occur only in rows far beyond the bound."""
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
    """Factors that keep each row, after rounding towards 0, within the bound.

    They are exactly 1 for rows within the bound.
    """
    # The factor 1 - 2^-50 exceeds the errors of sums, root, quotient and product.
    factors = _LARGEST * (1 - 2.0**-50) / np.sqrt(np.maximum(squares, 1.0))
    return np.where(squares > _LARGEST**2, factors, 1.0)


# ----------------------------------------------------- Sums of the rows of each cluster
# A value is moved to [-1, 1] by its bounds. A row u is the difference of its values and
# a released mean, divided by a released radius and clipped to norm 1. A record adds 1
# and u to the entries of the centre that is nearest to u. Rows are whole multiples of
# 2^-21 and centres are on the public grid, so that the nearest centre follows from the
# row alone, with the same bits in any block. Sensitivities are derived in
# ``docs/proofs/preprocessing.md``, Lemma 7.


@dataclass(frozen=True, eq=False)
class ClusterSums(BoundedSum):
    """For each centre the sum of the rows nearest to it, and then their number.

    Parameters
    ----------
    n_samples : int
    low, high : ndarray of shape (n_features,)
        Bounds of the features; public.
    mean : ndarray of shape (n_features,)
        In units of the bounds; released.
    radius : float
        Norm to which differences from the mean are clipped; released.
    centers : ndarray of shape (n_clusters, n_features)
        In units of the radius, around the mean; released.
    """

    n_samples: int
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    radius: float
    centers: FloatArray
    unit: ClassVar[float] = ROOT_UNIT**2
    rounding: ClassVar[Any] = np.trunc

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.centers.size + len(self.centers),)

    def row_bound(self) -> Bound:
        return Bound(zero_out=math.sqrt(2) * ABOVE, replace_one=2 * ABOVE)

    @property
    def total_norm(self) -> float:
        return self.n_samples * math.sqrt(2)

    def pieces(self, reader: Any, rows: IntArray | None) -> Iterator[Block]:
        return exact_runs(super().pieces(reader, rows))

    def rows(self, X: np.ndarray) -> FloatArray:
        """Clipped rows u, in whole multiples of 2^-21."""
        moved = to_unit(X, self.low, self.high) - self.mean
        return np.asarray(whole_rows(moved, self.radius))

    def nearest(self, rows: FloatArray) -> IntArray:
        """Index of the centre nearest to each of `rows`."""
        halves = np.sum(self.centers**2, axis=1) / -2
        weights = on_grid(np.vstack([self.centers.T, halves]))
        raw = rows @ weights[:-1] + _LARGEST * weights[-1]
        return np.asarray(raw.argmax(axis=1))

    def added(self, block: Block) -> Products:
        rows, one = self.rows(block.X), np.full(len(block.y), _LARGEST)
        is_near = self.nearest(rows)[:, None] == np.arange(len(self.centers))
        return Products((is_near * _LARGEST, rows, one), ((0, 1), (0, 2)))

    def read(self, released: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums and numbers of rows of each centre; this is post-processing."""
        sums, counts = np.split(released, [self.centers.size])
        return sums.reshape(self.centers.shape), counts


# ------------------------------------------ Gradients, curvatures and squared gradients
# The sums are at released weights, in released coordinates. With ``x`` a row clipped to
# `data_norm` and followed by the intercept's constant, its coordinates are ``M' x`` for
# a released matrix M. A row whose coordinates are longer than C has a weight s below 1:
# s is the smaller of 1 and C over their length, and ``u = s M' x / C`` has a norm of at
# most 1. Residuals and curvatures are divided by their bounds: r is in [-1, 1], c in
# [0, 1]. One record contributes
#
#     (g s r u, h c svec(u u'), q s^2 r^2 svec(u u')),
#
# where svec stacks the diagonal and sqrt(2) times the upper triangle; g, h and q are
# the weights of gradients, curvatures and squares, and parts of weight 0 are left out.
# The summed numbers are whole: s r u and the root of c times u, rounded, and their
# products, so all sums are exact in any order. Sensitivities are derived in
# ``docs/proofs/moments.md``.


# Relative error of the length of a row, for each of its entries.
_OF_LENGTHS = 2.0**-50


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of rows that are followed by the intercept's constant; released.

    Parameters
    ----------
    matrix : ndarray of shape (n_columns, n_columns)
        Row x has the coordinates ``x @ matrix``. The last row is the intercept's, whose
        constant is `data_norm`.
    norm : float in (0, inf)
        Rows with longer coordinates weigh less.
    """

    matrix: FloatArray
    norm: float

    @classmethod
    def of(cls, matrix: FloatArray, norm: float) -> Coordinates:
        """The frame with the nearest matrix on the public grid; post-processing."""
        columns = [on_grid(column) for column in matrix.T]
        return cls(np.stack(columns, axis=1), norm)

    @property
    def weights(self) -> FloatArray:
        """Weights of rows, from weights of u; of shape (n_columns, n_columns)."""
        return self.matrix / self.norm


def _dense_grid(X: Any, norm: float) -> DenseGrid:
    """Clipped rows in whole numbers, so that products have the same bits everywhere."""
    grid = gridded(X, norm).in_double()
    if issparse(grid.entries):
        return DenseGrid(grid.entries.toarray().astype(np.float64), norm)
    return cast(DenseGrid, grid)


@dataclass(frozen=True, eq=False)
class LengthCounts(RecordSum):
    """Counts of rows whose coordinates are longer than a limit, and not than the next.

    Parameters
    ----------
    norm : float in (0, inf)
        Clip of the rows.
    matrix : ndarray of shape (n_columns, n_columns)
        As in `Coordinates`.
    limits : ndarray of shape (n_limits,)
        Increasing; released.
    """

    norm: float
    matrix: FloatArray
    limits: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.limits),)

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, 1.0

    def row_bound(self) -> Bound:
        # A row is in one count, or in none.
        return Bound(zero_out=ABOVE, replace_one=math.sqrt(2) * ABOVE)

    def numbers(self, block: Block) -> FloatArray:
        rows = np.ascontiguousarray(_dense_grid(block.X, self.norm).raw(self.matrix))
        place = np.searchsorted(self.limits, row_norms(rows)) - 1
        return np.asarray((place[:, None] == np.arange(len(self.limits))) * 1.0)


@dataclass(frozen=True)
class NewtonWeights:
    """Public weights of gradients, curvatures and squares; at least one is positive."""

    gradient: float
    curvature: float
    squares: float


@dataclass(frozen=True)
class NewtonAnswer:
    """Sums over the records, exact or released.

    Parameters
    ----------
    gradient : ndarray of shape (n_columns,)
        Sum of ``s * residual * u``.
    curvature, squares : ndarray of shape (n_columns, n_columns)
        Sums of ``curvature * u u'`` and of ``(s * residual)^2 * u u'``. Parts without
        weight are zeros.
    """

    gradient: FloatArray
    curvature: FloatArray
    squares: FloatArray


@dataclass(frozen=True, eq=False)
class NewtonSums:
    """The queries of one objective with one output and a `plain_curvature`."""

    objective: LinearObjective
    parts: NewtonWeights
    frame: Coordinates

    def at(self, weights: FloatArray) -> NewtonSum:
        """The query at released weights of shape (n_columns, 1).

        The query uses the nearest weights on the public grid, which is post-processing.
        """
        return NewtonSum(self, on_grid(weights))

    @property
    def largest_residual(self) -> float:
        """Unit of the residuals."""
        return self.objective.loss.zero_out_bound(math.inf)

    def noise(self, deviation: float) -> tuple[float, float]:
        """Noise of the gradient and of diagonal curvatures in `NewtonSum.read`.

        The result has standard deviations, if that of an entry of the query is
        `deviation`; public.
        """
        of_gradient = self.largest_residual / (self.parts.gradient or math.inf)
        bend = self.objective.loss.smoothness / self.parts.curvature
        return deviation * of_gradient, deviation * bend

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf)

    def bound(self, radius: float) -> Bound:
        """Bound at weights whose raw predictions are at most `radius`."""
        objective, parts = self.objective, self.parts
        residual = objective.loss.zero_out_bound(radius) / self.largest_residual
        residual += plain_error(objective.loss) / self.largest_residual
        of_gradient = (parts.gradient * residual) ** 2
        of_matrices = parts.curvature**2 + (parts.squares * residual**2) ** 2
        # Lemma 5, and Lemma 6 in its two cases.
        one = of_gradient + of_matrices
        apart = 4 * of_gradient + of_matrices
        between = min(of_gradient / (2 * of_matrices), 1.0)
        both = of_gradient * 2 * (1 + between) + of_matrices * 2 * (1 - between**2)
        rounded = self._rounded()
        return Bound(
            zero_out=math.sqrt(one) * ABOVE + rounded,
            replace_one=math.sqrt(max(apart, both)) * ABOVE + 2 * rounded,
        )

    def _rounded(self) -> float:
        """Effect of whole numbers on the norm of a record's contribution (Lemma 7)."""
        d = self.objective.n_columns
        off = math.sqrt(d) / 2 / _LARGEST + d * _OF_LENGTHS
        of_product = off * (2 + off)
        weights = self.parts.curvature + self.parts.squares
        return (self.parts.gradient * off + weights * of_product) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class NewtonSum(BoundedSum):
    """The vector of the section's comment at `weights`, which are released."""

    of: NewtonSums
    weights: FloatArray
    unit: ClassVar[float] = ROOT_UNIT**2
    rounding: ClassVar[Any] = np.trunc

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self._sizes),)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Number of entries of gradient, curvatures and squares."""
        d, parts = self.of.objective.n_columns, self.of.parts
        matrix = d * (d + 1) // 2
        return d * (parts.gradient > 0), matrix, matrix * (parts.squares > 0)

    @property
    def scale(self) -> FloatArray:
        d = self.of.objective.n_columns
        of_gradient, _, of_squares = self._sizes
        matrices = [_svec_scale(d)] * (1 + (of_squares > 0))
        return np.concatenate([np.ones(of_gradient), *matrices])

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        parts = self.of.parts
        weights = parts.gradient, parts.curvature, parts.squares
        return np.asarray(
            super().from_whole(source, sums) * np.repeat(weights, self._sizes)
        )

    def bound(self) -> Bound:
        # No bound for users: with weights, the rounded numbers of a row are not those
        # of a possible record.
        return self.row_bound()

    def row_bound(self) -> Bound:
        objective = self.of.objective
        features = self.weights[: objective.n_features]
        reach = float(np.linalg.norm(features))
        if objective.fit_intercept:
            reach += abs(float(self.weights[-1, 0]))
        return self.of.bound(objective.data_norm * reach * ABOVE)

    @property
    def total_norm(self) -> float:
        return self.of.objective.n_samples * self.of.worst.under("zero_out")

    def pieces(self, reader: Any, rows: IntArray | None) -> Iterator[Block]:
        return exact_runs(super().pieces(reader, rows))

    def added(self, block: Block) -> Products:
        tilted, bent = self._tilted_and_bent(block.X, block.y)
        one = np.full(len(block.y), _LARGEST)
        pairs = ((0, 2), (1, 1), (0, 0))
        chosen = tuple(
            pair for pair, size in zip(pairs, self._sizes, strict=True) if size
        )
        return Products((tilted, bent, one), chosen)

    def _tilted_and_bent(self, X: Any, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates times residuals and times roots of curvatures, whole numbers."""
        objective, loss = self.of.objective, self.of.objective.loss
        grid = _dense_grid(X, objective.data_norm)
        residual = plain_residual(loss, y, grid.raw(self.weights))
        curvature = plain_curvature(loss, residual) / loss.smoothness
        residual = residual / self.of.largest_residual
        # Both products are of whole numbers, so each row has the same bits everywhere.
        frame = self.of.frame
        rows = np.ascontiguousarray(grid.raw(frame.matrix))
        weight = frame.norm / np.maximum(row_norms(rows), frame.norm)
        rows *= (weight * (_LARGEST / frame.norm))[:, None]
        residual *= weight[:, None]
        return np.rint(rows * residual), np.rint(rows * np.sqrt(curvature))

    def read(self, released: FloatArray) -> NewtonAnswer:
        """The sums that a released vector represents; this is post-processing."""
        d, parts = self.of.objective.n_columns, self.of.parts
        gradient, curvature, squares = np.split(released, np.cumsum(self._sizes[:-1]))
        residual, bend = self.of.largest_residual, self.of.objective.loss.smoothness
        of_gradient, of_squares = np.zeros(d), np.zeros((d, d))
        if parts.gradient > 0:
            of_gradient = gradient * (residual / parts.gradient)
        if parts.squares > 0:
            of_squares = of_svec(squares, d) * (residual**2 / parts.squares)
        return NewtonAnswer(
            of_gradient, of_svec(curvature, d) * (bend / parts.curvature), of_squares
        )
