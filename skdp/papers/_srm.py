r"""Recursive momentum: gradients that are kept up to date by their changes.

Algorithm: with B_t a fresh, secret sample that every record enters independently with
probability ``q = batch_size / n``, and clip_c(r) a vector shortened to the norm c,

    V_0 = (sum over B_0 of x clip_c1(r(W_0)) + N_0) / batch_size
    V_t = (1 - refresh) V_{t-1} + (sum over B_t of x ((1 - refresh)
          clip_c2(r(W_t) - r(W_{t-1})) + refresh clip_c1(r(W_t))) + N_t) / batch_size
    W_{t+1} = W_t - step V_t - step_size (alpha W_t + penalty's gradient),

where r is a record's residual, c1 is `residual_clip`, c2 `change_clip`, and the step is
``step_size``, or less so that ``step |V_t|`` is at most `longest_step`. The release is
the mean of the last ``tail`` share of the iterates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.objectives._linear import LinearObjective
from skdp.papers._moved_gradient import MovedGradients
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Plan, Poisson
from skdp.privacy._query import Bound
from skdp.queries._gradient import Gradients
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._noisy_sgd import NoisySGD
from skdp.solvers._progress import Progress

# What the rule takes over from noisy_sgd, without momentum.
_SHARED = ("n_steps", "batch_size", "step_size", "residual_clip", "tail")


@dataclass(frozen=True, kw_only=True)
class SRM(Solver):
    r"""Noisy stochastic recursive momentum (DP-SRM).

    Kept for replication and study: at equal privacy it has not been better than
    `noisy_sgd` without momentum (``docs/papers/srm.md``).

    Privacy
    -------
    ``n_steps`` Poisson-sampled Gaussian releases of rate ``batch_size / n``, composed
    by privacy-loss distributions, or Gaussian ones if all records are read. The noise
    follows the bound at the released weights: the change of a residual is at most the
    loss's smoothness times what raw predictions have moved by, and at most
    `change_clip`. ``docs/proofs/srm.md``. Unit of privacy: one record. All iterates
    and all V_t may be published, the samples may not.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of samples, all of them taken. Public. None: the rule of `noisy_sgd`.
    batch_size : int in [1, 2^31] or None, default=None
        Expected number of records in a sample; more than there are means all of them.
        None: the rule of `noisy_sgd`.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the rule of
        `noisy_sgd` without momentum.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which a record's residual is clipped. None: the rule of `noisy_sgd`.
    change_clip : float in [1e-6, inf] or None, default=None
        Norm to which the change of a record's residual is clipped. None: `refresh`
        times the bound on residuals, as in the experiments of [1]_.
    refresh : float in (0, 1], default=0.3
        Share of the fresh gradient, gamma of [1]_; 1 is plain descent.
    longest_step : float in (0, inf], default=inf
        Norm to which a step along V_t is shortened; finite in the theory of [1]_, where
        it is zeta / (n0 L).
    penalty : float in [0, 1e250], default=0.0
        Strength of the penalty ``sum of w^2 / (1 + w^2)`` over the features' weights,
        which is not convex; of [1]_, and outside of the noise.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step. None: 0.5.

    References
    ----------
    .. [1] Wang (2021). Towards efficient and effective privacy-preserving machine
       learning. PhD thesis, UCLA. (chapter 4, Algorithm 4)
    .. [2] Cutkosky and Orabona (2019). Momentum-based variance reduction in non-convex
       SGD. NeurIPS. https://arxiv.org/abs/1905.10018 (STORM, the recursion)

    Deviations: Poisson samples and numerical composition in place of subsets and a
    closed form; residuals are clipped in place of gradients; the first sample is as
    large as the others; the last iterates are averaged in place of a random one; the
    noise follows the released weights.
    """

    key: ClassVar[str] = "srm"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "batch_size": partial(check_count, high=2**31),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "change_clip": partial(check_real, low=1e-6, high=math.inf),
        "refresh": partial(check_real, low=0.0, high=1.0, low_open=True),
        "longest_step": partial(check_real, low=0.0, high=math.inf, low_open=True),
        "penalty": partial(check_real, low=0.0, high=1e250),
        "tail": partial(check_real, low=1e-9, high=1.0),
    }

    n_steps: int
    batch_size: int
    step_size: float
    residual_clip: float
    change_clip: float
    refresh: float = 0.3
    longest_step: float = math.inf
    penalty: float = 0.0
    tail: float

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        plain: dict[str, Any] = {"momentum": 0.0, "intercept_weight": 1.0}
        plain |= {name: given[name] for name in _SHARED if name in given}
        like = NoisySGD.planned(plain, objective, budget)
        found = {name: getattr(like, name) for name in _SHARED}
        largest = min(objective.loss.zero_out_bound(math.inf), like.residual_clip)
        found["change_clip"] = max(1e-6, given.get("refresh", cls.refresh) * largest)
        return cls(**{**found, **given, "batch_size": like.batch_size})

    @property
    def mechanism(self) -> str:
        return "Gaussian noise on Poisson samples, or on all records if batch_size = n"

    def plan(self, objective: LinearObjective) -> Plan:
        if self._reads_all(objective):
            return Plan((Line(self.n_steps),))
        rate = self.batch_size / objective.n_samples
        return Plan((Line(self.n_steps, sample=Poisson(rate)),))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest of all queries: of a sample, one record's contribution to it."""
        worst: tuple[Bound, ...] = (
            self._first(objective).worst,
            self._later(objective).worst,
        )
        adjacency = objective.adjacency if self._reads_all(objective) else "zero_out"
        return max(bound.under(adjacency) for bound in worst[: self.n_steps])

    def _reads_all(self, objective: LinearObjective) -> bool:
        return self.batch_size >= objective.n_samples

    def _first(self, objective: LinearObjective) -> Gradients:
        return Gradients(objective, self.residual_clip)

    def _later(self, objective: LinearObjective) -> MovedGradients:
        return MovedGradients(
            objective, self.residual_clip, self.change_clip, self.refresh
        )

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        first, later = self._first(objective), self._later(objective)
        farthest = farthest_weight(objective)
        tail_steps = max(1, math.floor(self.tail * self.n_steps))
        weights = before = np.zeros(objective.shape)
        tail_sum, momentum = np.zeros_like(weights), np.zeros_like(weights)
        for t in range(self.n_steps):
            query = later.at(weights, before) if t else first.at(weights)
            released = answers.ask(query).value / self.batch_size
            momentum = (1 - self.refresh) * momentum * (t > 0) + released
            before = weights
            moved = self._along(momentum) + self.step_size * self._outside(
                weights, objective
            )
            weights = boxed(weights - moved, farthest)
            if self.n_steps - t <= tail_steps:
                tail_sum += weights
            progress.step(t + 1, self.n_steps)
        return Solution(tail_sum / tail_steps, answers.noise_scale)

    def _along(self, momentum: FloatArray) -> FloatArray:
        """A step along released momentum, none longer than `longest_step`."""
        step = self.step_size * momentum
        norm = float(np.linalg.norm(step))
        return step if norm <= self.longest_step else step * (self.longest_step / norm)

    def _outside(self, weights: FloatArray, objective: LinearObjective) -> FloatArray:
        """Gradient of what is public of the objective."""
        gradient = objective.alpha * weights
        if self.penalty:
            own = weights[: objective.n_features]
            # In an order in which nothing overflows before it is small.
            slope = 2 * (own / (1 + own**2)) / (1 + own**2)
            gradient[: len(own)] += self.penalty * slope
        return gradient
