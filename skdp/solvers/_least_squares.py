"""Least squares and ridge without noise, in one pass or by Krylov steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.linalg import LinAlgError, qr, svd
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, lsqr

from skdp._floats import FloatArray
from skdp.data._held import held
from skdp.data._source import Block, Source, has_shares, holds_users
from skdp.losses import SquaredLoss
from skdp.objectives._linear import LinearObjective

# Columns up to which the cube of their number is paid.
_MOST_COLUMNS = 1500
# Rows that are reduced together, in units of the columns that they are reduced to.
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
        None: not found, or there are too many dense columns, or sparse rows of users.
    """
    first = next(iter(source.blocks()))
    if issparse(first.X):
        if holds_users(source):
            return None
        return _by_steps(_present(held(source)), objective)
    if objective.n_columns > _MOST_COLUMNS:
        return None
    try:
        return _by_factors(_reduced(source, objective), objective)
    except (LinAlgError, ValueError):  # of numbers that overflowed
        return None


def _present(block: Block) -> Block:
    """The records that are not the null record."""
    if block.present is None:
        return block
    there = block.present > 0
    return Block(block.X[there], block.y[there], block.present[there])


def _reduced(source: Source, objective: LinearObjective) -> FloatArray:
    """A triangle with the second moments of columns and target, without squares.

    Rows are appended to the triangle and rotated into it, so that the error is that of
    one orthogonal factorisation and memory is that of a few rows per column.
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
    """Tables of columns and target, together of at least so many rows but the last."""
    run: list[FloatArray] = []
    for block in source.blocks():
        run.append(_with_target(_present(block), objective))
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
    if block.present is not None and has_shares(block.present):
        table *= np.sqrt(block.present)[:, None]
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
    """By LSQR, which is conjugate gradients without squared condition numbers."""
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
