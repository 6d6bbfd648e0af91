"""Output perturbation of a certified minimiser, and online gradient descent."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_count
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.noise._laws import LAWS, deviation_once
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Buckets, Draws, Line, Plan
from skdp.solvers._base import ChosenLaw, Solution
from skdp.solvers._descent import MomentumGD, OnePassFlowTime
from skdp.solvers._objective_perturbation import (
    CertifiedProblem,
    CertifiedSolver,
    certified_minimum,
)
from skdp.tables._source import Source

# ------------------------------------------------------------------ Output perturbation
# The minimiser of ``sum_i loss(x_i W, y_i) + strength / 2 ||W||^2`` moves by at most
# the change of one record's gradient divided by the strength, for any method that
# computes it. Noise covers this distance.


# Guess of the norm of useful weights, in units of 1 / data_norm.
_WEIGHTS_NORM = 5.0
# Fraction of the sensitivity that the approximation may cost.
_APPROXIMATION = 1e-3


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(CertifiedSolver):
    """Minimise the regularised objective to a certificate, and add noise once.

    Kept for study, and as a fallback: for strong regularisation, and with ``delta=0``
    where `objective_perturbation` refuses. It is rarely the most accurate, because its
    noise is spread evenly over all directions, also over those that the data determine.

    Parameters
    ----------
    strength : float in [1e-250, 1e250] or None, default=None
        L2 penalty of the *sum* of the losses. None: ``1 / C`` if `C` is given, else the
        value that balances noise and bias for weights of norm ``5 / data_norm``.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, else Gaussian.

    Notes
    -----
    Released are the weights, one joint vector with the L2 sensitivity
    ``G row_norm / strength`` plus 0.1 % for the certificate. G bounds one record's
    residual (zero_out) or the difference of two (replace_one): 1 and 2 for two classes,
    sqrt(2) and 2 sqrt(2) for the softmax. It is exactly ``1 / noise_multiplier``-GDP,
    or -DP with spherical noise. Unit of privacy: one record. Proof:
    ``docs/proofs/papers.md``, Lemma 4.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical
       risk minimization. JMLR 12, Corollary 8. https://arxiv.org/abs/0912.0071
    .. [2] Wu, Li, Kumar, Chaudhuri, Jha and Naughton (2017). Bolt-on differential
       privacy. SIGMOD. https://arxiv.org/abs/1606.04722
    """

    key: ClassVar[str] = "output_perturbation"
    needs_rows: ClassVar[bool] = True
    # solver="auto" falls back on it where objective_perturbation refuses; otherwise it
    # is for study.

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
        """The computation within the walls."""
        certified = CertifiedProblem(objective, self.strength)
        rounding = certified.rounding_error(largest_block)
        change = _gradient_change(objective)
        tolerance = max(_APPROXIMATION * change / 2 - rounding, rounding)
        sensitivity = (change + 2 * (tolerance + rounding)) / self.strength
        return Minimiser(certified, tolerance, sensitivity, progress)


@dataclass(frozen=True)
class Minimiser:
    """The certified minimiser, for `Answers.inside`.

    The remaining gradient has norm at most `tolerance`; `sensitivity` is that of all
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

    `deviation` is the noise deviation per unit of sensitivity.
    """
    # Noise of deviation e = deviation S G / strength costs about
    # n curvature_trace row_norm^2 e^2 / 2 in the sum of the losses, and the regulariser
    # strength norm^2 / 2. At the best sum they are equal up to a factor.
    change = deviation * _gradient_change(objective)
    bend = (
        objective.effective_n * objective.loss.curvature_trace * objective.row_norm**2
    )
    norm = _WEIGHTS_NORM / objective.data_norm
    strength = float((2 * bend) ** (1 / 3) * (change / norm) ** (2 / 3))
    least = CertifiedProblem(objective, 0.0).least_signal_to_noise
    return max(strength, least)


def _gradient_change(objective: LinearObjective) -> float:
    """Largest change of the sum of gradients at any weights (proof page, Lemma 4)."""
    bound = {
        "zero_out": objective.loss.zero_out_bound(math.inf),
        "replace_one": objective.loss.replace_one_bound(math.inf),
    }[objective.adjacency]
    return objective.row_norm * bound


# ---------------------------------- Gradient descent over disjoint buckets, in one pass
# Algorithm: the records are cut, by position, into ``T = ceil(n / bucket_size)``
# buckets of consecutive records. With ``g_t`` the clipped gradient sum over bucket t,
#
#     V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / bucket_size + alpha * W_t)
#     W_{t+1} = W_t + V_{t+1},
#
# and the release is the mean of the last ``tail`` share of the iterates. Every record
# is read once. The divisor is the same for all buckets, also for a shorter last one: an
# average over its fewer records would have a larger sensitivity.


@dataclass(frozen=True, kw_only=True)
class OnlineGD(ChosenLaw, MomentumGD):
    """One pass of noisy gradient descent over disjoint buckets of records.

    Kept for study, and for data that can be read only once; with ``delta=0`` too. It is
    much less accurate than `noisy_gd` (Adult, epsilon 1, replace_one: 0.824 and 0.841)
    and reads the table once (0.08 s and 1.2 s). The order of the records must not
    depend on their values.

    Parameters
    ----------
    bucket_size : int in [1, 2^31] or None, default=None
        Records of a bucket; more than n means one bucket. None: a rule, at most 300
        buckets.
    step_size : float in [1e-250, 1e250] or None, default=None
        Weights per gradient of the mean loss. None: the flow time over the steps, at
        most 1/L.
    momentum : float in [0, 1) or None, default=None
        Heavy ball. None: ``1 - 10 / n_steps``, at least 0.
    residual_clip, intercept_weight
        As for `noisy_gd`.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged. None: 0.5.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0.
    keeps_path : bool, default=False
        Whether all iterates are kept.

    Notes
    -----
    Each record is in one bucket, so that all releases together cost what one costs:
    ``1 / noise_multiplier``-GDP, or -DP with spherical noise. All iterates may be
    published. T steps have ``sqrt(T)`` times the noise of T steps over all records, so
    that the rule takes few. Unit of privacy: one record. Proof:
    ``docs/proofs/papers.md``, Theorem 8.

    References
    ----------
    .. [1] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University. (DP-onlineGDwS, section 4.3.1)
    .. [2] McSherry (2009). Privacy integrated queries. SIGMOD. (parallel composition)
    """

    key: ClassVar[str] = "online"
    needs_order: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        **MomentumGD.checks,
        "bucket_size": partial(check_count, high=2**31),
    }

    bucket_size: int

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        law, n = cls.law_for(given, budget), objective.n_samples
        size = objective.n_columns * objective.loss.n_outputs
        cls.check_noise(law, budget, size)
        rule = OnePassFlowTime(objective, 1 / deviation_once(LAWS[law], budget, size))
        n_steps, _ = cls.rest_by_rule(given, rule)
        bucket_size = min(given.get("bucket_size", -(-n // n_steps)), n)
        _, rest = cls.rest_by_rule(given, rule, -(-n // bucket_size))
        return {**rest, "bucket_size": bucket_size, "law": law}

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on disjoint buckets of records"

    def n_buckets(self, objective: LinearObjective) -> int:
        """Number of buckets, the last of which may be shorter."""
        return -(-objective.n_samples // self.bucket_size)

    def levels(self, objective: LinearObjective) -> list[tuple[float, int]]:
        return [(1.0, self.n_buckets(objective))]

    def sample(self, objective: LinearObjective) -> Buckets:
        return Buckets(self.bucket_size)

    def sample_size(self, objective: LinearObjective) -> int:
        return self.bucket_size
