r"""Full-batch gradient descent of a network with Gaussian noise on every sum.

Algorithm: with ``g_t`` the sum of all records' gradients at the weights ``W_t``, each
clipped to the norm C as one vector of all layers,

    V_{t+1} = momentum * V_t - step_t * ((g_t + N_t) / n + alpha * W_t)
    W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma^2 I),

steps fall evenly from `step_size` to `last_step` of it, and the release is the mean of
the last `tail` share of the iterates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.neural_network._descent import NetworkDescent
from skdp.neural_network._rules import momentum_of, step_size_of
from skdp.objectives._network import NetworkObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._steps import MomentumSteps


@dataclass(frozen=True, kw_only=True)
class NetworkGD(NetworkDescent):
    r"""Noisy full-batch gradient descent of a network.

    Privacy
    -------
    ``n_steps`` adaptive Gaussian releases of a sum that one record moves by at most C
    (zero_out) or 2 C (replace_one): exactly mu-GDP with
    ``mu = sqrt(n_steps) / noise_multiplier``. All iterates may be published.
    ``docs/proofs/networks.md``. Unit of privacy: one record, or all
    rows of a user (``docs/proofs/users.md``).

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of sums, all of them taken. Public. None: a rule of n mu.
    step_size : float in [1e-250, 1e250] or None, default=None
        Of the first step, in units of weights per gradient of the mean loss. None: a
        rule.
    momentum : float in [0, 1) or None, default=None
        Heavy-ball momentum. None: ``1 - 4500 * n_outputs / (n mu)``, between 0 and 0.9.
    last_step : float in (0, 1] or None, default=None
        The last step's size over the first one's. None: 0.1.
    gradient_clip : float in [1e-6, 1e6] or None, default=None
        Norm C of a record's joint gradient of all layers. None: 4, a third of it for
        a regression, no clipping if epsilon is inf.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged. None: 0.5.

    References
    ----------
    .. [1] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133
    .. [2] Goodfellow (2015). Efficient per-example gradient computations.
       https://arxiv.org/abs/1510.01799 (norms from activations and what is sent back)
    .. [3] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383

    Deviations: exact Gaussian composition in place of the moments accountant; one clip
    for all layers with their biases; sums of integers.
    """

    key: ClassVar[str] = "noisy_gd"
    checks: ClassVar[Checks] = {
        **NetworkDescent.checks,
        "momentum": partial(check_real, low=0.0, high=1.0, high_open=True),
    }

    momentum: float

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: NetworkObjective, budget: Budget) -> Self:
        cls.check(given, budget)
        return cls(**cls.by_rule(given, objective, budget))

    @classmethod
    def by_rule(
        cls, given: Given, objective: NetworkObjective, budget: Budget
    ) -> dict[str, Any]:
        """All parameters, by rules if they are not given."""
        momentum = given.get("momentum", momentum_of(objective, budget))
        step_size = step_size_of(objective, budget, momentum)
        return {
            **cls.shared_by_rule(given, objective, budget),
            "step_size": given.get("step_size", step_size),
            "momentum": momentum,
        }

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def walk(self, objective: NetworkObjective, start: FloatArray) -> MomentumSteps:
        return MomentumSteps(start, self.pace(objective), self.momentum)
