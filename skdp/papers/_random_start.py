"""Where factorisers start."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._validation import check_real
from skdp.decomposition._factorizer import Draws
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.decomposition.plain._ridge_halves import centred
from skdp.papers._gradient import Objective

# Standard deviation of a start's predictions, in units of the ratings' own.
_SHARE = 0.5


def check_start_scale(name: str, value: Any) -> float | None:
    """A deviation; None is one in proportion to that of the ratings."""
    return None if value is None else check_real(name, value, low=0.0, high=1e6)


def random_start(
    ratings: Ratings,
    task: Task,
    rng: Draws,
    scale: float | None = None,
) -> Factors:
    """Normal factors and no biases.

    `scale` is the standard deviation of the factors. None: half the ratings' own
    deviation is that of the predictions, in whatever unit the ratings are.
    """
    factors, k = centred(ratings, task), task.n_components
    if scale is None:
        spread = 0.0
        if len(ratings):
            spread = float(
                np.sqrt(np.square(ratings.values - factors.mean, dtype=float).mean())
            )
        scale = math.sqrt(_SHARE * spread / math.sqrt(max(k, 1)))
    for rows in (factors.users, factors.items):
        rows[:, :k] = scale * rng.normal(size=(len(rows), k))
    return factors


def finite_start(
    objective: Objective, factors: Factors, gradient: NDArray[Any], threads: Threads
) -> float:
    """Make the factors smaller until their objective is a finite number; return it.

    `gradient` is overwritten.
    """
    k = factors.task.n_components
    while True:
        value = objective.value_and_gradient(factors.flat, gradient, threads)
        if math.isfinite(value) and np.isfinite(gradient).all():
            return value
        factors.users[:, :k] *= 0.1
        factors.items[:, :k] *= 0.1
