"""Noisy descent: steps along released gradients, for linear models and networks.

A descent is steps x samples x a schedule x a noise law. Each query asks for a sum of
gradients at the current weights, and a step goes along the query's answer: steps are
post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.losses._objective import LinearObjective, NetworkObjective
from skdp.privacy.noise._laws import NoiseLaw
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import (
    EVERYONE,
    GAUSSIAN,
    Bound,
    Line,
    Plan,
    Poisson,
    Sample,
)
from skdp.solvers._base import Solution, projected_onto_box
from skdp.sums._exact import on_grid

# ------------------------------------------------------------------------------- Steps


@dataclass(eq=False)
class Steps:
    """Weights that descend along released gradients, and the mean of the last ones.

    These are plain gradient steps; other kinds override `_moved`.

    Parameters
    ----------
    weights : ndarray
        Weights to start from; public.
    sizes : ndarray of float64 of shape (n_steps,) or (n_steps, n_columns, 1)
    alpha : float in [0, inf)
        L2 regularisation of the mean loss.
    farthest : float in (0, inf)
        Half side of the box in which weights are kept.
    tail : float in (0, 1], default=1e-9
        Share of the last iterates that is averaged; the very last one if the share is
        smaller than one step.
    keeps_path : bool, default=False
        Whether the weights after each step are kept, in `path`.
    """

    weights: FloatArray
    sizes: FloatArray
    alpha: float
    farthest: float
    tail: float = 1e-9
    keeps_path: bool = False

    def __post_init__(self) -> None:
        self._taken, self._tail_sum = 0, np.zeros_like(self.weights)
        self.path: tuple[FloatArray, ...] = ()

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.sizes)

    @property
    def at(self) -> FloatArray:
        """The point whose gradient the next step takes."""
        return self.weights

    def step(self, mean: FloatArray) -> None:
        """One step along a released gradient of the mean loss at the point `at`."""
        gradient = mean + self.alpha * self.at
        moved = self._moved(gradient, self.sizes[self._taken])
        self.weights = projected_onto_box(moved, self.farthest)
        self._taken += 1
        if self.keeps_path:
            self.path += (self.weights,)
        if self.n_steps - self._taken < self._tail_steps:
            self._tail_sum += self.weights

    @property
    def _tail_steps(self) -> int:
        """Number of averaged iterates."""
        return max(1, math.floor(self.tail * self.n_steps))

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        """The weights after a step along a gradient of the objective."""
        return self.weights - step_size * gradient

    def average(self) -> FloatArray:
        """Mean of the last iterates."""
        return self._tail_sum / self._tail_steps


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


@dataclass(eq=False, kw_only=True)
class MomentumSteps(Steps):
    """Heavy-ball steps.

    Parameters
    ----------
    momentum : float in [0, 1)
    restarts_intercept : bool, default=False
        Whether the last row of the weights is an intercept, whose velocity is reset
        where it leads uphill (`restarted`).
    """

    momentum: float
    restarts_intercept: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._velocity = np.zeros_like(self.weights)

    def go_on(self, step_size: float, momentum: float) -> None:
        """Set the size and the momentum of the remaining steps."""
        self.sizes, self.momentum = np.full(self.n_steps, step_size), momentum

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        velocity = self._velocity
        if self.restarts_intercept:
            velocity = restarted(velocity, gradient)
        velocity = self.momentum * velocity - step_size * gradient
        self._velocity = projected_onto_box(velocity, self.farthest)
        return self.weights + velocity


@dataclass(eq=False, kw_only=True)
class LookAheadSteps(Steps):
    """Steps from the look-ahead, the point to which momentum leads.

    Parameters
    ----------
    momenta : ndarray of float64 of shape (n_steps,)
        Of each step; 0 where the velocity is forgotten.
    gradient_ahead : bool, default=True
        Whether gradients are taken at the look-ahead, as Nesterov's method does, and
        not at the weights, as the heavy ball does.
    restarts_intercept : bool, default=False
        As for `MomentumSteps`.
    """

    momenta: FloatArray
    gradient_ahead: bool = True
    restarts_intercept: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ahead, self._at = self.weights, on_grid(self.weights)

    @property
    def at(self) -> FloatArray:
        return self._at

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        moved = self._ahead - step_size * gradient
        moved = projected_onto_box(moved, self.farthest)
        velocity = moved - self.weights
        if self.restarts_intercept:
            velocity = restarted(velocity, gradient)
        if self._taken + 1 < self.n_steps:
            ahead = moved + self.momenta[self._taken + 1] * velocity
            self._ahead = projected_onto_box(ahead, self.farthest)
        # The penalty's gradient is taken at the weights of the query, on its grid.
        self._at = on_grid(self._ahead if self.gradient_ahead else moved)
        return moved


# Least divisor for a root of Adam's second moments, the value of other libraries.
_LEAST_ROOT = 1e-8


@dataclass(eq=False, kw_only=True)
class AdamSteps(Steps):
    """Adam's steps: first moments divided by the roots of second moments.

    `betas` are the decay of the first and of the second moment, in [0, 1).
    """

    betas: tuple[float, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._mean = self._square = np.zeros_like(self.weights)

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        first, second = self.betas
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
        """The query at released weights; its method `read` returns the sum."""
        ...


ProblemT = TypeVar("ProblemT", bound=LinearObjective | NetworkObjective)


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

        The sum is over a sample: its bound is that of the adjacency that covers both.
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
                query = sums.at(steps.at)
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

    mechanism: ClassVar[str] = (
        "Gaussian noise on Poisson samples, or on all records if batch_size = n"
    )

    batch_size: int

    def sample(self, problem: ProblemT) -> Sample:
        n = problem.n_samples
        return EVERYONE if self.batch_size >= n else Poisson(self.batch_size / n)

    def sample_size(self, problem: ProblemT) -> int:
        return self.batch_size

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return False
