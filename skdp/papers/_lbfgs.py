"""Limited-memory BFGS on all ratings at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from skdp._configured import Checks
from skdp._validation import check_count
from skdp.decomposition._factorizer import Draws, Factorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.papers._gradient import Objective
from skdp.papers._inverse_hessian import InverseHessian, inner, quiet
from skdp.papers._random_start import (
    check_start_scale,
    finite_start,
    random_start,
)

_SUFFICIENT = 1e-4  # of the decrease that the slope promises
_MOST_TRIALS = 40
_FIRST_STEP = 1e-2  # of the start's norm


@dataclass(frozen=True, kw_only=True)
class LBFGS(Factorizer):
    r"""Full-batch limited-memory BFGS with a safe line search.

    Every accepted step decreases the objective by at least a fixed share of what the
    slope promises, whatever the start, so the method cannot diverge. One iterate costs
    one pass over the ratings, rarely more.

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=100
        Iterates at most; fewer if no step decreases the objective any more.
    n_corrections : int in [1, 100], default=10
        Pairs of steps and changes of the gradient that are remembered.
    start_scale : float in [0, 1e6] or None, default=None
        Standard deviation of the factors at the start. None: the predictions have
        half the deviation of the ratings.

    References
    ----------
    .. [1] Nocedal and Wright (2006). Numerical optimization, section 7.2.
    """

    key: ClassVar[str] = "lbfgs"
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "n_corrections": partial(check_count, high=100),
        "start_scale": check_start_scale,
    }

    n_steps: int = 100
    n_corrections: int = 10
    start_scale: float | None = None

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each step."""
        factors = random_start(ratings, task, rng, self.start_scale)
        objective = Objective(ratings, task, factors.mean)
        search = _Search(objective, factors, self.n_corrections, threads)
        yield factors
        for _ in range(self.n_steps):
            if not search.advance():
                return
            yield replace(factors, flat=search.point)


class _Search:
    """Where the method is, and one step on from there.

    `point` is not changed by the next step, but by the one after it.
    """

    def __init__(
        self, objective: Objective, factors: Factors, n_pairs: int, threads: Threads
    ) -> None:
        self._objective, self._threads = objective, threads
        self.point = factors.flat
        self._gradient, self._trial, self._slope, self._direction = (
            np.empty_like(self.point) for _ in range(4)
        )
        self._value = finite_start(objective, factors, self._gradient, threads)
        self._inverse = InverseHessian(len(self.point), n_pairs, 1.0, self.point.dtype)
        self._reach = _FIRST_STEP
        self._rounding = float(np.finfo(self.point.dtype).eps)

    def advance(self) -> bool:
        """Take a step that lowers the objective; False if there is nothing to gain."""
        norm = math.sqrt(inner(self._gradient, self._gradient))
        if not 0 < norm < math.inf:
            return False
        if not len(self._inverse):
            size = math.sqrt(inner(self.point, self.point))
            self._inverse.sigma = self._reach * size / norm
        self._direction[:] = 0
        self._inverse.subtract(self._direction, self._gradient, 1.0, self._threads)
        descent = inner(self._gradient, self._direction)
        if -self._rounding * self._value <= descent <= 0:
            return False
        step = self._shortened(descent) if -math.inf < descent < 0 else 0.0
        if not step:
            if not len(self._inverse):
                return False
            self._inverse.clear()  # and go down the gradient
            return self.advance()
        self.point, self._trial = self._trial, self.point
        self._gradient, self._slope = self._slope, self._gradient
        with quiet():
            np.subtract(self.point, self._trial, out=self._direction)
            np.subtract(self._gradient, self._slope, out=self._slope)
        is_known = self._inverse.accept(self._direction, self._slope, self._threads)
        if not is_known and step == 1.0:
            # No positive curvature, as near the origin: nothing limits the step.
            self._reach = min(2 * self._reach, 1.0)
        return True

    def _shortened(self, descent: float) -> float:
        """A step that lowers the objective enough, which is then the trial; or 0."""
        step = 1.0
        for _ in range(_MOST_TRIALS):
            with quiet():
                np.multiply(self._direction, self.point.dtype.type(step), self._trial)
                self._trial += self.point
            found = self._objective.value_and_gradient(
                self._trial, self._slope, self._threads
            )
            if found <= self._value + _SUFFICIENT * step * descent:
                self._value = found
                return step
            step *= _shrinkage(self._value, found, step * descent)
        return 0.0


def _shrinkage(value: float, found: float, promised: float) -> float:
    """Where a parabola through two values and the slope has its minimum."""
    excess = found - value - promised
    if not math.isfinite(excess):
        return 0.1
    return min(max(-promised / (2 * excess), 0.1), 0.5)
