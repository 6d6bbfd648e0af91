"""The protocol of a loss, and labels as signs."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import numpy as np

from skdp._arrays import FloatArray

# ------------------------------------------------------------------- Protocol of a loss


class LossId(IntEnum):
    """The formula of a residual, for compiled loops that treat one record at a time.

    Each has two public constants, the first of `Loss.form_constants`. Further constants
    are weights of labels, by which the residual is multiplied.
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
    SHIFTED_POISSON = 9  # exp(raw), up to first + 1, minus first + y clipped

    @property
    def is_of_numbers(self) -> bool:
        """Whether targets are numbers, not labels."""
        return self in (
            LossId.ERROR,
            LossId.POISSON,
            LossId.QUANTILE,
            LossId.GAMMA,
            LossId.SHIFTED_POISSON,
        )


class Loss(Protocol):
    r"""Pointwise loss of the raw predictions of a linear model.

    A record is a row x and a target y; its raw prediction is ``x @ W`` with W of
    shape (n_columns, n_outputs), and its gradient is the outer product of x and
    the residual ``d loss / d raw``.

    The two bounds hold for **every** record, for unit rows and weights of spectral
    norm at most `radius`. They are derived separately for each loss (proof page:
    ``docs/proofs/noisy_gd.md``); for rows of norm rho they are used as
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
        """The formula's number in compiled loops."""
        ...

    @property
    def form_constants(self) -> tuple[float, ...]:
        """Public constants in the formula of the residual: two, and `label_weights`."""
        ...

    @property
    def label_weights(self) -> tuple[float, ...]:
        """Factor in (0, 1] on records of each label; empty: all 1."""
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
        """Largest norm of one record's gradient: a record against the null record."""
        ...

    def replace_one_bound(self, radius: float) -> float:
        """Largest norm of the difference of the gradients of two records."""
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
