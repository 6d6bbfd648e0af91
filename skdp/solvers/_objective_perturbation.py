r"""Objective perturbation: the exact minimiser of an objective with a random tilt.

With b a Gaussian or spherical random vector, the minimiser of

    F(W) = sum_i loss(x_i W, y_i) + strength / 2 ||W||^2 + <b, W>

is as private as one noisy gradient, although it is the result of a whole training run.
What is released is not the minimiser but weights near it, certified by their gradient,
plus a small noise that covers the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._validation import check_real
from skdp.data import Source
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._events import ComposedEvent, Event, ObjectiveEvent, PureEvent
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Problem, Progress, Solution
from skdp.solvers._certified import CertifiedProblem, certified_minimum
from skdp.solvers._certified_solver import CertifiedSolver
from skdp.solvers._configured import Checks

# Standard deviation of the tilt's effect on the raw prediction of a unit row in a
# direction without curvature, chosen once on public data sets
# (docs/solvers/objective_perturbation.md) and flat around its optimum.
_MARGIN_NOISE, _MARGIN_NOISE_OUTPUTS = 3.0, 1.0
# Share of epsilon that the default's regularisation may cost, and row_norm^2 / epsilon
# in the regularisation from which on it costs nothing, where Theorem 1' holds.
_CURVATURE_SHARE, _FREE_CURVATURE = 0.25, 1.25
# The default keeps at least this much regularisation, in units of row_norm^2: below it
# rounding errors, divided by it, would need more output noise than the tilt.
_LEAST_STRENGTH = 0.01
# Share of epsilon beyond which the user's regularisation is too weak for this solver.
_LARGEST_SHARE = 0.5
_MOST_CORNERS = 2**50
# Largest curvature that an event holds.
_MOST_CURVATURE = 1e8
# Standard deviation of the output noise in the raw prediction of a row.
_OUTPUT_MARGIN = 1e-2


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(CertifiedSolver):
    r"""Minimise an objective with a random linear term, to a certificate.

    Privacy
    -------
    The tilt ``b`` has noise ``noise_multiplier`` times the largest change S of one
    record's gradient. For a Gaussian tilt the privacy loss is, in both orders of
    the neighbours, at most that of the Gaussian mechanism plus
    ``log(1 + curvature_trace * row_norm^2 / strength)`` (with several outputs: see the
    proof page); for a logistic loss under zero_out not even that is paid, at the
    budget's epsilon, once ``strength >= row_norm^2 / epsilon``. At smaller epsilons,
    and so in compositions, it costs more. delta = 0 uses spherical noise.
    The released weights carry additional noise, 1 % of the budget, that covers
    the distance to the exact minimiser, rounding included. Sensitivities under both
    adjacencies: ``docs/proofs/objective_perturbation.md``. Unit of privacy: one record.

    Parameters
    ----------
    strength : float in [1e-250, 1e250] or None, default=None
        L2 regularisation of the sum of the losses. None: ``1 / C`` if C is given;
        otherwise the value at which the tilt's noise in the raw prediction of a row is
        3 in directions without curvature.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of the query; its noise is larger by the inverse,
        that of the other weights smaller. None: ``(1 + h n / strength)^(-1/4)`` with
        the intercept's curvature bound ``h = smoothness * data_norm^2 / 2``.
    law : {"gaussian", "spherical"} or None, default=None
        Law of the tilt and of the output noise. None: spherical if delta is 0, which
        is what it needs, Gaussian otherwise.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical
       risk minimization. JMLR 12. https://arxiv.org/abs/0912.0071
    .. [2] Kifer, Smith and Thakurta (2012). Private convex empirical risk minimization
       and high-dimensional regression. COLT.
    .. [3] Iyengar, Near, Song, Thakkar, Thakurta and Wang (2019). Towards practical
       differentially private convex optimization. IEEE S&P. (approximate minimisers)
    .. [4] Redberg, Koskela and Wang (2023). Improving the privacy and practicality of
       objective perturbation for differentially private linear learners. NeurIPS.
       https://arxiv.org/abs/2401.00583

    Deviations: the residual's sign halves the bound of [4]_ and its curvature is
    charged where it is, not at its maximum; replace_one has its own proof; both are
    on the proof page.
    """

    key: ClassVar[str] = "objective_perturbation"

    checks: ClassVar[Checks] = {
        **CertifiedSolver.checks,
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
    }

    intercept_weight: float | None = None

    @property
    def is_gaussian(self) -> bool:
        return False  # the tilt has an event of its own

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} linear term in the objective and output noise"

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        if max(_corners(loss, problem)) > _MOST_CORNERS:
            return f"solver={self.key!r} cannot do so many one-against-rest outputs."
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        resolved = self.resolve(loss, problem, budget)
        share = resolved._log_determinant(loss, problem) / budget.epsilon
        if share > _LARGEST_SHARE:
            return (
                f"solver={self.key!r} needs more regularisation at this epsilon. Use a "
                "smaller C or another solver."
            )
        return ""

    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        law = self.law_for(budget)
        size = problem.n_columns * loss.n_outputs
        if LAWS[law].is_pure:
            multiplier = 1 / budget.epsilon
        else:
            corners, _ = _corners(loss, problem)
            multiplier = 1 / gaussian_mu(budget.epsilon, budget.delta / corners)
        deviation = LAWS[law].deviation(multiplier, size)
        bend = loss.smoothness * problem.data_norm**2 / 2 * problem.n_samples
        weight = self.intercept_weight or 1.0
        trace = loss.curvature_trace / _CURVATURE_SHARE
        if _curvature_is_free(loss, problem):
            trace = _FREE_CURVATURE
        least = max(_LEAST_STRENGTH, trace / budget.epsilon) * problem.row_norm**2
        least = max(least, CertifiedProblem(loss, problem, 0.0).least_strength)
        # Strength and weight depend on each other; the map contracts quickly.
        for _ in range(20):
            strength = self.strength or problem.n_samples * problem.alpha
            if strength == 0:
                tilt = deviation * _sensitivity(loss, problem, weight)
                margin = _MARGIN_NOISE
                if loss.n_outputs > 1:
                    margin = _MARGIN_NOISE_OUTPUTS
                margin *= loss.raw_unit
                strength = max(tilt * problem.data_norm / margin, least)
            if self.intercept_weight is None:
                weight = max((1 + bend / strength) ** -0.25, 1e-6)
        return replace(self, strength=strength, intercept_weight=weight, law=law)

    def _log_determinant(self, loss: Loss, problem: Problem) -> float:
        """Largest logarithm of the factor by which a record changes the Jacobian."""
        assert self.strength is not None, "resolve() fills in the strength"
        ratio = loss.curvature_trace * problem.row_norm**2 / self.strength
        return loss.n_outputs * math.log1p(ratio / loss.n_outputs)

    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        assert self.strength is not None, "resolve() fills in the strength"
        output = self.noise_law.event(self.noise_law.side_multiple * noise_multiplier)
        determinant = self._log_determinant(loss, problem)
        curvature = None
        if loss.curvature_vanishes:
            curvature = problem.row_norm**2 / self.strength
        is_free = _curvature_is_free(loss, problem)
        if curvature is not None and curvature > _MOST_CURVATURE:
            is_free = False
        if self.noise_law.is_pure:
            epsilon = _pure_epsilon(noise_multiplier, determinant, curvature, problem)
            return ComposedEvent((PureEvent(epsilon), output))
        corners, half_corners = _corners(loss, problem)
        tilt = ObjectiveEvent(
            noise_multiplier,
            log_determinant=determinant,
            corners=corners,
            half_corners=half_corners,
            curvature=curvature if is_free else None,
        )
        return ComposedEvent((tilt, output))

    def sensitivity(self, loss: Loss, problem: Problem) -> float:
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        return _sensitivity(loss, problem, self.intercept_weight)

    def run(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.strength is not None, "resolve() fills in the strength"
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        law, weight = self.noise_law, self.intercept_weight
        shape = np.ones((problem.n_columns, 1))
        if problem.fit_intercept:
            shape[-1] = weight
        nothing = np.zeros((problem.n_columns, loss.n_outputs))
        sensitivity = self.sensitivity(loss, problem)
        scale = law.scale(sensitivity, noise_multiplier, nothing.size, fine=True)
        scaled = law.release(noise, nothing, sensitivity, noise_multiplier, fine=True)
        tilt = scaled / shape
        certified = CertifiedProblem(
            loss,
            problem,
            self.strength,
            linear_norm=law.farthest(scale, nothing.size) / weight,
        )
        # The analysis is of the continuous tilt, which rounding moved by half a grid
        # step at most in every entry.
        rounding = certified.rounding_error(source.largest_block)
        moved = math.sqrt(nothing.size) * scale.grid / (2 * weight)
        output_multiplier = law.side_multiple * noise_multiplier
        deviation = law.deviation(output_multiplier, nothing.size)
        wanted = _OUTPUT_MARGIN * self.strength / (2 * problem.row_norm * deviation)
        tolerance = max(wanted - rounding - moved, rounding)
        weights = certified_minimum(source, certified, tilt, tolerance)
        progress.step(1, 1)
        released = law.release(
            noise,
            nothing if weights is None else weights,
            2 * (tolerance + rounding + moved) / self.strength,
            output_multiplier,
        )
        return Solution(released, scale.sigma)


def _sensitivity(loss: Loss, problem: Problem, intercept_weight: float) -> float:
    """Largest norm of what one record, or two, add to the tilt (proof page)."""
    rho = problem.data_norm
    if problem.fit_intercept:
        rho *= math.sqrt(1 + intercept_weight**2)
    one_record = rho * loss.zero_out_bound(math.inf)
    return {"zero_out": one_record, "replace_one": 2 * one_record}[problem.adjacency]


def _curvature_is_free(loss: Loss, problem: Problem) -> bool:
    """Whether Theorem 1' of the proof page applies."""
    return loss.curvature_vanishes and problem.adjacency == "zero_out"


def _corners(loss: Loss, problem: Problem) -> tuple[int, int]:
    """Extreme points of the change: with the full sensitivity, and with half of it."""
    corners = loss.corners
    return {"zero_out": (corners, 0), "replace_one": (corners**2, 2 * corners)}[
        problem.adjacency
    ]


def _pure_epsilon(
    multiplier: float,
    log_determinant: float,
    curvature: float | None,
    problem: Problem,
) -> float:
    """Pure epsilon of a spherical tilt (proof page, Theorem 3)."""
    plain = 1 / multiplier
    if curvature is None:
        return plain + log_determinant
    record = {"zero_out": plain, "replace_one": plain / 2}[problem.adjacency]
    if curvature <= record:
        return plain
    both = (curvature + record) ** 2 / (4 * curvature)
    return plain - record + min(both, record + log_determinant)
