"""Nesterov's accelerated gradient method with divided noise (DP-NAG)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skdp.solvers._accelerated import AcceleratedGD


@dataclass(frozen=True, kw_only=True)
class Nesterov(AcceleratedGD):
    """Nesterov's method: gradients at the look-ahead, noise divided over the steps.

    Privacy
    -------
    Adaptive Gaussian releases of unequal noise, which compose exactly:
    ``mu^2 = sum_t 1 / z_t^2`` over their noise multipliers; or, for pure epsilon,
    spherical ones: ``epsilon = sum_t 1 / z_t``, with batches
    ``sum_t log(1 + m / n (exp(1 / z_t) - 1))``. All iterates may be published. Both
    sensitivities: ``docs/proofs/nesterov.md``. Unit of privacy: one record, or
    without batches all rows of a user (``docs/proofs/users.md``).

    Utility
    -------
    With step size at most 1 / L the expected excess objective is at most
    ``2 (1 - r)^T E_0 + (sum_t a_t^p)^(1 / p) V`` with ``r = sqrt(step_size * mu)`` and
    V the expected squared norm of the noise, were the budget spent on one step
    (`error_bounds`). For Gaussian noise the second term has a limit: more
    steps than needed cost time, not accuracy.

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

    The rules for None: ``docs/solvers/nesterov.md``.

    References
    ----------
    .. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2), sections 4.1.
       https://arxiv.org/abs/2008.01989

    Deviations: exact Gaussian composition or spherical noise instead of Laplace noise;
    the factor 2 on E_0; public constants instead of the data's; start at 0.
    """

    key: ClassVar[str] = "nesterov"
    takes_users: ClassVar[bool] = True
