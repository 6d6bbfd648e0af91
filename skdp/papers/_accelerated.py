"""Heavy ball, multistage Nesterov, and the last iterate of a hidden descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count
from skdp._configured import Checks, Given
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu
from skdp.solvers._accelerated import AcceleratedGD, multistage_steps
from skdp.solvers._descent import RELAXATIONS
from skdp.solvers._steps import ranges

# ------------------------------- Heavy ball with divided noise (DP-HB, DP-SHB, DP-GDwS)
# Also DP-SGDwS. The method is Polyak's.


# Below 1 after any rounding.
_MOST_MOMENTUM = 1 - 2.0**-30


@dataclass(frozen=True, kw_only=True)
class HeavyBall(AcceleratedGD):
    """Momentum on gradients at the weights themselves, noise divided over the steps.

    Kept for study: `nesterov` was never clearly worse, and is clearly better with
    ``delta=0`` and at small epsilons (breast_cancer, epsilon 1: 0.879 here, 0.928
    there). It also runs the smoothed gradient descent of [2]_,
    ``V = (1 - b) V + b (g + N)``, ``W = W - s V``: set momentum ``1 - b`` and step size
    ``s b``. Smoothing is post-processing: noise and cost of every release are the same
    for every b.

    Parameters
    ----------
    n_steps, step_size, strong_convexity, division, residual_clip, intercept_weight
        As for `nesterov`.
    law, batch_size, keeps_path
        As for `nesterov`.
    momentum : float in [0, 1) or None, default=None
        None: Nesterov's, ``(1 - r) / (1 + r)`` with ``r = sqrt(step_size * mu)``. Where
        noise limits the run (mu above alpha), ``1 - sqrt(10) r`` with ``sqrt(10) / r``
        steps, since large curvatures must settle in so few.

    Notes
    -----
    Released are adaptive answers of unequal noise, as of `nesterov`:
    ``mu^2 = sum_t 1 / z_t^2``, or spherical ones. All iterates may be published. No
    error bound of Nesterov's form is known; the noise is divided by his weights. Unit
    of privacy: one record, or without batches all rows of a user. Proof:
    ``docs/proofs/papers.md``, Theorem 7.

    References
    ----------
    .. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2), section 3.
       https://arxiv.org/abs/2008.01989
    .. [2] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University, sections 4.2.1 and 4.3.1.
    """

    key: ClassVar[str] = "heavy_ball"
    takes_nonconvex: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    restarts_intercept: ClassVar[bool] = False
    looks_ahead: ClassVar[bool] = False
    relaxations: ClassVar[float] = math.sqrt(RELAXATIONS)

    checks: ClassVar[Checks] = {
        **AcceleratedGD.checks,
        **ranges("momentum"),
    }

    momentum: float

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        found = super().by_rule(given, objective, budget)
        root = math.sqrt(found["step_size"]) * math.sqrt(found["strong_convexity"])
        momentum = (1 - root) / (1 + root)
        if found["strong_convexity"] > objective.alpha:
            # Momentum, not mu, decides how fast large curvatures settle.
            momentum = 1 - cls.relaxations * root
        momentum = min(max(0.0, momentum), _MOST_MOMENTUM)
        return found | {"momentum": given.get("momentum", momentum)}

    def _momenta(self, step_sizes: FloatArray) -> FloatArray:
        return np.full(len(step_sizes), self.momentum)


# --------------------------------------- Multistage Nesterov (DP-MASG, DP-MAG, DP-SMAG)
# Nesterov's method in stages of decreasing step size.


# Default fraction of the steps in the first stage.
_FIRST = 0.75


@dataclass(frozen=True, kw_only=True)
class Multistage(AcceleratedGD):
    """Nesterov's method, restarted in stages of smaller steps (`multistage_steps`).

    Kept for study: about as good as `nesterov` with a delta (Adult, epsilon 1: 0.844
    and 0.842), often better with ``delta=0``, where `objective_perturbation` is far
    ahead of both. By the papers' bound no run is worth a second stage; measured, a
    short one does a little good.

    Parameters
    ----------
    n_steps, step_size, strong_convexity, division, residual_clip, intercept_weight
        As for `nesterov`.
    law, batch_size, keeps_path
        As for `nesterov`.
    first_stage : int in [1, 1e6] or None, default=None
        Steps of the first stage. None: three quarters of `n_steps`, longer than the
        papers', because a second stage hardly pays.

    Notes
    -----
    Stage k >= 2 has step size ``step_size / 4^k`` and ``2^k ceil(sqrt(L / mu) log 8)``
    steps; the last one is cut at `n_steps`. Released are adaptive answers of unequal
    noise, as of `nesterov`: ``mu^2 = sum_t 1 / z_t^2``, or spherical ones. All iterates
    may be published. Unit of privacy: one record. Proof: ``docs/proofs/papers.md``,
    Theorem 7.

    References
    ----------
    .. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2), section 4.2.
       https://arxiv.org/abs/2008.01989
    .. [2] Aybat, Fallah, Gurbuzbalaban and Ozdaglar (2019). A universally optimal
       multistage accelerated stochastic gradient method. NeurIPS.
       https://arxiv.org/abs/1901.08022
    .. [3] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University, sections 4.2.2 and 4.3.2.
    """

    key: ClassVar[str] = "multistage"
    checks: ClassVar[Checks] = {
        **AcceleratedGD.checks,
        "first_stage": partial(check_count, high=10**6),
    }

    first_stage: int

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        found = super().by_rule(given, objective, budget)
        first_stage = math.ceil(_FIRST * found["n_steps"])
        return found | {"first_stage": given.get("first_stage", first_stage)}

    def _stages(self, objective: LinearObjective) -> tuple[FloatArray, IntArray]:
        return multistage_steps(
            self.n_steps,
            step_size=self.step_size,
            smoothness=objective.smoothness,
            strong_convexity=self.strong_convexity,
            first_stage=self.first_stage,
        )


# ------------------------------------------------------ Parts of the budget of one plan


_LEAST_EPSILON = 1e-6


def cost_of(budget: Budget) -> float:
    """The mu of a Gaussian budget, or the epsilon of a pure budget."""
    if budget.delta == 0:
        return budget.epsilon
    return gaussian_mu(budget.epsilon, budget.delta)


def part_of(budget: Budget, share: float) -> Budget:
    """A fraction of mu^2 at the same delta, or of epsilon."""
    if budget.delta == 0:
        return Budget(max(share * budget.epsilon, _LEAST_EPSILON), 0.0)
    epsilon = gaussian_epsilon(math.sqrt(share) * cost_of(budget), budget.delta)
    return Budget(max(epsilon, _LEAST_EPSILON), budget.delta)
