"""Half squared error with clipped targets and residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.losses._base import Form


@dataclass(frozen=True)
class SquaredLoss:
    """``(raw - y)^2 / 2`` whose target and residual are clipped to public bounds.

    The clipped residual is the derivative of the Huber loss with that threshold;
    `value` is this Huber loss, so value and residual belong together.

    Parameters
    ----------
    residual_bound : float in (0, inf]
        Largest magnitude of a residual, in units of the target.
    target_bound : float in (0, inf], default=inf
        Targets are clipped to this magnitude first.
    """

    residual_bound: float
    target_bound: float = math.inf
    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    curvature_trace: ClassVar[float] = 1.0
    corners: ClassVar[int] = 2
    summands: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    form: ClassVar[Form] = Form.ERROR
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        for name in ("residual_bound", "target_bound"):
            bound = getattr(self, name)
            bound = check_real(name, bound, low=0.0, high=math.inf, low_open=True)
            object.__setattr__(self, name, bound)

    @property
    def value_at_zero(self) -> float:
        """Largest loss of a target at raw = 0; not finite if neither bound is."""
        inside = min(self.residual_bound, self.target_bound)
        return inside * (self.target_bound - inside / 2)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The bounds of the residual and of the target."""
        return self.residual_bound, self.target_bound

    @property
    def raw_unit(self) -> float:
        """A third of the largest target."""
        return self._target_scale / 3

    @property
    def noisy_clip(self) -> float:
        """A quarter of the largest target: a robust fit, but far less noise."""
        return self._target_scale / 4

    @property
    def _target_scale(self) -> float:
        return min(self.target_bound, self.residual_bound)

    def clip_targets(self, y: FloatArray) -> FloatArray:
        """Targets within the public bound."""
        return np.asarray(np.clip(y, -self.target_bound, self.target_bound))

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = np.abs(raw[:, 0] - self.clip_targets(y))
        inside = np.minimum(error, self.residual_bound)
        return np.asarray(inside * (error - inside / 2), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - self.clip_targets(y)[:, None]
        bound = self.residual_bound
        return np.asarray(np.clip(error, -bound, bound), dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - self.clip_targets(y)[:, None]
        inside = np.abs(error) < self.residual_bound
        return np.asarray(inside, dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """The largest target and prediction, at most the residual bound."""
        near_zero = (self.target_bound + radius) * (1 + 1e-12)
        return min(self.residual_bound, near_zero)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at w = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)
