"""Multinomial cross-entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, softmax

from skdp._floats import FloatArray
from skdp.losses._base import Form


@dataclass(frozen=True)
class SoftmaxLoss:
    r"""``logsumexp(raw) - raw[y]`` for y in {0, ..., n_outputs - 1}.

    One joint vector over the classes: its sensitivity is sqrt(2), not the sqrt(K)
    of K one-vs-rest models.

    Parameters
    ----------
    n_outputs : int
        Number of classes, at least 3 (two classes use `LogisticLoss`).
    """

    n_outputs: int
    is_convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.5
    raw_unit: ClassVar[float] = 1.0
    # A clip would cut residuals of rare labels and leave those of frequent ones whole,
    # so that frequent labels would be predicted too often.
    noisy_clip: ClassVar[float] = math.inf
    summands: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    form: ClassVar[Form] = Form.SOFTMAX
    form_constants: ClassVar[tuple[float, float]] = (0.0, 0.0)
    label_weights: ClassVar[tuple[float, ...]] = ()

    @property
    def curvature_trace(self) -> float:
        return 1 - 1 / self.n_outputs

    @property
    def value_at_zero(self) -> float:
        return math.log(self.n_outputs)

    @property
    def gain_clip(self) -> float:
        return 1.5 * math.log(self.n_outputs)

    @property
    def corners(self) -> int:
        """Where all probability is on one wrong class."""
        return self.n_outputs - 1

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        own = raw[np.arange(len(raw)), y.astype(np.intp)]
        return np.asarray(logsumexp(raw, axis=1) - own, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        residual = np.asarray(softmax(raw, axis=1), dtype=np.float64)
        residual[np.arange(len(raw)), y.astype(np.intp)] -= 1.0
        return residual

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        p = np.asarray(softmax(raw, axis=1), dtype=np.float64)
        return p * (1 - p)

    def zero_out_bound(self, radius: float) -> float:
        """sqrt((K-1)/K) nearly, for W = 0, to sqrt(2) for unbounded weights."""
        # Proof page, Lemma 3: ||p - e_y||^2 <= q (q + m), q = 1 - p_y, m = max p_k.
        k = self.n_outputs
        worst = math.sqrt(2.0)
        if radius > 50:
            return worst
        q = 1 - 1 / (1 + (k - 1) * math.exp(math.sqrt(2) * radius))
        m = 1 / (1 + (k - 1) * math.exp(-radius * math.sqrt(k / (k - 1))))
        return min(worst, math.sqrt(q * (q + m)) * (1 + 1e-12))

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained in the limit by x and nearly -x."""
        return 2 * self.zero_out_bound(radius)
