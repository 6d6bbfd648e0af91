"""The Poisson loss of amounts within public bounds, with a logarithmic link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.losses._base import Form


@dataclass(frozen=True)
class PoissonLoss:
    r"""Half the Poisson deviance of y and ``mean = exp(raw - top)``, straight beyond.

    Targets are in units of the largest and clipped to [`lowest`, 1]. Within these
    bounds of the mean the derivative by `raw` is ``mean - y``; beyond them it stays as
    it is at the bound, so that the loss is convex, as smooth as its largest mean, and
    has a bounded derivative [1]_.

    Parameters
    ----------
    top : float in [0, 50]
        The raw prediction whose mean is 1: at 0 it is ``exp(-top)``.
    lowest : float in [0, 0.99], default=0.0
        The lowest target, over the largest. Nearer ones would leave residuals that are
        no larger than what an exponential is rounded by.

    References
    ----------
    .. [1] McCullagh and Nelder (1989). Generalized Linear Models, section 6.2. (the
       loss without bounds)
    """

    top: float
    lowest: float = 0.0
    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    curvature_trace: ClassVar[float] = 1.0
    corners: ClassVar[int] = 2
    summands: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    raw_unit: ClassVar[float] = 0.35
    # Tighter ones make means of many zeros and a few large targets far too low.
    noisy_clip: ClassVar[float] = 0.5
    form: ClassVar[Form] = Form.POISSON
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        top = check_real("top", self.top, low=0.0, high=50.0)
        lowest = check_real("lowest", self.lowest, low=0.0, high=0.99)
        object.__setattr__(self, "top", top)
        object.__setattr__(self, "lowest", lowest)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The raw prediction of the largest mean, and the lowest mean."""
        return self.top, self.lowest

    @property
    def value_at_zero(self) -> float:
        """Of one of the two bounds: a deviance is convex in the target."""
        ends = np.array([self.lowest, 1.0])
        return float(self.value(ends, np.zeros((2, 1))).max())

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        y, below = self._clipped(y), self.top - raw[:, 0]
        deepest = -math.log(self.lowest) if self.lowest > 0 else math.inf
        inside = np.clip(below, 0.0, deepest)
        mean = np.exp(-inside)
        least = y - xlogy(y, y)
        value = mean + y * inside + (mean - y) * (inside - below) - least
        return np.asarray(value, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        mean = np.exp(-np.maximum(self.top - raw, 0.0))
        residual = np.maximum(mean, self.lowest) - self._clipped(y)[:, None]
        return np.asarray(residual, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        mean = np.exp(-np.maximum(self.top - raw, 0.0))
        is_inside = (raw < self.top) & (mean > self.lowest)
        return np.asarray(np.where(is_inside, mean, 0.0), dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """Farthest that a mean within the radius is from a target."""
        least = max(math.exp(-self.top - radius), self.lowest)
        most = math.exp(min(radius - self.top, 0.0))
        return max(1 - least, most - self.lowest) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at w = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)

    def _clipped(self, y: FloatArray) -> FloatArray:
        return np.asarray(np.clip(y, self.lowest, 1.0))
