"""Scores of regressors with bounded sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

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

    def _residuals(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        """Their sizes in units of the width, in [0, 1]; 1 for what is no number."""
        predicted = column(estimator.predict(X), len(y)).astype(np.float64)
        is_number = np.isfinite(predicted)
        predicted = np.clip(predicted, self.low, self.high)
        target = np.clip(y.astype(np.float64), self.low, self.high)
        size = np.abs(predicted - target) / (self.high - self.low)
        return np.where(is_number & (size <= 1.0), size, 1.0)


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

    def worst_statistic(self, n_samples: int) -> FloatArray:
        return np.array([float(n_samples), 0.0, 0.0])

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        return self._residuals(estimator, X, y) ** 2

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        half = self.high / 2 - self.low / 2
        v = (y.astype(np.float64) - (self.low / 2 + self.high / 2)) / half
        v = np.clip(np.nan_to_num(v), -1.0, 1.0)
        return np.column_stack([quality, v, v**2])
