"""The non-private optimum, for ``epsilon=inf``: no noise and no clipping."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from skdp.data import Source
from skdp.losses import Loss
from skdp.solvers._base import FloatArray, Problem, Progress, Solution
from skdp.solvers._gradient import GradientSum

_MOST_ITERATIONS = 10_000


def exact_minimum(
    source: Source, loss: Loss, problem: Problem, progress: Progress
) -> Solution:
    """Minimise the regularised mean loss with L-BFGS; not a private release."""
    gradient_sum = GradientSum(source, loss, problem)
    shape = (problem.n_columns, loss.n_outputs)
    n, alpha = problem.n_samples, problem.alpha
    done = 0

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(shape)
        value, gradient = gradient_sum.with_value(weights)
        value = value / n + alpha / 2 * float(flat @ flat)
        return value, (gradient / n + alpha * weights).ravel()

    def report(_: FloatArray) -> None:
        nonlocal done
        done += 1
        progress.step(done, _MOST_ITERATIONS)

    start = np.zeros(shape[0] * shape[1])
    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=report,
        options={
            "maxiter": _MOST_ITERATIONS,
            "maxfun": 2 * _MOST_ITERATIONS,
            "maxcor": 20,
            "ftol": 1e-15,
            "gtol": 1e-9,
        },
    )
    return Solution(result.x.reshape(shape), 0.0)
