"""Residuals by plain arithmetic: the same bits wherever they are computed.

The code uses + - * / floor, comparisons and roots only, each rounded once, in the order
in which they are written, and no library's exponential. `_kernel.py` has the formulas.
Proof page: ``docs/proofs/noisy_gd.md``, Lemma 4.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._arrays import FloatArray
from skdp.losses._base import SHRINK, Loss, LossId
from skdp.losses._regression import ShiftedPoissonLoss

# Bound on the error of `falling_exponential`, 2.4e-12, and of a sigmoid made of it.
_EXPONENTIAL_ERROR = 2.0**-38


def _relative_error(farthest: float) -> float:
    """Bound on the relative error of `falling_exponential`, for t up to `farthest`.

    `farthest` is below 64. The error is that of the polynomial's remainder and of
    roundings, 64 times.
    """
    u = farthest * -SHRINK
    return 64 * (1.1 * math.exp(u) * u**7 / 5040 + 2.0**-48)


def softmax_units(n_outputs: int) -> float:
    """Unit of the whole numbers that are the exponentials of a softmax.

    It is so large that sums of `n_outputs` of them are exact in any order.
    """
    return 2.0 ** (52 - n_outputs.bit_length())


def plain_residual(loss: Loss, y: FloatArray, raw: FloatArray) -> FloatArray:
    """`Loss.residual` by plain arithmetic, within `plain_error` of it.

    Parameters
    ----------
    loss : Loss
    y : ndarray of shape (n_rows,)
    raw : ndarray of shape (n_rows, n_outputs)

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
    """
    from skdp.losses._kernel import plain_residuals

    found, units = np.empty(raw.shape), softmax_units(loss.n_outputs)
    targets, raw = (np.ascontiguousarray(each, dtype=np.float64) for each in (y, raw))
    plain_residuals(int(loss.form), loss.form_constants, units, targets, raw, found)
    return found


def plain_curvature(loss: Loss, residual: FloatArray) -> FloatArray:
    """`Loss.curvature` by plain arithmetic, from the result of `plain_residual`.

    For a sigmoid or a clipped error, without weights of labels. At most the loss's
    smoothness, for every residual.
    """
    if loss.form == LossId.SIGMOID:
        size = np.minimum(np.abs(residual), 1.0)
        return np.asarray(size * (1.0 - size))
    return np.where(np.abs(residual) < loss.form_constants[0], 1.0, 0.0)


def plain_error(loss: Loss, clip: float = math.inf) -> float:
    """Bound on the norm of the error of `plain_residual`, at any raw predictions.

    For residuals that are clipped to the norm `clip`, before the rounding of the clip.
    Weights of labels, at most 1, add one rounding in each output.
    """
    if loss.label_weights:
        rounded = min(loss.zero_out_bound(math.inf), clip) * 2.0**-52
        return _unweighted_error(loss, clip) + rounded
    return _unweighted_error(loss, clip)


def _unweighted_error(loss: Loss, clip: float) -> float:
    if loss.form in (LossId.SIGMOID, LossId.POISSON):
        return _EXPONENTIAL_ERROR
    if isinstance(loss, ShiftedPoissonLoss):
        above_one = loss.largest * _relative_error(math.log(loss.largest))
        return _EXPONENTIAL_ERROR + above_one
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
