"""Sums of gradients, curvatures and squared gradients at released weights.

Rows are divided by `data_norm`, residuals by their bound and curvatures by theirs: u is
a row of norm at most 1, with the constant t if there is an intercept, r a residual in
[-1, 1] and c a curvature in [0, 1]. One record contributes

    (r u, h c svec(u u'), q r^2 svec(u u')),

where svec stacks the diagonal and sqrt(2) times the upper triangle, h is the weight of
the curvatures and q that of the squares; the last part is left out if q is 0.
What is summed are whole numbers: r u and the root of c times u, rounded, and products
of those, so that all sums are exact in any order. Sensitivities are derived in
``docs/proofs/noisy_newton.md``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Block, Source
from skdp.losses._plain import plain_curvature, plain_error, plain_residual
from skdp.objectives._linear import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum, total_rounding
from skdp.queries._grid import on_grid
from skdp.queries._grid_rows import gridded
from skdp.queries._moments import of_svec, svec
from skdp.queries._row_grid import LONGEST
from skdp.queries._summed import Summed, Sums

# The bound of rows, in whole numbers; and rows of which products of whole numbers add
# up exactly: 42 + 11 = 53 bits.
_LARGEST = 2.0**21
_ROWS = 1 << 11
# Of rounded-up norms.
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
        Sums of ``curvature * u u'`` and of ``residual^2 * u u'``; the latter zeros if
        they have no weight.
    """

    gradient: FloatArray
    curvature: FloatArray
    squares: FloatArray


@dataclass(frozen=True)
class NewtonSums:
    """The queries of one objective: of one output, and a `plain_curvature`."""

    objective: LinearObjective
    parts: NewtonWeights

    def at(self, weights: FloatArray) -> NewtonSum:
        """The query at released weights of shape (n_columns, 1).

        At the weights of the public grid that are nearest: post-processing.
        """
        return NewtonSum(self, on_grid(weights))

    @property
    def largest_residual(self) -> float:
        """In units of which residuals are."""
        return self.objective.loss.zero_out_bound(math.inf)

    def noise(self, deviation: float) -> tuple[float, float]:
        """In the gradient, and on the diagonal of the curvatures, of that in a number.

        Standard deviations, of what `NewtonSum.read` gives; public.
        """
        bend = self.objective.loss.smoothness / self.parts.curvature
        return deviation * self.largest_residual, deviation * bend

    @property
    def constant(self) -> FloatArray:
        """What columns of u are over those of ``(row / data_norm, 1)``."""
        unit = np.ones(self.objective.n_columns)
        if self.objective.fit_intercept:
            unit[-1] = self.parts.intercept
        return unit

    @property
    def length(self) -> float:
        """Largest norm of u, squared."""
        t = self.parts.intercept if self.objective.fit_intercept else 0.0
        return 1 + t**2

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf)

    def bound(self, radius: float) -> Bound:
        """Bound at weights with which no raw prediction is larger than `radius`."""
        p, objective = self.length, self.objective
        residual = objective.loss.zero_out_bound(radius) / self.largest_residual
        residual += plain_error(objective.loss) / self.largest_residual
        of_gradient = residual**2
        of_matrices = self.parts.curvature**2 + (self.parts.squares * residual**2) ** 2
        # Lemma 1, and Lemma 2 of its two cases.
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
        """What whole numbers add to the norm of a record's part (Lemma 3)."""
        off = math.sqrt(self.objective.n_columns) / 2 / _LARGEST
        of_product = off * (2 * math.sqrt(self.length) + off)
        weights = self.parts.curvature + self.parts.squares
        return (off + weights * of_product) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class NewtonSum(Summed):
    """The vector of the module's docstring at `weights`, which are released."""

    of: NewtonSums
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        d = self.of.objective.n_columns
        return (d + (1 + (self.of.parts.squares > 0)) * (d * (d + 1) // 2),)

    @property
    def family(self) -> Hashable:
        # Nothing is kept of rows.
        return NewtonSum

    def bound(self) -> Bound:
        objective = self.of.objective
        features = self.weights[: objective.n_features]
        reach = float(np.linalg.norm(features))
        if objective.fit_intercept:
            reach += abs(float(self.weights[-1, 0]))
        return self.of.bound(objective.data_norm * reach * _ABOVE)

    def slack(self, layout: Layout) -> float:
        # Sums are exact, until they become floats times a weight and a unit.
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
        """Rows times residuals, and times roots of curvatures, in whole numbers."""
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
        """The sums that a released vector stands for; post-processing."""
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
