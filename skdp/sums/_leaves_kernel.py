"""Compiled sums over leaves; importing this module imports numba."""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled_exactly
from skdp.losses._base import LossId
from skdp.losses._kernel import (
    exponent,
    falling_exponential,
    of_power,
    sigmoid,
    weight_of,
    without_power,
)

# Plain integers, which compiled code treats as constants.
_SIGMOID, _SOFTMAX = int(LossId.SIGMOID), int(LossId.SOFTMAX)
_ERROR, _QUANTILE = int(LossId.ERROR), int(LossId.QUANTILE)
_POISSON, _GAMMA = int(LossId.POISSON), int(LossId.GAMMA)

# ---------------------------------------------------------- Compiled loops of leaf sums
# Records are processed one by one, with every operation as written, so that every bit
# of a record's contribution depends on the record alone. Probabilities are computed by
# plain arithmetic, with the same result on every machine; means of counts and amounts
# use the machine's exponential. `counts` has a factor for each record: 1, 0 for a null
# record, or the weight of a user's row.


# Number of records that descend a tree at the same time, and for which numbers are
# computed before they are added.
_TOGETHER, _AT_ONCE = 64, 256


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
def _derivatives(form, constants, y, raw, cap):
    """Residual and curvature of a record with one output; 1 if leaves count records."""
    if form == _POISSON or form == _GAMMA:
        power = math.exp(-exponent(form, constants, raw))
        residual = of_power(form, constants, y, raw, power)
        mean = max(power, constants[1])
        return residual, min(mean / cap, 1.0) if form == _POISSON else 1.0
    return without_power(form, constants, y, raw), 1.0


@compiled_exactly
def add_leaf_sums(
    form, constants, leaves, raw, y, counts, clip, weight, cap, unit, sums, first, last
):
    """Add clipped residuals and weighted curvatures, in whole units."""
    records, limits = (raw, y, counts), (clip, weight, cap, unit)
    # The loop is fast only if the form is a constant, without branches.
    if form == _SIGMOID:
        _add_of_labels(constants, leaves, records, limits, sums, first, last)
    elif form == _SOFTMAX:
        _add_softmax(constants, leaves, records, limits, sums, first, last)
    elif form == _ERROR:
        _add_of_one(_ERROR, constants, leaves, records, limits, sums, first, last)
    elif form == _QUANTILE:
        _add_of_one(_QUANTILE, constants, leaves, records, limits, sums, first, last)
    elif form == _POISSON:
        _add_of_one(_POISSON, constants, leaves, records, limits, sums, first, last)
    else:
        _add_of_one(_GAMMA, constants, leaves, records, limits, sums, first, last)


@compiled_exactly
def _add_of_one(form, constants, leaves, records, limits, sums, first, last):
    (raw, y, counts), (clip, weight, cap, unit) = records, limits
    for i in range(first, last):
        if not counts[i]:
            continue
        residual, curvature = _derivatives(form, constants, y[i], raw[i, 0], cap)
        leaf, own = leaves[i], counts[i] * weight_of(constants, y[i])
        sums[leaf, 0] += np.int64(np.rint(own * min(max(residual, -clip), clip) * unit))
        sums[leaf, 1] += np.int64(np.rint(own * (weight * curvature) * unit))


@compiled_exactly
def _add_of_labels(constants, leaves, records, limits, sums, first, last):
    """`_add_of_one` for two classes; numbers are computed before any is added.

    A loop that adds to sums is not vectorised.
    """
    (raw, y, counts), limits = records, (limits[0], limits[1], limits[3])
    buffer, others = np.empty(_AT_ONCE), np.empty(_AT_ONCE)
    for start in range(first, last, _AT_ONCE):
        n = min(_AT_ONCE, last - start)
        residuals, curvatures = buffer[:n], others[:n]
        for i in range(n):
            residuals[i] = raw[start + i, 0]
        own = y[start : start + n], counts[start : start + n]
        _units_of_labels(constants, own, limits, residuals, curvatures)
        for i in range(n):
            if counts[start + i]:
                leaf = leaves[start + i]
                sums[leaf, 0] += np.int64(residuals[i])
                sums[leaf, 1] += np.int64(curvatures[i])


@compiled_exactly
def _units_of_labels(constants, records, limits, residuals, curvatures):
    """Overwrite raw predictions with residuals, and write curvatures, in units."""
    (y, counts), (clip, weight, unit) = records, limits
    for i in range(len(y)):
        raw = residuals[i]
        p = sigmoid(raw, falling_exponential(abs(raw)))
        own = counts[i] * weight_of(constants, y[i])
        residuals[i] = np.rint(own * min(max(p - y[i], -clip), clip) * unit)
        curvatures[i] = np.rint(own * (weight * (p * (1.0 - p))) * unit)


@compiled_exactly
def _add_softmax(constants, leaves, records, limits, sums, first, last):
    """Add residuals, clipped as one vector, and probabilities instead of curvatures."""
    (raw, y, counts), limits = records, (limits[0], limits[1], limits[3])
    n_outputs = raw.shape[1]
    buffer = np.empty((2 * n_outputs, _AT_ONCE))
    for start in range(first, last, _AT_ONCE):
        n = min(_AT_ONCE, last - start)
        units = buffer if n == _AT_ONCE else np.empty((2 * n_outputs, n))
        for i in range(n):
            for k in range(n_outputs):
                units[n_outputs + k, i] = raw[start + i, k]
        own = y[start : start + n], counts[start : start + n]
        _units_of_softmax(constants, own, limits, units)
        for i in range(n):
            if counts[start + i]:
                leaf = leaves[start + i]
                for k in range(len(units)):
                    sums[leaf, k] += np.int64(units[k, i])


@compiled_exactly
def _units_of_softmax(constants, records, limits, units):
    """Write residuals and probabilities, in units, over raw predictions.

    Residuals are in the first half of `units`, everything else in the second.
    """
    (y, counts), (clip, weight, unit) = records, limits
    n_outputs, n = len(units) // 2, len(y)
    p, residuals = units[n_outputs:], units[:n_outputs]
    largest, total, squares = p[0].copy(), np.zeros(n), np.zeros(n)
    for k in range(1, n_outputs):
        for i in range(n):
            largest[i] = max(largest[i], p[k, i])
    for k in range(n_outputs):
        for i in range(n):
            p[k, i] = falling_exponential(largest[i] - p[k, i])
            total[i] += p[k, i]
    for k in range(n_outputs):
        for i in range(n):
            p[k, i] /= total[i]
            residuals[k, i] = p[k, i] - (1.0 if y[i] == k else 0.0)
            squares[i] += residuals[k, i] * residuals[k, i]
    for i in range(n):
        far = squares[i] > clip * clip
        squares[i] = clip / math.sqrt(squares[i]) if far else 1.0
        total[i] = counts[i] * weight_of(constants, y[i])
    factor, heavy = squares, total
    for k in range(n_outputs):
        for i in range(n):
            residuals[k, i] = np.rint(heavy[i] * (factor[i] * residuals[k, i]) * unit)
            p[k, i] = np.rint(heavy[i] * (weight * p[k, i]) * unit)


# -------------------------------------------------------------- Compiled loops of gains
# Records are processed one by one, with every operation as written, so a record's
# contribution depends on nothing but the record, to the last bit. `counts` is as for
# the leaf sums.


@compiled_exactly
def _lost_of_softmax(raw, y):
    largest, total = raw[0], 0.0
    for k in range(1, len(raw)):
        largest = max(largest, raw[k])
    for k in range(len(raw)):
        total += math.exp(raw[k] - largest)
    return largest - raw[int(y)] + math.log(total)


@compiled_exactly
def _lost_of_one(form, constants, y, raw):
    if form == _SIGMOID:
        wrong = -raw if y > 0.5 else raw
        return max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong)))
    if form == _POISSON:
        log = -exponent(form, constants, raw)
        if constants[1] > 0.0:
            log = max(log, math.log(constants[1]))
        return math.exp(log) - min(max(y, constants[1]), 1.0) * log
    if form == _GAMMA:
        log = exponent(form, constants, raw)
        return log + min(max(y, 1.0), math.exp(2.0 * constants[0])) * math.exp(-log)
    if form == _QUANTILE:
        above = min(max(y, -1.0), 1.0) - raw
        level = constants[0]
        return level * above if above >= 0 else (level - 1.0) * above
    error = raw - min(max(y, -constants[1]), constants[1])
    return error * error / 2.0


@compiled_exactly
def _lost(form, constants, y, raw):
    """A record's loss, times the weight of its label.

    But for a constant of the record, and with predictions as they are shown: means stay
    within the bounds, and errors are not clipped.
    """
    if form == _SOFTMAX:
        return weight_of(constants, y) * _lost_of_softmax(raw, y)
    return weight_of(constants, y) * _lost_of_one(form, constants, y, raw[0])


@compiled_exactly
def add_gains(
    form, constants, raw, base, y, counts, shares, clip, unit, sums, first, last
):
    """Add clipped gains by each factor on the trees' values, in whole units."""
    part = np.empty(raw.shape[1])
    for i in range(first, last):
        if not counts[i]:
            continue
        lost = _lost(form, constants, y[i], base[i])
        for j in range(len(shares)):
            for k in range(len(part)):
                part[k] = base[i, k] + shares[j] * (raw[i, k] - base[i, k])
            limit = clip * shares[j]
            gain = min(max(lost - _lost(form, constants, y[i], part), -limit), limit)
            sums[j] += np.int64(np.rint(counts[i] * gain * unit))
