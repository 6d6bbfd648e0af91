r"""One pass of gradient descent over disjoint buckets of records.

Algorithm: the records are cut, by position, into ``T = ceil(n / bucket_size)`` buckets
of consecutive records. With ``g_t`` the clipped gradient sum over bucket t,

    V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / bucket_size + alpha * W_t)
    W_{t+1} = W_t + V_{t+1},

and the release is the mean of the last ``tail`` share of the iterates. Every record is
read once. The divisor is the same for all buckets, the last one too, which may hold
fewer records: an average over those would have a larger sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from skdp._configured import Checks, Given
from skdp._validation import check_count
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._laws import LAWS, deviation_once
from skdp.privacy._plan import Buckets, Line, Plan
from skdp.solvers._base import Solution
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._descent import Descent
from skdp.solvers._flow_time import OnePassFlowTime
from skdp.solvers._progress import Progress
from skdp.solvers._steps import descend


@dataclass(frozen=True, kw_only=True)
class OnlineGD(Descent, ChosenLaw):
    r"""One noisy pass over disjoint buckets, with momentum and tail averaging.

    Privacy
    -------
    Every record is in one bucket, fixed by its position; so releasing *all* gradient
    sums costs what releasing one of them costs, however many there are: exactly
    ``1 / noise_multiplier``-GDP with Gaussian noise, ``1 / noise_multiplier``-DP with
    spherical noise. All iterates may be published. Parallel composition of adaptive
    releases is proved in ``docs/proofs/online.md``. Unit of privacy: one record.

    Utility
    -------
    T steps have ``sqrt(T)`` times the noise of T steps over all records, so the rule
    takes few: with the flow time s of its run, noise of standard deviation
    ``s * sqrt(T) * S / (n mu)`` per weight in flat directions. For tables that can be
    read only once, and for delta = 0.

    Parameters
    ----------
    bucket_size : int in [1, 2^31] or None, default=None
        Records of a bucket; more than there are means all of them, and one step.
        Public. None: the rule above, at most 300 buckets.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the flow time of the
        rule divided by the steps, at most ``1 / L`` with the public smoothness
        bound ``L = smoothness * row_norm^2 + alpha``.
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
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: spherical if delta is 0, which is what it needs,
        Gaussian otherwise.

    References
    ----------
    .. [1] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University. (DP-onlineGDwS, its section
       4.3.1)
    .. [2] McSherry (2009). Privacy integrated queries. SIGMOD. (parallel composition)

    Deviations: spherical or Gaussian noise for the L2 sensitivity in place of Laplace
    noise; heavy ball, to which the thesis's smoothing is equal; tail averaging; the
    sensitivity follows the released weights.
    """

    key: ClassVar[str] = "online"
    takes_nonconvex: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        **Descent.checks,
        "bucket_size": partial(check_count, high=2**31),
    }

    bucket_size: int

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        law, n = cls.law_for(given, budget), objective.n_samples
        size = objective.n_columns * objective.loss.n_outputs
        cls.check_noise(law, budget, size)
        rule = OnePassFlowTime(objective, 1 / deviation_once(LAWS[law], budget, size))
        n_steps, _ = cls.rest_by_rule(given, rule)
        bucket_size = min(given.get("bucket_size", -(-n // n_steps)), n)
        _, rest = cls.rest_by_rule(given, rule, -(-n // bucket_size))
        return cls(bucket_size=bucket_size, law=law, **rest)

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on disjoint buckets of records"

    def n_steps(self, objective: LinearObjective) -> int:
        """Number of buckets, the last of which may be shorter."""
        return -(-objective.n_samples // self.bucket_size)

    def plan(self, objective: LinearObjective) -> Plan:
        buckets = Buckets(self.bucket_size)
        times = self.n_steps(objective)
        return Plan((Line(times, law=self.noise_law, sample=buckets),))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        n_steps, sums = self.n_steps(objective), self.gradients(objective)
        walk = self.walk(objective, n_steps)
        return descend(answers, sums, walk, self.bucket_size, progress)
