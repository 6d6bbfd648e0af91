r"""Full-batch gradient descent with Gaussian noise on every gradient sum.

Algorithm: with ``g_t`` the clipped gradient sum at the weights ``W_t``,

    V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / n + alpha * W_t)
    W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma_t^2 I),

and the release is the mean of the last ``tail`` share of the iterates.

``sigma_t = noise_multiplier * S(W_t)``, where S(W_t) is the sensitivity of the
gradient sum *at the released weights W_t*. Early weights are small, and so is
S: under replace_one the first query of a logistic regression needs half the noise of
the worst case. The multiplier, and with it the event, is the same in every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from skdp._validation import check_count, check_real
from skdp.data import Source
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event, GaussianEvent
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Problem, Progress, Solution, Solver
from skdp.solvers._gradient import query_sensitivity
from skdp.solvers._noisy_gradient import NoisyGradient, boxed, farthest_weight

# Standard deviation of the noise in the raw prediction of a unit row at which the
# default stops, in the loss's units of raw predictions, chosen once on public data sets
# (docs/solvers/noisy_gd.md) and flat around its optimum.
_MARGIN_NOISE = 2.0
# Relaxation times of the momentum that the default leaves for the run.
_RELAXATIONS = 10
_RANGES = (
    ("step_size", 1e-250, 1e250),
    ("momentum", 0.0, 1.0),
    ("residual_clip", 1e-6, math.inf),
    ("intercept_weight", 1e-6, 1.0),
    ("tail", 1e-9, 1.0),
)
_FEWEST_STEPS, _MOST_STEPS = 10, 300


@dataclass(frozen=True, kw_only=True)
class NoisyGD(Solver):
    r"""Noisy full-batch gradient descent with momentum and tail averaging.

    Privacy
    -------
    ``n_steps`` adaptive Gaussian releases of the gradient sum, each with noise
    ``noise_multiplier`` times its sensitivity: exactly mu-GDP with
    ``mu = sqrt(n_steps) / noise_multiplier``. All iterates may be published.
    Sensitivities under both adjacencies, the intercept and the softmax are derived
    in ``docs/proofs/noisy_gd.md``. Unit of privacy: one record.

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
        is sqrt(2); a quarter of the target bound for the squared loss, and more the
        less noise there is; none for two classes.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. A small
        factor spends less of the budget on the intercept, whose curvature averages
        noise away, and more on the other weights. None: ``(1 + h s)^(-1/4)`` with the
        flow time s and the intercept's curvature bound
        ``h = smoothness * data_norm^2 / 2``, which minimises both noises together.
    tail : float in [1e-9, 1], default=0.5
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step.

    References
    ----------
    .. [1] Bassily, Smith and Thakurta (2014). Private empirical risk minimization:
       efficient algorithms and tight error bounds. FOCS. https://arxiv.org/abs/1405.7085
    .. [2] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383
    .. [3] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2).
       https://arxiv.org/abs/2008.01989 (heavy-ball form, its equation 9)

    Deviations: exact Gaussian composition instead of the papers' moments or Laplace
    bounds; the sensitivity follows the released weights; nothing depends on the data.
    """

    key: ClassVar[str] = "noisy_gd"
    is_pure: ClassVar[bool] = False

    n_steps: int | None = None
    step_size: float | None = None
    momentum: float | None = None
    residual_clip: float | None = None
    intercept_weight: float | None = None
    tail: float = 0.5

    def __post_init__(self) -> None:
        # Plain numbers: a NumPy scalar of half precision would carry its rounding, and
        # its overflow, into the sensitivity and the noise.
        if self.n_steps is not None:
            self._set("n_steps", check_count("n_steps", self.n_steps, high=10**6))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is not None:
                self._set(name, check_real(name, value, low=low, high=high))
        if self.momentum == 1:
            raise ValueError("The 'momentum' parameter must be below 1. Got 1.")

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    @property
    def is_gaussian(self) -> bool:
        return True

    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        smoothness = loss.smoothness * problem.row_norm**2 + problem.alpha
        weight, clip = self.intercept_weight, self.residual_clip
        if weight is None:
            even = _flow_time(loss, problem, budget, math.inf if clip is None else clip)
            weight = _default_intercept_weight(loss, problem, even)
        if clip is None:
            plain = _flow_time(loss, problem, budget, math.inf, weight)
            wanted = _wanted_steps(plain, smoothness)
            clip = loss.noisy_clip if wanted < _MOST_STEPS else math.inf
            if loss.n_outputs == 1 and math.isfinite(clip):
                # The least clipping at which noise still admits the most steps.
                bound = loss.zero_out_bound(math.inf)
                clip = max(clip, bound * (wanted / _MOST_STEPS) ** 2)
        flow = _flow_time(loss, problem, budget, clip, weight)
        n_steps, momentum, step_size = self.n_steps, self.momentum, self.step_size
        if n_steps is None:
            wanted = math.ceil(_wanted_steps(flow, smoothness))
            n_steps = min(max(wanted, _FEWEST_STEPS), _MOST_STEPS)
        if momentum is None:
            momentum = max(0.0, 1 - _RELAXATIONS / n_steps)
        if step_size is None:
            step_size = min(flow * (1 - momentum) / n_steps, 1 / smoothness)
        return replace(
            self,
            n_steps=n_steps,
            step_size=step_size,
            momentum=momentum,
            residual_clip=clip,
            intercept_weight=weight,
        )

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        assert self.n_steps is not None, "resolve() fills in the number of steps"
        return GaussianEvent(noise_multiplier, self.n_steps)

    def sensitivity(self, loss: Loss, problem: Problem) -> float:
        assert self.residual_clip is not None, "resolve() fills in the clip"
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        return query_sensitivity(
            loss, problem, self.residual_clip, intercept_weight=self.intercept_weight
        )

    def run(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.n_steps is not None, "resolve() fills in the steps"
        assert self.step_size is not None, "resolve() fills in the step size"
        assert self.momentum is not None, "resolve() fills in the momentum"
        assert self.residual_clip is not None, "resolve() fills in the clip"
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        gradient = NoisyGradient(
            source,
            loss,
            problem,
            noise,
            LAWS["gaussian"],
            residual_clip=self.residual_clip,
            intercept_weight=self.intercept_weight,
        )
        weights = np.zeros((problem.n_columns, loss.n_outputs))
        velocity, tail_sum = np.zeros_like(weights), np.zeros_like(weights)
        farthest = farthest_weight(problem)
        tail_steps = max(1, math.floor(self.tail * self.n_steps))
        for t in range(self.n_steps):
            released = gradient(weights, noise_multiplier)
            mean = released / problem.n_samples + problem.alpha * weights
            velocity = boxed(self.momentum * velocity - self.step_size * mean, farthest)
            weights = boxed(weights + velocity, farthest)
            if t >= self.n_steps - tail_steps:
                tail_sum += weights
            progress.step(t + 1, self.n_steps)
        return Solution(tail_sum / tail_steps, gradient.noise_scale)


def _flow_time(
    loss: Loss,
    problem: Problem,
    budget: Budget,
    residual_clip: float,
    intercept_weight: float = 1.0,
) -> float:
    """Flow time at which the noise in a unit row's prediction is _MARGIN_NOISE."""
    mu = gaussian_mu(budget.epsilon, budget.delta)
    sensitivity = query_sensitivity(
        loss, problem, residual_clip, intercept_weight=intercept_weight
    )
    tolerated = _MARGIN_NOISE * loss.raw_unit
    flow = tolerated * problem.n_samples * mu / (problem.data_norm * sensitivity)
    if problem.alpha > 0:  # the optimum is reached by then
        flow = min(flow, _RELAXATIONS / problem.alpha)
    return flow


def wanted_steps(loss: Loss, problem: Problem, budget: Budget) -> float:
    """Steps that the default would take without residual clipping or limits.

    The fewer, the more noise limits the fit.
    """
    smoothness = loss.smoothness * problem.row_norm**2 + problem.alpha
    even = _flow_time(loss, problem, budget, math.inf)
    weight = _default_intercept_weight(loss, problem, even)
    return _wanted_steps(
        _flow_time(loss, problem, budget, math.inf, weight), smoothness
    )


def _default_intercept_weight(loss: Loss, problem: Problem, flow: float) -> float:
    return float((1 + loss.smoothness * problem.data_norm**2 / 2 * flow) ** -0.25)


def _wanted_steps(flow: float, smoothness: float) -> float:
    """Steps in which momentum covers a flow time, before the limits."""
    return math.sqrt(_RELAXATIONS * flow * smoothness)
