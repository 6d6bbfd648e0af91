"""Fits without noise (``epsilon=inf``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, qr, svd
from scipy.optimize import minimize
from scipy.sparse import diags_array, issparse
from scipy.sparse.linalg import LinearOperator, lsqr

from skdp._arrays import FloatArray
from skdp._fit import PrivateSolver, Progress
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.privacy.release._answers import Answers, ExactAnswers
from skdp.privacy.release._plan import Plan
from skdp.solvers._base import Solution, Solver
from skdp.solvers._descent import convex_start
from skdp.solvers._sparse import largest_rows
from skdp.sums._adder import present_rows, row_weights
from skdp.sums._floating import GradientSum
from skdp.tables._memory import held
from skdp.tables._source import Block, Source
from skdp.tables._views import ColumnsOf

# ------------------------------------------------ Least squares and ridge without noise


# Largest number of columns for which the cube of their number is affordable.
_MOST_COLUMNS = 1500
# Rows that are reduced together, in multiples of the number of columns.
_ROWS_PER_COLUMN = 4
_MOST_STEPS = 10_000


def is_plain_least_squares(objective: LinearObjective) -> bool:
    """Whether the objective is quadratic in the weights: nothing is clipped."""
    loss = objective.loss
    return (
        isinstance(loss, SquaredLoss)
        and math.isinf(min(loss.residual_bound, loss.target_bound))
        and math.isinf(objective.data_norm)
    )


def least_squares(source: Source, objective: LinearObjective) -> FloatArray | None:
    """The minimiser of least norm; not a private release.

    Returns
    -------
    ndarray of float64 of shape (n_columns, 1) or None
        None: not found, or too many dense columns, or sparse rows of users.
    """
    first = next(iter(source.blocks()))
    if issparse(first.X):
        if source.facts.is_of_users:
            return None
        return _by_steps(present_rows(held(source)), objective)
    if objective.n_columns > _MOST_COLUMNS:
        return None
    try:
        return _by_factors(_reduced(source, objective), objective)
    except (LinAlgError, ValueError):  # some numbers overflowed
        return None


def _reduced(source: Source, objective: LinearObjective) -> FloatArray:
    """A triangle with the second moments of columns and target, without squares.

    Rows are appended to the triangle and rotated into it. The error is that of one
    orthogonal factorisation, and memory holds a few rows per column.
    """
    width = objective.n_columns + 1
    triangle: FloatArray = np.empty((0, width))
    for rows in _runs(source, objective, _ROWS_PER_COLUMN * width):
        stacked = np.concatenate([triangle, *rows])
        triangle = qr(stacked, mode="r", overwrite_a=True)[0][:width]
    return triangle


def _runs(
    source: Source, objective: LinearObjective, least: int
) -> Iterator[list[FloatArray]]:
    """Runs of tables of columns and target, of `least` rows or more but the last."""
    run: list[FloatArray] = []
    for block in source.blocks():
        run.append(_with_target(present_rows(block), objective))
        if sum(map(len, run)) >= least:
            yield run
            run = []
    if run:
        yield run


def _with_target(block: Block, objective: LinearObjective) -> FloatArray:
    table = np.empty((len(block.y), objective.n_columns + 1))
    table[:, : objective.n_features] = block.X
    table[:, objective.n_features :] = objective.intercept_value
    table[:, -1] = block.y
    weights = row_weights(block)
    if weights is not None:
        table *= np.sqrt(weights)[:, None]
    return table


def _by_factors(triangle: FloatArray, objective: LinearObjective) -> FloatArray:
    left, lengths, right = svd(triangle[:, :-1], full_matrices=False)
    size = max(objective.n_samples, objective.n_columns)
    counts = lengths > lengths[0] * size * np.finfo(np.float64).eps
    left, lengths, right = left[:, counts], lengths[counts], right[counts]
    ridge = objective.n_samples * objective.alpha / lengths
    along = left.T @ triangle[:, -1:] / (lengths + ridge)[:, None]
    return np.asarray(right.T @ along)


def _by_steps(block: Block, objective: LinearObjective) -> FloatArray:
    """Weights by LSQR, which avoids the squared condition number of the normal form."""
    d, value = objective.n_features, objective.intercept_value
    X, has_intercept = block.X.astype(np.float64, copy=False), objective.fit_intercept

    def products(weights: FloatArray) -> FloatArray:
        raw = X @ weights[:d]
        return np.asarray(raw + value * weights[d] if has_intercept else raw)

    def sums(values: FloatArray) -> FloatArray:
        total = np.asarray(X.T @ values)
        return np.append(total, value * values.sum()) if has_intercept else total

    rows = LinearOperator(
        (X.shape[0], objective.n_columns),
        matvec=products,
        rmatvec=sums,
        dtype=np.float64,
    )
    ridge = math.sqrt(objective.n_samples * objective.alpha)
    found = lsqr(rows, block.y, ridge, 1e-15, 1e-15, 0, _MOST_STEPS)[0]
    return np.asarray(found, dtype=np.float64)[:, None]


# ---------------------------------------------- The non-private optimum for epsilon=inf


_MOST_ITERATIONS = 10_000
_MOST_SUPPORTS = 50
_INTERCEPT_STEPS = 20


def exact_minimum(
    source: Source, objective: LinearObjective, progress: Progress
) -> Solution:
    """Minimise the regularised mean loss; not a private release.

    Plain least squares is solved directly, every other loss by L-BFGS. If the loss is
    not convex, L-BFGS starts at the minimum of a convex loss and finds a local minimum.
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

    A gradient step chooses the features, then the minimum over them is computed, until
    the choice repeats [1]_. The problem is not convex: the result is a local minimum,
    and the global minimum if all features may be used.

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
        there = present_rows(block)
        X, weights = there.X, row_weights(there)
        squares = X.multiply(X) if issparse(X) else X * X
        if weights is not None:
            squares = diags_array(weights) @ squares
        total += np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()
    return total / source.n_samples


# ----------------------------------------------------------------- A fit without noise


@dataclass(frozen=True, kw_only=True)
class ExactFit(PrivateSolver[LinearObjective, Solution]):
    """A fit with an infinite epsilon, which asks without noise.

    Parameters
    ----------
    inner : Solver or None
        None: the optimum itself is computed.
    """

    key: ClassVar[str] = "exact"
    mechanism: ClassVar[str] = ""

    inner: Solver | None

    @property
    def params(self) -> dict[str, Any]:
        return {}

    def plan(self, objective: LinearObjective, /) -> Plan | None:
        return None if self.inner is None else self.inner.plan(objective)

    def sensitivity(self, objective: LinearObjective, /) -> float:
        return math.inf

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress, /
    ) -> Solution:
        if self.inner is not None:
            return self.inner.run(answers, objective, progress)
        assert isinstance(answers, ExactAnswers)  # a plan of None allows no others
        minimum = exact_minimum if objective.n_nonzero is None else sparse_minimum
        return minimum(answers.records, objective, progress)

    def rehearse(self, answers: Answers, objective: LinearObjective, /) -> Solution:
        return Solution(np.zeros(objective.shape), 0.0)
