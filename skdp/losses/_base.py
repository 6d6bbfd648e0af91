"""The protocol of losses, labels as signs, and residuals by plain arithmetic."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np

from skdp._arrays import FloatArray

# ------------------------------------------------------------------- Protocol of a loss


class LossId(IntEnum):
    """The formula of a residual, for compiled loops over single records.

    Each formula has two public constants, the first two of `Loss.form_constants`.
    Further constants are weights of labels, by which the residual is multiplied.
    """

    SIGMOID = 0  # expit(raw) - y
    SOFTMAX = 1  # softmax(raw) - unit vector of class y
    HINGE = 2  # of a rounded hinge; the first constant is half its width
    ERROR = 3  # raw - y, clipped to the first constant after y to the second
    STEP = 4  # of a rounded step: -sign expit(raw) expit(-raw)
    CAUCHY = 5  # e / (1 + (e / first constant)^2) with e = raw - sign
    POISSON = 6  # exp(raw - first), from the second up to 1, minus y clipped alike
    QUANTILE = 7  # of a rounded step at y: the level, and half the width
    GAMMA = 8  # 1 - y exp(-raw - first), at least 1 - second; raw within the first

    @property
    def is_of_numbers(self) -> bool:
        """Whether targets are numbers, not labels."""
        return self in (
            LossId.ERROR,
            LossId.POISSON,
            LossId.QUANTILE,
            LossId.GAMMA,
        )


class Loss(Protocol):
    r"""Pointwise loss of the raw predictions of a linear model.

    A record is a row x and a target y; its raw prediction is ``x @ W`` with W of
    shape (n_columns, n_outputs), and its gradient is the outer product of x and
    the residual ``d loss / d raw``.

    The two bounds hold for **every** record, for unit rows and weights of spectral
    norm at most `radius`. They are derived separately for each loss (proof page:
    ``docs/proofs/gradient_descent.md``); for rows of norm rho they are used as
    ``rho * bound(rho * ||W||)``.
    """

    @property
    def n_outputs(self) -> int:
        """Number of raw predictions of a record."""
        ...

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the raw predictions."""
        ...

    @property
    def smoothness(self) -> float:
        """Largest possible magnitude of an eigenvalue of d2 loss / d raw2."""
        ...

    @property
    def curvature_trace(self) -> float:
        """Largest possible trace of d2 loss / d raw2."""
        ...

    @property
    def value_at_zero(self) -> float:
        """Largest loss of a record at raw = 0."""
        ...

    @property
    def prediction_unit(self) -> float:
        """Scale of raw predictions: a decision, or a fraction of a target."""
        ...

    @property
    def noisy_clip(self) -> float:
        """Norm to which residuals are clipped when noise limits a fit; inf: none."""
        ...

    @property
    def form(self) -> LossId:
        """The number of the residual's formula in compiled loops."""
        ...

    @property
    def form_constants(self) -> tuple[float, ...]:
        """Public constants of the residual's formula: two, and then `label_weights`."""
        ...

    @property
    def label_weights(self) -> tuple[float, ...]:
        """Weight in (0, 1] of records with each label; empty: all weights are 1."""
        ...

    def __hash__(self) -> int: ...

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Loss of each record: (n,) and (n, n_outputs) -> (n,)."""
        ...

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Derivative of each record's loss by its raw prediction: (n, n_outputs)."""
        ...

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Diagonal of d2 loss / d raw2 of each record: (n, n_outputs)."""
        ...

    def zero_out_bound(self, radius: float) -> float:
        """Largest norm of one record's gradient, compared with the null record."""
        ...

    def replace_one_bound(self, radius: float) -> float:
        """Largest norm of the difference of the gradients of two records."""
        ...


@runtime_checkable
class LeafLoss(Protocol):
    """What leaves of trees need of a loss beside `Loss`."""

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """Least and largest norm of the curvatures that a record adds to a leaf.

        The largest is a bound together with `residual`, the largest norm of residuals
        (``docs/proofs/boosting.md``, Lemma 1). If both are 1, leaves count records.

        Parameters
        ----------
        residual : float
        cap : float
            A mean of counts from this one on has the curvature 1.
        """
        ...


# ----------------------------------------------- Labels as signs, for losses of margins


def signs_of(y: FloatArray, n_outputs: int) -> FloatArray:
    """+1 for the outputs that should be positive, -1 for the others.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        0 or 1 for one output, else classes in {0, ..., n_outputs - 1}.
    n_outputs : int

    Returns
    -------
    ndarray of shape (n_rows, n_outputs) or (n_rows, 1)
    """
    if n_outputs == 1:
        return np.asarray(2 * y[:, None] - 1)
    return np.where(y[:, None] == np.arange(n_outputs), 1.0, -1.0)


def record_weights(loss: Loss, y: FloatArray) -> FloatArray:
    """Weight of each record by its label, 1 if the loss has no weights: (n,).

    Null records may have any value instead of a label.
    """
    weights = np.ones(len(y))
    for label, weight in enumerate(loss.label_weights):
        weights[y == label] = weight
    return weights


# -------------- Residuals by plain arithmetic: the same bits in NumPy and compiled code
# The code uses only + - * / floor, comparisons and roots. Each operation is rounded
# once, in the order in which it is written, and no library's exponential is used.
# `_kernel.py` has the same formulas for single records. Proof:
# ``docs/proofs/gradient_descent.md``, Lemma 11.


# Taylor's coefficients of exp, the highest power first.
COEFFICIENTS = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
# exp(-t) is computed at t / 64 and squared six times; t is at most 64.
FARTHEST, SHRINK, SQUARINGS = 64.0, -1 / 64, 6
# Bound on the error of this exponential, 2.4e-12, and of a sigmoid computed from it.
_EXPONENTIAL_ERROR = 2.0**-38


def falling_exponential(t: FloatArray) -> FloatArray:
    """``exp(-t)`` of nonnegative numbers t, within 2.4e-12; exactly 1 at 0."""
    u = np.minimum(t, FARTHEST)
    u *= SHRINK
    power = COEFFICIENTS[0] * u
    power += COEFFICIENTS[1]
    for coefficient in COEFFICIENTS[2:]:
        power *= u
        power += coefficient
    for _ in range(SQUARINGS):
        power *= power
    return power


def _relative_error(farthest: float) -> float:
    """Bound on the relative error of `falling_exponential`, for t up to `farthest`.

    `farthest` is below 64. The errors of the polynomial's remainder and of rounding
    count 64 times.
    """
    u = farthest * -SHRINK
    return 64 * (1.1 * math.exp(u) * u**7 / 5040 + 2.0**-48)


def softmax_units(n_outputs: int) -> float:
    """Scale at which the exponentials of a softmax are rounded to whole numbers.

    At this scale, sums of `n_outputs` such numbers are exact in any order.
    """
    return 2.0 ** (52 - n_outputs.bit_length())


def plain_residual(loss: Loss, y: FloatArray, raw: FloatArray) -> FloatArray:
    """`Loss.residual` by plain arithmetic, with an error of at most `plain_error`.

    Parameters
    ----------
    loss : Loss
    y : ndarray of shape (n_rows,)
    raw : ndarray of shape (n_rows, n_outputs)

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
    """
    residual = _unweighted(loss, y, raw)
    if loss.label_weights:
        residual *= record_weights(loss, y)[:, None]
    return residual


def plain_curvature(loss: Loss, residual: FloatArray) -> FloatArray:
    """`Loss.curvature` by plain arithmetic, from the result of `plain_residual`.

    It is defined for a sigmoid or a clipped error, without weights of labels. For every
    residual it is at most the smoothness of the loss.
    """
    if loss.form == LossId.SIGMOID:
        size = np.minimum(np.abs(residual), 1.0)
        return np.asarray(size * (1.0 - size))
    return np.where(np.abs(residual) < loss.form_constants[0], 1.0, 0.0)


def _unweighted(loss: Loss, y: FloatArray, raw: FloatArray) -> FloatArray:
    if loss.form == LossId.SOFTMAX:
        return _softmax(y, raw)
    own = y[:, None]
    if loss.n_outputs > 1:  # one against the rest
        own = np.where(own == np.arange(loss.n_outputs), 1.0, 0.0)
    if loss.form == LossId.SIGMOID:
        tail = falling_exponential(np.abs(raw))
        return np.asarray(np.where(raw >= 0, 1.0, tail) / (1.0 + tail) - own)
    first, second = loss.form_constants[:2]
    if loss.form == LossId.POISSON:
        mean = falling_exponential(np.maximum(first - raw, 0.0))
        return np.asarray(
            np.maximum(mean, second) - np.minimum(np.maximum(own, second), 1.0)
        )
    if loss.form == LossId.GAMMA:
        below = np.minimum(np.maximum(raw + first, 0.0), 2.0 * first)
        ratio = np.maximum(own, 1.0) * falling_exponential(below)
        return np.asarray(1.0 - np.minimum(ratio, second))
    if loss.form == LossId.QUANTILE:
        error = raw - np.minimum(np.maximum(own, -1.0), 1.0)
        if second == 0.0:
            return np.where(error > 0.0, 1.0, 0.0) - first
        rising = error * (0.5 / second) + 0.5
        return np.asarray(np.minimum(np.maximum(rising, 0.0), 1.0) - first)
    if loss.form == LossId.ERROR:
        error = raw - np.minimum(np.maximum(own, -second), second)
        return np.asarray(np.minimum(np.maximum(error, -first), first))
    signs = np.where(own > 0.5, 1.0, -1.0)
    if loss.form == LossId.STEP:
        tail = falling_exponential(np.abs(raw))
        whole = 1.0 + tail
        return np.asarray(-signs * (tail / (whole * whole)))
    if loss.form == LossId.CAUCHY:
        error = raw - signs
        share = error / first
        return np.asarray(error / (1.0 + share * share))
    slope = (1.0 + first - signs * raw) / (2.0 * first)
    return np.asarray(-signs * np.minimum(np.maximum(slope, 0.0), 1.0))


def _softmax(y: FloatArray, raw: FloatArray) -> FloatArray:
    units = softmax_units(raw.shape[1])
    parts = falling_exponential(raw.max(axis=1, keepdims=True) - raw)
    parts *= units
    np.floor(parts, out=parts)
    parts /= parts.sum(axis=1, keepdims=True)
    parts[np.arange(len(raw)), y.astype(np.intp)] -= 1.0
    return parts


def plain_error(loss: Loss, clip: float = math.inf) -> float:
    """Bound on the norm of the error of `plain_residual`, at any raw predictions.

    Residuals may be clipped to the norm `clip`; the rounding of the clip is not
    included. Weights of labels, at most 1, add one rounding in each output.
    """
    if loss.label_weights:
        rounded = min(loss.zero_out_bound(math.inf), clip) * 2.0**-52
        return _unweighted_error(loss, clip) + rounded
    return _unweighted_error(loss, clip)


def _unweighted_error(loss: Loss, clip: float) -> float:
    if loss.form in (LossId.SIGMOID, LossId.POISSON):
        return _EXPONENTIAL_ERROR
    if loss.form == LossId.GAMMA:
        half, most = loss.form_constants
        return most * _relative_error(2 * half)
    if loss.form == LossId.SOFTMAX:
        k = loss.n_outputs
        return 2 * k * (_EXPONENTIAL_ERROR + 1 / softmax_units(k))
    if loss.form == LossId.STEP:
        # The derivative of t / (1 + t)^2 is at most 1.
        return math.sqrt(loss.n_outputs) * _EXPONENTIAL_ERROR
    # A few roundings of numbers up to the bound, or to the slope of a hinge.
    is_steep = loss.form in (LossId.HINGE, LossId.QUANTILE)
    steepness = loss.smoothness if is_steep else 0.0
    return min(loss.zero_out_bound(math.inf), clip) * (1 + steepness) * 2.0**-48
