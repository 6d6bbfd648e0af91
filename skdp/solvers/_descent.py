"""What noisy descents of linear models share: their parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdp._configured import Checks, Given
from skdp._validation import check_bool, check_real
from skdp.objectives._linear import LinearObjective
from skdp.queries._gradient import Gradients
from skdp.solvers._base import Solver
from skdp.solvers._boxed import farthest_weight
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._steps import MomentumSteps, Pace, Steps


@dataclass(frozen=True, kw_only=True)
class Descent(Solver):
    """Parameters of a noisy descent with momentum and tail averaging.

    Parameters
    ----------
    step_size : float in [1e-250, 1e250]
        In units of weights per gradient of the mean loss.
    momentum : float in [0, 1)
    residual_clip : float in [1e-6, inf]
    intercept_weight : float in [1e-6, 1]
    tail : float in [1e-9, 1]
    keeps_path : bool
        Whether all iterates are kept, as `coef_path_` and `intercept_path_`.
    """

    checks: ClassVar[Checks] = {
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "momentum": partial(check_real, low=0.0, high=1.0, high_open=True),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "tail": partial(check_real, low=1e-9, high=1.0),
        "keeps_path": check_bool,
    }

    step_size: float
    momentum: float
    residual_clip: float
    intercept_weight: float
    tail: float
    keeps_path: bool = False

    @staticmethod
    def rest_by_rule(
        given: Given, rule: FlowTime, n_steps: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Number of steps, and these parameters, by the rules if they are not given."""
        clip, weight = rule.clip_and_weight(
            given.get("residual_clip"), given.get("intercept_weight")
        )
        flow = rule.flow(clip, weight)
        if n_steps is None:
            n_steps = given.get("n_steps", rule.steps(flow))
        momentum = given.get("momentum", rule.momentum(n_steps))
        return n_steps, {
            "step_size": given.get(
                "step_size", rule.step_size(flow, n_steps, momentum)
            ),
            "momentum": momentum,
            "residual_clip": clip,
            "intercept_weight": weight,
            "tail": given.get("tail", 0.5),
            "keeps_path": given.get("keeps_path", False),
        }

    def gradients(self, objective: LinearObjective) -> Gradients:
        """The queries."""
        return Gradients(objective, self.residual_clip, self.intercept_weight)

    def sensitivity(self, objective: LinearObjective) -> float:
        return self.gradients(objective).worst.under(objective.adjacency)

    def pace(self, objective: LinearObjective, n_steps: int) -> Pace:
        """How far steps go."""
        return Pace(
            n_steps=n_steps,
            step_size=self.step_size,
            tail=self.tail,
            alpha=objective.alpha,
            farthest=farthest_weight(objective),
            keeps_path=self.keeps_path,
        )

    def walk(self, objective: LinearObjective, n_steps: int) -> Steps:
        """The steps, from weights of 0."""
        start, pace = np.zeros(objective.shape), self.pace(objective, n_steps)
        return MomentumSteps(
            start, pace, self.momentum, restarts_intercept=objective.fit_intercept
        )
