r"""Output perturbation: the minimiser of a strongly convex objective, plus noise.

The minimiser of ``sum_i loss(x_i W, y_i) + strength / 2 ||W||^2`` moves by at most the
change of one record's gradient divided by the strength, however it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.data._source import Source
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._draws import Draws
from skdp.privacy._laws import LAWS, deviation_once
from skdp.privacy._plan import Line, Plan
from skdp.solvers._base import Solution
from skdp.solvers._certified import CertifiedProblem, certified_minimum
from skdp.solvers._certified_solver import CertifiedSolver
from skdp.solvers._progress import Progress

# Guess of the norm of useful weights, in units of 1 / data_norm.
_WEIGHTS_NORM = 5.0
# The approximation may cost this share of the sensitivity.
_APPROXIMATION = 1e-3


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(CertifiedSolver):
    r"""Minimise to a certificate, add noise once.

    Privacy
    -------
    One release of L2 sensitivity ``G row_norm / strength``, where G bounds one record's
    residual (zero_out) or the difference of two (replace_one), plus twice the
    distance that the certificate leaves. Gaussian noise, exactly
    ``1 / noise_multiplier``-GDP, or spherical noise for delta = 0. All outputs are one
    joint vector. Derivations: ``docs/proofs/output_perturbation.md``. Unit of
    privacy: one record.

    Parameters
    ----------
    strength : float in [1e-250, 1e250] or None, default=None
        L2 regularisation of the sum of the losses. None: ``1 / C`` if C is given;
        otherwise the value that balances noise and bias for weights of norm
        ``5 / data_norm`` (docs/papers/output_perturbation.md).
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: spherical if delta is 0, which is what it needs,
        Gaussian otherwise.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical
       risk minimization. JMLR 12, Corollary 8. https://arxiv.org/abs/0912.0071
    .. [2] Wu, Li, Kumar, Chaudhuri, Jha and Naughton (2017). Bolt-on differential
       privacy for scalable stochastic gradient descent-based analytics. SIGMOD.
       https://arxiv.org/abs/1606.04722

    Deviations: a certificate in place of an exact minimiser or of an iteration count;
    the regulariser is no part of the sensitivity; exact Gaussian calibration.
    """

    key: ClassVar[str] = "output_perturbation"
    needs_rows: ClassVar[bool] = True
    # What solver="auto" falls back on where objective_perturbation refuses; for study
    # otherwise.
    is_recommended: ClassVar[bool] = False

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on the minimiser"

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        law = cls.law_for(given, budget)
        strength = given.get("strength", objective.n_samples * objective.alpha)
        if strength == 0:
            size = math.prod(objective.shape)
            strength = _balance(objective, deviation_once(LAWS[law], budget, size))
        solver = cls(strength=strength, law=law)
        solver.check_certificate(objective, budget)
        return solver

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(law=self.noise_law),))

    def sensitivity(self, objective: LinearObjective) -> float:
        return (1 + _APPROXIMATION) * _gradient_change(objective) / self.strength

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        minimiser = self.minimiser(objective, answers.layout.largest_block, progress)
        return Solution(answers.inside(minimiser), answers.noise_scale)

    def minimiser(
        self, objective: LinearObjective, largest_block: int, progress: Progress
    ) -> Minimiser:
        """What is done within the walls."""
        certified = CertifiedProblem(objective, self.strength)
        rounding = certified.rounding_error(largest_block)
        change = _gradient_change(objective)
        tolerance = max(_APPROXIMATION * change / 2 - rounding, rounding)
        sensitivity = (change + 2 * (tolerance + rounding)) / self.strength
        return Minimiser(certified, tolerance, sensitivity, progress)


@dataclass(frozen=True)
class Minimiser:
    """The certified minimiser, for `Answers.inside`.

    The gradient that is left has norm at most `tolerance`; `sensitivity` is that of any
    weights within it.
    """

    certified: CertifiedProblem
    tolerance: float
    sensitivity: float
    progress: Progress

    def bound(self, line: int, done: int) -> float:
        return self.sensitivity

    def within(
        self, source: Source, draws: Draws
    ) -> Generator[FloatArray, FloatArray, None]:
        """Yield the minimiser."""
        nothing = np.zeros(self.certified.objective.shape)
        weights = certified_minimum(source, self.certified, nothing, self.tolerance)
        self.progress.step(1, 1)
        yield nothing if weights is None else weights


def _balance(objective: LinearObjective, deviation: float) -> float:
    """The strength that balances noise and bias.

    `deviation` is that of the noise per unit of sensitivity.
    """
    # Noise of deviation e = deviation S G / strength costs about
    # n curvature_trace row_norm^2 e^2 / 2 in the sum of the losses, the
    # regulariser strength norm^2 / 2: equal at their best sum but for a factor.
    change = deviation * _gradient_change(objective)
    bend = objective.n_telling * objective.loss.curvature_trace * objective.row_norm**2
    norm = _WEIGHTS_NORM / objective.data_norm
    strength = float((2 * bend) ** (1 / 3) * (change / norm) ** (2 / 3))
    least = CertifiedProblem(objective, 0.0).least_strength
    return max(strength, least)


def _gradient_change(objective: LinearObjective) -> float:
    """Largest change of the sum of gradients at any weights (proof page, Lemma 1)."""
    bound = {
        "zero_out": objective.loss.zero_out_bound(math.inf),
        "replace_one": objective.loss.replace_one_bound(math.inf),
    }[objective.adjacency]
    return objective.row_norm * bound
