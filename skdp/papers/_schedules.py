"""Step sizes and averages of a run, from public facts.

Each schedule maps the numbers 1, 2, ... of the updates, a first step, the
regularisation and an offset to step sizes; each average maps the number of updates to
the shares of the iterates in the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from skdp._floats import FloatArray

Schedule = Callable[[FloatArray, float, float, float], FloatArray]


def _constant(t: FloatArray, step: float, alpha: float, offset: float) -> FloatArray:
    return np.full_like(t, step)


def _sqrt(t: FloatArray, step: float, alpha: float, offset: float) -> FloatArray:
    return np.asarray(step * (1 + offset) / (np.sqrt(t) + offset))


def _decreasing(t: FloatArray, step: float, alpha: float, offset: float) -> FloatArray:
    return step * (1 + offset) / (t + offset)


def _strongly_convex(
    t: FloatArray, step: float, alpha: float, offset: float
) -> FloatArray:
    # Without the cap no step would be a contraction (docs/errata.md).
    return np.minimum(step, 1 / (alpha * t))


def _last(n: int) -> FloatArray:
    shares = np.zeros(n)
    shares[-1] = 1.0
    return shares


def _uniform(n: int) -> FloatArray:
    return np.full(n, 1 / n)


def _last_few(n: int) -> FloatArray:
    """As many as the natural logarithm of their number, rounded up, and at least 1."""
    few = max(1, math.ceil(math.log(n)))
    shares = np.zeros(n)
    shares[-few:] = 1 / few
    return shares


def _linear(n: int) -> FloatArray:
    return 2 * np.arange(1.0, n + 1) / (n * (n + 1.0))


SCHEDULES: dict[str, Schedule] = {
    "constant": _constant,
    "decreasing": _decreasing,
    "sqrt": _sqrt,
    "strongly_convex": _strongly_convex,
}
AVERAGES: dict[str, Callable[[int], FloatArray]] = {
    "last_log": _last_few,
    "linear": _linear,
    "none": _last,
    "uniform": _uniform,
}
