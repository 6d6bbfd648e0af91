"""Compiled loops of users' contributions; importing this imports numba.

Users are computed one after another, so that no user's numbers depend on other users.
Each contribution is rounded to whole numbers of a unit, whose sums depend on no order.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled, compiled_exactly

# A user with a smaller sum of squared residuals adds nothing: the norm would be
# rounding.
_LEAST_SQUARE = 1e-100


@compiled_exactly
def whole(number, per_unit):
    """The nearest whole number of units."""
    return np.int64(np.rint(number * per_unit))


@compiled
def add_counts(starts, others, values, mean_weight, per_unit, result):
    """Add every user's weighted counts and, last, the user's weighted mean."""
    for u in range(len(starts) - 1):
        n_own = starts[u + 1] - starts[u]
        if n_own == 0:
            continue
        count = whole(1.0 / math.sqrt(n_own), per_unit)
        total = 0.0
        for place in range(starts[u], starts[u + 1]):
            result[others[place]] += count
            total += values[place]
        mean = mean_weight * min(max(total / n_own, -1.0), 1.0)
        result[len(result) - 1] += whole(mean, per_unit)


@compiled
def add_sums(
    starts, others, values, rows, items, mean, half, weights, per_entry, row_norm,
    clip, moment_weight, per_unit, errors, sums, moments,
):  # fmt: skip
    """Add every user's clipped contribution; parameters as in `RowQuery.whole`."""
    n_columns = sums.shape[1]
    row = np.empty(n_columns)
    for u in range(len(starts) - 1):
        first, n_own = starts[u], starts[u + 1] - starts[u]
        if n_own == 0:
            continue
        row[0], square = 1.0, 1.0
        for j in range(1, n_columns):
            row[j] = rows[u, j - 1] * per_entry
            square += row[j] * row[j]
        if square > row_norm * row_norm:
            shrink = row_norm / math.sqrt(square)
            for j in range(n_columns):
                row[j] *= shrink
            square = row_norm * row_norm
        count = 1.0 / math.sqrt(n_own)
        total = 0.0
        for place in range(n_own):
            item = others[first + place]
            error = values[first + place] - mean
            for j in range(items.shape[1]):
                error -= rows[u, j] * items[item, j]
            error = min(max(error / half, -1.0), 1.0) * weights[item] * count
            errors[place] = error
            total += error * error
        norm = math.sqrt(total * square)
        factor = clip / norm if norm > clip else 1.0
        for place in range(n_own):
            item, error = others[first + place], errors[place] * factor
            for j in range(n_columns):
                sums[item, j] += whole(error * row[j], per_unit)
        for j in range(n_columns):
            for k in range(n_columns):
                moment = moment_weight * factor * row[j] * row[k]
                moments[j, k] += whole(moment, per_unit)


@compiled
def add_pairs(
    starts, others, values, rows, items, mean, half, places, per_unit, errors, own,
    sums,
):  # fmt: skip
    """Add every user's products below the diagonal; see `PairQuery.whole`."""
    for u in range(len(starts) - 1):
        n_own, square = 0, 0.0
        for place in range(starts[u], starts[u + 1]):
            item = others[place]
            if places[item] < 0:
                continue
            error = values[place] - mean
            for j in range(items.shape[1]):
                error -= rows[u, j] * items[item, j]
            error = min(max(error / half, -1.0), 1.0)
            errors[n_own], own[n_own] = error, places[item]
            square += error * error
            n_own += 1
        if square < _LEAST_SQUARE:
            continue
        for j in range(n_own):
            share = errors[j] / square
            for k in range(j):
                sums[own[j], own[k]] += whole(share * errors[k], per_unit)
