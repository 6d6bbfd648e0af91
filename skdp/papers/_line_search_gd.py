r"""Noisy gradients, and steps along them as long as noisy losses say.

Algorithm: with g_t the gradient sum at the released weights W_t over all records,

    E_t = the mean of (g_s + N_s) / n + alpha W_t over all s since weights last moved,
    U_t = E_t / |E_t|,
    S_t = (sum over records of clip(loss(W_t) - loss(W_t - l_k U_t)))_k + N'_t,
    k* = the k of the largest S_t,k / n - penalty's increase,

W_{t+1} = W_t - l_k* U_t if that is above 0, and W_t otherwise. The lengths l_k are
public: ``longest_step`` divided by 1, 2, 4, ... The release is the mean of the last
``tail`` share of the iterates.
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
from skdp.papers._step_gains import StepGains, Trial
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers, Released
from skdp.privacy._plan import Line, Plan
from skdp.queries._gradient import Gradients
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._progress import Progress

_GRADIENTS, _GAINS = range(2)  # lines of the plan
# Settled on the validation part of a9a.
_STEPS, _LONGEST = 50, 4.0


@dataclass(frozen=True, kw_only=True)
class LineSearchGD(Solver):
    r"""Noisy gradient descent with a noisy line search (DP-AGD, with a fixed budget).

    Kept for study (``docs/papers/line_search_gd.md``): no step size has to be known,
    and what that costs has not been worth it.

    Privacy
    -------
    ``2 n_steps`` adaptive Gaussian releases: mu-GDP, with a share of mu squared for all
    line searches and the rest for all gradients. Steps that are not taken cost what
    others cost. ``docs/proofs/line_search_gd.md``. Unit of privacy: one record. All
    iterates and all releases may be published.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of steps, all of them paid for. Public. None: 50.
    longest_step : float in [1e-250, 1e250] or None, default=None
        Length of the longest step, in weights. None: 4 over ``data_norm``, or 4.
    n_lengths : int in [1, 64], default=5
        How many lengths are tried, each half of the one before.
    search_share : float in (0, 1), default=0.2
        Of mu squared, for all line searches.
    gain_clip : float in [1e-6, inf) or None, default=None
        A record's gain is clipped to so many times a step's length. None: half of
        what the loss and the rows allow for.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which every record's residual is clipped. None: as for `noisy_gd`.
    tail : float in [1e-9, 1], default=0.5
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step.

    References
    ----------
    .. [1] Lee and Kifer (2018). Concentrated differentially private gradient descent
       with adaptive per-iteration privacy budget. KDD.
       https://arxiv.org/abs/1808.09501 (DP-AGD)

    Deviations: the number of steps and their noise are fixed beforehand, where [1]_
    spends more on a gradient of which no step is an improvement, until nothing is left;
    here such a gradient is averaged with the next. Lengths are compared by Gaussian
    answers to gains, clipped in proportion to the length, in place of a choice among
    clipped losses.
    """

    key: ClassVar[str] = "line_search_gd"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "longest_step": partial(check_real, low=1e-250, high=1e250),
        "n_lengths": partial(check_count, high=64),
        "search_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
        "gain_clip": partial(check_real, low=1e-6, high=math.inf, high_open=True),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "tail": partial(check_real, low=1e-9, high=1.0),
    }

    n_steps: int
    longest_step: float
    n_lengths: int = 5
    search_share: float = 0.2
    gain_clip: float
    residual_clip: float
    tail: float = 0.5

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        rule = FlowTime.of(objective, budget)
        clip, _ = rule.clip_and_weight(given.get("residual_clip"), 1.0)
        norm = objective.data_norm if math.isfinite(objective.data_norm) else 1.0
        rows = math.hypot(norm, 1.0 if objective.fit_intercept else 0.0)
        slope = min(clip, objective.loss.zero_out_bound(math.inf))
        found: dict[str, Any] = {
            "n_steps": _STEPS,
            "longest_step": _LONGEST / norm,
            "residual_clip": clip,
            "gain_clip": max(1e-6, slope * rows / 2),
        }
        return cls(**{**found, **given})

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    @property
    def lengths(self) -> FloatArray:
        """Those that are tried; public."""
        return np.asarray(self.longest_step * 0.5 ** np.arange(self.n_lengths))

    def plan(self, objective: LinearObjective) -> Plan:
        n = self.n_steps
        return Plan(
            (
                Line(n, mu_share=(1 - self.search_share) / n),
                Line(n, mu_share=self.search_share / n),
            )
        )

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of a gradient sum, or of the gains of one search."""
        zero = np.zeros(objective.shape)
        bounds = (
            self._gradients(objective).worst,
            self._gains(objective, zero, zero).bound(),
        )
        return max(bound.under(objective.adjacency) for bound in bounds)

    def _gradients(self, objective: LinearObjective) -> Gradients:
        return Gradients(objective, self.residual_clip)

    def _gains(
        self, objective: LinearObjective, weights: FloatArray, direction: FloatArray
    ) -> StepGains:
        return StepGains(
            Trial(objective), weights, direction, self.lengths, self.gain_clip
        )

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        sums, farthest = self._gradients(objective), farthest_weight(objective)
        tail_steps = max(1, math.floor(self.tail * self.n_steps))
        weights = np.zeros(objective.shape)
        tail_sum, heard, times = np.zeros_like(weights), np.zeros_like(weights), 0
        for t in range(self.n_steps):
            query = sums.at(weights)
            heard = heard + query.read(answers.ask(query, _GRADIENTS).value)
            times += 1
            mean = heard / (times * objective.n_samples) + objective.alpha * weights
            norm = float(np.linalg.norm(mean))
            direction = mean / norm if norm > 0 else mean
            gains = answers.ask(self._gains(objective, weights, direction), _GAINS)
            length = self._best(gains, objective, weights, direction)
            if length > 0:
                weights = boxed(weights - length * direction, farthest)
                heard, times = np.zeros_like(weights), 0
            if self.n_steps - t <= tail_steps:
                tail_sum += weights
            progress.step(t + 1, self.n_steps)
        return Solution(tail_sum / tail_steps, answers.noise_scale)

    def _best(
        self,
        gains: Released,
        objective: LinearObjective,
        weights: FloatArray,
        direction: FloatArray,
    ) -> float:
        """The length of the largest gain of the objective; 0 if all are losses."""
        along = float(np.sum(weights * direction))
        size = float(np.sum(direction * direction))
        lost = objective.alpha * (self.lengths**2 * size / 2 - self.lengths * along)
        worth = gains.value / objective.n_samples - lost
        best = int(np.argmax(worth))
        return float(self.lengths[best]) if worth[best] > 0 else 0.0
