"""Noisy descent: steps along released gradients, for linear models and networks.

A descent is steps x samples x a schedule x a noise law. Each query asks for a sum of
gradients at the current weights, and a step goes along the query's answer: steps are
post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_count, check_real
from skdp._configured import Checks, Given
from skdp.privacy.accounting._relations import Relation
from skdp.privacy.noise._laws import NoiseLaw
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import (
    EVERYONE,
    GAUSSIAN,
    Line,
    Plan,
    Poisson,
    Sample,
)
from skdp.privacy.release._query import Bound, Query
from skdp.solvers._base import Progress, Solution, projected_onto_box
from skdp.sums._exact import on_grid

# ------------------------------------------------------------------ Sizes of the steps


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSchedule:
    """Sizes of the steps, and the averaged tail.

    Parameters
    ----------
    sizes : ndarray of float64 of shape (n_steps,)
    tail : float in (0, 1]
        Share of the last iterates that is averaged.
    alpha : float in [0, inf)
        L2 regularisation of the mean loss.
    farthest : float in (0, inf)
        Half side of the box in which weights are kept.
    keeps_path : bool, default=False
        Whether the weights after each step are kept.
    """

    sizes: FloatArray
    tail: float
    alpha: float
    farthest: float
    keeps_path: bool = False

    @property
    def tail_steps(self) -> int:
        """Number of averaged iterates."""
        return max(1, math.floor(self.tail * len(self.sizes)))


def step_sizes(n_steps: int, first: float, last_step: float = 1.0) -> FloatArray:
    """Sizes that change evenly from `first` to `last_step` times `first`."""
    fallen = (1 - last_step) * np.arange(n_steps) / max(1, n_steps - 1)
    return np.asarray(first * (1 - fallen))


# ------------------------------------------------------------------------------- Steps


class Steps:
    """Weights that descend along released gradients, and the mean of the last ones.

    These are plain gradient steps; other kinds override `_moved`.

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
        return len(self._pace.sizes)

    @property
    def at(self) -> FloatArray:
        """The point whose gradient the next step takes."""
        return self.weights

    def step(self, mean: FloatArray) -> None:
        """One step along a released gradient of the mean loss at the point `at`."""
        pace = self._pace
        gradient = mean + pace.alpha * self.at
        moved = self._moved(gradient, pace.sizes[self._taken])
        self.weights = projected_onto_box(moved, pace.farthest)
        self._taken += 1
        if pace.keeps_path:
            self.path += (self.weights,)
        if self.n_steps - self._taken < pace.tail_steps:
            self._tail_sum += self.weights

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        """The weights after a step along a gradient of the objective."""
        return self.weights - step_size * gradient

    def average(self) -> FloatArray:
        """Mean of the last iterates."""
        return self._tail_sum / self._pace.tail_steps


def follow(means: Iterable[FloatArray], steps: Steps, progress: Progress) -> None:
    """Take a step along each released gradient, and report it.

    Each gradient is requested after the step before it was taken.
    """
    for done, mean in enumerate(means, start=1):
        steps.step(mean)
        progress.step(done, steps.n_steps)


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
        self._pace = replace(self._pace, sizes=step_sizes(self.n_steps, step_size))
        self._momentum = momentum

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        velocity = self._velocity
        if self._restarts_intercept:
            velocity = restarted(velocity, gradient)
        velocity = self._momentum * velocity - step_size * gradient
        self._velocity = projected_onto_box(velocity, self._pace.farthest)
        return self.weights + velocity


class LookAheadSteps(Steps):
    """Steps from the look-ahead, the point to which momentum leads.

    Parameters
    ----------
    start : ndarray
    pace : StepSchedule
    momenta : ndarray of float64 of shape (n_steps,)
        Of each step; 0 where the velocity is forgotten.
    gradient_ahead : bool, default=True
        Whether gradients are taken at the look-ahead, as Nesterov's method does, and
        not at the weights, as the heavy ball does.
    restarts_intercept : bool, default=False
        As for `MomentumSteps`.
    """

    def __init__(
        self,
        start: FloatArray,
        pace: StepSchedule,
        momenta: FloatArray,
        *,
        gradient_ahead: bool = True,
        restarts_intercept: bool = False,
    ) -> None:
        super().__init__(start, pace)
        self._momenta, self._ahead = momenta, start
        self._gradient_ahead = gradient_ahead
        self._restarts_intercept = restarts_intercept

    @property
    def at(self) -> FloatArray:
        # The penalty's gradient is taken at the weights of the query, on its grid.
        return on_grid(self._ahead if self._gradient_ahead else self.weights)

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        farthest = self._pace.farthest
        moved = projected_onto_box(self._ahead - step_size * gradient, farthest)
        velocity = moved - self.weights
        if self._restarts_intercept:
            velocity = restarted(velocity, gradient)
        if self._taken + 1 < self.n_steps:
            ahead = moved + self._momenta[self._taken + 1] * velocity
            self._ahead = projected_onto_box(ahead, farthest)
        return moved


# Least divisor for a root of Adam's second moments, the value of other libraries.
_LEAST_ROOT = 1e-8


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
        return self.weights + -step_size * mean / (root + _LEAST_ROOT)


# --------------------------------------------------------------- Descent: plan and run
# A named setting states which parameters users may set, their ranges, and the rule for
# each one that is not given.


# The ranges of parameters that several descents have.
_RANGES: Checks = {
    "n_steps": partial(check_count, high=10**6),
    "batch_size": partial(check_count, high=2**31),
    "step_size": partial(check_real, low=1e-250, high=1e250),
    "momentum": partial(check_real, low=0.0, high=1.0, high_open=True),
    "residual_clip": partial(check_real, low=1e-6, high=math.inf),
    "intercept_weight": partial(check_real, low=1e-6, high=1.0),
    "tail": partial(check_real, low=1e-9, high=1.0),
    "keeps_path": check_bool,
}


def ranges(*names: str) -> Checks:
    """Checks of parameters that several descents have."""
    return {name: _RANGES[name] for name in names}


class GradientFamily(Protocol):
    """Sums of gradients of one objective."""

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        ...

    def at(self, weights: FloatArray) -> Any:
        """The `GradientQuery` at released weights."""
        ...


class GradientQuery(Query, Protocol):
    """A query whose answer represents a sum of gradients."""

    def read(self, released: FloatArray) -> FloatArray:
        """The sum, in the shape of the weights."""
        ...


class Problem(Protocol):
    """Public facts that every objective has."""

    @property
    def n_samples(self) -> int: ...

    @property
    def adjacency(self) -> Relation: ...


ProblemT = TypeVar("ProblemT", bound=Problem, contravariant=True)


class Descent(ABC, Generic[ProblemT]):
    """A noisy descent: steps x samples x a schedule x a noise law.

    Without overriding, the sum of each step is over all records, and all steps get the
    same Gaussian noise. The plan, the sensitivity and the loop follow from the parts.
    """

    is_pure: ClassVar[bool] = False

    n_steps: int

    @abstractmethod
    def gradients(self, problem: ProblemT) -> GradientFamily:
        """The queries for gradient sums."""

    @abstractmethod
    def steps(self, problem: ProblemT, start: FloatArray) -> Steps:
        """The steps, from public weights."""

    def sample(self, problem: ProblemT) -> Sample:
        """The records that enter the sum of a step."""
        return EVERYONE

    def sample_size(self, problem: ProblemT) -> int:
        """Divisor of a sum: a public number of records, never of the records drawn."""
        return problem.n_samples

    def levels(self, problem: ProblemT) -> Sequence[tuple[float, int]]:
        """Noise factor and number of steps of each level, in the order of the steps."""
        return [(1.0, self.n_steps)]

    @property
    def noise_law(self) -> NoiseLaw:
        """Law of the noise on each sum."""
        return GAUSSIAN

    @property
    def mechanism(self) -> str:
        """The mechanism that makes the release private, for the record."""
        return "Gaussian noise, calibrated exactly"

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        """Whether at delta > 0 all that is released has Gaussian noise."""
        return True

    def plan(self, problem: ProblemT) -> Plan:
        """Every query that `run` will ask. Reads no data and draws no noise."""
        law, sample, levels = self.noise_law, self.sample(problem), self.levels(problem)
        return Plan(tuple(Line(k, r, law=law, sample=sample) for r, k in levels))

    def sensitivity(self, problem: ProblemT) -> float:
        """Largest sensitivity of a sum, at any weights.

        The sum is over a sample: its bound is that of the relation that covers both.
        """
        relation = self.sample(problem).covering(problem.adjacency)
        return self.gradients(problem).worst.under(relation)

    def means(
        self, answers: Answers, problem: ProblemT, steps: Steps
    ) -> Iterator[FloatArray]:
        """The released mean gradient of each step, asked when it is requested."""
        sums, size = self.gradients(problem), self.sample_size(problem)
        for line, (_, count) in enumerate(self.levels(problem)):
            for _ in range(count):
                query: GradientQuery = sums.at(steps.at)
                yield query.read(answers.ask(query, line).value) / size

    def descend(
        self,
        answers: Answers,
        problem: ProblemT,
        start: FloatArray,
        progress: Progress,
    ) -> Solution:
        """Ask for a gradient, take a step along it, and repeat.

        Returns
        -------
        Solution
            The mean of the last iterates.
        """
        steps = self.steps(problem, start)
        follow(self.means(answers, problem, steps), steps, progress)
        return Solution(steps.average(), answers.noise_scale, path=steps.path)


class PoissonSamples(Descent[ProblemT]):
    """Steps on fresh secret samples, or on all records if a batch has all of them.

    Every record enters a sample independently, with probability ``batch_size / n``.
    """

    batch_size: int

    def sample(self, problem: ProblemT) -> Sample:
        n = problem.n_samples
        return EVERYONE if self.batch_size >= n else Poisson(self.batch_size / n)

    def sample_size(self, problem: ProblemT) -> int:
        return self.batch_size

    @property
    def mechanism(self) -> str:
        return "Gaussian noise on Poisson samples, or on all records if batch_size = n"

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return False
