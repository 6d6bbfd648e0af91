"""Rows as integers of norm at most 2^22, each by itself: clipped by being rounded.

The rule of Lemma 4 in ``docs/proofs/noisy_gd.md``: a number x becomes
``floor(x 2^22 / norm + 1/2)``; a row whose squares then add up to more than 4^22 is
shortened, its entries cut towards 0. Squares are integers that double precision adds
up exactly, or they tell that the row has to be scaled by a power of two first, so the
outcome is that of the row alone, to the last bit, in any layout and on any engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp._rows import with_entries
from skdp.queries._grid import ROW_BITS

LONGEST = 2.0**ROW_BITS
# A little less, for the rounding of a root, a quotient and a product.
SHORTENED = LONGEST * (1 - 2.0**-50)
# Sums of squares of integers are exact below twice this, in any order.
MOST_SQUARES = 2.0**52
_LARGEST_SCALE = np.finfo(np.float64).max


def scale_of(norm: float) -> float:
    """What entries are multiplied by; less for norms below all that can be fitted."""
    return min(LONGEST / norm, _LARGEST_SCALE)


def grid_rows(X: Any, norm: float) -> Any:
    """Rows clipped to `norm`, as integers in units of 2^-22 of it.

    Parameters
    ----------
    X : ndarray or canonical CSR of shape (n_rows, n_features)
    norm : float in (0, inf)

    Returns
    -------
    C-ordered ndarray of float64 or CSR of float64
        Integers; of norm at most 2^22, in exact arithmetic.
    """
    grid = _rounded(X, scale_of(norm))
    finish_rows(X, grid, squares_of(grid), norm)
    return grid


def finish_rows(X: Any, grid: Any, squares: FloatArray, norm: float) -> None:
    """Shorten the rows of `grid` that are too long, `squares` long squared."""
    is_far = ~(squares < MOST_SQUARES)
    is_long = (squares > LONGEST**2) & ~is_far
    if is_long.any():
        factor = np.ones(len(squares))
        factor[is_long] = SHORTENED / np.sqrt(squares[is_long])
        _shorten(grid, factor)
    if is_far.any():
        far = _of_far(X[np.flatnonzero(is_far)], norm)
        if issparse(grid):
            grid.data[_spread(X, is_far)] = far.data
        else:
            grid[is_far] = far


def _of_far(X: Any, norm: float) -> Any:
    """The grid of rows many times as long as the norm, or longer than can be squared.

    They are scaled by powers of two that follow from their own entries.
    """
    scale = scale_of(norm)
    largest = abs(X).max(axis=1)
    largest = largest.toarray() if issparse(largest) else np.asarray(largest)
    exponents = np.frexp(largest.ravel().astype(np.float64))[1]
    power = ROW_BITS - math.frexp(scale)[1] - exponents
    while True:
        grid = _rounded(_times_power(X, power), scale)
        squares = squares_of(grid)
        is_far = ~(squares < MOST_SQUARES)
        if not is_far.any():
            _shorten(grid, SHORTENED / np.sqrt(squares))
            return grid
        power -= 4 * is_far


def _times_power(X: Any, power: Any) -> Any:
    """Rows times powers of two, in two steps: one of them may be no double."""
    half = power // 2
    first, second = np.ldexp(1.0, half), np.ldexp(1.0, power - half)
    if issparse(X):
        wide = X.data.astype(np.float64)
        return with_entries(X, wide * _spread(X, first) * _spread(X, second))
    return X.astype(np.float64) * first[:, None] * second[:, None]


def _rounded(X: Any, scale: float) -> Any:
    if issparse(X):
        return with_entries(X, _rounded(X.data, scale))
    grid = np.multiply(X, scale, dtype=np.float64, order="C")
    grid += 0.5
    return np.floor(grid, out=grid)


def _shorten(grid: Any, factor: FloatArray) -> None:
    if issparse(grid):
        grid.data *= _spread(grid, factor)
        grid = grid.data
    else:
        grid *= factor[:, None]
    np.trunc(grid, out=grid)


def squares_of(grid: Any) -> FloatArray:
    """Of the rows' norms: exact below 2^53, and above, not less than it."""
    if issparse(grid):
        squares = with_entries(grid, grid.data * grid.data)
        return np.asarray(squares @ np.ones(grid.shape[1]))
    return np.asarray(np.einsum("ij,ij->i", grid, grid))


def _spread(X: Any, values: Any) -> Any:
    """Of each row's value one for each of its entries."""
    return np.repeat(values, np.diff(X.indptr))
