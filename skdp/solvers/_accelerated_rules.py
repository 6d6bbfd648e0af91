"""Defaults of the accelerated methods, from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import NoiseLaw, deviation_once
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._noise_division import best_step_count, error_bounds

# The default takes so many steps at most. One relaxation are 1 / sqrt(step_size * mu)
# steps; six are enough for any run.
_MOST_STEPS, _MOST_RELAXATIONS = 1000, 6.0
# With delta = 0 the flow time is that of so many even steps.
_PURE_STEPS = 20
# The least and the largest constant that a solver takes.
_LEAST, _LARGEST = 1e-250, 1e250


@dataclass(frozen=True)
class DefaultRules:
    """What follows from a loss, a problem, a budget and a law of noise."""

    objective: LinearObjective
    budget: Budget
    law: NoiseLaw

    @property
    def _size(self) -> int:
        """Numbers in a query."""
        return self.objective.n_columns * self.objective.loss.n_outputs

    @property
    def _noise_once(self) -> float:
        """Deviation of the noise, per unit of sensitivity, were there one step only."""
        return deviation_once(self.law, self.budget, self._size)

    @property
    def flow_time(self) -> FlowTime:
        """The rule of noisy_gd for noise of the same size."""
        # Gaussian noise of a whole run does not depend on the number of steps.
        steps = _PURE_STEPS if self.law.is_pure else 1
        mu = 1 / (self._noise_once * math.sqrt(steps))
        return FlowTime(self.objective, mu)

    def constants(self, clip: float, intercept_weight: float) -> tuple[float, float]:
        """Step size and strong convexity, from the flow time that noise admits."""
        rule = self.flow_time
        # No more than noisy_gd would cover.
        flow = min(rule.flow(clip, intercept_weight), rule.longest_flow)
        step_size = min(1 / rule.smoothness, flow / 4)
        convexity = max(self.objective.alpha, 1 / flow)
        return (
            min(max(step_size, _LEAST), _LARGEST),
            min(max(convexity, _LEAST), _LARGEST),
        )

    def n_steps(
        self,
        step_size: float,
        strong_convexity: float,
        sensitivity: float,
        *,
        relaxations: float,
        is_even: bool,
    ) -> int:
        """So many relaxations where noise limits the run, else the least bound's."""
        relaxation = 1 / (math.sqrt(step_size) * math.sqrt(strong_convexity))
        few, many = (
            max(1, min(math.ceil(times * relaxation), _MOST_STEPS))
            for times in (relaxations, _MOST_RELAXATIONS)
        )
        if strong_convexity > self.objective.alpha:
            return few
        noise = self._noise_once * sensitivity
        bounds = error_bounds(
            np.full(many, step_size),
            np.ones(many, dtype=np.int64),
            smoothness=self.objective.smoothness,
            strong_convexity=strong_convexity,
            first_excess=self.objective.loss.value_at_zero,
            variance=self._size * (noise / self.objective.n_samples) ** 2,
            is_pure=self.law.is_pure,
            is_even=is_even,
        )
        return max(few, best_step_count(bounds))
