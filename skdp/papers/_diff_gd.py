r"""Full gradients kept by their changes, and averaged with fresh ones as noise allows.

Algorithm: with g_t the gradient sum at the released weights W_t over all records, N of
declared deviations,

    E_0 = g_0 + N_0,                         P_0 = deviation of N_0 squared
    E'_t = E_{t-1} + (g_t - g_{t-1}) + N'_t,   P'_t = P_{t-1} + that of N'_t squared
    E_t = (1 - k) E'_t + k (g_t + N_t),        k = P'_t / (P'_t + that of N_t squared),
                                             P_t = (1 - k) P'_t
    W_{t+1} = W_t - step_size (E_t / n + alpha W_t).

The gain k follows from public deviations: E_t is the best average of all releases so
far. The release is the mean of the last ``tail`` share of the iterates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._validation import check_count, check_real
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.papers._moved_gradient import MovedGradients
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Plan
from skdp.queries._gradient import Gradients
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._flow_time import PlainFlowTime
from skdp.solvers._progress import Progress

_FIRST, _FRESH, _CHANGES = range(3)  # lines of the plan
# Every step reads all records three times.
_MOST_STEPS = 300


@dataclass(frozen=True, kw_only=True)
class DiffGD(Solver):
    r"""Noisy gradient descent by gradients and their differences (DIFF-GD).

    An experiment, kept for study: it can help only where steps are many and short
    (``docs/papers/diff_gd.md``).

    Privacy
    -------
    ``2 n_steps - 1`` adaptive Gaussian releases: mu-GDP, with a share of mu squared for
    the first gradient, one for all differences and the rest for all fresh gradients.
    A difference is noised by its bound at the released weights, the loss's smoothness
    times the way of the raw predictions; nothing is clipped for it, so that differences
    telescope. ``docs/proofs/diff_gd.md``. Unit of privacy: one record. All iterates and
    all releases may be published.

    Parameters
    ----------
    n_steps : int in [2, 1e6] or None, default=None
        Number of steps, all of them taken. Public. None: ``L`` times the flow time of
        `noisy_gd`, at most 300.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the flow time divided
        by the steps, at most ``1 / L``.
    first_share : float in (0, 1), default=0.02
        Of mu squared, for the first gradient.
    change_share : float in (0, 1), default=0.1
        Of mu squared, for all differences. The sum of both shares must be below 1.
    tail : float in [1e-9, 1], default=0.5
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step.

    References
    ----------
    .. [1] Tran and Cutkosky (2022). Momentum aggregation for private non-convex ERM.
       NeurIPS. (section 4: sensitivity reduction by differences)
    .. [2] Murata and Suzuki (2023). DIFF2: differential private optimization via
       gradient differences. ICML. https://arxiv.org/abs/2302.03884
    .. [3] Kalman (1960). A new approach to linear filtering and prediction problems.
       J. Basic Engineering 82(1). (the gain)

    Deviations: full gradients in place of trees over epochs, and no order of records;
    the gain is the best one for the deviations declared.
    """

    key: ClassVar[str] = "diff_gd"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, low=2, high=10**6),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "first_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
        "change_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
        "tail": partial(check_real, low=1e-9, high=1.0),
    }

    n_steps: int
    step_size: float
    first_share: float = 0.02
    change_share: float = 0.1
    tail: float = 0.5

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        rule = PlainFlowTime.of(objective, budget)
        flow = rule.flow(math.inf)
        n_steps = given.get("n_steps", min(rule.steps(flow), _MOST_STEPS))
        step_size = rule.step_size(flow, n_steps, 0.0)
        solver = cls(**{"n_steps": n_steps, "step_size": step_size, **given})
        if solver.fresh_share <= 0:
            raise Refused(
                f"solver={cls.key!r} needs a 'first_share' and a 'change_share' whose "
                f"sum is below 1. Got {solver.first_share:g} and "
                f"{solver.change_share:g}. Use smaller shares."
            )
        return solver

    @property
    def fresh_share(self) -> float:
        """Share of mu squared that is left for fresh gradients."""
        return 1 - self.first_share - self.change_share

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def plan(self, objective: LinearObjective) -> Plan:
        later = self.n_steps - 1
        return Plan(
            (
                Line(mu_share=self.first_share),
                Line(later, mu_share=self.fresh_share / later),
                Line(later, mu_share=self.change_share / later),
            )
        )

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of a gradient sum or a difference of two, at any weights."""
        families = (self._gradients(objective), self._changes(objective))
        return max(f.worst.under(objective.adjacency) for f in families)

    @staticmethod
    def _gradients(objective: LinearObjective) -> Gradients:
        return Gradients(objective)

    @staticmethod
    def _changes(objective: LinearObjective) -> MovedGradients:
        return MovedGradients(objective, math.inf, math.inf, 0.0)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        gradients, changes = self._gradients(objective), self._changes(objective)
        farthest = farthest_weight(objective)
        tail_steps = max(1, math.floor(self.tail * self.n_steps))
        weights = before = np.zeros(objective.shape)
        tail_sum = np.zeros_like(weights)
        first = answers.ask(gradients.at(weights), _FIRST)
        estimate, variance = first.value, first.deviation**2
        for t in range(self.n_steps):
            if t:
                moved = answers.ask(changes.at(weights, before), _CHANGES)
                fresh = answers.ask(gradients.at(weights), _FRESH)
                estimate, variance = (
                    estimate + moved.value,
                    variance + (moved.deviation**2),
                )
                gain = variance / (variance + fresh.deviation**2)
                estimate = (1 - gain) * estimate + gain * fresh.value
                variance *= 1 - gain
            mean = estimate / objective.n_samples + objective.alpha * weights
            before = weights
            weights = boxed(weights - self.step_size * mean, farthest)
            if self.n_steps - t <= tail_steps:
                tail_sum += weights
            progress.step(t + 1, self.n_steps)
        return Solution(tail_sum / tail_steps, answers.noise_scale)
