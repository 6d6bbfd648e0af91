"""Compiled sweeps of factorisations; importing this module imports numba."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from skdp._compiled import compiled

# --------------------------------------------------- Sweep of alternating least squares


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
def solve_ridge_rows(
    first, last, starts, others, targets, partners, constants, alpha, damping, rows
):
    """Minimise the objective over each of the rows from `first` to `last`.

    The unknown is the change of a row, so that rounding is a fraction of the change,
    and a system without a unique solution leaves undetermined directions as they were.

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


# ----------------------------------------------------------- Sweep of variational Bayes
# With biases the numbers of a row are (factors, 1, bias), so that the numbers that
# multiply the other side's unknowns come first. The second moments of a row are
# symmetric; their lower triangle is stored row by row.


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
    """For each id from `first` to `last`, the sum of its partners' rows."""
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
def solve_posterior_rows(
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


# -------------------------------------------------- Pass of stochastic gradient descent


@cache
def pass_of(width: int) -> Any:
    """The pass over one block, for rows of `width` numbers: a constant of its loops.

    A multiple of a register, so that no number of a row is left over.
    """

    def visit(first, last, users, items, targets, alphas, steps, p, q, p_own, q_own):
        """Take a step for each of the ratings from `first` to `last` in turn.

        Both rows of a rating move by the gradients at their values before it, each
        times its step over the root of its sum of squared gradients.

        `alphas` and `steps` are penalties and step sizes of biases and of factors.
        Changed in place: `p` and `q`, the factors, padded with zeros, and `p_own` and
        `q_own`, of width 4, with the bias, and the sums of squares of its gradients and
        of the factors', these averaged over a row.
        """
        zero, two = p.dtype.type(0), p.dtype.type(2)
        share = p.dtype.type(1 / max(width, 1))
        alpha_bias, alpha = alphas
        step_bias, step = steps
        for j in range(first, last):
            x, y = p[users[j]], q[items[j]]
            b, c = p_own[users[j]], q_own[items[j]]
            xy = xx = yy = zero
            for a in range(width):
                xy += x[a] * y[a]
                xx += x[a] * x[a]
                yy += y[a] * y[a]
            residual = targets[j] - b[0] - c[0] - xy
            square, cross = residual * residual, two * residual * alpha * xy
            ridge = alpha * alpha
            b[2] += share * max(square * yy - cross + ridge * xx, zero)
            c[2] += share * max(square * xx - cross + ridge * yy, zero)
            step_x, step_y = step / np.sqrt(b[2]), step / np.sqrt(c[2])
            keep_x, keep_y = -step_x * alpha, -step_y * alpha
            move_x, move_y = step_x * residual, step_y * residual
            for a in range(width):
                old = x[a]
                x[a] += keep_x * old + move_x * y[a]
                y[a] += keep_y * y[a] + move_y * old
            slope = residual - alpha_bias * b[0]
            b[1] += slope * slope
            b[0] += step_bias / np.sqrt(b[1]) * slope
            slope = residual - alpha_bias * c[0]
            c[1] += slope * slope
            c[0] += step_bias / np.sqrt(c[1]) * slope

    return compiled(visit)
