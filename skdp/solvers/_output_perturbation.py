r"""Output perturbation: the minimiser of a strongly convex objective, plus noise.

The minimiser of ``sum_i loss(x_i W, y_i) + strength / 2 ||W||^2`` moves by at most the
change of one record's gradient divided by the strength, however it is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from skdp.data import Source
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event
from skdp.privacy._laws import LAWS, deviation_once
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Progress, Solution
from skdp.solvers._certified import CertifiedProblem, certified_minimum
from skdp.solvers._certified_solver import CertifiedSolver

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
        ``5 / data_norm`` (docs/solvers/output_perturbation.md).
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

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on the minimiser"

    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        law = self.law_for(budget)
        strength = self.strength or objective.n_samples * objective.alpha
        if strength == 0:
            # Noise of deviation e = deviation S G / strength costs about
            # n curvature_trace row_norm^2 e^2 / 2 in the sum of the losses, the
            # regulariser strength norm^2 / 2: equal at their best sum but for a factor.
            size = objective.n_columns * objective.loss.n_outputs
            deviation = deviation_once(LAWS[law], budget, size)
            change = deviation * _gradient_change(objective)
            bend = (
                objective.n_samples
                * objective.loss.curvature_trace
                * objective.row_norm**2
            )
            norm = _WEIGHTS_NORM / objective.data_norm
            strength = (2 * bend) ** (1 / 3) * (change / norm) ** (2 / 3)
            least = CertifiedProblem(objective, 0.0).least_strength
            strength = max(strength, least)
        return replace(self, strength=strength, law=law)

    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        return self.noise_law.event(noise_multiplier)

    def sensitivity(self, objective: LinearObjective) -> float:
        assert self.strength is not None, "resolve() fills in the strength"
        return (1 + _APPROXIMATION) * _gradient_change(objective) / self.strength

    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.strength is not None, "resolve() fills in the strength"
        law = self.noise_law
        certified = CertifiedProblem(objective, self.strength)
        rounding = certified.rounding_error(source.largest_block)
        change = _gradient_change(objective)
        tolerance = max(_APPROXIMATION * change / 2 - rounding, rounding)
        nothing = np.zeros((objective.n_columns, objective.loss.n_outputs))
        weights = certified_minimum(source, certified, nothing, tolerance)
        progress.step(1, 1)
        sensitivity = (change + 2 * (tolerance + rounding)) / self.strength
        released = law.release(
            noise,
            nothing if weights is None else weights,
            sensitivity,
            noise_multiplier,
        )
        scale = law.scale(sensitivity, noise_multiplier, nothing.size)
        return Solution(released, scale.sigma)


def _gradient_change(objective: LinearObjective) -> float:
    """Largest change of the sum of gradients at any weights (proof page, Lemma 1)."""
    bound = {
        "zero_out": objective.loss.zero_out_bound(math.inf),
        "replace_one": objective.loss.replace_one_bound(math.inf),
    }[objective.adjacency]
    return objective.row_norm * bound
