"""The gamma loss of amounts within public bounds, with a logarithmic link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.losses._base import Form


@dataclass(frozen=True)
class GammaLoss:
    r"""Half the gamma deviance of y and ``mean = exp(raw + half)``, straight beyond.

    Targets are in units of the lowest, which is above 0, and the largest is
    ``exp(2 half)``. The derivative by `raw` is ``1 - y / mean``, with the mean clipped
    to these bounds and the ratio to `most`: a target counts as that many means at most.
    So the loss is convex, as smooth as `most`, and has a bounded derivative [1]_.

    Parameters
    ----------
    half : float in [0.005, 7]
        Half of the logarithm of the largest target over the lowest; the raw prediction
        of the largest, and minus that of the lowest. Less would leave residuals that
        are no larger than what an exponential is rounded by.
    most : float in (1, inf), default=4.0
        A target over a mean at most; ``exp(2 half)`` if that is less.

    References
    ----------
    .. [1] McCullagh and Nelder (1989). Generalized Linear Models, section 8.3. (the
       loss without bounds)
    """

    half: float
    most: float = 4.0
    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    corners: ClassVar[int] = 2
    summands: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    raw_unit: ClassVar[float] = 0.25
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[Form] = Form.GAMMA
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        half = check_real("half", self.half, low=0.005, high=7.0)
        most = check_real("most", self.most, low=1.0, high=math.inf, low_open=True)
        object.__setattr__(self, "half", half)
        object.__setattr__(self, "most", min(most, math.exp(2 * half)))

    @property
    def smoothness(self) -> float:
        return self.most

    @property
    def curvature_trace(self) -> float:
        return self.most

    @property
    def form_constants(self) -> tuple[float, float]:
        """The raw prediction of the largest target, and the largest ratio."""
        return self.half, self.most

    @property
    def sides(self) -> tuple[float, float]:
        """Largest residuals below 0 and above."""
        return self.most - 1, 1 - math.exp(-2 * self.half)

    @property
    def value_at_zero(self) -> float:
        """Of one of the two bounds: no target in between has lost more."""
        ends = np.array([1.0, math.exp(2 * self.half)])
        return float(self.value(ends, np.zeros((2, 1))).max())

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        logs = np.clip(np.log(np.maximum(y, 1.0)), 0.0, 2 * self.half)
        above = raw[:, 0] + self.half
        straight = np.maximum(logs - math.log(self.most), 0.0)
        inside = np.clip(above, straight, 2 * self.half)
        ratio = np.exp(logs - inside)
        value = inside - logs + ratio - 1 + (1 - ratio) * (above - inside)
        return np.asarray(value, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(1 - np.minimum(self._ratio(y, raw), self.most))

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        ratio = self._ratio(y, raw)
        is_inside = (np.abs(raw) < self.half) & (ratio < self.most)
        return np.asarray(np.where(is_inside, ratio, 0.0), dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """The larger of both sides."""
        return max(self.sides) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice that, attained by opposite rows orthogonal to w."""
        return 2 * self.zero_out_bound(radius)

    def _ratio(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Targets over means."""
        above = np.clip(raw + self.half, 0.0, 2 * self.half)
        return np.asarray(np.maximum(y, 1.0)[:, None] * np.exp(-above))
