"""Compiled permuted SGD; importing this module imports numba."""

from __future__ import annotations

import math

import numpy as np

from skdp._arrays import HUGE
from skdp._compiled import compiled
from skdp.losses._kernel import residual
from skdp.papers._bolt_on_recursion import what_is_left

# --------------------------------- Compiled loops of permutation-based gradient descent
# Weights have one row per output. The loops depend only on public sizes and on the
# arithmetic of the method, and none can fail: sums may be taken in any order
# (`reassoc`, `contract`), but no assumption is made on infinities or NaN.


_HUGE_SQUARE = HUGE**2  # rows whose squares might overflow


@compiled
def _load(values, norm, clipped):
    """Copy a row, scaled down to a norm if it is longer; its squares may overflow."""
    square = 0.0
    for j in range(len(values)):
        clipped[j] = values[j]
        square += clipped[j] * clipped[j]
    if not square < _HUGE_SQUARE:
        largest = 0.0
        for j in range(len(values)):
            largest = max(largest, abs(clipped[j]))
        square = 0.0
        for j in range(len(values)):
            clipped[j] /= largest
            square += clipped[j] * clipped[j]
    elif square <= norm * norm:
        return
    factor = norm / math.sqrt(square)
    for j in range(len(values)):
        clipped[j] *= factor


@compiled
def _update(weights, gradient, step, batch_size, alpha, radius):
    """One projected step; the gradient is a sum and is cleared."""
    decay, scale = 1.0 - step * alpha, step / batch_size
    for k in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weights[k, j] = decay * weights[k, j] - scale * gradient[k, j]
            gradient[k, j] = 0.0
    if radius < math.inf:
        square = (weights**2).sum()
        if square > radius * radius:
            weights *= radius / math.sqrt(square)


@compiled
def dense_pass(
    X, targets, present, bounds, order, span, steps, shares, batch_size, alpha, radius,
    form, constants, weights, average, gradient,
):  # fmt: skip
    """Continue a pass through dense rows, in the given order.

    Where `present` is False there is a null record. `bounds` are the norm to which rows
    are clipped, and the value of the intercept's column. `span` are the position of the
    first row in the pass, and the number of rows in the whole pass. Updates have sizes
    `steps`, and iterates enter `average` with weights `shares`. Every sum of gradients
    is divided by `batch_size`, also for a shorter last batch. `weights`, `average` and
    `gradient`, the sum over the current batch, have shape (n_outputs, n_columns) and
    change in place.
    """
    n_columns, place = weights.shape[1], span[0]
    raw = np.empty(len(weights))
    row = np.full(n_columns, bounds[1])  # the intercept's entry stays
    for i in order:
        if present[i]:
            _load(X[i], bounds[0], row)
            for k in range(len(raw)):
                product = 0.0
                for j in range(n_columns):
                    product += row[j] * weights[k, j]
                raw[k] = product
            residual(form, constants, targets[i], raw)
            for k in range(len(raw)):
                for j in range(n_columns):
                    gradient[k, j] += raw[k] * row[j]
        place += 1
        if place % batch_size == 0 or place == span[1]:
            t = (place - 1) // batch_size
            _update(weights, gradient, steps[t], batch_size, alpha, radius)
            if shares[t] > 0:
                average += shares[t] * weights


@compiled
def sparse_pass(
    values, columns, starts, targets, present, bounds, order, span, steps, shares,
    batch_size, alpha, radius, form, constants, weights, average, gradient,
):  # fmt: skip
    """Continue a pass through CSR rows; parameters as in `dense_pass`."""
    last, place = weights.shape[1] - 1, span[0]
    raw, row, intercept = np.empty(len(weights)), np.empty(last + 1), bounds[1]
    for i in order:
        if present[i]:
            entries = columns[starts[i] : starts[i + 1]]
            _load(values[starts[i] : starts[i + 1]], bounds[0], row)
            for k in range(len(raw)):
                raw[k] = intercept * weights[k, last]
                for j in range(len(entries)):
                    raw[k] += row[j] * weights[k, entries[j]]
            residual(form, constants, targets[i], raw)
            for k in range(len(raw)):
                gradient[k, last] += raw[k] * intercept
                for j in range(len(entries)):
                    gradient[k, entries[j]] += raw[k] * row[j]
        place += 1
        if place % batch_size == 0 or place == span[1]:
            t = (place - 1) // batch_size
            _update(weights, gradient, steps[t], batch_size, alpha, radius)
            if shares[t] > 0:
                average += shares[t] * weights


compiled_what_is_left = compiled(what_is_left)
