"""Nesterov's method in stages of falling step size (DP-MASG, DP-MAG, DP-SMAG)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from skdp._configured import Checks, Given
from skdp._floats import FloatArray, IntArray
from skdp._validation import check_count
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._accelerated import AcceleratedGD
from skdp.solvers._noise_division import multistage_steps

# Share of the steps that the first stage has by default.
_FIRST = 0.75


@dataclass(frozen=True, kw_only=True)
class Multistage(AcceleratedGD):
    """Nesterov's method, restarted in stages of smaller steps (`multistage_steps`).

    Privacy
    -------
    As `Nesterov`: unequal Gaussian releases with ``mu^2 = sum_t 1 / z_t^2``, or
    spherical ones. Sensitivities: ``docs/proofs/multistage.md``. Unit of privacy: one
    record.

    Utility
    -------
    The bound of `error_bounds`. By that bound no run is worth a second
    stage, which doubles the weight of all before it (``docs/errata.md``); measured, a
    short one does a little good. So the default first stage is longer than the paper's.

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
    first_stage : int in [1, 1e6] or None, default=None
        Steps of the first stage. None: three quarters of `n_steps`.

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

    Deviations: no velocity is carried into a stage; momentum follows every stage's step
    size; exact composition and the exact law for batches instead of an equal epsilon
    for every stage; public constants instead of the data's.
    """

    key: ClassVar[str] = "multistage"
    is_recommended: ClassVar[bool] = False
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
