"""Compiled loops of gains; importing this imports numba.

One record after the other, all operations as they are written: what a record adds
depends on nothing but the record, to the last bit. `counts` is as in the loops of
leaf sums.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled_exactly

# Losses by their place. Numba keeps what it compiles by the types of the arguments, and
# a function's type is another one in every process: passed as an argument it would be
# compiled and kept anew each time, until the file of kept code can be read no more.
LOSSES = ("logistic", "squared", "softmax", "poisson", "quantile")


@compiled_exactly
def logistic_loss(raw, y, facts):
    """Of a raw prediction of shape (1,), and a label of 0 or 1; times its weight."""
    wrong = -raw[0] if y > 0.5 else raw[0]
    lost = max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong)))
    return facts[int(y)] * lost


@compiled_exactly
def squared_loss(raw, y, facts):
    """Of raw predictions of shape (1,), and a target that is clipped to [-1, 1]."""
    error = raw[0] - min(max(y, -1.0), 1.0)
    return error * error / 2.0


@compiled_exactly
def softmax_loss(raw, y, facts):
    """Of a raw prediction for each class, and the index of one; times its weight."""
    largest, total = raw[0], 0.0
    for k in range(1, len(raw)):
        largest = max(largest, raw[k])
    for k in range(len(raw)):
        total += math.exp(raw[k] - largest)
    return facts[int(y)] * (largest - raw[int(y)] + math.log(total))


@compiled_exactly
def poisson_loss(raw, y, facts):
    """Of the logarithm of a mean, and a count less the origin."""
    highest = facts[0] + 1.0
    mean, log = min(math.exp(raw[0]), highest), min(raw[0], math.log(highest))
    return mean - max(facts[0] + min(max(y, -1.0), 1.0), 0.0) * log


@compiled_exactly
def quantile_loss(raw, y, facts):
    """Of a raw prediction of shape (1,), and a target that is clipped to [-1, 1]."""
    above = min(max(y, -1.0), 1.0) - raw[0]
    return facts[0] * above if above >= 0 else (facts[0] - 1.0) * above


@compiled_exactly
def _lost(place, raw, y, facts):
    """By the loss at this place."""
    if place == 0:
        return logistic_loss(raw, y, facts)
    if place == 1:
        return squared_loss(raw, y, facts)
    if place == 2:
        return softmax_loss(raw, y, facts)
    if place == 3:
        return poisson_loss(raw, y, facts)
    return quantile_loss(raw, y, facts)


@compiled_exactly
def add_gains(
    place, raw, base, y, counts, shares, clip, unit, facts, sums, first, last
):
    """Add clipped gains by each share of what is above the base, in whole units."""
    part = np.empty(raw.shape[1])
    for i in range(first, last):
        if not counts[i]:
            continue
        lost = _lost(place, base[i], y[i], facts)
        for j in range(len(shares)):
            for k in range(len(part)):
                part[k] = base[i, k] + shares[j] * (raw[i, k] - base[i, k])
            limit = clip * shares[j]
            gain = min(max(lost - _lost(place, part, y[i], facts), -limit), limit)
            sums[j] += np.int64(np.rint(counts[i] * gain * unit))
