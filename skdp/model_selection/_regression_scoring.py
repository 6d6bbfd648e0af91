"""Scores of regressors with bounded sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.metrics import mean_pinball_loss

from skdp._floats import FloatArray
from skdp._validation import check_real, check_target_bounds
from skdp.model_selection._scoring_base import (
    MeanLoss,
    PrivateScoring,
    PublicFacts,
    column,
)
from skdp.privacy._adjacency import Adjacency
from skdp.queries._scores import QUANTUM


@dataclass(frozen=True)
class _Residuals(PrivateScoring):
    """Scores that follow from the residuals of clipped targets and predictions."""

    task = "regression"

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = check_target_bounds((self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        if facts.target_bounds is None:
            raise ValueError(
                f"scoring={cls.name!r} needs bounds of the targets. Got none. Pass "
                "target_bounds=(low, high), known without looking at the data."
            )
        return cls(*facts.target_bounds)

    def _clipped(
        self, estimator: Any, X: Any, y: NDArray[Any]
    ) -> tuple[FloatArray, FloatArray]:
        """Predictions and targets within the bounds; NaN for what is no number."""
        predicted = column(estimator.predict(X), len(y)).astype(np.float64)
        predicted[~np.isfinite(predicted)] = np.nan
        predicted = np.clip(predicted, self.low, self.high)
        return predicted, np.clip(y.astype(np.float64), self.low, self.high)

    def _residuals(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        """Their sizes in units of the width, in [0, 1]; 1 for what is no number."""
        predicted, target = self._clipped(estimator, X, y)
        return _or_worst(np.abs(predicted - target) / (self.high - self.low))


class _MeanLoss(MeanLoss, _Residuals):
    """Minus the mean of a power of the residual."""

    _power: ClassVar[int]

    @property
    def lowest(self) -> float:
        return -((self.high - self.low) ** self._power)

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        return np.asarray(-(self._residuals(estimator, X, y) ** self._power))


@dataclass(frozen=True)
class NegMeanSquaredError(_MeanLoss):
    """Minus the mean squared residual.

    Parameters
    ----------
    low, high : float
        Bounds to which targets and predictions are clipped. Public.
    """

    name = "neg_mean_squared_error"
    _power = 2


@dataclass(frozen=True)
class NegMeanAbsoluteError(_MeanLoss):
    """Minus the mean absolute residual.

    Parameters
    ----------
    low, high : float
        Bounds to which targets and predictions are clipped. Public.
    """

    name = "neg_mean_absolute_error"
    _power = 1


@dataclass(frozen=True)
class NegMeanPinballLoss(MeanLoss, _Residuals):
    """Minus the mean pinball loss, which the quantile of the targets makes smallest.

    A residual y - z counts ``quantile`` times if it is positive, and ``1 - quantile``
    times its size if it is not.

    Parameters
    ----------
    low, high : float
        Bounds to which targets and predictions are clipped. Public.
    quantile : float in [0.01, 0.99], default=0.5
        Of which predictions are rated. Public.
    """

    name = "neg_mean_pinball_loss"

    quantile: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        quantile = check_real("quantile", self.quantile, low=0.01, high=0.99)
        object.__setattr__(self, "quantile", quantile)

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        found = super().of(facts)
        return (
            found if facts.quantile is None else replace(found, quantile=facts.quantile)
        )

    @property
    def lowest(self) -> float:
        return -self._steeper * (self.high - self.low)

    def of_raw_data(self, estimator: Any, X: Any, y: Any) -> float:
        return -float(mean_pinball_loss(y, estimator.predict(X), alpha=self.quantile))

    @property
    def _steeper(self) -> float:
        return max(self.quantile, 1 - self.quantile)

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        predicted, target = self._clipped(estimator, X, y)
        residual = (target - predicted) / (self.high - self.low)
        weight = np.where(residual > 0, self.quantile, 1 - self.quantile)
        return -_or_worst(weight * np.abs(residual) / self._steeper)


class _Deviance(MeanLoss, _Residuals):
    """Minus a mean deviance of targets from positive means."""

    floor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low < 0:
            raise ValueError(
                f"scoring={self.name!r} needs target_bounds of at least 0. Got "
                f"{(self.low, self.high)!r}. Use 'neg_mean_squared_error' for targets "
                "below 0."
            )
        floor = check_real("floor", self.floor, low=1e-6, high=0.5)
        object.__setattr__(self, "floor", floor)

    @property
    def least_mean(self) -> float:
        """Smaller predictions count as this one."""
        return max(self.low, self.floor * self.high)


@dataclass(frozen=True)
class NegMeanPoissonDeviance(_Deviance):
    """Minus the mean Poisson deviance, ``2 (y log(y / mean) - y + mean)``.

    Parameters
    ----------
    low, high : float
        Bounds to which targets and predictions are clipped; at least 0. Public.
    floor : float in [1e-6, 0.5], default=0.01
        Predictions below this share of `high` count as that, since no number bounds
        the deviance from means near 0. Public.
    """

    name = "neg_mean_poisson_deviance"

    floor: float = 0.01

    @property
    def lowest(self) -> float:
        ends = np.array([self.low, self.high])
        corners = _poisson(ends[:, None], np.array([self.least_mean, self.high]))
        return -float(corners.max())

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        predicted, target = self._clipped(estimator, X, y)
        mean = np.maximum(predicted, self.least_mean)
        return -_or_worst(_poisson(target, mean) / -self.lowest)


@dataclass(frozen=True)
class NegMeanGammaDeviance(_Deviance):
    """Minus the mean gamma deviance, ``2 (y / mean - 1 - log(y / mean))``.

    Parameters
    ----------
    low, high : float
        Bounds to which targets and predictions are clipped; at least 0. Public.
    floor : float in [1e-6, 0.5], default=0.01
        Targets and predictions below this share of `high` count as that, since no
        number bounds the deviance of amounts near 0. Public.
    most : float in (1, 1e100], default=8.0
        A target counts as at most so many predicted means. Of an exponential law the
        deviance is then least at 0.997 of the mean, with 4 at 0.898. Public.
    """

    name = "neg_mean_gamma_deviance"

    floor: float = 0.01
    most: float = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        most = check_real("most", self.most, low=1.0, high=1e100, low_open=True)
        object.__setattr__(self, "most", most)

    @property
    def lowest(self) -> float:
        widest = self.high / self.least_mean
        return -float(_gamma(np.array([min(self.most, widest), 1 / widest])).max())

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        predicted, target = np.maximum(self._clipped(estimator, X, y), self.least_mean)
        ratio = np.minimum(target / predicted, self.most)
        return -_or_worst(_gamma(ratio) / -self.lowest)


@dataclass(frozen=True)
class R2(_Residuals):
    """Coefficient of determination.

    The statistic is the sum of (squared residual / width^2, v, v^2), with v the target
    brought to [-1, 1] by its bounds.

    Parameters
    ----------
    low, high : float
        Bounds to which targets and predictions are clipped. Public.
    least : float in [-1e6, 0], default=-1.0
        Lower scores are reported as this one. Public.
    """

    name = "r2"
    is_single = False
    _worst = 1.0

    least: float = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        least = check_real("least", self.least, low=-1e6, high=0.0)
        object.__setattr__(self, "least", least)

    @property
    def size(self) -> int:
        return 3

    @property
    def lowest(self) -> float:
        return self.least

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        exact = {
            ("replace_one", 1): 3.25,
            ("replace_one", 2): 5**0.5,
            ("zero_out", 1): 3.0,
            ("zero_out", 2): 3**0.5,
        }[adjacency, norm]
        # v and v^2 are rounded to the grid one by one.
        rounding = {1: 3.0, 2: 3**0.5}[norm] * QUANTUM
        return (exact + rounding) * (1 + 1e-12)

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        residual, first, second = np.asarray(statistic, dtype=np.float64)
        spread = second - first**2 / n_samples
        if spread <= 0:
            return self.lowest
        return float(np.clip(1 - 4 * residual / spread, self.lowest, 1.0))

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        return self._residuals(estimator, X, y) ** 2

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        half = self.high / 2 - self.low / 2
        v = (y.astype(np.float64) - (self.low / 2 + self.high / 2)) / half
        v = np.clip(np.nan_to_num(v), -1.0, 1.0)
        return np.column_stack([quality, v, v**2])


def _or_worst(losses: FloatArray) -> FloatArray:
    """Losses within [0, 1], the worst for what is no number."""
    return np.where(losses <= 1.0, np.maximum(losses, 0.0), 1.0)


def _poisson(target: FloatArray, mean: FloatArray) -> FloatArray:
    """Deviance of a target from a positive mean."""
    return np.asarray(2 * (xlogy(target, target / mean) - target + mean))


def _gamma(ratio: FloatArray) -> FloatArray:
    """Deviance of a target that is so many means."""
    return np.asarray(2 * (ratio - 1 - np.log(ratio)))
