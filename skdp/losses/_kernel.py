"""Residuals for compiled loops; importing this imports numba."""

from __future__ import annotations

import math

from skdp._compiled import compiled, compiled_exactly
from skdp.losses._base import LossId
from skdp.losses._plain import COEFFICIENTS, FARTHEST, SHRINK, SQUARINGS

# Plain integers, which compiled code treats as constants.
_SIGMOID, _SOFTMAX, _HINGE = int(LossId.SIGMOID), int(LossId.SOFTMAX), int(LossId.HINGE)
_STEP, _CAUCHY = int(LossId.STEP), int(LossId.CAUCHY)
_POISSON, _QUANTILE, _GAMMA = (
    int(LossId.POISSON),
    int(LossId.QUANTILE),
    int(LossId.GAMMA),
)


@compiled_exactly
def weight_of(constants, y):
    """Factor on a record of label y; 1 if the loss has no weights.

    Safe for any value that a null record holds in place of a label.
    """
    weight = 1.0
    for k in range(2, len(constants)):
        if y == k - 2:
            weight = constants[k]
    return weight


@compiled_exactly
def _below(form, constants, raw):
    """The t, at least 0, for which a loss of amounts needs exp(-t)."""
    if form == _POISSON:
        return max(constants[0] - raw, 0.0)
    return min(max(raw + constants[0], 0.0), 2.0 * constants[0])


@compiled_exactly
def _of_amount(form, constants, y, power):
    """Residual of an amount, from the exponential exp(-t)."""
    if form == _POISSON:
        return max(power, constants[1]) - min(max(y, constants[1]), 1.0)
    return 1.0 - min(max(y, 1.0) * power, constants[1])


@compiled_exactly
def _of_quantile(constants, y, raw):
    error = raw - min(max(y, -1.0), 1.0)
    rising = error * (0.5 / constants[1]) + 0.5
    return min(max(rising, 0.0), 1.0) - constants[0]


@compiled
def residual_of_one(form, constants, y, raw):
    """Residual of one record with one output."""
    return _unweighted_of_one(form, constants, y, raw) * weight_of(constants, y)


@compiled
def _unweighted_of_one(form, constants, y, raw):
    if form == _SIGMOID:
        tail = math.exp(-abs(raw))
        return (1.0 if raw >= 0 else tail) / (1.0 + tail) - y
    if form == _STEP:
        tail = math.exp(-abs(raw))
        whole = 1.0 + tail
        return (-1.0 if y > 0.5 else 1.0) * (tail / (whole * whole))
    if form == _CAUCHY:
        error = raw - (1.0 if y > 0.5 else -1.0)
        share = error / constants[0]
        return error / (1.0 + share * share)
    if form == _QUANTILE:
        return _of_quantile(constants, y, raw)
    if form == _POISSON or form == _GAMMA:
        power = math.exp(-_below(form, constants, raw))
        return _of_amount(form, constants, y, power)
    if form == _HINGE:
        sign = 1.0 if y > 0.5 else -1.0
        slope = (1.0 + constants[0] - sign * raw) / (2.0 * constants[0])
        return -sign * min(max(slope, 0.0), 1.0)
    bound, limit = constants[0], constants[1]
    error = raw - min(max(y, -limit), limit)
    return min(max(error, -bound), bound)


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
    """`skdp.losses._plain.falling_exponential`, to the last bit."""
    u = min(t, FARTHEST) * SHRINK
    power = COEFFICIENTS[0] * u + COEFFICIENTS[1]
    for k in range(2, len(COEFFICIENTS)):
        power = power * u + COEFFICIENTS[k]
    for _ in range(SQUARINGS):
        power *= power
    return power


@compiled_exactly
def plain_residual_of_one(form, constants, y, raw):
    """`skdp.losses._plain.plain_residual` of one output, to the last bit."""
    return _plain_unweighted_of_one(form, constants, y, raw) * weight_of(constants, y)


@compiled_exactly
def _plain_unweighted_of_one(form, constants, y, raw):
    if form == _SIGMOID:
        tail = falling_exponential(abs(raw))
        return (1.0 if raw >= 0 else tail) / (1.0 + tail) - y
    if form == _STEP:
        tail = falling_exponential(abs(raw))
        whole = 1.0 + tail
        return (-1.0 if y > 0.5 else 1.0) * (tail / (whole * whole))
    if form == _CAUCHY:
        error = raw - (1.0 if y > 0.5 else -1.0)
        share = error / constants[0]
        return error / (1.0 + share * share)
    if form == _QUANTILE:
        return _of_quantile(constants, y, raw)
    if form == _POISSON or form == _GAMMA:
        power = falling_exponential(_below(form, constants, raw))
        return _of_amount(form, constants, y, power)
    if form == _HINGE:
        sign = 1.0 if y > 0.5 else -1.0
        slope = (1.0 + constants[0] - sign * raw) / (2.0 * constants[0])
        return -sign * min(max(slope, 0.0), 1.0)
    bound, limit = constants[0], constants[1]
    error = raw - min(max(y, -limit), limit)
    return min(max(error, -bound), bound)
