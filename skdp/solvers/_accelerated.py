r"""What the accelerated methods share: momentum, divided noise, secret batches.

Algorithm: with the weights ``W_t`` (zero at first), the velocity
``V_t = W_t - W_{t-1}`` (zero at the start of every stage) and the look-ahead
``A_t = W_t + momentum_t V_t``,

    W_{t+1} = A_t - step_t ((g_t + N_t) / m + alpha Q_t),

where g_t is the clipped gradient sum over m records at the point Q_t: the look-ahead
for Nesterov's method, the weights themselves for the heavy ball. The release is the
last iterate; all of them may be published.

The noise N_t has the standard deviation (or scale) ``noise_multiplier * r_t`` times the
sensitivity at the released point. The factors r_t divide the budget so that the error
bound of `skdp.solvers._noise_division` is least: late steps get less noise.
Proofs: ``docs/proofs/nesterov.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from skdp._validation import check_choice, check_count, check_real
from skdp.data import Source
from skdp.losses import Loss
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._amplification import batch_epsilon
from skdp.privacy._events import ComposedEvent, Event, GaussianEvent, PureEvent
from skdp.privacy._laws import LAWS, budget_of
from skdp.privacy._noise import NoiseSource
from skdp.solvers._accelerated_rules import DefaultRules
from skdp.solvers._base import FloatArray, Problem, Progress, Solution
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._configured import Checks
from skdp.solvers._gradient import query_sensitivity, smoothness_bound
from skdp.solvers._noise_division import (
    IntArray,
    bound_weights,
    nesterov_momentum,
    noise_levels,
)
from skdp.solvers._noisy_gradient import NoisyGradient, boxed, farthest_weight


class Schedule(NamedTuple):
    """Public course of a run: arrays of shape (n_steps,)."""

    step_sizes: FloatArray
    momenta: FloatArray
    stages: IntArray


@dataclass(frozen=True, kw_only=True)
class AcceleratedGD(ChosenLaw):
    """Noisy gradient descent with momentum and a divided budget.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken. Public. None: ``2 / sqrt(step_size mu)``
        (heavy ball: sqrt(10) in place of 2) where noise limits the run, that is, where
        mu is above alpha; otherwise the number with the least error bound, from that to
        ``6 / sqrt(step_size mu)``. At most 1000.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: ``1 / L`` with the
        public smoothness bound ``L = smoothness * row_norm^2 + alpha``, or a quarter of
        the flow time of `noisy_gd`'s rule if that is less.
    strong_convexity : float in [1e-250, 1e250] or None, default=None
        mu, from which momentum and division of the noise follow. None: alpha, or
        the inverse of the flow time of `noisy_gd`'s rule if that is larger: directions
        of smaller curvature are lost in the noise anyway.
    division : {"optimal", "even"}, default="optimal"
        Whether late steps get less noise, or all the same.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which the residual of every record is clipped. None: `noisy_gd`'s rule.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. None:
        `noisy_gd`'s rule.
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: spherical if delta is 0, which is what it needs,
        Gaussian otherwise. "spherical" is refused for several steps beside a delta
        above 0, which gains little with it.
    batch_size : int in [1, 2^31] or None, default=None
        Records in each step's secret batch, drawn afresh without replacement. Spherical
        noise only. None, or n_samples and more: all records in every step.
    """

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_steps": partial(check_count, high=10**6),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "strong_convexity": partial(check_real, low=1e-250, high=1e250),
        "division": partial(check_choice, allowed=("even", "optimal")),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "batch_size": partial(check_count, high=2**31),
    }
    looks_ahead: ClassVar[bool] = True  # whether gradients are taken at the look-ahead
    # Times 1 / sqrt(step_size * mu) steps in which momentum covers a flow time 1 / mu.
    relaxations: ClassVar[float] = 2.0

    n_steps: int | None = None
    step_size: float | None = None
    strong_convexity: float | None = None
    division: Literal["optimal", "even"] = "optimal"
    residual_clip: float | None = None
    intercept_weight: float | None = None
    batch_size: int | None = None

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on gradients, divided over the steps"

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        name = f"solver={self.key!r}"
        resolved = self.resolve(loss, problem, budget)
        if resolved.takes_batches(problem) and resolved.law != "spherical":
            return (
                f"{name} takes a batch_size with law='spherical' only, since no exact "
                "law is known for Gaussian noise and batches of a fixed size. "
                "Use delta=0, or solver='noisy_sgd'."
            )
        assert resolved.n_steps is not None, "resolve() fills in the steps"
        reason = resolved.steps_refusal(budget, resolved.n_steps)
        if reason:
            return reason
        if not resolved._is_possible(loss, problem, budget):
            return f"{name} cannot draw such noise. Use fewer n_steps."
        return ""

    def _is_possible(self, loss: Loss, problem: Problem, budget: Budget) -> bool:
        """Whether the noise of every step can be drawn."""
        law, size = self.noise_law, problem.n_columns * loss.n_outputs
        if not law.is_pure:
            return True
        declare = partial(self.event, loss=loss, problem=problem)
        multiplier = calibrate(declare, budget_of(law, budget))
        levels = self.levels(multiplier, loss, problem)
        return all(law.is_possible(z, size) for z, _ in levels)

    def takes_batches(self, problem: Problem) -> bool:
        """Whether steps see some of the records only."""
        return self.batch_size is not None and self.batch_size < problem.n_samples

    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        law = self.law_for(budget)
        rules = DefaultRules(loss, problem, budget, LAWS[law])
        clip, weight = rules.flow_time.clip_and_weight(
            self.residual_clip, self.intercept_weight
        )
        step_size, convexity = rules.constants(clip, weight)
        found = replace(
            self,
            law=law,
            step_size=self.step_size or step_size,
            strong_convexity=self.strong_convexity or convexity,
            residual_clip=clip,
            intercept_weight=weight,
            batch_size=min(self.batch_size or problem.n_samples, problem.n_samples),
        )
        if found.n_steps is not None:
            return found
        assert found.step_size is not None, "filled in above"
        assert found.strong_convexity is not None, "filled in above"
        n_steps = rules.n_steps(
            found.step_size,
            found.strong_convexity,
            found.sensitivity(loss, problem),
            relaxations=self.relaxations,
            is_even=self.division == "even",
        )
        return replace(found, n_steps=n_steps)

    def schedule(self, loss: Loss, problem: Problem) -> Schedule:
        """The resolved course of the run."""
        step_sizes, stages = self._stages(loss, problem)
        return Schedule(step_sizes, self._momenta(step_sizes), stages)

    def _stages(self, loss: Loss, problem: Problem) -> tuple[FloatArray, IntArray]:
        """Step sizes and stages, of which there is one here."""
        assert self.n_steps is not None, "resolve() fills in the steps"
        assert self.step_size is not None, "resolve() fills in the step size"
        ones = np.ones(self.n_steps, dtype=np.int64)
        return np.full(self.n_steps, self.step_size), ones

    def _momenta(self, step_sizes: FloatArray) -> FloatArray:
        assert self.strong_convexity is not None, "resolve() fills in the convexity"
        return nesterov_momentum(step_sizes, self.strong_convexity)

    def levels(
        self, noise_multiplier: float, loss: Loss, problem: Problem
    ) -> list[tuple[float, int]]:
        """Noise multipliers in the order of the steps, with their numbers of steps."""
        factors = self._factors(loss, problem)
        return [(noise_multiplier * factor, count) for factor, count in factors]

    @lru_cache(maxsize=64)  # noqa: B019 - of frozen values; calibration asks often
    def _factors(self, loss: Loss, problem: Problem) -> list[tuple[float, int]]:
        """`levels` per unit of the noise multiplier."""
        schedule = self.schedule(loss, problem)
        assert self.strong_convexity is not None, "resolve() fills in the convexity"
        weights = np.ones(len(schedule.stages))
        if self.division == "optimal":
            _, weights = bound_weights(
                schedule.step_sizes,
                schedule.stages,
                smoothness=smoothness_bound(loss, problem),
                strong_convexity=self.strong_convexity,
            )
        return noise_levels(weights, is_pure=self.noise_law.is_pure)

    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        levels = self.levels(noise_multiplier, loss, problem)
        if not self.noise_law.is_pure:
            parts: list[Event] = [GaussianEvent(z, count) for z, count in levels]
        elif self.takes_batches(problem):
            assert self.batch_size is not None, "it takes batches"
            rate = self.batch_size / problem.n_samples
            parts = [
                PureEvent(batch_epsilon(1 / z, rate), count) for z, count in levels
            ]
        else:
            parts = [PureEvent(1 / z, count) for z, count in levels]
        return parts[0] if len(parts) == 1 else ComposedEvent(tuple(parts))

    def _query_problem(self, problem: Problem) -> Problem:
        """The problem under whose adjacency a query's sensitivity is taken.

        In a batch another real record takes the place of the one that is missing, so
        it is that of an exchange, whatever the adjacency of the data sets is.
        """
        if self.takes_batches(problem):
            return replace(problem, adjacency="replace_one")
        return problem

    def sensitivity(self, loss: Loss, problem: Problem) -> float:
        assert self.residual_clip is not None, "resolve() fills in the clip"
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        return query_sensitivity(
            loss,
            self._query_problem(problem),
            self.residual_clip,
            intercept_weight=self.intercept_weight,
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
        assert self.residual_clip is not None, "resolve() fills in the clip"
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        assert self.batch_size is not None, "resolve() fills in the batch size"
        gradient = NoisyGradient(
            source,
            loss,
            self._query_problem(problem),
            noise,
            self.noise_law,
            residual_clip=self.residual_clip,
            intercept_weight=self.intercept_weight,
        )
        weights = np.zeros((problem.n_columns, loss.n_outputs))
        velocity, farthest = np.zeros_like(weights), farthest_weight(problem)
        levels = self.levels(noise_multiplier, loss, problem)
        multipliers = chain.from_iterable(repeat(z, count) for z, count in levels)
        steps, stage = self.schedule(loss, problem), 1
        for t, multiplier in enumerate(multipliers):
            if steps.stages[t] > stage:
                stage, velocity = steps.stages[t], np.zeros_like(weights)
            ahead = boxed(weights + steps.momenta[t] * velocity, farthest)
            asked = ahead if self.looks_ahead else weights
            rows = None
            if self.takes_batches(problem):
                rows = noise.subset(problem.n_samples, self.batch_size)
            released = gradient(asked, multiplier, rows)
            mean = released / self.batch_size + problem.alpha * asked
            moved = boxed(ahead - steps.step_sizes[t] * mean, farthest)
            velocity, weights = moved - weights, moved
            progress.step(t + 1, len(steps.stages))
        return Solution(weights, gradient.noise_scale)
