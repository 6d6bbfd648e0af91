r"""Objective perturbation: the exact minimiser of an objective with a random tilt.

With b a Gaussian or spherical random vector, the minimiser of

    F(W) = sum_i loss(x_i W, y_i) + strength / 2 ||W||^2 + <b, W>

is as private as one noisy gradient, although it is the result of a whole training run.
What is released is not the minimiser but weights near it, certified by their gradient,
plus a small noise that covers the distance.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.data._source import Source
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._draws import Draws
from skdp.privacy._events import (
    MOST_OUTPUTS,
    ComposedEvent,
    Event,
    ObjectiveEvent,
    PureEvent,
)
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseScale
from skdp.privacy._objective import ObjectiveLoss
from skdp.privacy._plan import Line, Plan
from skdp.solvers._base import Solution
from skdp.solvers._certified import CertifiedProblem, certified_minimum
from skdp.solvers._certified_solver import CertifiedSolver
from skdp.solvers._chosen_law import LawName
from skdp.solvers._progress import Progress

# Standard deviation of the tilt's effect on the raw prediction of a unit row in a
# direction without curvature, chosen once on public data sets
# (docs/solvers/objective_perturbation.md) and flat around its optimum.
_MARGIN_NOISE, _MARGIN_NOISE_OUTPUTS = 3.0, 1.0
# Numbers have no decision that noise must change before it costs anything: with 3 a
# Poisson model of no signal lost four times what its constant loses
# (`python -m benchmarks.hard_edges lines`).
_MARGIN_NOISE_OF_NUMBERS, _MARGIN_NOISE_OF_LOGS = 1.0, 0.5
# Share of epsilon that the default's regularisation may cost, and row_norm^2 / epsilon
# in the regularisation from which on it costs nothing, where Theorem 1' holds.
_CURVATURE_SHARE, _FREE_CURVATURE = 0.25, 1.25
# The default keeps at least this much regularisation, in units of row_norm^2: below it
# rounding errors, divided by it, would need more output noise than the tilt.
_LEAST_STRENGTH = 0.01
# Share of epsilon beyond which the user's regularisation is too weak for this solver.
_LARGEST_SHARE = 0.5
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
    proof page); for a logistic loss less is paid, and under zero_out nothing, at the
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
    needs_rows: ClassVar[bool] = True

    checks: ClassVar[Checks] = {
        **CertifiedSolver.checks,
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
    }

    intercept_weight: float

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return False  # the tilt has an event of its own

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        me = f"solver={cls.key!r}"
        if objective.loss.summands > MOST_OUTPUTS:
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
        if not objective.loss.curvature_vanishes:
            return None
        return objective.row_norm**2 / self.strength

    def _curvature_cost(self, objective: LinearObjective, budget: Budget) -> float:
        """About what the curvature takes out of epsilon."""
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
        """Of the minimiser: the tilt it is made with, and the noise it leaves with."""
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
            outputs=objective.loss.summands,
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
        """What is done within the walls; all of its numbers are public."""
        law, size = self.noise_law, math.prod(objective.shape)
        scale = self._tilt_scale(objective, tilt_multiplier)
        certified = CertifiedProblem(
            objective,
            self.strength,
            linear_norm=law.farthest(scale, size) / self.intercept_weight,
        )
        # The analysis is of the continuous tilt, which rounding moved by half a grid
        # step at most in every entry.
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

    The intercept's entry of the tilt is divided by `intercept_weight`. The gradient
    that is left has norm at most `tolerance`. The bounds are sensitivities: of the
    tilt, and of weights within the tolerance.
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
    bend = objective.loss.smoothness * objective.data_norm**2 / 2 * objective.n_telling
    margin = _MARGIN_NOISE
    if objective.loss.n_outputs > 1:
        margin = _MARGIN_NOISE_OUTPUTS
    if objective.loss.form.is_of_numbers:
        margin = _MARGIN_NOISE_OF_LOGS
        if objective.loss.form.moves_with_targets:
            margin = _MARGIN_NOISE_OF_NUMBERS
    margin *= objective.loss.raw_unit
    least = _least_strength(objective, budget)
    weight = given.get("intercept_weight", 1.0)
    # Strength and weight depend on each other; the map contracts quickly.
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
    return max(least, CertifiedProblem(objective, 0.0).least_strength)


def _sensitivity(objective: LinearObjective, intercept_weight: float) -> float:
    """Largest norm of what one record, or two, add to the tilt (proof page)."""
    rho = objective.data_norm
    if objective.fit_intercept:
        rho *= math.sqrt(1 + intercept_weight**2)
    one_record = rho * objective.loss.zero_out_bound(math.inf)
    return {"zero_out": one_record, "replace_one": 2 * one_record}[objective.adjacency]


def _curvature_is_free(objective: LinearObjective) -> bool:
    """Whether Theorem 1' of the proof page applies."""
    return objective.loss.curvature_vanishes and objective.adjacency == "zero_out"


def _corners(objective: LinearObjective) -> tuple[int, int]:
    """Extreme points of the change: with the full sensitivity, and with half of it.

    Of several summands, those of each.
    """
    corners = objective.loss.corners
    return {"zero_out": (corners, 0), "replace_one": (corners**2, 2 * corners)}[
        objective.adjacency
    ]


def _union(objective: LinearObjective, budget: Budget) -> float:
    """About how often all corners cost the delta of the largest one."""
    corners, half_corners = _corners(objective)
    if objective.loss.summands == 1:
        return corners
    mu = gaussian_mu(budget.epsilon, budget.delta)
    loss = ObjectiveLoss(
        mu, 0.0, corners, half_corners, None, outputs=objective.loss.summands
    )
    return max(1.0, loss.delta(budget.epsilon) / budget.delta)


def _pure_epsilon(
    multiplier: float,
    log_determinant: float,
    curvature: float | None,
    objective: LinearObjective,
) -> float:
    """Pure epsilon of a spherical tilt (proof page, Theorem 3)."""
    plain = 1 / multiplier
    if curvature is None:
        return plain + log_determinant
    record = {"zero_out": plain, "replace_one": plain / 2}[objective.adjacency]
    if curvature <= record:
        return plain
    both = (curvature + record) ** 2 / (4 * curvature)
    return plain - record + min(both, record + log_determinant)
