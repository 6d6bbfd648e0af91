"""The flow time at which noise stops a descent: the rules behind the defaults.

In directions where the data have little curvature the noise of a whole run adds up in
proportion to the flow time ``step_size * n_steps / (1 - momentum)`` and nothing else.
So the defaults fix the flow time by the noise it admits, and take the fewest steps in
which momentum covers it (docs/solvers/noisy_gd.md). Public facts only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from skdp.losses._weighted import typical_weight
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._gaussian import gaussian_mu
from skdp.queries._gradient_sum import sensitivity_for_rules

# Standard deviation of the noise in the raw prediction of a unit row at which the
# default stops, in the loss's units of raw predictions, chosen once on public data sets
# (docs/solvers/noisy_gd.md) and flat around its optimum.
MARGIN_NOISE = 2.0
# Relaxation times, of momentum or of a regularised optimum, that a run is given.
RELAXATIONS = 10


@dataclass(frozen=True)
class FlowTime:
    """Default flow time, steps, clip and intercept weight of a noisy descent.

    `mu` is the sensitivity over the standard deviation of the noise per weight of one
    release of all records' gradients.
    """

    fewest_steps: ClassVar[int] = 10
    most_steps: ClassVar[int] = 300

    objective: LinearObjective
    mu: float

    @classmethod
    def of(cls, objective: LinearObjective, budget: Budget) -> FlowTime:
        """For Gaussian noise that fits a budget of delta > 0."""
        return cls(objective, gaussian_mu(budget.epsilon, budget.delta))

    @property
    def smoothness(self) -> float:
        """Public bound on the curvature of the objective."""
        return self.objective.smoothness

    @property
    def longest_flow(self) -> float:
        """Flow time that momentum covers in the most steps."""
        return self.most_steps**2 / (RELAXATIONS * self.smoothness)

    def flow(self, residual_clip: float, intercept_weight: float = 1.0) -> float:
        """Flow time at which a unit row's prediction has the admitted noise."""
        objective = self.objective
        sensitivity = sensitivity_for_rules(
            self.objective, residual_clip, intercept_weight=intercept_weight
        )
        tolerated = MARGIN_NOISE * objective.loss.raw_unit
        flow = self._admitted(
            tolerated
            * objective.n_samples
            * self.mu
            / (objective.data_norm * sensitivity)
        )
        if objective.alpha > 0:  # the optimum is reached by then
            flow = min(flow, RELAXATIONS / objective.alpha)
        return flow

    def _admitted(self, flow: float) -> float:
        """Flow time admitted if every step reads all records: what it is."""
        return flow

    def wanted_steps(self, flow: float) -> float:
        """Steps in which momentum covers a flow time, before the limits."""
        return math.sqrt(RELAXATIONS * flow * self.smoothness)

    def steps(self, flow: float) -> int:
        """Steps for a flow time within the limits of the default."""
        wanted = min(self.wanted_steps(flow), self.most_steps)
        return max(math.ceil(wanted), self.fewest_steps)

    def momentum(self, n_steps: int) -> float:
        """Heavy-ball momentum that relaxes some ten times within the run."""
        return max(0.0, 1 - RELAXATIONS / n_steps)

    def step_size(self, flow: float, n_steps: int, momentum: float) -> float:
        """The flow time in equal steps, none of them unstable."""
        return min(flow * (1 - momentum) / n_steps, 1 / self.smoothness)

    def intercept_weight(self, residual_clip: float | None) -> float:
        """Weight that minimises the noise of the intercept and the others together."""
        even = self.flow(math.inf if residual_clip is None else residual_clip)
        loss = self.objective.loss
        bend = loss.smoothness * typical_weight(loss) * self.objective.data_norm**2 / 2
        return float((1 + bend * even) ** -0.25)

    def residual_clip(self, intercept_weight: float) -> float:
        """The loss's `noisy_clip` while noise, not the steps, limits the run."""
        wanted = self.wanted_steps(self.flow(math.inf, intercept_weight))
        clip = self.objective.loss.noisy_clip if wanted < self.most_steps else math.inf
        if math.isfinite(clip):
            # The least clipping at which noise still admits the most steps.
            bound = self.objective.loss.zero_out_bound(math.inf)
            clip = max(clip, bound * (wanted / self.most_steps) ** 2)
        return clip

    def clip_and_weight(
        self, residual_clip: float | None, intercept_weight: float | None
    ) -> tuple[float, float]:
        """Residual clip and intercept weight, by their rules if None."""
        if intercept_weight is None:
            intercept_weight = self.intercept_weight(residual_clip)
        if residual_clip is None:
            residual_clip = self.residual_clip(intercept_weight)
        return residual_clip, intercept_weight


class OnePassFlowTime(FlowTime):
    """Default flow time of a descent in which every step reads records of its own.

    T steps over n / T records each have sqrt(T) times the noise of T steps over all n,
    so that every step more costs noise.
    """

    fewest_steps: ClassVar[int] = 1

    def _admitted(self, flow: float) -> float:
        # s sqrt(T(s)) is admitted instead of s, with T(s) of `wanted_steps`.
        return float(flow**0.8 / (RELAXATIONS * self.smoothness) ** 0.2)


class PlainFlowTime(FlowTime):
    """Default flow time of a descent without momentum."""

    most_steps: ClassVar[int] = 1000

    def wanted_steps(self, flow: float) -> float:
        """Steps of size 1 / L that cover a flow time."""
        return flow * self.smoothness


def wanted_steps(objective: LinearObjective, budget: Budget) -> float:
    """Steps that noisy_gd would take without residual clipping or limits.

    The fewer, the more noise limits the fit. Of weighted labels those for the curvature
    that is expected.
    """
    rule = FlowTime.of(objective, budget)
    steps = rule.wanted_steps(rule.flow(math.inf, rule.intercept_weight(None)))
    return steps * math.sqrt(typical_weight(objective.loss))
