r"""Minimisers with a certificate: the gradient that is left is below a public bound.

The objective is on the scale of sums,

    F(W) = sum_i loss(x_i W, y_i) + strength / 2 ||W||^2 + <linear, W>,

and strongly convex, so a point whose exact gradient has norm tau is within
``tau / strength`` of the minimiser, whatever found it. How it is found is free: no
choice below costs privacy, and the running time is outside the guarantee
(``docs/known_weaknesses.md``).

First quasi-Newton steps with a preconditioner from a part of the records: a handful of
passes. If they should not reach the bound in the passes set aside for them, accelerated
gradient steps follow, as many as their convergence theorem asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import hstack, issparse, vstack

from skdp._floats import UNIT_ROUNDOFF, FloatArray
from skdp._rows import HUGE, row_norms, scale_rows
from skdp.data._memory import MemorySource
from skdp.data._source import Source
from skdp.objectives._linear import LinearObjective
from skdp.queries._gradient_sum import GradientSum

# Passes of the guaranteed method grow with its root: tens of millions at this one.
_WORST_CONDITION = 1e11
# Certified weights stay within this many times the bound on the minimiser's norm.
_WITHIN = 4.0
# Passes over the data before the accelerated gradient takes over.
_QUICK_PASSES = 400
# The part that serves the preconditioner: this many records, or more for wide data.
_PART_ROWS, _PART_ROWS_PER_COLUMN = 10_000, 8
# Wider data get a diagonal preconditioner: the cube of these many columns costs more
# than the passes that a better one saves, which are cheap for sparse rows.
_WIDEST, _WIDEST_SPARSE = 1500, 200
_MEMORY = 12
# How far the minimum of the part is worth finding, in passes over the part.
_PART_PASSES = (6, 20)
_PART_TOLERANCE = 1e-3


@dataclass(frozen=True)
class CertifiedProblem:
    """The objective, and what a certificate for it must allow for.

    `strength`, above 0, is the L2 regularisation of the sum, and `linear_norm` a public
    bound on the norm of the linear term.
    """

    objective: LinearObjective
    strength: float
    linear_norm: float = 0.0

    @property
    def _offset_norm(self) -> float:
        return math.hypot(*self.objective.offset)

    @property
    def farthest(self) -> float:
        """Bound on the norm of the minimiser, from F(W) <= F(0)."""
        objective = self.objective
        # No loss grows faster than its derivative can be.
        of_offset = self._offset_norm * objective.loss.zero_out_bound(math.inf)
        start = objective.n_samples * (objective.loss.value_at_zero + of_offset)
        linear = self.linear_norm
        root = math.sqrt(linear**2 + 2 * self.strength * start)
        return (linear + root) / self.strength

    @property
    def smoothness(self) -> float:
        """Largest eigenvalue that the Hessian of F can have."""
        data = self.objective.n_samples * self.objective.loss.smoothness
        return data * self.objective.row_norm**2 + self.strength

    @property
    def least_strength(self) -> float:
        """The least regularisation that a default may choose."""
        return 2 * self.smoothness / _WORST_CONDITION

    @property
    def is_ill_conditioned(self) -> bool:
        """Whether the guaranteed method would take longer than anyone waits."""
        return self.smoothness > _WORST_CONDITION * self.strength

    def rounding_error(self, largest_block: int) -> float:
        """Bound on the distance of a computed gradient of F from the exact one.

        At weights of norm at most four times `farthest`; the terms of `rounding_slack`,
        here for all records at once and not for the one that changes.
        """
        objective = self.objective
        n, b, d = objective.n_samples, largest_block, objective.n_features
        record = objective.row_norm * objective.loss.zero_out_bound(math.inf)
        weights = _WITHIN * self.farthest
        summation = n * (b + n / b + 16) * record
        rows = n * 4 * (d + 64) * record
        raw = n * objective.loss.smoothness * objective.row_norm**2 * (d + 16) * weights
        bend = objective.loss.smoothness * objective.row_norm
        raw += n * bend * (d + 16) * self._offset_norm
        rest = 4 * (self.strength * weights + self.linear_norm)
        return UNIT_ROUNDOFF * (summation + rows + raw + rest)


def certified_minimum(
    source: Source,
    certified: CertifiedProblem,
    linear: FloatArray,
    tolerance: float,
    quick_passes: int = _QUICK_PASSES,
) -> FloatArray | None:
    """Weights whose computed gradient has norm at most `tolerance`.

    Or zeros, if they are within ``tolerance / strength`` of every minimiser there
    could be.

    The source is private. `tolerance` is in units of a sum of gradients, at least
    `certified.rounding_error`, so that it can be met.

    Returns
    -------
    ndarray of shape (n_columns, n_outputs) or None
        Private, not a release. None if the bound was not met, which the convergence
        theorem excludes for a linear term within `linear_norm`.
    """
    if certified.farthest * certified.strength <= tolerance:
        return np.zeros_like(linear)  # near enough to every possible minimiser
    gradient_sum = GradientSum(source, certified.objective)

    def gradient(weights: FloatArray) -> FloatArray:
        return gradient_sum(weights) + certified.strength * weights + linear

    part = _part(source, certified)
    weights, precondition = _start(part, certified, linear)
    goal = _goal(tolerance, linear.size)
    weights, left = _quasi_newton(gradient, weights, precondition, goal, quick_passes)
    # Written so that NaN goes on to the method that has a theorem.
    if not left <= goal:
        weights, left = _accelerated(gradient, certified, linear, goal)
    # Rounding was bounded for gradients at weights within this ball only.
    within = np.linalg.norm(weights) <= _WITHIN * certified.farthest
    return weights if left <= goal and within else None


def _goal(tolerance: float, size: int) -> float:
    """What a computed norm may be, so that the norm itself is at most `tolerance`.

    A norm of p numbers is computed with a relative error below (p + 2) u; numbers whose
    squares underflow are too small to count beside any tolerance that is asked for.
    """
    return tolerance * (1 - 2 * (size + 4) * UNIT_ROUNDOFF)


Gradient = Callable[[FloatArray], FloatArray]


def _quasi_newton(
    gradient: Gradient,
    weights: FloatArray,
    precondition: Gradient,
    tolerance: float,
    passes: int,
) -> tuple[FloatArray, float]:
    """L-BFGS on gradients alone: loss values would drown in rounding near the end."""
    current = gradient(weights)
    passes -= 1
    pairs: list[tuple[FloatArray, FloatArray, float]] = []
    while np.linalg.norm(current) > tolerance and passes > 0:
        direction = -_two_loops(current, pairs, precondition)
        slope = float(np.vdot(direction, current))
        if not slope < 0:  # rounding; the plain preconditioned gradient descends
            pairs.clear()
            direction = -precondition(current)
            slope = float(np.vdot(direction, current))
        length, low, high = 1.0, 0.0, math.inf
        low_slope = slope
        while True:
            moved = gradient(weights + length * direction)
            passes -= 1
            new_slope = float(np.vdot(direction, moved))
            # The slope of a convex function grows along the line; it should come near
            # zero, from either side.
            if abs(new_slope) <= 0.5 * abs(slope) or passes <= 0:
                break
            if new_slope > 0:
                high, high_slope = length, new_slope
            else:
                low, low_slope = length, new_slope
            if math.isinf(high):
                # No end in sight: the secant's step, but no creeping and no leaping.
                rise = max(new_slope - slope, 1e-300)
                length *= min(4.0, max(1.5, -slope / rise))
            else:
                # The secant again, kept off both ends: the bracket always shrinks.
                share = low_slope / (low_slope - high_slope)
                length = low + min(0.9, max(0.1, share)) * (high - low)
        step, change = length * direction, moved - current
        weights, current = weights + step, moved
        product = float(np.vdot(step, change))
        # Of a convex function it is, but for rounding.
        if product > 0:
            pairs = [*pairs[-(_MEMORY - 1) :], (step, change, product)]
    return weights, float(np.linalg.norm(current))


def _two_loops(
    gradient: FloatArray,
    pairs: list[tuple[FloatArray, FloatArray, float]],
    precondition: Gradient,
) -> FloatArray:
    """The inverse of the approximate Hessian times a gradient [1]_.

    References
    ----------
    .. [1] Nocedal and Wright (2006). Numerical optimization, Algorithm 7.4.
    """
    result = gradient.copy()
    shares = []
    for step, change, product in reversed(pairs):
        share = float(np.vdot(step, result)) / product
        result -= share * change
        shares.append(share)
    result = precondition(result)
    if pairs:
        _, change, product = pairs[-1]
        curvature = float(np.vdot(change, precondition(change)))
        if curvature > 0:  # it may underflow
            result *= product / curvature
    for (step, change, product), share in zip(pairs, reversed(shares), strict=True):
        result += (share - float(np.vdot(change, result)) / product) * step
    return result


def _accelerated(
    gradient: Gradient,
    certified: CertifiedProblem,
    linear: FloatArray,
    tolerance: float,
) -> tuple[FloatArray, float]:
    """Nesterov's method from 0 for strongly convex functions [1]_.

    ``F(W_k) - F* <= L ||W*||^2 (1 - 1/sqrt(kappa))^k`` and ``||grad||^2 <= 2 L (F -
    F*)`` give the number of steps, with some to spare for rounding.

    References
    ----------
    .. [1] Nesterov (2018). Lectures on convex optimization, Theorem 2.2.3.
    """
    smooth, strength = certified.smoothness, certified.strength
    root = math.sqrt(smooth / strength)
    ratio = 2 * smooth * certified.farthest / tolerance
    steps = math.ceil(1.1 * root * 2 * math.log(max(2.0, ratio))) + 100
    weights = ahead = np.zeros_like(linear)
    momentum = (root - 1) / (root + 1)
    left = math.inf
    for _ in range(steps):
        slope = gradient(ahead)
        left = float(np.linalg.norm(slope))
        if left <= tolerance:
            return ahead, left
        following = ahead - slope / smooth
        ahead = following + momentum * (following - weights)
        weights = following
    return ahead, left


def _start(
    part: MemorySource, certified: CertifiedProblem, linear: FloatArray
) -> tuple[FloatArray, Gradient]:
    """Weights near the minimiser, from a part of the data, and a preconditioner."""
    objective = certified.objective
    share = objective.n_samples / part.n_samples
    gradient_sum = GradientSum(part, objective)

    def gradient(weights: FloatArray) -> FloatArray:
        return share * gradient_sum(weights) + certified.strength * weights + linear

    weights = np.zeros_like(linear)
    precondition = _preconditioner(part, certified, weights, share)
    if part.n_samples == objective.n_samples:
        return weights, precondition
    tolerance = _PART_TOLERANCE * float(np.linalg.norm(gradient(weights)))
    # Curvature at zero is a poor guide to that at the minimum: taken again on the way.
    for passes in _PART_PASSES:
        weights, _ = _quasi_newton(gradient, weights, precondition, tolerance, passes)
        precondition = _preconditioner(part, certified, weights, share)
    return weights, precondition


def _preconditioner(
    part: MemorySource,
    certified: CertifiedProblem,
    weights: FloatArray,
    share: float,
) -> Gradient:
    """Multiply by the inverse of an approximate Hessian, the same for each output."""
    objective, strength = certified.objective, certified.strength
    widest = _WIDEST_SPARSE if part.is_sparse else _WIDEST
    wide = objective.n_columns > widest
    shape = (
        (objective.n_columns,) if wide else (objective.n_columns, objective.n_columns)
    )
    hessian = np.zeros(shape)
    for block in part.blocks():
        X = block.X
        if objective.fit_intercept:
            column = np.full((X.shape[0], 1), objective.intercept_value)
            X = (
                hstack([X, column], format="csr")
                if issparse(X)
                else np.hstack([X, column])
            )
        raw = np.asarray(X @ weights) + np.array(objective.offset or 0.0)
        # One factorisation serves all outputs, whose mean curvature it has.
        curvature = certified.objective.loss.curvature(block.y, raw).mean(axis=1)
        curvature *= share
        if wide:
            squares = X.power(2) if issparse(X) else X**2
            hessian += squares.T @ curvature
        else:
            product = X.T @ scale_rows(X, curvature)
            hessian += product.toarray() if issparse(product) else product
    if wide:
        diagonal = (hessian + strength)[:, None]
        return lambda gradient: gradient / diagonal
    hessian[np.diag_indices_from(hessian)] += strength
    try:
        factor = cho_factor(hessian, lower=True, check_finite=False)
    except LinAlgError:  # lost to rounding; any positive matrix will do
        diagonal = np.maximum(np.diag(hessian), strength)[:, None]
        return lambda gradient: gradient / diagonal
    return lambda gradient: np.asarray(cho_solve(factor, gradient, check_finite=False))


def _part(source: Source, certified: CertifiedProblem) -> MemorySource:
    """Every k-th record of one reading, its row clipped, in double precision.

    Only where the search starts depends on which records these are.
    """
    objective = certified.objective
    wanted = max(_PART_ROWS, _PART_ROWS_PER_COLUMN * objective.n_columns)
    stride = max(1, objective.n_samples // wanted)
    rows: list[Any] = []
    targets: list[FloatArray] = []
    first = 0
    for block in source.blocks():
        chosen = slice(first, None, stride)
        # The stride goes on across blocks, whose sizes it must not depend on.
        first = (first - len(block.y)) % stride
        X = block.X[chosen].astype(np.float64)
        norms = row_norms(X)
        factor = objective.data_norm / np.maximum(norms, objective.data_norm)
        if block.present is not None:
            factor[~block.present[chosen]] = 0.0
        # Rows whose squares overflow would have to be scaled in two steps; a part can
        # do without them.
        factor[~(norms < HUGE)] = 0.0
        rows.append(scale_rows(X, factor))
        targets.append(block.y[chosen])
    X = vstack(rows, format="csr") if issparse(rows[0]) else np.concatenate(rows)
    return MemorySource(X, np.concatenate(targets))
