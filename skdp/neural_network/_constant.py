"""The constant network: biases of the last layer, and all other weights 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.objectives._linear import LinearObjective
from skdp.objectives._network import NetworkObjective
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Plan
from skdp.solvers._base import Solution, Solver
from skdp.solvers._progress import Progress


@dataclass(frozen=True)
class ConstantNetwork:
    """What a network is where noise dominates: the linear models' constant.

    Parameters
    ----------
    inner : Solver
        Of an intercept alone.
    linear : LinearObjective
        What `inner` was planned for.
    """

    inner: Solver
    linear: LinearObjective

    @property
    def key(self) -> str:
        """Key of the solver of the intercept."""
        return self.inner.named

    @property
    def params(self) -> dict[str, Any]:
        return self.inner.params

    @property
    def mechanism(self) -> str:
        return self.inner.mechanism

    def plan(self, objective: NetworkObjective) -> Plan:
        return self.inner.plan(self.linear)

    def sensitivity(self, objective: NetworkObjective) -> float:
        """Of one sum."""
        return self.inner.sensitivity(self.linear)

    def run(
        self,
        answers: Answers,
        objective: NetworkObjective,
        seed: int,
        progress: Progress,
    ) -> Solution:
        """Ask for the intercept. No weight is drawn."""
        found = self.inner.run(answers, self.linear, progress)
        _, intercept = found.unpack(self.linear)
        weights = np.zeros(objective.n_weights)
        weights[-len(intercept) :] = intercept
        return Solution(weights, found.noise_scale)
