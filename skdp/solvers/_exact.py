"""The non-private optimum, for ``epsilon=inf``: no noise and no clipping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from skdp.data import ColumnsOf, Source
from skdp.losses import Loss
from skdp.solvers._base import FloatArray, Problem, Progress, Solution
from skdp.solvers._gradient import GradientSum
from skdp.solvers._thresholding import largest_rows

_MOST_ITERATIONS = 10_000
_MOST_SUPPORTS = 50
_INTERCEPT_STEPS = 20


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


def sparse_minimum(
    source: Source, loss: Loss, problem: Problem, progress: Progress
) -> Solution:
    """Minimise over few features by hard thresholding pursuit; not a private release.

    A gradient step chooses the features, the minimum over them is computed, until the
    choice repeats [1]_. The problem is not convex: what is found is a local minimum,
    and the global one if all features may be used.

    References
    ----------
    .. [1] Foucart (2011). Hard thresholding pursuit. SIAM J. Numer. Anal. 49(6).
    """
    d, most = problem.n_features, problem.most_features
    gradient_sum = GradientSum(source, loss, problem)
    weights = np.zeros((problem.n_columns, loss.n_outputs))
    mean_squares = _mean_squares(source)
    step = 1 / (loss.smoothness * mean_squares.max() + problem.alpha + 1e-300)
    steepest = loss.smoothness * problem.intercept_value**2 + problem.alpha
    for _ in range(_INTERCEPT_STEPS if problem.fit_intercept else 0):
        total = gradient_sum(weights)[d:] / problem.n_samples
        weights[d:] -= (total + problem.alpha * weights[d:]) / steepest
    best, best_value, seen = weights, np.inf, set()
    for _ in range(_MOST_SUPPORTS):
        value, total = gradient_sum.with_value(weights)
        value = value / problem.n_samples + problem.alpha / 2 * np.sum(weights**2)
        if value < best_value:
            best, best_value = weights, value
        mean = total[:d] / problem.n_samples + problem.alpha * weights[:d]
        columns = largest_rows(weights[:d] - step * mean, most)
        if columns.tobytes() in seen:
            break
        seen.add(columns.tobytes())
        part = replace(problem, n_features=len(columns), n_nonzero=None)
        found = exact_minimum(ColumnsOf(source, columns), loss, part, progress).weights
        weights = np.zeros_like(weights)
        weights[columns] = found[: len(columns)]
        weights[d:] = found[len(columns) :]
    return Solution(best, 0.0)


def _mean_squares(source: Source) -> FloatArray:
    """Mean square of each column."""
    total = np.zeros(source.n_features)
    for block in source.blocks():
        X = block.X
        squares = X.multiply(X) if issparse(X) else X * X
        total += np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()
    return total / source.n_samples
