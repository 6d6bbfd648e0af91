"""Binary cross-entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import expit

from skdp._floats import FloatArray
from skdp.losses._base import Form

# Angles at which the bound on the diameter is evaluated, and their spacing.
_ANGLES = np.linspace(0.0, math.pi / 2, 2049)
_COS_TWICE = np.cos(2 * _ANGLES)
_COS = np.cos(_ANGLES)


@lru_cache(maxsize=1024)
def _diameter(radius: float) -> float:
    # Proof page, Lemma 2: the squared diameter is at most the supremum over m of
    # max_{0 <= X <= T(m)} (1 + X)(1 - X cos 2m), T(m) = tanh(radius cos(m) / 2).
    # On a cell of angles, T is largest at its left end and cos 2m smallest at its
    # right end, so evaluating at those ends bounds the whole cell from above.
    top = np.tanh(radius * _COS[:-1] / 2)
    cosine = _COS_TWICE[1:]
    with np.errstate(divide="ignore"):
        peak = np.where(cosine > 0, (1 - cosine) / (2 * cosine), math.inf)
    x = np.minimum(top, np.maximum(peak, 0.0))
    return float(math.sqrt(np.max((1 + x) * (1 - x * cosine))) * (1 + 1e-12))


@dataclass(frozen=True)
class LogisticLoss:
    r"""``log(1 + exp(raw)) - y raw`` for y in {0, 1}.

    The residual is ``expit(raw) - y``. Over unit rows and both labels the set of
    gradients is ``{expit(<u, w>) u : ||u|| <= 1}`` (the label is the sign of u).
    """

    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.25
    curvature_trace: ClassVar[float] = 0.25
    value_at_zero: ClassVar[float] = math.log(2)
    corners: ClassVar[int] = 1
    summands: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = True
    raw_unit: ClassVar[float] = 1.0
    gain_clip: ClassVar[float] = 1.0
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[Form] = Form.SIGMOID
    form_constants: ClassVar[tuple[float, float]] = (0.0, 0.0)
    label_weights: ClassVar[tuple[float, ...]] = ()

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        raw = raw[:, 0]
        return np.asarray(np.logaddexp(0.0, raw) - y * raw, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        residual = np.asarray(expit(raw), dtype=np.float64)
        residual -= y[:, None]
        return residual

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        p = np.asarray(expit(raw), dtype=np.float64)
        return p * (1 - p)

    def zero_out_bound(self, radius: float) -> float:
        """``expit(radius)``: 1/2 for w = 0, 1 for unbounded weights."""
        return float(expit(radius)) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Diameter of the set of gradients: 1 for w = 0, 2 for unbounded weights."""
        return 2.0 if math.isinf(radius) else min(2.0, _diameter(radius))
