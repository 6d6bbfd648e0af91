"""Limited-memory BFGS on all ratings at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from skdp._validation import check_count
from skdp.decomposition._compact import InverseHessian, inner, quiet
from skdp.decomposition._factorizer import Draws, Factorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._gradient import Objective
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._sides import penalty
from skdp.decomposition._start import (
    COMPONENTS,
    PENALTY,
    check_start_scale,
    finite_start,
    random_start,
)
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.solvers._configured import Checks

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

    def default_components(self, task: Task) -> int:
        """The rule for ``n_components=None``."""
        return COMPONENTS

    def default_alpha(self, task: Task) -> float:
        """The rule for ``alpha=None``."""
        return penalty(task, PENALTY)

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each step."""
        factors = random_start(ratings, task, rng, self.start_scale)
        objective = Objective(ratings, task, factors.mean)
        flat = factors.flat
        gradient = np.empty_like(flat)
        value = finite_start(objective, factors, gradient, threads)
        yield factors
        trial, slope = np.empty_like(flat), np.empty_like(flat)
        inverse = InverseHessian(flat.size, self.n_corrections, 1.0, flat.dtype)
        reach, rounding = _FIRST_STEP, float(np.finfo(flat.dtype).eps)
        for _ in range(self.n_steps):
            norm = math.sqrt(inner(gradient, gradient))
            if not 0 < norm < math.inf:
                return
            if not len(inverse):
                inverse.sigma = reach * math.sqrt(inner(flat, flat)) / norm
            # `slope` has the direction for now.
            slope[:] = 0
            inverse.subtract(slope, gradient, 1.0, threads)
            descent = inner(gradient, slope)
            if not -math.inf < descent < 0:
                if not len(inverse):
                    return
                inverse.clear()
                continue
            if -descent <= rounding * value:
                return
            direction, slope = slope, np.empty_like(flat)
            step = 1.0
            for _ in range(_MOST_TRIALS):
                with quiet():
                    np.multiply(direction, flat.dtype.type(step), out=trial)
                    trial += flat
                found = objective.value_and_gradient(trial, slope, threads)
                if found <= value + _SUFFICIENT * step * descent:
                    break
                step *= _shrinkage(value, found, step * descent)
            else:
                if not len(inverse):
                    return
                inverse.clear()
                continue
            flat, trial = trial, flat
            gradient, slope = slope, gradient
            value = found
            with quiet():
                is_known = inverse.accept(flat - trial, gradient - slope, threads)
            if not is_known and step == 1.0:
                # No positive curvature, as near the origin: nothing limits the step.
                reach = min(2 * reach, 1.0)
            yield Factors(flat, factors.mean, task)


def _shrinkage(value: float, found: float, promised: float) -> float:
    """Where a parabola through two values and the slope has its minimum."""
    excess = found - value - promised
    if not math.isfinite(excess):
        return 0.1
    return min(max(-promised / (2 * excess), 0.1), 0.5)
