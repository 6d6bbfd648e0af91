"""Steps along released gradients, for linear models and networks.

All of it is post-processing: each query asks for a sum of gradients at the current
weights, and a step takes the query's answer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from skdp._arrays import FloatArray
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Line, Plan, Poisson
from skdp.privacy.release._query import Query
from skdp.solvers._base import Progress, Solution, projected_onto_box

# Least divisor for a root of Adam's second moments, the value of other libraries.
_LEAST_ROOT = 1e-8


class GradientQuery(Query, Protocol):
    """A query whose answer represents a sum of gradients."""

    def read(self, released: FloatArray) -> FloatArray:
        """The sum, in the shape of the weights."""
        ...


class GradientFamily(Protocol):
    """Sums of gradients of one objective."""

    def at(self, weights: FloatArray) -> Any:
        """The `GradientQuery` at released weights."""
        ...


def sampled(n_steps: int, batch_size: int, n_samples: int) -> Plan:
    """Plan of `n_steps` Gaussian answers, each for a Poisson sample or all records.

    Parameters
    ----------
    batch_size : int
        Expected number of records in a sample; `n_samples` means all of them.
    """
    if batch_size >= n_samples:
        return Plan((Line(n_steps),))
    return Plan((Line(n_steps, sample=Poisson(batch_size / n_samples)),))


@dataclass(frozen=True, kw_only=True)
class StepSchedule:
    """Sizes of the steps, and the averaged tail.

    Parameters
    ----------
    n_steps : int
    step_size : float in (0, inf)
        Size of the first step.
    last_step : float in (0, 1], default=1.0
        Ratio of the last step's size to the first; sizes between them change evenly.
    tail : float in (0, 1]
        Share of the last iterates that is averaged.
    alpha : float in [0, inf)
        L2 regularisation of the mean loss.
    farthest : float in (0, inf)
        Half side of the box in which weights are kept.
    keeps_path : bool, default=False
        Whether the weights after each step are kept.
    """

    n_steps: int
    step_size: float
    last_step: float = 1.0
    tail: float
    alpha: float
    farthest: float
    keeps_path: bool = False

    @property
    def tail_steps(self) -> int:
        """Number of averaged iterates."""
        return max(1, math.floor(self.tail * self.n_steps))

    def size_of(self, step: int) -> float:
        """Size of a step; the first step is 0."""
        fallen = (1 - self.last_step) * step / max(1, self.n_steps - 1)
        return self.step_size * (1 - fallen)


class Steps(ABC):
    """Weights that descend along released gradients, and the mean of the last ones.

    Parameters
    ----------
    start : ndarray
        Weights to start from; public.
    pace : StepSchedule
    """

    def __init__(self, start: FloatArray, pace: StepSchedule) -> None:
        self._pace, self._taken = pace, 0
        self.weights: FloatArray = start
        self._tail_sum = np.zeros_like(start)
        self.path: tuple[FloatArray, ...] = ()

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self._pace.n_steps

    def step(self, mean: FloatArray) -> None:
        """One step along a released gradient of the mean loss at `weights`."""
        pace = self._pace
        gradient = mean + pace.alpha * self.weights
        moved = self._moved(gradient, pace.size_of(self._taken))
        self.weights = projected_onto_box(self.weights + moved, pace.farthest)
        self._taken += 1
        if pace.keeps_path:
            self.path += (self.weights,)
        if pace.n_steps - self._taken < pace.tail_steps:
            self._tail_sum += self.weights

    @abstractmethod
    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        """Change of the weights along a gradient of the objective."""

    def average(self) -> FloatArray:
        """Mean of the last iterates."""
        return self._tail_sum / self._pace.tail_steps


def restarted(velocity: FloatArray, gradient: FloatArray) -> FloatArray:
    """The velocity, with the intercept's entry set to 0 where it leads uphill.

    Where labels are rare, the loss is nearly flat beside the intercept of the base
    rate, so momentum would carry the intercept far beyond it and leave it there. Both
    arguments are released, so the restart is post-processing.

    Parameters
    ----------
    velocity, gradient : ndarray of shape (n_columns, n_outputs)
        The last row is the intercept's.

    References
    ----------
    .. [1] O'Donoghue and Candes (2015). Adaptive restart for accelerated gradient
       schemes. Foundations of Computational Mathematics 15.
       https://arxiv.org/abs/1204.3982 (the gradient scheme)
    """
    kept = velocity.copy()
    kept[-1] = np.where(gradient[-1] * velocity[-1] > 0, 0.0, velocity[-1])
    return kept


class MomentumSteps(Steps):
    """Heavy-ball steps.

    Parameters
    ----------
    start : ndarray
    pace : StepSchedule
    momentum : float in [0, 1)
    restarts_intercept : bool, default=False
        Whether the last row of the weights is an intercept, whose velocity is reset
        where it leads uphill (`restarted`).
    """

    def __init__(
        self,
        start: FloatArray,
        pace: StepSchedule,
        momentum: float,
        *,
        restarts_intercept: bool = False,
    ) -> None:
        super().__init__(start, pace)
        self._momentum, self._velocity = momentum, np.zeros_like(start)
        self._restarts_intercept = restarts_intercept

    def go_on(self, step_size: float, momentum: float) -> None:
        """Set the size and the momentum of the remaining steps."""
        self._pace = replace(self._pace, step_size=step_size)
        self._momentum = momentum

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        velocity = self._velocity
        if self._restarts_intercept:
            velocity = restarted(velocity, gradient)
        velocity = self._momentum * velocity - step_size * gradient
        self._velocity = projected_onto_box(velocity, self._pace.farthest)
        return velocity


class AdamSteps(Steps):
    """Adam's steps: first moments divided by the roots of second moments.

    Parameters
    ----------
    start : ndarray
    pace : StepSchedule
    betas : pair of floats in [0, 1)
        Decay of the first and the second moment.
    """

    def __init__(
        self, start: FloatArray, pace: StepSchedule, betas: tuple[float, float]
    ) -> None:
        super().__init__(start, pace)
        self._betas = betas
        self._mean, self._square = np.zeros_like(start), np.zeros_like(start)

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        first, second = self._betas
        self._mean = first * self._mean + (1 - first) * gradient
        self._square = second * self._square + (1 - second) * gradient**2
        taken = self._taken + 1
        mean = self._mean / (1 - first**taken)
        root = np.sqrt(self._square / (1 - second**taken))
        return np.asarray(-step_size * mean / (root + _LEAST_ROOT))


def descend(
    answers: Answers,
    sums: GradientFamily,
    walk: Steps,
    divisor: int,
    progress: Progress,
) -> Solution:
    """Ask for a sum of gradients, take a step along it, and repeat.

    Parameters
    ----------
    answers : Answers
        Plan with one answer for each step.
    sums : GradientFamily
    walk : Steps
    divisor : int
        Divisor of the sums: a public number of records, never the size of a sample.
    progress : Progress

    Returns
    -------
    Solution
        The mean of the last iterates.
    """
    n_steps = walk.n_steps
    for t in range(n_steps):
        query: GradientQuery = sums.at(walk.weights)
        walk.step(query.read(answers.ask(query).value) / divisor)
        progress.step(t + 1, n_steps)
    return Solution(walk.average(), answers.noise_scale, path=walk.path)
