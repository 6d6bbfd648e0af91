"""Losses of regressors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import xlogy

from skdp._arrays import FloatArray
from skdp._checks import check_real, check_target_bounds
from skdp.losses._base import FARTHEST, LossId

# ------------------------------------- Squared error with clipped targets and residuals


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
    form: ClassVar[LossId] = LossId.ERROR
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        for name in ("residual_bound", "target_bound"):
            bound = getattr(self, name)
            bound = check_real(name, bound, low=0.0, high=math.inf, low_open=True)
            object.__setattr__(self, name, bound)

    @property
    def value_at_zero(self) -> float:
        """Largest loss of a target at raw = 0; infinite if both bounds are."""
        inside = min(self.residual_bound, self.target_bound)
        return inside * (self.target_bound - inside / 2)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The bounds of the residual and of the target."""
        return self.residual_bound, self.target_bound

    @property
    def prediction_unit(self) -> float:
        """A third of the largest target."""
        return self._target_scale / 3

    @property
    def noisy_clip(self) -> float:
        """A quarter of the largest target, which gives a robust fit with less noise."""
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

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """Leaves count records."""
        return 1.0, 1.0


# ------------------------------------ Bounds of means, for losses of their logarithms


# Smallest ratio of the target bounds. With this ratio, the rounding of residuals is
# negligible compared with the largest residuals that the bounds allow.
_NARROWEST = 1.02
# Largest ratio of the bounds of amounts above 0; floating-point arithmetic is too
# coarse above it.
_WIDEST = 1e6


@dataclass(frozen=True)
class Means:
    """Bounds of means and targets, and the unit of targets in the loss; public.

    Parameters
    ----------
    low, high : float
    start : float
        The mean at a raw prediction of 0.
    unit : float
        Unit of targets in the loss.
    per_alpha : float, default=1.0
        Penalty in the loss over scikit-learn's penalty.
    """

    low: float
    high: float
    start: float
    unit: float
    per_alpha: float = 1.0

    @property
    def log_bounds(self) -> tuple[float, float]:
        """Bounds of the logarithm of the mean; the loss ignores smaller means."""
        high = math.log(self.high)
        low = high - FARTHEST
        return (max(low, math.log(self.low)) if self.low > 0 else low), high


def means_of_counts(target_bounds: Any) -> Means:
    """Units of `PoissonLoss` for targets of at least 0."""
    low, high = _bounds_of_logs(target_bounds)
    return Means(low, high, start=low / 2 + high / 2, unit=high, per_alpha=1 / high)


def means_of_amounts(target_bounds: Any) -> Means:
    """Units of `GammaLoss` for targets above 0."""
    low, high = _bounds_of_logs(target_bounds)
    if not 0 < low <= high <= _WIDEST * low:
        raise ValueError(
            "The 'target_bounds' parameter must be above 0 and at most 1e6 times "
            f"apart for a gamma regression. Got {target_bounds!r}. Raise the lower "
            "bound, to which targets below it are clipped."
        )
    return Means(low, high, start=math.sqrt(low) * math.sqrt(high), unit=low)


def _bounds_of_logs(target_bounds: Any) -> tuple[float, float]:
    low, high = check_target_bounds(target_bounds)
    if low < 0:
        raise ValueError(
            "The 'target_bounds' parameter must be at least 0 for a model of the "
            f"logarithm of the mean. Got {target_bounds!r}. Use a model of squared "
            "errors for targets below 0."
        )
    if high < _NARROWEST * low:
        raise ValueError(
            "The 'target_bounds' parameter must be at least 2 % apart for a model "
            f"of the logarithm of the mean. Got {target_bounds!r}. Widen them."
        )
    return low, high


# ------------------------------------------------- Poisson loss with a logarithmic link


@dataclass(frozen=True)
class PoissonLoss:
    r"""Half the Poisson deviance of y and ``mean = exp(raw - top)``, linear outside.

    Targets are in units of the largest target and clipped to [`lowest`, 1]. While the
    mean is within these bounds, the derivative by `raw` is ``mean - y``; outside, it
    has the value at the bound, so the loss is linear. So the loss is convex, its
    smoothness is the largest mean, and its derivative is bounded [1]_.

    Parameters
    ----------
    top : float in [0, 50]
        The raw prediction whose mean is 1: at 0 it is ``exp(-top)``.
    lowest : float in [0, 0.99], default=0.0
        The lowest target over the largest. With a ratio above 0.99, residuals would be
        no larger than the rounding error of an exponential.

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
    prediction_unit: ClassVar[float] = 0.35
    # With smaller clips, means are far too low for many zeros and a few large targets.
    noisy_clip: ClassVar[float] = 0.5
    form: ClassVar[LossId] = LossId.POISSON
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        top = check_real("top", self.top, low=0.0, high=50.0)
        lowest = check_real("lowest", self.lowest, low=0.0, high=0.99)
        object.__setattr__(self, "top", top)
        object.__setattr__(self, "lowest", lowest)

    @classmethod
    def of(cls, means: Means) -> Self:
        """The loss in the units of `means_of_counts`."""
        return cls(math.log(means.high / means.start), means.low / means.high)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The raw prediction of the largest mean, and the lowest mean."""
        return self.top, self.lowest

    @property
    def value_at_zero(self) -> float:
        """Loss at one of the two bounds, since a deviance is convex in the target."""
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
        """Largest distance of a mean within the radius from a target."""
        least = max(math.exp(-self.top - radius), self.lowest)
        most = math.exp(min(radius - self.top, 0.0))
        return max(1 - least, most - self.lowest) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at w = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """The means over the cap, at most 1."""
        return min(self.lowest / cap, 1.0), min(1 / cap, 1.0)

    def _clipped(self, y: FloatArray) -> FloatArray:
        return np.asarray(np.clip(y, self.lowest, 1.0))


# --------------------------------------------------- Gamma loss with a logarithmic link


@dataclass(frozen=True)
class GammaLoss:
    r"""Half the gamma deviance of y and ``mean = exp(raw + half)``, linear outside.

    Targets are in units of the lowest target, which is above 0, and the largest target
    is ``exp(2 half)``. The derivative by `raw` is ``1 - y / mean``, with the mean
    clipped to these bounds and the ratio clipped to `most`, so that a target counts as
    at most `most` times the mean. So the loss is convex, its smoothness is `most`, and
    its derivative is bounded [1]_.

    Parameters
    ----------
    half : float in [0.005, 7]
        Half of the logarithm of the largest target over the lowest. The raw prediction
        is `half` for the largest target and -`half` for the lowest. With a smaller
        value, residuals would be no larger than the rounding error of an exponential.
    most : float in (1, inf), default=4.0
        Largest ratio of a target to a mean; ``exp(2 half)`` if that is smaller.

    References
    ----------
    .. [1] McCullagh and Nelder (1989). Generalized Linear Models, section 8.3. (the
       loss without bounds)
    """

    half: float
    most: float = 4.0
    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    prediction_unit: ClassVar[float] = 0.25
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[LossId] = LossId.GAMMA
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        half = check_real("half", self.half, low=0.005, high=7.0)
        most = check_real("most", self.most, low=1.0, high=math.inf, low_open=True)
        object.__setattr__(self, "half", half)
        object.__setattr__(self, "most", min(most, math.exp(2 * half)))

    @classmethod
    def of(cls, means: Means, most: float = 4.0) -> Self:
        """The loss in the units of `means_of_amounts`."""
        return cls(math.log(means.high / means.low) / 2, most)

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
        """Largest sizes of residuals below 0 and above 0."""
        return self.most - 1, 1 - math.exp(-2 * self.half)

    @property
    def value_at_zero(self) -> float:
        """Loss at one of the two bounds; targets between them have a smaller loss."""
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
        """The larger residual of both signs."""
        return max(self.sides) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice `zero_out_bound`, attained by opposite rows orthogonal to w."""
        return 2 * self.zero_out_bound(radius)

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """The curvature of the expected loss: leaves count records."""
        return 1.0, 1.0

    def _ratio(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Targets over means."""
        above = np.clip(raw + self.half, 0.0, 2 * self.half)
        return np.asarray(np.maximum(y, 1.0)[:, None] * np.exp(-above))


# ---------------------------------------------------- Quantile loss with a rounded kink


@dataclass(frozen=True)
class QuantileLoss:
    r"""The pinball loss of targets in [-1, 1], quadratic within `h` of its kink.

    With e = raw - y its derivative rises from ``-level`` at ``e = -h`` to
    ``1 - level`` at ``e = h``. The loss is the mean of the pinball loss if uniform
    noise between -`h` and `h` is added to y [1]_.

    Parameters
    ----------
    level : float in [0.01, 0.99]
        Proportion of the targets that should be below the prediction.
    h : float in [1e-3, 1], or 0, default=0.05
        Half the width of the rounded kink, in units of the target. With 0 this is the
        pinball loss, whose curvature is not bounded: trees can use it, linear models
        cannot.

    References
    ----------
    .. [1] Fernandes, Guerre and Horta (2021). Smoothing quantile regressions. Journal
       of Business and Economic Statistics 39(1).
    """

    level: float
    h: float = 0.05
    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    # Found on simulated tables: quantiles need less noise than means, since only few of
    # the outer targets are informative.
    prediction_unit: ClassVar[float] = 0.12
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[LossId] = LossId.QUANTILE
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        level = check_real("level", self.level, low=0.01, high=0.99)
        object.__setattr__(self, "level", level)
        h = check_real("h", self.h, low=1e-3 if self.h else 0.0, high=1.0)
        object.__setattr__(self, "h", h)

    @property
    def smoothness(self) -> float:
        return 1 / (2 * self.h) if self.h else math.inf

    @property
    def curvature_trace(self) -> float:
        return self.smoothness

    @property
    def form_constants(self) -> tuple[float, float]:
        """The level, and half the width of the kink."""
        return self.level, self.h

    @property
    def sides(self) -> tuple[float, float]:
        """Largest sizes of residuals below 0 and above 0."""
        return self.level, 1 - self.level

    @property
    def value_at_zero(self) -> float:
        """Loss at one of the two bounds, since the loss is convex in the target."""
        return float(self.value(np.array([-1.0, 1.0]), np.zeros((2, 1))).max())

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw[:, 0] - np.clip(y, -1.0, 1.0)
        inside = np.clip(error, -self.h, self.h)
        above = np.maximum(error - inside, 0.0)
        if self.h:
            above += (inside + self.h) ** 2 / (4 * self.h)
        return np.asarray(above - self.level * error, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - np.clip(y, -1.0, 1.0)[:, None]
        if not self.h:
            return np.where(error > 0, 1.0 - self.level, -self.level)
        rising = np.clip(error / (2 * self.h) + 0.5, 0.0, 1.0)
        return np.asarray(rising - self.level, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - np.clip(y, -1.0, 1.0)[:, None]
        return np.where(np.abs(error) < self.h, self.smoothness, 0.0)

    def zero_out_bound(self, radius: float) -> float:
        """The larger residual of both signs, attained at w = 0 by extreme targets."""
        return max(self.sides) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice `zero_out_bound`, attained at w = 0 by opposite rows of one target."""
        return 2 * self.zero_out_bound(radius)

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """Leaves count records."""
        return 1.0, 1.0
