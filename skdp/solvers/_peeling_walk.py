"""Steps of `peeling`: public arithmetic on what was released."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray
from skdp.objectives._linear import LinearObjective
from skdp.solvers._boxed import boxed, farthest_weight

# Most that a step is lengthened by what was released at its end.
_LONGEST = 2.0


class PeelingWalk:
    """Weights that descend along released gradients; post-processing of them."""

    def __init__(self, step_size: float, objective: LinearObjective) -> None:
        self._alpha, self._farthest = objective.alpha, farthest_weight(objective)
        self._steps = np.full((objective.n_columns, 1), step_size)
        if objective.fit_intercept:
            bend = objective.loss.smoothness * objective.data_norm**2 + objective.alpha
            self._steps[-1] = min(step_size, 1 / bend)
        self.weights: FloatArray = np.zeros(objective.shape)
        self._move = np.zeros_like(self.weights)
        self._before = np.zeros_like(self.weights)

    def step(self, mean: FloatArray) -> None:
        """One step along a released gradient of the mean loss at `weights`.

        The last move is first brought to where the derivative along it vanishes, if it
        is linear between the gradients at the move's two ends.
        """
        gradient = mean + self._alpha * self.weights
        start = float(np.sum(self._before * self._move))
        end = float(np.sum(gradient * self._move))
        if start < end:
            length = min(max(start / (start - end), 0.0), _LONGEST)
            self.weights = self.weights + (length - 1) * self._move
            # Of a row that was not asked for before, the change is not known.
            known = self._before != 0
            change = np.where(known, gradient - self._before, 0.0)
            gradient = gradient + (length - 1) * change
        weights = boxed(self.weights - self._steps * gradient, self._farthest)
        self._move = weights - self.weights
        self._before, self.weights = gradient, weights
