"""Compiled loops of users' rows; importing this imports numba."""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled

# A pivot that is smaller than this share of its diagonal entry is rounding.
_PIVOT = 1e-12


@compiled
def _solve(matrix, right):
    """Overwrite `right` with the solution; `matrix`, its lower half, with a factor.

    Unknowns whose pivot vanishes are set to 0, so that nothing is ever infinite.
    """
    size = len(right)
    for j in range(size):
        least = _PIVOT * matrix[j, j]
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        root = math.sqrt(pivot) if pivot > least else 0.0
        matrix[j, j] = root
        for i in range(j + 1, size):
            if root == 0.0:
                matrix[i, j] = 0.0
                continue
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = total / root
    for j in range(size):
        total = right[j]
        for k in range(j):
            total -= matrix[j, k] * right[k]
        right[j] = total / matrix[j, j] if matrix[j, j] > 0.0 else 0.0
    for j in range(size - 1, -1, -1):
        total = right[j]
        for i in range(j + 1, size):
            total -= matrix[i, j] * right[i]
        right[j] = total / matrix[j, j] if matrix[j, j] > 0.0 else 0.0


@compiled
def solve_block(
    first, last, starts, others, values, items, known, centre, fixed, per_rating, rows
):  # fmt: skip
    """Fill the rows of users `first` to `last`; parameters as in `solve_users`."""
    n_unknowns = items.shape[1]
    gram = np.empty((n_unknowns, n_unknowns))
    right = np.empty(n_unknowns)
    for u in range(first, last):
        n_own = starts[u + 1] - starts[u]
        for j in range(n_unknowns):
            right[j] = 0.0
            for k in range(j):
                gram[j, k] = 0.0
            gram[j, j] = fixed[j] + per_rating * n_own
        for place in range(starts[u], starts[u + 1]):
            item = others[place]
            error = values[place] - known[item]
            for j in range(n_unknowns):
                error -= items[item, j] * centre[j]
            for j in range(n_unknowns):
                entry = items[item, j]
                right[j] += error * entry
                for k in range(j + 1):
                    gram[j, k] += entry * items[item, k]
        _solve(gram, right)
        for j in range(n_unknowns):
            rows[u, j] = centre[j] + right[j]
