"""The quantile loss with a rounded kink."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.losses._base import Form


@dataclass(frozen=True)
class QuantileLoss:
    r"""The pinball loss of targets in [-1, 1], quadratic within `h` of its kink.

    With e = raw - y its derivative rises from ``-level`` at ``e = -h`` to
    ``1 - level`` at ``e = h``: the pinball loss of y plus uniform noise of at most `h`,
    on average [1]_.

    Parameters
    ----------
    level : float in [0.01, 0.99]
        Share of the targets that are to be below the prediction.
    h : float in [1e-3, 1], default=0.05
        Half the width of the rounded kink, in units of the target.

    References
    ----------
    .. [1] Fernandes, Guerre and Horta (2021). Smoothing quantile regressions. Journal
       of Business and Economic Statistics 39(1).
    """

    level: float
    h: float = 0.05
    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    corners: ClassVar[int] = 2
    summands: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    # Of many outer targets few tell: less noise than for a mean, on made-up tables.
    raw_unit: ClassVar[float] = 0.12
    gain_clip: ClassVar[float] = 1 / 6
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[Form] = Form.QUANTILE
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        level = check_real("level", self.level, low=0.01, high=0.99)
        object.__setattr__(self, "level", level)
        object.__setattr__(self, "h", check_real("h", self.h, low=1e-3, high=1.0))

    @property
    def smoothness(self) -> float:
        return 1 / (2 * self.h)

    @property
    def curvature_trace(self) -> float:
        return 1 / (2 * self.h)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The level, and half the width of the kink."""
        return self.level, self.h

    @property
    def sides(self) -> tuple[float, float]:
        """Largest residuals below 0 and above."""
        return self.level, 1 - self.level

    @property
    def value_at_zero(self) -> float:
        """Of one of the two bounds: the loss is convex in the target."""
        return float(self.value(np.array([-1.0, 1.0]), np.zeros((2, 1))).max())

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw[:, 0] - np.clip(y, -1.0, 1.0)
        inside = np.clip(error, -self.h, self.h)
        round_part = (inside + self.h) ** 2 / (4 * self.h) + np.maximum(
            error - inside, 0.0
        )
        return np.asarray(round_part - self.level * error, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - np.clip(y, -1.0, 1.0)[:, None]
        rising = np.clip(error / (2 * self.h) + 0.5, 0.0, 1.0)
        return np.asarray(rising - self.level, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - np.clip(y, -1.0, 1.0)[:, None]
        return np.asarray((np.abs(error) < self.h) / (2 * self.h), dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """The larger of both sides, attained at w = 0 by a target at its bound."""
        return max(self.sides) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice that, attained at w = 0 by opposite rows of the same target."""
        return 2 * self.zero_out_bound(radius)
