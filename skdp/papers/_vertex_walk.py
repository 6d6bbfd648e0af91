"""A moving combination of vertices: public, it follows from which were chosen."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray
from skdp.objectives._linear import LinearObjective


class VertexWalk:
    """Weights of few candidates.

    The objective is of one output. With an intercept there is one more candidate, the
    last: the weight of a column that holds `entry_bound`.
    """

    def __init__(self, objective: LinearObjective) -> None:
        self._objective = objective
        self.of_candidates: dict[int, float] = {}

    def move(self, keep: float, candidate: int, weight: float) -> None:
        """Multiply all weights by `keep` and add `weight` to that of a candidate."""
        for known in self.of_candidates:
            self.of_candidates[known] *= keep
        self.of_candidates[candidate] = self.of_candidates.get(candidate, 0.0) + weight

    def size(self, candidate: int) -> float:
        """The problem's weight for a unit of a candidate's."""
        if candidate < self._objective.n_features:
            return 1.0
        return self._objective.entry_bound / self._objective.intercept_value

    def weights(self) -> FloatArray:
        """In the units of the problem, of shape (n_columns, 1)."""
        weights = np.zeros((self._objective.n_columns, 1))
        for candidate, weight in self.of_candidates.items():
            weights[candidate, 0] = weight * self.size(candidate)
        return weights
