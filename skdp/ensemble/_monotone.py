"""Monotone columns: tables of a model changed so that predictions never fall, or rise.

Post-processing of released tables. A curve is replaced by the monotone one that is
nearest in least squares. What a table of a pair adds may go against the curve of a
column by no more than the curve rises: where it does, the steps of all tables of that
column are made smaller by one factor, code by code. So the sum is monotone whatever
the other columns hold. Missing values have no place in the order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.isotonic import isotonic_regression

from skdp._floats import FloatArray
from skdp.ensemble._shapes import Key, Tables

# Rounds in which the steps of both columns of a table are made smaller in turn.
_ROUNDS = 20
# Steps are kept this far from falling, relative to the largest: sums are rounded.
_APART = 1e-12


def monotone(
    tables: Tables, directions: dict[int, int], n_values: tuple[int, ...]
) -> Tables:
    """Tables whose sum never falls (1) or never rises (-1) with a column's code.

    Parameters
    ----------
    tables : dict from key to ndarray of shape (n_bins, ..., 1)
        Curves of mean 0, and tables of mean 0 along their columns.
    directions : dict from int to {-1, 1}
        Of ordered columns.
    n_values : tuple of int
        Codes of each column that have an order: those of present values.

    Returns
    -------
    dict from key to ndarray
        The other tables as they are.
    """
    found = {key: table.copy() for key, table in tables.items()}
    for j, direction in directions.items():
        ordered = found[(j,)][: n_values[j], 0]
        ordered[:] = isotonic_regression(ordered, increasing=direction > 0)
    for _ in range(_ROUNDS):
        shrunk = [_shrink(found, j, n_values[j], directions[j]) for j in directions]
        if not any(shrunk):
            return found
    # Without tables of two such columns one round is enough.
    for key in _pairs_of(found, directions):
        if all(j in directions for j in key):
            found[key][:] = 0.0
    for j, direction in directions.items():
        _shrink(found, j, n_values[j], direction)
    return found


def _shrink(tables: Tables, j: int, n: int, direction: int) -> bool:
    """Make the steps of a column's tables small enough; whether that took anything."""
    keys = _pairs_of(tables, [j])
    if n < 2 or not keys:
        return False
    rises = direction * np.diff(tables[(j,)][:n, 0])
    steps = {key: np.diff(_along(tables, key, j)[:n], axis=0) for key in keys}
    falls = sum(-np.minimum((direction * s).min(axis=1), 0) for s in steps.values())
    largest = max(float(np.abs(step).max()) for step in [rises, *steps.values()])
    apart = _APART * largest
    too_much = falls > np.maximum(rises - apart, 0)
    if not too_much.any():
        return False
    factor = np.ones(n - 1)
    left = np.maximum(rises[too_much] - 2 * apart, 0)
    factor[too_much] = left / falls[too_much]
    for key, step in steps.items():
        _replace(_along(tables, key, j)[:n], factor[:, None] * step)
    return True


def _replace(table: FloatArray, steps: FloatArray) -> None:
    """Give a table other steps along its first axis; its mean there stays."""
    rest = np.vstack([np.zeros(table.shape[1]), np.cumsum(steps, axis=0)])
    table[:] = rest - rest.mean(axis=0) + table.mean(axis=0)


def _along(tables: Tables, key: Key, j: int) -> FloatArray:
    """A view of a table with the codes of a column along the first axis."""
    table = tables[key][..., 0]
    return table if key[0] == j else table.T


def _pairs_of(tables: Tables, columns: Iterable[int]) -> list[Key]:
    wanted = set(columns)
    return [key for key in tables if len(key) == 2 and wanted & set(key)]
