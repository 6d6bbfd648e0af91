"""What noisy descents share: their parameters, and steps with momentum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.objectives import LinearObjective
from skdp.queries._gradient_sum import query_sensitivity
from skdp.solvers._base import Solver
from skdp.solvers._configured import Checks
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._noisy_gradient import boxed, farthest_weight


@dataclass(frozen=True, kw_only=True)
class Descent(Solver):
    """Parameters of a noisy descent with momentum and tail averaging.

    Parameters
    ----------
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss.
    momentum : float in [0, 1) or None, default=None
    residual_clip : float in [1e-6, inf] or None, default=None
    intercept_weight : float in [1e-6, 1] or None, default=None
    tail : float in [1e-9, 1] or None, default=None
    """

    checks: ClassVar[Checks] = {
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "momentum": partial(check_real, low=0.0, high=1.0, high_open=True),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "tail": partial(check_real, low=1e-9, high=1.0),
    }

    step_size: float | None = None
    momentum: float | None = None
    residual_clip: float | None = None
    intercept_weight: float | None = None
    tail: float | None = None

    def _query_rules(self, rule: FlowTime) -> tuple[float, float, float]:
        """Flow time, residual clip and intercept weight, by their rules if None."""
        clip, weight = rule.clip_and_weight(self.residual_clip, self.intercept_weight)
        return rule.flow(clip, weight), clip, weight

    def _step_rules(
        self, rule: FlowTime, flow: float, n_steps: int
    ) -> tuple[float, float]:
        """Momentum and step size, by their rules if None."""
        momentum, step_size = self.momentum, self.step_size
        if momentum is None:
            momentum = rule.momentum(n_steps)
        if step_size is None:
            step_size = rule.step_size(flow, n_steps, momentum)
        return momentum, step_size

    @property
    def query(self) -> dict[str, Any]:
        """What the gradient query needs to know of the parameters."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        assert self.intercept_weight is not None, "resolve() fills in the weight"
        return {
            "residual_clip": self.residual_clip,
            "intercept_weight": self.intercept_weight,
        }

    def sensitivity(self, objective: LinearObjective) -> float:
        return query_sensitivity(objective, **self.query)


class MomentumSteps:
    """Weights that descend along released gradients; post-processing of them.

    Parameters
    ----------
    solver : Descent
        Resolved.
    objective : LinearObjective
    n_steps : int
        Steps that will be taken.
    """

    def __init__(
        self, solver: Descent, objective: LinearObjective, n_steps: int
    ) -> None:
        assert solver.step_size is not None, "resolve() fills in the step size"
        assert solver.momentum is not None, "resolve() fills in the momentum"
        assert solver.tail is not None, "resolve() fills in the tail"
        self._step_size, self._momentum = solver.step_size, solver.momentum
        self._alpha, self._farthest = objective.alpha, farthest_weight(objective)
        self._left = n_steps
        self._tail_steps = max(1, math.floor(solver.tail * n_steps))
        self.weights: FloatArray = np.zeros(
            (objective.n_columns, objective.loss.n_outputs)
        )
        self._velocity = np.zeros_like(self.weights)
        self._tail_sum = np.zeros_like(self.weights)

    def step(self, mean: FloatArray) -> None:
        """One step along a released gradient of the mean loss at `weights`."""
        mean = mean + self._alpha * self.weights
        velocity = self._momentum * self._velocity - self._step_size * mean
        self.weights = boxed(self.weights + velocity, self._farthest)
        self._velocity = boxed(velocity, self._farthest)
        self._left -= 1
        if self._left < self._tail_steps:
            self._tail_sum += self.weights

    def average(self) -> FloatArray:
        """Mean of the last iterates."""
        return self._tail_sum / self._tail_steps
