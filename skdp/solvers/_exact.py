"""The non-private optimum, for ``epsilon=inf``: no noise and no clipping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import diags_array, issparse

from skdp._floats import FloatArray
from skdp.data._source import Source
from skdp.data._views import ColumnsOf
from skdp.objectives._linear import LinearObjective
from skdp.queries._gradient_sum import GradientSum
from skdp.solvers._base import Solution
from skdp.solvers._convex_start import convex_start
from skdp.solvers._least_squares import is_plain_least_squares, least_squares
from skdp.solvers._progress import Progress
from skdp.solvers._thresholding import largest_rows

_MOST_ITERATIONS = 10_000
_MOST_SUPPORTS = 50
_INTERCEPT_STEPS = 20


def exact_minimum(
    source: Source, objective: LinearObjective, progress: Progress
) -> Solution:
    """Minimise the regularised mean loss; not a private release.

    Plain least squares directly, all else by L-BFGS, from the minimum of a convex loss
    if this one is not: then a local minimum.
    """
    if is_plain_least_squares(objective):
        found = least_squares(source, objective)
        if found is not None and np.isfinite(found).all():
            return Solution(found, 0.0)
    return _by_gradients(source, objective, progress)


def _by_gradients(
    source: Source, objective: LinearObjective, progress: Progress
) -> Solution:
    gradient_sum = GradientSum(source, objective)
    shape = (objective.n_columns, objective.loss.n_outputs)
    n, alpha = objective.n_samples, objective.alpha
    done = 0

    def value_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(shape)
        value, gradient = gradient_sum.with_value(weights)
        value = value / n + alpha / 2 * float(flat @ flat)
        return value, (gradient / n + alpha * weights).ravel()

    def report(_: FloatArray) -> None:
        nonlocal done
        done += 1
        progress.step(done, _MOST_ITERATIONS)

    start = np.zeros(shape[0] * shape[1])
    if not objective.loss.is_convex:
        begun = _by_gradients(source, convex_start(objective), progress)
        start = begun.weights.ravel()
    result = minimize(
        value_and_gradient,
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
    source: Source, objective: LinearObjective, progress: Progress
) -> Solution:
    """Minimise over few features by hard thresholding pursuit; not a private release.

    A gradient step chooses the features, the minimum over them is computed, until the
    choice repeats [1]_. The problem is not convex: what is found is a local minimum,
    and the global one if all features may be used.

    References
    ----------
    .. [1] Foucart (2011). Hard thresholding pursuit. SIAM J. Numer. Anal. 49(6).
    """
    d, most = objective.n_features, objective.most_features
    gradient_sum = GradientSum(source, objective)
    weights = np.zeros((objective.n_columns, objective.loss.n_outputs))
    mean_squares = _mean_squares(source)
    step = 1 / (
        objective.loss.smoothness * mean_squares.max() + objective.alpha + 1e-300
    )
    steepest = (
        objective.loss.smoothness * objective.intercept_value**2 + objective.alpha
    )
    for _ in range(_INTERCEPT_STEPS if objective.fit_intercept else 0):
        total = gradient_sum(weights)[d:] / objective.n_samples
        weights[d:] -= (total + objective.alpha * weights[d:]) / steepest
    best, best_value, seen = weights, np.inf, set()
    for _ in range(_MOST_SUPPORTS):
        value, total = gradient_sum.with_value(weights)
        value = value / objective.n_samples + objective.alpha / 2 * np.sum(weights**2)
        if value < best_value:
            best, best_value = weights, value
        mean = total[:d] / objective.n_samples + objective.alpha * weights[:d]
        columns = largest_rows(weights[:d] - step * mean, most)
        if columns.tobytes() in seen:
            break
        seen.add(columns.tobytes())
        part = replace(objective, n_features=len(columns), n_nonzero=None)
        found = exact_minimum(ColumnsOf(source, columns), part, progress).weights
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
        if block.present is not None:
            # Null records count 0, and rows of users with their shares.
            squares = diags_array(block.present.astype(np.float64)) @ squares
        total += np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()
    return total / source.n_samples
