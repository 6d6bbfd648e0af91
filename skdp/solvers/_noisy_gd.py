r"""Full-batch gradient descent with Gaussian noise on every gradient sum.

Algorithm: with ``g_t`` the clipped gradient sum at the weights ``W_t``,

    V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / n + alpha * W_t)
    W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma_t^2 I),

and the release is the mean of the last ``tail`` share of the iterates.

``sigma_t = noise_multiplier * S(W_t)``, where S(W_t) is the sensitivity of the
gradient sum *at the released weights W_t*. Early weights are small, and so is
S: under replace_one the first query of a logistic regression needs half the noise of
the worst case. The multiplier, and with it the event, is the same in every step.

With ``release="last"`` the path stays hidden and only the last iterate is paid for
(`skdp.papers._last_iterate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

from skdp._configured import Checks, Given
from skdp._registry import Registry
from skdp._validation import check_choice, check_count, check_real
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import is_of_users
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Plan
from skdp.queries._gradient import Gradients
from skdp.queries._user_gradients import UserGradients
from skdp.solvers._base import Solution
from skdp.solvers._descent import Descent
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._progress import Progress
from skdp.solvers._steps import descend

# Numbers of all users' parts, which are held: half a gibibyte.
_MOST_NUMBERS = 2**26
# Other forms of this solver, by what they release.
_RELEASES: Registry[Any] = Registry("skdp.releases", {})


def _check_user_clip(name: str, value: Any) -> float | None:
    return None if value is None else check_real(name, value, low=1e-3, high=1.0)


@dataclass(frozen=True, kw_only=True)
class NoisyGD(Descent):
    r"""Noisy full-batch gradient descent with momentum and tail averaging.

    Privacy
    -------
    ``n_steps`` adaptive Gaussian releases of the gradient sum, each with noise
    ``noise_multiplier`` times its sensitivity: exactly mu-GDP with
    ``mu = sqrt(n_steps) / noise_multiplier``. All iterates may be published.
    Sensitivities under both adjacencies, the intercept and the softmax are derived
    in ``docs/proofs/noisy_gd.md``. Unit of privacy: one record, or all rows of a
    user (``docs/proofs/users.md``). With ``release="last"``, of records alone, nothing
    but the last iterate may be published, and it is mu-GDP for a smaller mu, bounded
    for any number of steps.

    Utility
    -------
    In a direction of curvature h the noise has variance at most
    ``min(s, 1 / (2 h)) * s * (S / (n mu))^2``, where
    ``s = step_size * n_steps / (1 - momentum)`` is the flow time; the optimisation
    error decays like ``exp(-h s)``. Only s trades one against the other, so the
    default fixes s by the noise it admits and spends no more steps than momentum
    needs to cover it.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken. Public. None: the rule above,
        between 10 and 300.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the flow time of the
        rule divided by the steps, at most ``1 / L`` with the public smoothness
        bound ``L = smoothness * row_norm^2 + alpha``.
    momentum : float in [0, 1) or None, default=None
        Heavy-ball momentum. None: ``1 - 10 / n_steps``, at least 0.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which the residual (the derivative of the loss by the raw
        predictions) of every record is clipped. Less noise, but the optimum moves.
        None: the loss's `noisy_clip`, as long as noise and not the number of steps
        limits the run; no clipping otherwise. It is 0.5 for the softmax, where most
        residuals are near sqrt((K-1)/K) at first and small later while the worst case
        is sqrt(2), and a quarter of the target bound for the squared loss; of both more
        the less noise there is; none for two classes.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. A small
        factor spends less of the budget on the intercept, whose curvature averages
        noise away, and more on the other weights. None: ``(1 + h s)^(-1/4)`` with the
        flow time s and the intercept's curvature bound
        ``h = smoothness * data_norm^2 / 2``, which minimises both noises together.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step. None: 0.5, or the very last one.
    release : {"path", "last"}, default="path"
        What is paid for: all iterates, or the last one only. "last" needs a positive
        alpha, steps of at most ``2 / (L + alpha)``, no momentum, no residual clipping,
        an intercept weight of 1 and no average; its noise is that of the worst case.
        Its default number of steps is ``L`` times the flow time, at most 1000.
    user_clip : float in [1e-3, 1] or None, default=None
        With ``privacy_unit="user"``: norm to which the sum of a user's gradients is
        clipped, as one vector, in units of the largest of one record. None: the mean of
        the user's gradients, without such a clip. More signal of users with several
        rows, for the noise of means, or up to twice as much where users are exchanged,
        and for steps that follow other weights than means (when to take which:
        ``docs/users.md``).

    References
    ----------
    .. [1] Bassily, Smith and Thakurta (2014). Private empirical risk minimization:
       efficient algorithms and tight error bounds. FOCS. https://arxiv.org/abs/1405.7085
    .. [2] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383
    .. [3] Bok, Su and Altschuler (2024). Shifted interpolation for differential
       privacy. ICML. https://arxiv.org/abs/2403.00278 (the last iterate)
    .. [4] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2).
       https://arxiv.org/abs/2008.01989 (heavy-ball form, its equation 9)

    Deviations: exact Gaussian composition instead of the papers' moments or Laplace
    bounds; the sensitivity follows the released weights; nothing depends on the data.
    """

    key: ClassVar[str] = "noisy_gd"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **Descent.checks,
        "n_steps": partial(check_count, high=10**6),
        "release": partial(check_choice, allowed=("path",)),
        "user_clip": _check_user_clip,
    }
    given_checks: ClassVar[Checks] = {
        "release": partial(check_choice, allowed=("last", "path"))
    }

    n_steps: int
    release: Literal["path", "last"] = "path"
    user_clip: float | None = None

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        if given.get("user_clip") is not None:
            cls._check_users(objective)
        release = given.get("release", cls.release)
        if release != "path":
            planned: Self = _RELEASES[release].planned(given, objective, budget)
            return planned
        n_steps, rest = cls.rest_by_rule(given, FlowTime.of(objective, budget))
        return cls(n_steps=n_steps, user_clip=given.get("user_clip"), **rest)

    @classmethod
    def _check_users(cls, objective: LinearObjective) -> None:
        """Refuse where users' parts cannot be added up, or are not charged for."""
        me = f"solver={cls.key!r} with a 'user_clip'"
        if not is_of_users(objective.adjacency):
            raise Refused(
                f"{me} needs privacy_unit='user'. Use user_clip=None, or hand on ids."
            )
        size = objective.n_samples * objective.n_columns * objective.loss.n_outputs
        if size > _MOST_NUMBERS:
            raise Refused(
                f"{me} keeps a number for each user, feature and output, at most "
                f"{_MOST_NUMBERS:,}. Got {size:,}. Use user_clip=None."
            )

    def gradients(self, objective: LinearObjective) -> Gradients:
        """The queries."""
        if self.user_clip is None:
            return super().gradients(objective)
        return UserGradients(
            objective, self.residual_clip, self.intercept_weight, self.user_clip
        )

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(self.n_steps),))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        sums, walk = self.gradients(objective), self.walk(objective, self.n_steps)
        return descend(answers, sums, walk, objective.n_samples, progress)
