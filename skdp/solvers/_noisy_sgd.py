r"""Gradient descent on Poisson samples with Gaussian noise on every sum.

Algorithm: with B_t a fresh, secret sample that every record enters independently with
probability ``q = batch_size / n``, and ``g_t`` the clipped gradient sum over B_t,

    V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / batch_size + alpha * W_t)
    W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma_t^2 I),

and the release is the mean of the last ``tail`` share of the iterates. The sum is
divided by the public batch_size, never by the number of records drawn, which is
secret; an empty sample is noised like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from skdp._configured import Checks, Given
from skdp._validation import check_count
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Plan
from skdp.solvers._base import Solution
from skdp.solvers._descent import Descent
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._progress import Progress
from skdp.solvers._steps import descend, sampled

# Least number of passes over the data that the default takes in expectation
# (docs/solvers/noisy_sgd.md).
_PASSES = 5
# Up to so many records the default reads all of them at every step: that takes a moment
# and has the least noise.
_FEW_RECORDS = 20_000


@dataclass(frozen=True, kw_only=True)
class NoisySGD(Descent):
    r"""Noisy gradient descent on Poisson samples, with momentum and tail averaging.

    Privacy
    -------
    ``n_steps`` Poisson-sampled Gaussian releases of rate ``batch_size / n``, composed
    by privacy-loss distributions. The noise multiplier is sigma over the *zero_out*
    sensitivity, the largest contribution of one record, under both adjacencies:
    replace_one is two steps for the whole run, by the null record. All iterates may be
    published, the samples may not. ``docs/proofs/noisy_sgd.md``. Unit of privacy: one
    record.

    Utility
    -------
    As for `noisy_gd`, with the noise of sampling beside that of privacy: as long as the
    multiplier is above about 1, the same flow time costs the same noise however small
    the samples are. What is saved is reading: ``n_steps * batch_size`` rows.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of samples, all of them taken. Public. None: the rule of `noisy_gd`,
        between 10 and 300.
    batch_size : int in [1, 2^31] or None, default=None
        Expected number of records in a sample; more than there are means all of them.
        None: what makes 5 passes over the data in expectation, or more with so little
        noise that the multiplier would fall below about 1.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the rule of `noisy_gd`.
    momentum : float in [0, 1) or None, default=None
        Heavy-ball momentum. None: ``1 - 10 / n_steps``, at least 0.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which every record's residual is clipped. None: as for `noisy_gd`.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. None: as
        for `noisy_gd`.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step. None: 0.5.

    References
    ----------
    .. [1] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133
    .. [2] Zhu, Dong and Wang (2022). Optimal accounting of differential privacy via
       characteristic function. AISTATS. https://arxiv.org/abs/2106.08567
    .. [3] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University. (DP-SGDwS, its section 4.3.1)

    Deviations: Poisson samples in place of subsets of a fixed size, Gaussian noise and
    numerical composition in place of the thesis's lemma, which does not hold for small
    samples (docs/errata.md); the sensitivity follows the released weights.
    """

    key: ClassVar[str] = "noisy_sgd"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **Descent.checks,
        "n_steps": partial(check_count, high=10**6),
        "batch_size": partial(check_count, high=2**31),
    }

    n_steps: int
    batch_size: int

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        rule, n = FlowTime.of(objective, budget), objective.n_samples
        n_steps, rest = cls.rest_by_rule(given, rule)
        batch_size = given.get("batch_size")
        if batch_size is None and n <= _FEW_RECORDS:
            batch_size = n
        elif batch_size is None:
            # mu is about rate * sqrt(n_steps) / multiplier.
            passes = max(_PASSES, rule.mu * math.sqrt(n_steps))
            batch_size = math.ceil(n * min(1.0, passes / n_steps))
        return cls(n_steps=n_steps, batch_size=min(batch_size, n), **rest)

    @property
    def mechanism(self) -> str:
        return "Gaussian noise on Poisson samples, or on all records if batch_size = n"

    def plan(self, objective: LinearObjective) -> Plan:
        return sampled(self.n_steps, self.batch_size, objective.n_samples)

    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest contribution of one record to a sample, under both adjacencies.

        Of a gradient sum if all records are read.
        """
        if self.batch_size >= objective.n_samples:
            return super().sensitivity(objective)
        return self.gradients(objective).worst.under("zero_out")

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        sums, walk = self.gradients(objective), self.walk(objective, self.n_steps)
        return descend(answers, sums, walk, self.batch_size, progress)
