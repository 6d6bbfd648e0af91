"""Polyak's heavy ball with divided noise (DP-HB, DP-SHB, DP-GDwS, DP-SGDwS)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._accelerated import AcceleratedGD
from skdp.solvers._flow_time import RELAXATIONS

# Below 1 in any rounding.
_MOST_MOMENTUM = 1 - 2.0**-30


@dataclass(frozen=True, kw_only=True)
class HeavyBall(AcceleratedGD):
    """Momentum on gradients at the weights themselves, noise divided over the steps.

    The smoothed gradient descent of [2]_, ``V = (1 - b) V + b (g + N)`` and
    ``W = W - s V``, is this method with momentum ``1 - b`` and step size ``s b``.
    Smoothing is post-processing: it changes neither the noise of a release nor what it
    costs.

    Privacy
    -------
    As `Nesterov`: unequal Gaussian releases with ``mu^2 = sum_t 1 / z_t^2``, or
    spherical ones. Sensitivities: ``docs/proofs/heavy_ball.md``. Unit of privacy: one
    record, or without batches all rows of a user (``docs/proofs/users.md``).

    Utility
    -------
    No bound of Nesterov's form is known; the noise is divided by his weights, whose
    rate is the heavy ball's up to a factor.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken.
    step_size : float in [1e-250, 1e250] or None, default=None
        Per gradient of the mean loss.
    strong_convexity : float in [1e-250, 1e250] or None, default=None
        mu, from which momentum and division follow.
    division : {"optimal", "even"}, default="optimal"
        Whether late steps get less noise.
    residual_clip : float in [1e-6, inf] or None, default=None
    intercept_weight : float in [1e-6, 1] or None, default=None
    law : {"gaussian", "spherical"} or None, default=None
    batch_size : int in [1, 2^31] or None, default=None
        Secret batches without replacement; spherical noise only.
    momentum : float in [0, 1) or None, default=None
        None: Nesterov's, ``(1 - r) / (1 + r)`` with ``r = sqrt(step_size * mu)``; where
        noise limits the run (mu above alpha) the rule of `noisy_gd`, ``1 - sqrt(10) r``
        with ``sqrt(10) / r`` steps, since large curvatures must settle in so few.

    References
    ----------
    .. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2), section 3.
       https://arxiv.org/abs/2008.01989
    .. [2] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University, sections 4.2.1 and 4.3.1.

    Deviations: exact Gaussian composition or spherical noise instead of Laplace noise;
    the exact law for batches; public constants instead of the data's.
    """

    key: ClassVar[str] = "heavy_ball"
    takes_nonconvex: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    restarts_intercept: ClassVar[bool] = False
    looks_ahead: ClassVar[bool] = False
    relaxations: ClassVar[float] = math.sqrt(RELAXATIONS)

    checks: ClassVar[Checks] = {
        **AcceleratedGD.checks,
        "momentum": partial(check_real, low=0.0, high=1.0, high_open=True),
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
