"""Objective perturbation: the certified minimiser of a randomly tilted objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import hstack, issparse, vstack

from skdp._arrays import HUGE, UNIT_ROUNDOFF, FloatArray, row_norms, scale_rows
from skdp._checks import check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._base import Loss, LossId
from skdp.losses._classification import ONE_SIGN
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._events import (
    MOST_OUTPUTS,
    ComposedEvent,
    Event,
    ObjectiveEvent,
    PureEvent,
)
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._objective_perturbation import ObjectiveLoss
from skdp.privacy.noise._laws import LAWS
from skdp.privacy.noise._noise import NoiseScale
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Draws, Line, Plan
from skdp.solvers._base import ChosenLaw, LawName, Solution
from skdp.sums._adder import without_nulls
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from skdp.tables._source import Source

# ------------------------------------ Minimisers with a bound on the remaining gradient
# The objective is a sum,
#
#     F(W) = sum_i loss(x_i W, y_i) + strength / 2 ||W||^2 + <linear, W>,
#
# and strongly convex, so a point whose exact gradient has norm tau is within
# ``tau / strength`` of the minimiser, whatever method found the point. The method is
# free: no choice below costs privacy, and the running time is outside the guarantee
# (``docs/guide/before_you_sign.md``).
#
# Quasi-Newton steps come first, with a preconditioner from a part of the records: a
# handful of passes. If they miss the bound within their limit of passes, accelerated
# gradient steps follow, as many as their convergence theorem asks for.


# Passes of the guaranteed method grow with the root of the condition number: tens of
# millions at this one.
_WORST_CONDITION = 1e11
# Certified weights stay within this many times the bound on the minimiser's norm.
_WITHIN = 4.0
# Passes over the data before the accelerated gradient takes over.
_QUICK_PASSES = 400
# Size of the part for the preconditioner: this many records, or more for wide data.
_PART_ROWS, _PART_ROWS_PER_COLUMN = 10_000, 8
# Wider data get a diagonal preconditioner: the cube of this number of columns costs
# more than the passes that a better one saves, and passes over sparse rows are cheap.
_WIDEST, _WIDEST_SPARSE = 1500, 200
_MEMORY = 12
# Passes over the part in the search for the part's minimum.
_PART_PASSES = (6, 20)
_PART_TOLERANCE = 1e-3


@dataclass(frozen=True)
class CertifiedProblem:
    """The objective, with the constants that its certificate depends on.

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
        # No loss grows faster than the bound on its derivative.
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
    def least_signal_to_noise(self) -> float:
        """Smallest regularisation that a default may choose."""
        return 2 * self.smoothness / _WORST_CONDITION

    @property
    def is_ill_conditioned(self) -> bool:
        """Whether the guaranteed method would take too long for any user."""
        return self.smoothness > _WORST_CONDITION * self.strength

    def rounding_error(self, largest_block: int) -> float:
        """Bound on the distance of a computed gradient of F from the exact one.

        Holds at weights of norm at most four times `farthest`. The terms are those of
        `rounding_slack`, here for all records and not for the one that changes.
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

    The result is zeros if they are within ``tolerance / strength`` of every possible
    minimiser.

    The source is private. `tolerance` is in units of a sum of gradients, at least
    `certified.rounding_error`, so that the computed gradient can meet it.

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
    # This comparison sends NaN to the method that has a theorem.
    if not left <= goal:
        weights, left = _accelerated(gradient, certified, linear, goal)
    # Rounding was bounded for gradients at weights within this ball only.
    within = np.linalg.norm(weights) <= _WITHIN * certified.farthest
    return weights if left <= goal and within else None


def _goal(tolerance: float, size: int) -> float:
    """The bound on a computed norm that keeps the exact norm at most `tolerance`.

    A norm of p numbers is computed with a relative error below (p + 2) u. Numbers whose
    squares underflow are negligible beside any tolerance of this module.
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
            # The slope of a convex function grows along the line. The search ends near
            # slope zero, on either side.
            if abs(new_slope) <= 0.5 * abs(slope) or passes <= 0:
                break
            if new_slope > 0:
                high, high_slope = length, new_slope
            else:
                low, low_slope = length, new_slope
            if math.isinf(high):
                # The minimum is farther: a secant step, neither tiny nor huge.
                rise = max(new_slope - slope, 1e-300)
                length *= min(4.0, max(1.5, -slope / rise))
            else:
                # A secant step away from both ends: the bracket always shrinks.
                share = low_slope / (low_slope - high_slope)
                length = low + min(0.9, max(0.1, share)) * (high - low)
        step, change = length * direction, moved - current
        weights, current = weights + step, moved
        product = float(np.vdot(step, change))
        # The product of a convex function is positive, except for rounding.
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
    # Curvature at zero is a poor guide to the curvature at the minimum, so it is
    # computed again on the way.
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
        # One factorisation of the mean curvature serves all outputs.
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
    except LinAlgError:  # rounding; any positive matrix is a valid preconditioner
        diagonal = np.maximum(np.diag(hessian), strength)[:, None]
        return lambda gradient: gradient / diagonal
    return lambda gradient: np.asarray(cho_solve(factor, gradient, check_finite=False))


def _part(source: Source, certified: CertifiedProblem) -> MemorySource:
    """Every k-th record of one reading, its row clipped, in double precision.

    The choice of records affects only where the search starts.
    """
    objective = certified.objective
    wanted = max(_PART_ROWS, _PART_ROWS_PER_COLUMN * objective.n_columns)
    stride = max(1, objective.n_samples // wanted)
    rows: list[Any] = []
    targets: list[FloatArray] = []
    first = 0
    for block in source.blocks():
        chosen = slice(first, None, stride)
        # The stride continues across blocks, so block sizes do not matter.
        first = (first - len(block.y)) % stride
        part = block.part(chosen)
        X = part.X.astype(np.float64)
        norms = row_norms(X)
        factor = objective.data_norm / np.maximum(norms, objective.data_norm)
        factor = without_nulls(factor, part)
        # Rows whose squares overflow would need scaling in two steps; the part leaves
        # them out.
        factor[~(norms < HUGE)] = 0.0
        rows.append(scale_rows(X, factor))
        targets.append(part.y)
    X = vstack(rows, format="csr") if issparse(rows[0]) else np.concatenate(rows)
    return MemorySource(X, np.concatenate(targets))


# ------------------------------------------- Solvers that release a certified minimiser


@dataclass(frozen=True, kw_only=True)
class CertifiedSolver(ChosenLaw):
    """A regularisation of the sum, and the refusals that follow from it.

    `strength`, in [1e-250, 1e250], is the L2 regularisation of the sum of the losses.
    """

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "strength": partial(check_real, low=1e-250, high=1e250),
    }

    strength: float

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        super().check(objective, budget)
        if not math.isfinite(objective.loss.value_at_zero):
            raise Refused(
                f"solver={cls.key!r} needs a bounded loss at 0. Use a finite target "
                "bound."
            )

    def check_certificate(self, objective: LinearObjective, budget: Budget) -> None:
        """Raise `Refused` if no certificate is possible, or no draw of the noise."""
        if CertifiedProblem(objective, self.strength).is_ill_conditioned:
            raise Refused(
                f"solver={self.key!r} needs more regularisation. Use a smaller C."
            )
        size, side = math.prod(objective.shape), self.noise_law.side_multiple
        self.check_noise(self.law, budget, size, side)


# --------------------------------------------------------------- Objective perturbation
# With b a Gaussian or spherical random vector, the minimiser of
#
#     F(W) = sum_i loss(x_i W, y_i) + strength / 2 ||W||^2 + <b, W>
#
# is as private as one noisy gradient, although it is the result of a whole training
# run. The solver releases weights near the minimiser, certified by their gradient, with
# a small noise that covers the distance.


# Standard deviation of the tilt's effect on the raw prediction of a unit row in a
# direction without curvature. Chosen once on breast_cancer, digits, Adult and covertype
# (split seeds from 100 up, which no reported figure uses); between 2 and 5 little
# changes.
_MARGIN_NOISE, _MARGIN_NOISE_OUTPUTS = 3.0, 1.0
# Numbers are not classified by a threshold, so all noise costs accuracy: with 3 a
# Poisson model without signal lost four times what its constant loses
# (`python -m benchmarks hard_edges`).
_MARGIN_NOISE_OF_NUMBERS, _MARGIN_NOISE_OF_LOGS = 1.0, 0.5
# Share of epsilon that the default's regularisation may cost; and the regularisation,
# in units of row_norm^2 / epsilon, from which on it costs nothing if Theorem 2 holds.
_CURVATURE_SHARE, _FREE_CURVATURE = 0.25, 1.25
# Least regularisation of the default, in units of row_norm^2: below it rounding errors,
# divided by it, would need more output noise than the tilt.
_LEAST_STRENGTH = 0.01
# Beyond this share of epsilon the user's regularisation is too weak for this solver.
_LARGEST_SHARE = 0.5
# Largest curvature that an event stores.
_MOST_CURVATURE = 1e8
# Standard deviation of the output noise in the raw prediction of a row.
_OUTPUT_MARGIN = 1e-2


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(CertifiedSolver):
    """Minimise an objective with a random linear term, to a certificate.

    Use it with ``delta=0`` for logistic regression, linear SVC and regression of more
    than 6 features, or with a delta for large tables with little noise: it costs a
    dozen passes. A user's `C` is honoured exactly. For squares and a delta `noisy_gd`
    and `adassp` were more accurate. It refuses a penalty so weak that it would cost
    more than half of epsilon, and one-against-rest losses of more than 500 outputs.

    Parameters
    ----------
    strength : float in [1e-250, 1e250] or None, default=None
        L2 penalty of the *sum* of the losses. None: ``1 / C`` if `C` is given; else the
        value at which the noise in a row's raw prediction is 3 (1 for several classes)
        in flat directions.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of the query. None:
        ``(1 + h n / strength)^(-1/4)``, h its curvature bound.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, else Gaussian.

    Notes
    -----
    Released are the weights alone. The linear term costs about one Gaussian query; a
    logistic loss under zero_out pays nothing more once
    ``strength >= row_norm^2 / epsilon``, other losses at most
    ``log(1 + curvature_trace * row_norm^2 / strength)`` . At smaller epsilons, and so
    in compositions, it costs more: let a ledger add it up. A second noise of 1 % of the
    budget covers the distance to the exact minimiser, rounding included. Unit of
    privacy: one record. Proof: ``docs/proofs/objective_perturbation.md``.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical
       risk minimization. JMLR 12. https://arxiv.org/abs/0912.0071
    .. [2] Kifer, Smith and Thakurta (2012). Private convex empirical risk minimization.
       COLT.
    .. [3] Redberg, Koskela and Wang (2023). Improving the privacy and practicality of
       objective perturbation. NeurIPS. https://arxiv.org/abs/2401.00583
    """

    key: ClassVar[str] = "objective_perturbation"
    needs_rows: ClassVar[bool] = True

    checks: ClassVar[Checks] = {
        **CertifiedSolver.checks,
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
    }

    intercept_weight: float

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return False  # the tilt has a different event

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        me = f"solver={cls.key!r}"
        if summands_of(objective.loss) > MOST_OUTPUTS:
            raise Refused(f"{me} cannot do so many one-against-rest outputs.")
        cls.check(objective, budget)
        law = cls.law_for(given, budget)
        strength, weight = _strength_and_weight(given, law, objective, budget)
        solver = cls(strength=strength, intercept_weight=weight, law=law)
        solver.check_certificate(objective, budget)
        if solver._curvature_cost(objective, budget) > _LARGEST_SHARE * budget.epsilon:
            raise Refused(
                f"{me} needs more regularisation at this epsilon. Use a smaller C or "
                "another solver."
            )
        return solver

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} linear term in the objective and output noise"

    def _log_determinant(self, objective: LinearObjective) -> float:
        """Largest logarithm of the factor by which a record changes the Jacobian."""
        ratio = objective.loss.curvature_trace * objective.row_norm**2 / self.strength
        return objective.loss.n_outputs * math.log1p(ratio / objective.loss.n_outputs)

    def _curvature(self, objective: LinearObjective) -> float | None:
        """The bound kappa on the change of curvature of a logistic loss."""
        if objective.loss.form is not LossId.SIGMOID:
            return None
        return objective.row_norm**2 / self.strength

    def _curvature_cost(self, objective: LinearObjective, budget: Budget) -> float:
        """Approximate part of epsilon that the curvature costs."""
        cost, kappa = self._log_determinant(objective), self._curvature(objective)
        if kappa is None:
            return cost
        share = budget.epsilon / kappa
        r0 = {"zero_out": math.sqrt(share), "replace_one": math.sqrt(2 + share) - 1}[
            objective.adjacency
        ]
        return cost if r0 < 1 / 2 else min(cost, kappa * max(0.0, 1 - r0) ** 2)

    def plan(self, objective: LinearObjective) -> Plan:
        law = self.noise_law
        tilt = Line(law=law, is_hidden=True, is_fine=True)
        output = Line(multiple=law.side_multiple, law=law)
        return Plan((tilt, output), partial(self._event, objective=objective))

    def _event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        """Event of the tilt that shapes the minimiser, and of the output noise."""
        output = self.noise_law.event(self.noise_law.side_multiple * noise_multiplier)
        determinant = self._log_determinant(objective)
        curvature = self._curvature(objective)
        if self.noise_law.is_pure:
            epsilon = _pure_epsilon(noise_multiplier, determinant, curvature, objective)
            return ComposedEvent((PureEvent(epsilon), output))
        if curvature is not None and curvature > _MOST_CURVATURE:
            curvature = None
        corners, half_corners = _corners(objective)
        tilt = ObjectiveEvent(
            noise_multiplier,
            log_determinant=determinant,
            corners=corners,
            half_corners=half_corners,
            curvature=curvature,
            outputs=summands_of(objective.loss),
        )
        return ComposedEvent((tilt, output))

    def sensitivity(self, objective: LinearObjective) -> float:
        return _sensitivity(objective, self.intercept_weight)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        scale = self._tilt_scale(objective, answers.multiplier(0))
        minimiser = self.minimiser(
            objective,
            answers.multiplier(0),
            answers.multiplier(1),
            answers.layout.largest_block,
            progress,
        )
        return Solution(answers.inside(minimiser), scale.sigma)

    def _tilt_scale(self, objective: LinearObjective, multiplier: float) -> NoiseScale:
        size, sensitivity = math.prod(objective.shape), self.sensitivity(objective)
        return self.noise_law.scale(sensitivity, multiplier, size, fine=True)

    def minimiser(
        self,
        objective: LinearObjective,
        tilt_multiplier: float,
        output_multiplier: float,
        largest_block: int,
        progress: Progress,
    ) -> TiltedMinimiser:
        """The computation within the walls; all of its parameters are public."""
        law, size = self.noise_law, math.prod(objective.shape)
        scale = self._tilt_scale(objective, tilt_multiplier)
        certified = CertifiedProblem(
            objective,
            self.strength,
            linear_norm=law.farthest(scale, size) / self.intercept_weight,
        )
        # The analysis is for the continuous tilt; rounding moves each entry by at most
        # half a grid step.
        rounding = certified.rounding_error(largest_block)
        moved = math.sqrt(size) * scale.grid / (2 * self.intercept_weight)
        deviation = law.deviation(output_multiplier, size)
        wanted = _OUTPUT_MARGIN * self.strength / (2 * objective.row_norm * deviation)
        tolerance = max(wanted - rounding - moved, rounding)
        return TiltedMinimiser(
            certified,
            self.intercept_weight,
            tolerance,
            self.sensitivity(objective),
            2 * (tolerance + rounding + moved) / self.strength,
            progress,
        )


@dataclass(frozen=True)
class TiltedMinimiser:
    """The certified minimiser of an objective with a tilt, for `Answers.inside`.

    The intercept's entry of the tilt is divided by `intercept_weight`. The remaining
    gradient has norm at most `tolerance`. The bounds are sensitivities: of the tilt,
    and of weights within the tolerance.
    """

    certified: CertifiedProblem
    intercept_weight: float
    tolerance: float
    tilt_bound: float
    output_bound: float
    progress: Progress

    def bound(self, line: int, done: int) -> float:
        return (self.tilt_bound, self.output_bound)[line]

    def within(
        self, source: Source, draws: Draws
    ) -> Generator[FloatArray, FloatArray, None]:
        """Yield zeros, receive the tilt; yield the minimiser."""
        objective = self.certified.objective
        unit = np.ones((objective.n_columns, 1))
        if objective.fit_intercept:
            unit[-1] = self.intercept_weight
        nothing = np.zeros(objective.shape)
        tilt = (yield nothing) / unit
        weights = certified_minimum(source, self.certified, tilt, self.tolerance)
        self.progress.step(1, 1)
        yield nothing if weights is None else weights


def _strength_and_weight(
    given: Given, law: LawName, objective: LinearObjective, budget: Budget
) -> tuple[float, float]:
    """Strength and intercept weight, by the rules if they are not given."""
    noise, size = LAWS[law], math.prod(objective.shape)
    if noise.is_pure:
        multiplier = 1 / budget.epsilon
    else:
        share = budget.delta / _union(objective, budget)
        multiplier = 1 / gaussian_mu(budget.epsilon, share)
    deviation = noise.deviation(multiplier, size)
    bend = (
        objective.loss.smoothness * objective.data_norm**2 / 2 * objective.effective_n
    )
    margin = _MARGIN_NOISE
    if objective.loss.n_outputs > 1:
        margin = _MARGIN_NOISE_OUTPUTS
    if objective.loss.form.is_of_numbers:
        margin = _MARGIN_NOISE_OF_LOGS
        if objective.loss.form in (LossId.ERROR, LossId.QUANTILE):
            margin = _MARGIN_NOISE_OF_NUMBERS
    margin *= objective.loss.prediction_unit
    least = _least_strength(objective, budget)
    weight = given.get("intercept_weight", 1.0)
    # Strength and weight depend on each other; the iteration converges fast.
    for _ in range(20):
        strength = given.get("strength", objective.n_samples * objective.alpha)
        if strength == 0:
            tilt = deviation * _sensitivity(objective, weight)
            strength = max(tilt * objective.data_norm / margin, least)
        if "intercept_weight" not in given:
            weight = max((1 + bend / strength) ** -0.25, 1e-6)
    return strength, weight


def _least_strength(objective: LinearObjective, budget: Budget) -> float:
    trace = objective.loss.curvature_trace / _CURVATURE_SHARE
    if _curvature_is_free(objective):
        trace = _FREE_CURVATURE
    least = max(_LEAST_STRENGTH, trace / budget.epsilon) * objective.row_norm**2
    return max(least, CertifiedProblem(objective, 0.0).least_signal_to_noise)


def _sensitivity(objective: LinearObjective, intercept_weight: float) -> float:
    """Largest norm of the change of the tilt by one or two records (proof page)."""
    rho = objective.data_norm
    if objective.fit_intercept:
        rho *= math.sqrt(1 + intercept_weight**2)
    one_record = rho * objective.loss.zero_out_bound(math.inf)
    return {"zero_out": one_record, "replace_one": 2 * one_record}[objective.adjacency]


def _curvature_is_free(objective: LinearObjective) -> bool:
    """Whether Theorem 2 of the proof page applies."""
    is_logistic = objective.loss.form is LossId.SIGMOID
    return is_logistic and objective.adjacency == "zero_out"


def summands_of(loss: Loss) -> int:
    """Number of summands of the loss, each with a separate output; or 1."""
    return 1 if loss.form is LossId.SOFTMAX else loss.n_outputs


def corners_of(loss: Loss) -> int:
    """Number of points whose convex hull with 0 contains a summand's residuals."""
    if loss.form is LossId.SOFTMAX:  # all probability on one wrong class
        return loss.n_outputs - 1
    return 1 if loss.form in ONE_SIGN else 2


def _corners(objective: LinearObjective) -> tuple[int, int]:
    """Extreme points of the change with the full sensitivity, and with half of it.

    With several summands: the extreme points of each.
    """
    corners = corners_of(objective.loss)
    return {"zero_out": (corners, 0), "replace_one": (corners**2, 2 * corners)}[
        objective.adjacency
    ]


def _union(objective: LinearObjective, budget: Budget) -> float:
    """Approximate ratio of all corners' delta to the delta of the largest corner."""
    corners, half_corners = _corners(objective)
    if summands_of(objective.loss) == 1:
        return corners
    mu = gaussian_mu(budget.epsilon, budget.delta)
    loss = ObjectiveLoss(
        mu, 0.0, corners, half_corners, None, outputs=summands_of(objective.loss)
    )
    return max(1.0, loss.delta(budget.epsilon) / budget.delta)


def _pure_epsilon(
    multiplier: float,
    log_determinant: float,
    curvature: float | None,
    objective: LinearObjective,
) -> float:
    """Pure epsilon of a spherical tilt (proof page, Theorem 6)."""
    plain = 1 / multiplier
    if curvature is None:
        return plain + log_determinant
    record = {"zero_out": plain, "replace_one": plain / 2}[objective.adjacency]
    if curvature <= record:
        return plain
    both = (curvature + record) ** 2 / (4 * curvature)
    return plain - record + min(both, record + log_determinant)
