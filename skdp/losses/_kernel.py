"""Residuals for compiled loops; importing this module imports numba.

Each loss has one formula, whose argument is the value of the exponential that it needs.
The value comes from the machine's exponential or from the plain one of
`skdp.losses._base`.
"""

from __future__ import annotations

import math

from skdp._compiled import compiled, compiled_exactly
from skdp.losses._base import COEFFICIENTS, FARTHEST, SHRINK, SQUARINGS, LossId

# Plain integers, which compiled code treats as constants. Loops get a loss by number,
# because the type of a function differs between processes: with a function as argument,
# each process would compile the loops and add them to the cache file again.
_SIGMOID, _SOFTMAX, _HINGE = int(LossId.SIGMOID), int(LossId.SOFTMAX), int(LossId.HINGE)
_STEP, _ERROR, _QUANTILE = int(LossId.STEP), int(LossId.ERROR), int(LossId.QUANTILE)
_POISSON, _GAMMA = int(LossId.POISSON), int(LossId.GAMMA)


@compiled_exactly
def weight_of(constants, y):
    """Weight of a record with label y; 1 if the loss has no weights.

    A null record may have any value instead of a label.
    """
    weight = 1.0
    for k in range(2, len(constants)):
        if y == k - 2:
            weight = constants[k]
    return weight


@compiled_exactly
def sigmoid(raw, tail):
    """``expit(raw)`` from ``tail = exp(-abs(raw))``."""
    return (1.0 if raw >= 0 else tail) / (1.0 + tail)


@compiled_exactly
def exponent(form, constants, raw):
    """The t of at least 0 for which a loss needs exp(-t)."""
    if form == _POISSON:
        return max(constants[0] - raw, 0.0)
    if form == _GAMMA:
        return min(max(raw + constants[0], 0.0), 2.0 * constants[0])
    return abs(raw)


@compiled_exactly
def of_power(form, constants, y, raw, power):
    """Residual of a loss that needs an exponential."""
    if form == _SIGMOID:
        return sigmoid(raw, power) - y
    if form == _STEP:
        whole = 1.0 + power
        return (-1.0 if y > 0.5 else 1.0) * (power / (whole * whole))
    if form == _POISSON:
        return max(power, constants[1]) - min(max(y, constants[1]), 1.0)
    return 1.0 - min(max(y, 1.0) * power, constants[1])


@compiled_exactly
def _needs_power(form):
    return form == _SIGMOID or form == _STEP or form == _POISSON or form == _GAMMA


@compiled_exactly
def without_power(form, constants, y, raw):
    """Residual of a loss that needs no exponential."""
    first, second = constants[0], constants[1]
    if form == _ERROR:
        error = raw - min(max(y, -second), second)
        return min(max(error, -first), first)
    if form == _QUANTILE:
        error = raw - min(max(y, -1.0), 1.0)
        if second == 0.0:
            return (1.0 if error > 0.0 else 0.0) - first
        rising = error * (0.5 / second) + 0.5
        return min(max(rising, 0.0), 1.0) - first
    sign = 1.0 if y > 0.5 else -1.0
    if form == _HINGE:
        slope = (1.0 + first - sign * raw) / (2.0 * first)
        return -sign * min(max(slope, 0.0), 1.0)
    error = raw - sign
    share = error / first
    return error / (1.0 + share * share)


@compiled
def _unweighted_of_one(form, constants, y, raw):
    if not _needs_power(form):
        return without_power(form, constants, y, raw)
    power = math.exp(-exponent(form, constants, raw))
    return of_power(form, constants, y, raw, power)


@compiled
def residual_of_one(form, constants, y, raw):
    """Residual of one record with one output."""
    return _unweighted_of_one(form, constants, y, raw) * weight_of(constants, y)


@compiled
def residual(form, constants, y, raw):
    """Overwrite one record's raw predictions with its residual."""
    weight = weight_of(constants, y)
    if form == _SOFTMAX:
        largest, total = raw[0], 0.0
        for k in range(1, len(raw)):
            largest = max(largest, raw[k])
        for k in range(len(raw)):
            raw[k] = math.exp(raw[k] - largest)
            total += raw[k]
        for k in range(len(raw)):
            raw[k] = (raw[k] / total - (1.0 if k == int(y) else 0.0)) * weight
    elif len(raw) == 1:
        raw[0] = residual_of_one(form, constants, y, raw[0])
    else:  # one against the rest
        for k in range(len(raw)):
            own = 1.0 if k == int(y) else 0.0
            raw[k] = _unweighted_of_one(form, constants, own, raw[k]) * weight


@compiled_exactly
def falling_exponential(t):
    """`skdp.losses._base.falling_exponential`, to the last bit."""
    u = min(t, FARTHEST) * SHRINK
    power = COEFFICIENTS[0] * u + COEFFICIENTS[1]
    for k in range(2, len(COEFFICIENTS)):
        power = power * u + COEFFICIENTS[k]
    for _ in range(SQUARINGS):
        power *= power
    return power


@compiled_exactly
def plain_unweighted_of_one(form, constants, y, raw):
    """`plain_residual_of_one` without the weight of the label."""
    if not _needs_power(form):
        return without_power(form, constants, y, raw)
    power = falling_exponential(exponent(form, constants, raw))
    return of_power(form, constants, y, raw, power)


@compiled_exactly
def plain_residual_of_one(form, constants, y, raw):
    """`skdp.losses._base.plain_residual` of one output, to the last bit."""
    return plain_unweighted_of_one(form, constants, y, raw) * weight_of(constants, y)
