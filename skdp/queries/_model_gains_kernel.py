"""Compiled loops of gains; importing this imports numba.

One record after the other, all operations as they are written: what a record adds
depends on nothing but the record, to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled_exactly


@compiled_exactly
def logistic_loss(raw, y):
    """Of raw predictions of shape (1,), and a label of 0 or 1."""
    wrong = -raw[0] if y > 0.5 else raw[0]
    return max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong)))


@compiled_exactly
def squared_loss(raw, y):
    """Of raw predictions of shape (1,), and a target that is clipped to [-1, 1]."""
    error = raw[0] - min(max(y, -1.0), 1.0)
    return error * error / 2.0


@compiled_exactly
def softmax_loss(raw, y):
    """Of a raw prediction for each class, and the index of one."""
    largest, total = raw[0], 0.0
    for k in range(1, len(raw)):
        largest = max(largest, raw[k])
    for k in range(len(raw)):
        total += math.exp(raw[k] - largest)
    return largest - raw[int(y)] + math.log(total)


@compiled_exactly
def add_gains(loss, raw, base, y, is_present, shares, clip, unit, sums, first, last):
    """Add clipped gains by each share of what is above the base, in whole units."""
    part = np.empty(raw.shape[1])
    for i in range(first, last):
        if not is_present[i]:
            continue
        lost = loss(base[i], y[i])
        for j in range(len(shares)):
            for k in range(len(part)):
                part[k] = base[i, k] + shares[j] * (raw[i, k] - base[i, k])
            limit = clip * shares[j]
            gain = min(max(lost - loss(part, y[i]), -limit), limit)
            sums[j] += np.int64(np.rint(gain * unit))
