"""Compiled sweep of variational Bayes; importing this imports numba.

A row's numbers are ordered (factors, 1, bias) with biases, so that the numbers that
multiply the other side's unknowns come first. Second moments of a row, symmetric, are
kept row by row of their lower triangle.
"""

from __future__ import annotations

import numpy as np

from skdp._compiled import compiled
from skdp.decomposition.plain._als_kernel import factorise, solve


@compiled
def add_rows(total, table, indices):
    """Add the rows of `table` with these indices, four at a time."""
    n, width = len(indices), table.shape[1]
    whole = n // 4 * 4
    for j in range(0, whole, 4):
        r0, r1 = table[indices[j]], table[indices[j + 1]]
        r2, r3 = table[indices[j + 2]], table[indices[j + 3]]
        for a in range(width):
            total[a] += (r0[a] + r1[a]) + (r2[a] + r3[a])
    for j in range(whole, n):
        r0 = table[indices[j]]
        for a in range(width):
            total[a] += r0[a]


@compiled
def sum_rows(first, last, starts, others, table, totals):
    """For each id from `first` to `last`, the sum of the rows of those it is with."""
    for row in range(first, last):
        totals[row] = 0
        add_rows(totals[row], table, others[starts[row] : starts[row + 1]])


@compiled
def invert(factor):
    """From the upper triangle U to the lower triangle of the inverse of U'U, in place.

    The diagonal is overwritten last: the rows of the inverse of U take its place first.
    """
    d = len(factor)
    scratch = np.empty(d)
    for a in range(d):  # which needs no row of U above
        scratch[a:] = 0.0
        scratch[a] = 1.0
        for p in range(a, d):
            row = factor[p]
            value = scratch[p] / row[p]
            scratch[p] = value
            for b in range(p + 1, d):
                scratch[b] -= value * row[b]
        factor[a, a:] = scratch[a:]
    for a in range(d):
        for b in range(a + 1):
            value = 0.0
            for p in range(a, d):
                value += factor[a, p] * factor[b, p]
            factor[a, b] = value


@compiled
def solve_rows(
    first, last, starts, others, targets, means, moments, centres, precision, noise,
    damping, biases, rows, own, errors,
):  # fmt: skip
    """Posterior of each of the rows from `first` to `last`, given the other side's.

    `starts` and `others` are those of the side's `Order`, `targets` the ratings less
    the mean, in that order. `means` and `moments` are those of the other side's rows,
    padded with zeros; `centres` and `precision`, the inverse of a covariance, are the
    prior's, `noise` the variance of a rating given the rows, and `damping` the share of
    a system's mean diagonal that is added to it, above its rounding. A row has d + 1
    numbers with `biases`, d without. Changed in place: `rows` and `own`, the moments of
    these rows, and `errors`, the expected sum of their ratings' squared errors.
    """
    n, d = means.shape[1], centres.shape[1]
    total = np.empty(moments.shape[1], moments.dtype)
    products = np.empty(n, means.dtype)
    matrix, vector = np.empty((d, d)), np.empty(d)
    for row in range(first, last):
        begin, end = starts[row], starts[row + 1]
        total[:] = 0
        add_rows(total, moments, others[begin:end])
        products[:] = 0
        square = 0.0
        for place in range(begin, end):
            mean, target = means[others[place]], targets[place]
            square += target * target
            for a in range(n):
                products[a] += target * mean[a]
        for a in range(d):
            offset = total[d * (d + 1) // 2 + a] if biases else 0.0
            vector[a] = (products[a] - offset) / noise
            for b in range(d):
                vector[a] += precision[a, b] * centres[row, b]
            for b in range(a + 1):
                matrix[b, a] = total[a * (a + 1) // 2 + b] / noise + precision[a, b]
        ridge = 0.0
        for a in range(d):
            ridge += damping * matrix[a, a] / d
        for a in range(d):
            matrix[a, a] += ridge
        factorise(matrix, ridge)
        solve(matrix, vector)
        invert(matrix)
        # Both sides' rows multiplied out: with biases (x, own, 1) times (z, 1, other).
        error = square
        for a in range(d):
            error -= 2.0 * vector[a] * products[a]
            for b in range(a + 1):
                second = matrix[a, b] + vector[a] * vector[b]
                error += total[a * (a + 1) // 2 + b] * second * (1.0 if a == b else 2.0)
        if biases:
            last_row = d * (d + 1) // 2
            error += total[last_row + d] - 2.0 * products[d]
            for a in range(d):
                error += 2.0 * vector[a] * total[last_row + a]
        errors[row] = max(error, 0.0)
        k = d - 1 if biases else d
        for a in range(k):
            rows[row, a] = vector[a]
            for b in range(a + 1):
                own[row, a * (a + 1) // 2 + b] = matrix[a, b] + vector[a] * vector[b]
        if biases:
            middle, bottom = k * (k + 1) // 2, d * (d + 1) // 2
            rows[row, k], rows[row, d] = 1.0, vector[k]
            own[row, middle + k], own[row, bottom + k] = 1.0, vector[k]
            own[row, bottom + d] = matrix[k, k] + vector[k] * vector[k]
            for a in range(k):
                own[row, middle + a] = vector[a]
                own[row, bottom + a] = matrix[k, a] + vector[k] * vector[a]
