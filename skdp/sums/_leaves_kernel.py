"""Compiled sums over leaves; importing this module imports numba."""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled_exactly
from skdp.losses._kernel import falling_exponential

# ---------------------------------------------------------- Compiled loops of leaf sums
# Records are processed one by one, with every operation as written, so a record's
# contribution depends on nothing but the record, to the last bit. Probabilities are
# computed by plain arithmetic, equal on every machine; means of counts use the
# machine's exponential. `counts` is a record's factor: 1, 0 for a null record, or the
# share of a user's row.


# Number of records that descend a tree side by side.
_TOGETHER = 64


@compiled_exactly
def find_leaves(codes, feature, cut, rank, starts, depth, leaves, first, last):
    """Write the leaf of each record of a run."""
    n_nodes = 2**depth - 1
    width = np.uintp(np.max(np.diff(starts)))
    steps = np.zeros(n_nodes * width, dtype=np.uint8)
    for k in range(n_nodes):
        start = starts[feature[k]]
        for code in range(starts[feature[k] + 1] - start):
            goes_right = rank[start + code] >= cut[k]
            steps[k * width + code] = 2 if goes_right else 1
    # Unsigned indices need no test for negative values.
    columns = feature.astype(np.uintp)
    nodes = np.empty(_TOGETHER, dtype=np.uintp)
    for block in range(first, last, _TOGETHER):
        n_rows = np.uintp(min(_TOGETHER, last - block))
        nodes[:] = 0
        for _ in range(depth):
            for i in range(n_rows):
                node = nodes[i]
                code = codes[np.uintp(block) + i, columns[node]]
                nodes[i] = node + node + steps[node * width + code]
        for i in range(n_rows):
            leaves[np.uintp(block) + i] = nodes[i] - np.uintp(n_nodes)


@compiled_exactly
def add_values(leaves, values, raw, first, last):
    """Add the leaf's values to the raw predictions of each record of a run."""
    for i in range(first, last):
        for k in range(values.shape[1]):
            raw[i, k] += values[leaves[i], k]


@compiled_exactly
def logistic_sums(leaves, raw, y, counts, clip, weight, facts, unit, sums, first, last):
    """Add clipped residuals and weighted curvatures, in whole units."""
    for i in range(first, last):
        if not counts[i]:
            continue
        tail = falling_exponential(abs(raw[i, 0]))
        p = (1.0 if raw[i, 0] >= 0 else tail) / (1.0 + tail)
        residual = min(max(p - y[i], -clip), clip)
        leaf, own = leaves[i], counts[i] * facts[int(y[i])]
        sums[leaf, 0] += np.int64(np.rint(own * residual * unit))
        sums[leaf, 1] += np.int64(np.rint(own * (weight * (p * (1.0 - p))) * unit))


@compiled_exactly
def squared_sums(leaves, raw, y, counts, clip, weight, facts, unit, sums, first, last):
    """Add clipped errors and weights, in whole units."""
    for i in range(first, last):
        if not counts[i]:
            continue
        error = raw[i, 0] - min(max(y[i], -1.0), 1.0)
        leaf, own = leaves[i], counts[i]
        sums[leaf, 0] += np.int64(np.rint(own * min(max(error, -clip), clip) * unit))
        sums[leaf, 1] += np.int64(np.rint(own * weight * unit))


@compiled_exactly
def softmax_sums(leaves, raw, y, counts, clip, weight, facts, unit, sums, first, last):
    """Add residuals, clipped as one vector, and weighted probabilities, in units."""
    n_outputs = raw.shape[1]
    p = np.empty(n_outputs)
    for i in range(first, last):
        if not counts[i]:
            continue
        largest, total = raw[i, 0], 0.0
        for k in range(1, n_outputs):
            largest = max(largest, raw[i, k])
        for k in range(n_outputs):
            p[k] = falling_exponential(largest - raw[i, k])
            total += p[k]
        own, square = int(y[i]), 0.0
        for k in range(n_outputs):
            p[k] /= total
            residual = p[k] - (1.0 if k == own else 0.0)
            square += residual * residual
        factor = clip / math.sqrt(square) if square > clip * clip else 1.0
        leaf, heavy = leaves[i], counts[i] * facts[own]
        for k in range(n_outputs):
            residual = factor * (p[k] - (1.0 if k == own else 0.0))
            sums[leaf, k] += np.int64(np.rint(heavy * residual * unit))
            share = weight * p[k]
            sums[leaf, n_outputs + k] += np.int64(np.rint(heavy * share * unit))


@compiled_exactly
def poisson_sums(leaves, raw, y, counts, clip, weight, facts, unit, sums, first, last):
    """Add clipped errors of means, and means up to a cap, in whole units."""
    origin, cap = facts[0], facts[1]
    for i in range(first, last):
        if not counts[i]:
            continue
        mean = min(math.exp(raw[i, 0]), origin + 1.0)
        error = mean - max(origin + min(max(y[i], -1.0), 1.0), 0.0)
        leaf, own = leaves[i], counts[i]
        sums[leaf, 0] += np.int64(np.rint(own * min(max(error, -clip), clip) * unit))
        curvature = weight * min(mean / cap, 1.0)
        sums[leaf, 1] += np.int64(np.rint(own * curvature * unit))


@compiled_exactly
def quantile_sums(leaves, raw, y, counts, clip, weight, facts, unit, sums, first, last):
    """Add (1 if the target is below, else 0) less the level, and weights, in units."""
    for i in range(first, last):
        if not counts[i]:
            continue
        leaf, own = leaves[i], counts[i]
        is_below = min(max(y[i], -1.0), 1.0) < raw[i, 0]
        side = 1.0 - facts[0] if is_below else -facts[0]
        sums[leaf, 0] += np.int64(np.rint(own * side * unit))
        sums[leaf, 1] += np.int64(np.rint(own * weight * unit))


# -------------------------------------------------------------- Compiled loops of gains
# Records are processed one by one, with every operation as written, so a record's
# contribution depends on nothing but the record, to the last bit. `counts` is as for
# the leaf sums.


# Losses by index. Numba caches compiled code by the types of the arguments, and the
# type of a function differs between processes: a function as argument would be compiled
# and cached again each time, until the cache file is too large to read.
LOSSES = ("logistic", "squared", "softmax", "poisson", "quantile")


@compiled_exactly
def logistic_loss(raw, y, facts):
    """Loss of a raw prediction of shape (1,) and a label 0 or 1, times its weight."""
    wrong = -raw[0] if y > 0.5 else raw[0]
    lost = max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong)))
    return facts[int(y)] * lost


@compiled_exactly
def squared_loss(raw, y, facts):
    """Loss of a raw prediction of shape (1,) and a target clipped to [-1, 1]."""
    error = raw[0] - min(max(y, -1.0), 1.0)
    return error * error / 2.0


@compiled_exactly
def softmax_loss(raw, y, facts):
    """Loss of raw predictions of the classes and the index of one, times its weight."""
    largest, total = raw[0], 0.0
    for k in range(1, len(raw)):
        largest = max(largest, raw[k])
    for k in range(len(raw)):
        total += math.exp(raw[k] - largest)
    return facts[int(y)] * (largest - raw[int(y)] + math.log(total))


@compiled_exactly
def poisson_loss(raw, y, facts):
    """Loss of the logarithm of a mean and a count less the origin."""
    highest = facts[0] + 1.0
    mean, log = min(math.exp(raw[0]), highest), min(raw[0], math.log(highest))
    return mean - max(facts[0] + min(max(y, -1.0), 1.0), 0.0) * log


@compiled_exactly
def quantile_loss(raw, y, facts):
    """Loss of a raw prediction of shape (1,) and a target clipped to [-1, 1]."""
    above = min(max(y, -1.0), 1.0) - raw[0]
    return facts[0] * above if above >= 0 else (facts[0] - 1.0) * above


@compiled_exactly
def _lost(place, raw, y, facts):
    """Loss with this index in `LOSSES`."""
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
    """Add clipped gains by each share of the trees' values, in whole units."""
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
