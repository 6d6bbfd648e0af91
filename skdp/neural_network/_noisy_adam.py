r"""Adam on noisy sums of a network's clipped gradients.

Algorithm: with ``G_t`` the noisy mean gradient of `noisy_sgd` (or of all records),

    M_t = beta_1 * M_{t-1} + (1 - beta_1) * G_t
    S_t = beta_2 * S_{t-1} + (1 - beta_2) * G_t^2
    W_{t+1} = W_t - step_t * (M_t / (1 - beta_1^t)) / (sqrt(S_t / (1 - beta_2^t)) + e),

and the release is the mean of the last `tail` share of the iterates. Squares hold the
noise as well as the gradients: where noise is the larger part all weights take steps of
one size, and Adam is momentum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.neural_network._descent import NetworkDescent
from skdp.neural_network._rules import ADAM_STEP, batch_size_of
from skdp.objectives._network import NetworkObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._steps import AdamSteps


@dataclass(frozen=True, kw_only=True)
class NetworkAdam(NetworkDescent):
    r"""Adam on noisy sums of a network's clipped gradients.

    Privacy
    -------
    What is asked is what `NetworkSGD` asks, at the same cost; moments and steps are
    post-processing. ``docs/proofs/networks.md``. Unit of privacy: one record.

    Parameters
    ----------
    n_steps, last_step, gradient_clip, tail
        As of `NetworkGD`.
    step_size : float in [1e-250, 1e250] or None, default=None
        Of the first step, in units of weights. None: 0.01.
    batch_size : int in [1, 2^31] or None, default=None
        As of `NetworkSGD`.
    beta_1, beta_2 : float in [0, 1) or None, default=None
        Decay of the first and the second moment. None: 0.9 and 0.999.

    References
    ----------
    .. [1] Kingma and Ba (2015). Adam: a method for stochastic optimization. ICLR.
       https://arxiv.org/abs/1412.6980
    .. [2] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133

    Deviations: none of the steps; sums as of `NetworkSGD`.
    """

    key: ClassVar[str] = "noisy_adam"
    checks: ClassVar[Checks] = {
        **NetworkDescent.checks,
        "batch_size": partial(check_count, high=2**31),
        "beta_1": partial(check_real, low=0.0, high=1.0, high_open=True),
        "beta_2": partial(check_real, low=0.0, high=1.0, high_open=True),
    }

    batch_size: int
    beta_1: float
    beta_2: float

    @classmethod
    def planned(cls, given: Given, objective: NetworkObjective, budget: Budget) -> Self:
        cls.check(given, budget)
        rest = cls.shared_by_rule(given, objective, budget)
        return cls(
            step_size=given.get("step_size", ADAM_STEP),
            batch_size=batch_size_of(given, objective, budget, rest),
            beta_1=given.get("beta_1", 0.9),
            beta_2=given.get("beta_2", 0.999),
            **rest,
        )

    @property
    def mechanism(self) -> str:
        return "Gaussian noise on Poisson samples, or on all records if batch_size = n"

    def records_of_a_step(self, objective: NetworkObjective) -> int:
        return self.batch_size

    def walk(self, objective: NetworkObjective, start: FloatArray) -> AdamSteps:
        pace = self.pace(objective)
        return AdamSteps(start, pace, (self.beta_1, self.beta_2))
