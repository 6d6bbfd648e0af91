"""Half squared error with clipped residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._validation import check_real
from skdp.losses._base import FloatArray


@dataclass(frozen=True)
class SquaredLoss:
    """``(raw - y)^2 / 2`` whose residual is clipped to a public bound.

    The clipped residual is the derivative of the Huber loss with that threshold;
    `value` is this Huber loss, so value and residual belong together.

    Parameters
    ----------
    residual_bound : float in (0, inf]
        Largest magnitude of a residual, in units of the target.
    """

    residual_bound: float
    n_outputs: ClassVar[int] = 1
    smoothness: ClassVar[float] = 1.0
    curvature_trace: ClassVar[float] = 1.0
    corners: ClassVar[int] = 2
    curvature_vanishes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        bound = check_real(
            "residual_bound", self.residual_bound, low=0.0, high=math.inf, low_open=True
        )
        object.__setattr__(self, "residual_bound", bound)

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = np.abs(raw[:, 0] - y)
        inside = np.minimum(error, self.residual_bound)
        return np.asarray(inside * (error - inside / 2), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        bound = self.residual_bound
        return np.asarray(np.clip(raw - y[:, None], -bound, bound), dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        inside = np.abs(raw - y[:, None]) < self.residual_bound
        return np.asarray(inside, dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """The residual bound, whatever the weights are."""
        return self.residual_bound

    def replace_one_bound(self, radius: float) -> float:
        """Residuals of both signs at opposite ends: twice the residual bound."""
        return 2 * self.residual_bound
