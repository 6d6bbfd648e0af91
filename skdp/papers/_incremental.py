"""What HAMSI and mini-batch gradient descent share: cycles through subsets."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._validation import check_bool, check_choice, check_count, check_real
from skdp.decomposition._factorizer import Draws, Factorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.papers._gradient import Objective
from skdp.papers._inverse_hessian import InverseHessian, inner, quiet
from skdp.papers._partition import (
    PARTITIONS,
    Partition,
    merged,
    most_subsets,
    partition,
)
from skdp.papers._random_start import (
    check_start_scale,
    finite_start,
    random_start,
)
from skdp.papers._schedule import SCHEDULES

check_positive_rate = partial(check_real, low=0.0, high=1e6, low_open=True)


def check_first_step(name: str, value: Any) -> float | None:
    """A positive rate; None is a step in proportion to the start."""
    return None if value is None else check_positive_rate(name, value)


# A cycle that ends above the best one so far by this share is undone. Values of a
# cycle are not taken at one point, which matters less and less.
_TOLERANCE, _TOLERANT_CYCLES = 0.02, 20
# Of the steps, after a cycle is undone and after one is not.
_DAMPING, _RECOVERY = 4.0, 1.25
_FORGIVEN = 2  # cycles undone in a row, before curvature and best value are forgotten
# Steps shortened so much, since they were longest, are too short for so many subsets.
_MOST_DAMPING = 64.0
_FIRST_STEP = 1e-2  # of the start's norm


@dataclass(frozen=True, kw_only=True)
class Incremental(Factorizer):
    """Steps on one subset after another; parameters as in `HAMSI`."""

    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "partition": partial(check_choice, allowed=PARTITIONS),
        "schedule": partial(check_choice, allowed=SCHEDULES),
        "n_subsets": partial(check_count, high=10**6),
        "eta": check_positive_rate,
        "gamma": partial(check_real, low=0.0, high=1.0),
        "least_divisor": partial(check_real, low=0.0, high=1e6),
        "first_step": check_first_step,
        "safeguarded": check_bool,
        "start_scale": check_start_scale,
    }

    n_steps: int = 100
    partition: str = "strata_balanced"
    schedule: str = "deterministic"
    n_subsets: int
    eta: float = 0.06
    gamma: float = 0.51
    least_divisor: float = 1.0
    first_step: float | None = None
    safeguarded: bool = True
    start_scale: float | None = None

    @classmethod
    def planned(cls, given: Given, task: Task) -> Self:
        return cls(**{**given, "n_subsets": cls._subsets(given, task)})

    @classmethod
    def _subsets(cls, given: Given, task: Task) -> int:
        """By the rule, or as given and possible."""
        n_subsets: int = given.get("n_subsets", 2)
        if task.pattern is None:
            return n_subsets
        kind = given.get("partition", cls.partition)
        most = max(1, most_subsets(kind, task.pattern))
        if "n_subsets" not in given:
            return min(n_subsets, most)
        remedy = f"There is no more to divide with partition={kind!r}."
        return check_count("n_subsets", n_subsets, high=most, remedy=remedy)

    # Whether pairs of steps and changes of the gradient are collected.
    has_curvature: ClassVar[bool]
    # How far shortened steps grow again, as a divisor.
    least_damping: ClassVar[float]

    @abstractmethod
    def inverse_hessian(self, size: int, dtype: np.dtype) -> InverseHessian:
        """What gradients are multiplied by, at the start."""

    def order(self, cycle: int, n_subsets: int, rng: Draws) -> list[int]:
        """Subsets of a cycle, the first one again at the end."""
        return SCHEDULES[self.schedule](cycle, n_subsets, rng)

    def divisor(self, cycle: int) -> float:
        """What the steps of a cycle are divided by."""
        return float(max(self.least_divisor, (self.eta * (cycle + 1)) ** self.gamma))

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each cycle."""
        run = Run(self, ratings, task, rng, threads)
        yield run.factors
        for cycle in range(self.n_steps):
            run.advance(cycle)
            yield run.factors


class Run:
    """Cycles through the subsets of a partition.

    The last step of a cycle is taken when the next one begins: `factors` are thus
    those of the last gradient, of which it is known that the objective has not grown.
    """

    def __init__(
        self,
        method: Incremental,
        ratings: Ratings,
        task: Task,
        rng: Draws,
        threads: Threads,
    ) -> None:
        self._method, self._rng, self._threads = method, rng, threads
        self.factors = random_start(ratings, task, rng, method.start_scale)
        most = most_subsets(method.partition, ratings.pattern)
        n_subsets = max(1, min(method.n_subsets, most))
        self._ratings = ratings
        self._divide(partition(method.partition, ratings.pattern, n_subsets, rng))
        flat = self.factors.flat
        self._inverse = method.inverse_hessian(flat.size, flat.dtype)
        self._is_free = method.first_step is None  # to choose the first steps
        self._gradient = np.empty_like(flat)
        for subset in self._subsets:
            finite_start(subset, self.factors, self._gradient, threads)
        self._best = self._look_at_all()
        self._kept = flat.copy()
        self._first_point, self._first_gradient = flat.copy(), np.empty_like(flat)
        self._step_to_take = 0.0
        self._damping, self._n_in_vain = 1.0, 0
        self._least_damping = math.inf  # until a cycle is not undone
        self.n_undone = 0

    @property
    def n_subsets(self) -> int:
        """Subsets there are left; fewer where many were in each other's way."""
        return len(self._subsets)

    def advance(self, cycle: int) -> None:
        """One cycle, or none if it is undone."""
        flat, method = self.factors.flat, self._method
        self._kept[:] = flat
        self._finish()
        order = method.order(cycle, len(self._subsets), self._rng)
        factor = 1 / (method.divisor(cycle) * self._damping)
        values: list[float] = []
        for place, subset in enumerate(order):
            values.append(self._look(subset))
            if not math.isfinite(values[-1]):
                break
            if place == 0:
                self._first_point[:], self._first_gradient[:] = flat, self._gradient
                self._scale_first_step()
            if place < len(order) - 1:
                self._step(factor)
        # Each subset once, as late as it was seen.
        value = sum(values[-len(self._subsets) :])
        allowed = 1 + _TOLERANCE / (1 + (cycle / _TOLERANT_CYCLES) ** 2)
        grown = method.safeguarded and value > allowed * self._best
        if grown or not math.isfinite(value):
            self._undo()
            return
        self._best = min(self._best, value)
        self._step_to_take, self._n_in_vain = factor, 0
        least = method.least_damping if method.safeguarded else 1.0
        self._damping = max(least, self._damping / _RECOVERY)
        self._least_damping = min(self._least_damping, self._damping)

    def _look(self, subset: int) -> float:
        return self._subsets[subset].value_and_gradient(
            self.factors.flat, self._gradient, self._threads
        )

    def _step(self, factor: float) -> None:
        self._inverse.subtract(self.factors.flat, self._gradient, factor, self._threads)

    def _scale_first_step(self) -> None:
        if not math.isnan(self._inverse.sigma):
            return
        point, gradient = self.factors.flat, self._gradient
        norm = math.sqrt(inner(gradient, gradient))
        size = _FIRST_STEP * math.sqrt(inner(point, point))
        self._inverse.sigma = size / norm if norm > 1e-280 else 0.0

    def _finish(self) -> None:
        """Take the last step, and remember the cycle's pair, which is without it."""
        if not self._step_to_take:
            return
        step, change = self._first_point, self._first_gradient
        if self._method.has_curvature:
            with quiet():
                np.subtract(self.factors.flat, step, out=step)
                np.subtract(self._gradient, change, out=change)
        self._step(self._step_to_take)
        self._step_to_take = 0.0
        if self._method.has_curvature:
            is_known = self._inverse.accept(step, change, self._threads)
            if not (is_known or len(self._inverse)) and self._is_free:
                # No positive curvature, as near the origin: nothing limits the step.
                self._inverse.sigma *= 2

    def _undo(self) -> None:
        self.factors.flat[:] = self._kept
        self._step_to_take = 0.0
        self._damping *= _DAMPING
        self.n_undone += 1
        self._n_in_vain += 1
        is_slow = self._damping > _MOST_DAMPING * self._least_damping
        if is_slow and self.n_subsets > 1:
            self._merge()
        elif self._n_in_vain > _FORGIVEN:
            self._inverse.clear()
        else:
            return
        # The best value was perhaps that of a path, and of no point on it.
        self._best, self._n_in_vain = self._look_at_all(), 0

    def _merge(self) -> None:
        """Go on with half as many subsets: near the optimum they undo each other's."""
        before = self.n_subsets
        self._divide(merged(self._partition))
        self._inverse.clear()
        self._inverse.sigma *= self.n_subsets / before
        self._damping, self._least_damping = 1.0, math.inf

    def _divide(self, parts: Partition) -> None:
        self._partition = parts
        self._subsets = [
            Objective(
                self._ratings, self.factors.task, self.factors.mean, parts.pairs(k)
            )
            for k in range(parts.n_subsets)
        ]

    def _look_at_all(self) -> float:
        return sum(self._look(k) for k in range(len(self._subsets)))
