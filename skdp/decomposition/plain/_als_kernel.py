"""Compiled sweep of alternating least squares; importing this imports numba."""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled

_CHUNK = 256  # ratings whose partners are gathered at a time


@compiled
def add_products(gram, columns, n):
    """Add the lower triangle of the products of the first `n` numbers of `columns`.

    Both have a multiple of four rows. Eight sums at a time share their six loads.
    """
    zero = gram.dtype.type(0)
    for a in range(0, len(columns), 2):
        x0, x1 = columns[a, :n], columns[a + 1, :n]
        for b in range(0, a + 2, 4):
            y0, y1 = columns[b, :n], columns[b + 1, :n]
            y2, y3 = columns[b + 2, :n], columns[b + 3, :n]
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
            for j in range(n):
                s00 += x0[j] * y0[j]
                s01 += x0[j] * y1[j]
                s02 += x0[j] * y2[j]
                s03 += x0[j] * y3[j]
                s10 += x1[j] * y0[j]
                s11 += x1[j] * y1[j]
                s12 += x1[j] * y2[j]
                s13 += x1[j] * y3[j]
            upper, lower = gram[a, b : b + 4], gram[a + 1, b : b + 4]
            upper[0] += s00
            upper[1] += s01
            upper[2] += s02
            upper[3] += s03
            lower[0] += s10
            lower[1] += s11
            lower[2] += s12
            lower[3] += s13


@compiled
def factorise(matrix, damping):
    """Overwrite the upper triangle U' of U U' = `matrix`, Cholesky's factorisation.

    Four pivots at a time, for the same reason. A pivot that rounding made smaller than
    `damping` is set to it, so that nothing is divided by zero.
    """
    d = len(matrix)
    for first in range(0, d, 4):
        last = min(first + 4, d)
        for a in range(first, last):
            row = matrix[a]
            for p in range(first, a):
                factor, pivot = matrix[p, a], matrix[p]
                for b in range(a, d):
                    row[b] -= factor * pivot[b]
            inverse = 1.0 / math.sqrt(max(row[a], damping))
            for b in range(a, d):
                row[b] *= inverse
        for a in range(last, d):  # four pivots above, if there is a row below
            row = matrix[a]
            p0, p1 = matrix[first], matrix[first + 1]
            p2, p3 = matrix[first + 2], matrix[first + 3]
            f0, f1, f2, f3 = p0[a], p1[a], p2[a], p3[a]
            for b in range(a, d):
                row[b] -= f0 * p0[b] + f1 * p1[b] + f2 * p2[b] + f3 * p3[b]


@compiled
def solve(matrix, vector):
    """Overwrite `vector` with the solution of the system that was factorised."""
    d = len(vector)
    for a in range(d):
        vector[a] /= matrix[a, a]
        value, row = vector[a], matrix[a]
        for b in range(a + 1, d):
            vector[b] -= value * row[b]
    for a in range(d - 1, -1, -1):
        value, row = vector[a], matrix[a]
        for b in range(a + 1, d):
            value -= row[b] * vector[b]
        vector[a] = value / row[a]


@compiled
def solve_rows(
    first, last, starts, others, targets, partners, constants, alpha, damping, rows
):
    """Minimise the objective over each of the rows from `first` to `last`.

    What is solved for is the change of a row, so that rounding is a share of the
    change, and a system without a unique solution leaves the rest as it was.

    `starts` and `others` are those of the side's `Order`, `targets` the ratings less
    the mean, in that order. The unknowns of a row are multiplied by `partners`, of
    shape (n_others, d), and `constants` added. `alpha` is the penalty of a rating,
    `damping` the share of the mean diagonal that is added to it. `rows` change in
    place.
    """
    d = rows.shape[1]
    size = -(-d // 4) * 4
    columns = np.zeros((size, _CHUNK), partners.dtype)
    gram = np.empty((size, size), partners.dtype)
    matrix, vector = np.empty((d, d)), np.empty(d)
    for row in range(first, last):
        count, x = starts[row + 1] - starts[row], rows[row]
        gram[:] = 0
        for a in range(d):
            vector[a] = -alpha * count * x[a]
        for begin in range(starts[row], starts[row + 1], _CHUNK):
            n = min(_CHUNK, starts[row + 1] - begin)
            for j in range(n):
                other = others[begin + j]
                partner, product = partners[other], partners.dtype.type(0)
                for a in range(d):
                    columns[a, j] = partner[a]
                    product += partner[a] * x[a]
                residual = targets[begin + j] - constants[other] - product
                for a in range(d):
                    vector[a] += residual * partner[a]
            add_products(gram, columns, n)
        diagonal = alpha * count
        for a in range(d):
            diagonal += gram[a, a] / d
            for b in range(a + 1):
                matrix[b, a] = gram[a, b]
        ridge = damping * diagonal
        for a in range(d):
            matrix[a, a] += alpha * count + ridge
        if ridge > 0:
            factorise(matrix, ridge)
            solve(matrix, vector)
            if math.isfinite(vector.sum()):
                for a in range(d):
                    x[a] += vector[a]
