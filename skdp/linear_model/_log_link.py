"""What private models with a logarithmic link share: units, predictions, deviances."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import d2_tweedie_score

from skdp._validation import check_target_bounds
from skdp.linear_model._regressor import LinearRegressor, Units
from skdp.losses._plain import FARTHEST
from skdp.objectives._linear import LinearObjective
from skdp.solvers._base import Solution

# The largest target over the lowest, at least: what a residual is rounded by is
# nothing beside the residuals that such bounds leave.
_NARROWEST = 1.02


@dataclass(frozen=True)
class Means:
    """Bounds of means and of targets, and what the loss counts in; public.

    Parameters
    ----------
    low, high : float
    start : float
        The mean at weights of 0.
    unit : float
        Of targets.
    per_alpha : float, default=1.0
        Penalties inside, over those of scikit-learn.
    """

    low: float
    high: float
    start: float
    unit: float
    per_alpha: float = 1.0


class LogLinkRegressor(LinearRegressor):
    """A model of the logarithm of the mean of amounts within public bounds.

    A subclass documents the parameters.
    """

    _always_clips = True
    # Of a Tweedie deviance.
    _deviance_power: ClassVar[int]
    # What rates it where no score is named.
    _scored_by: ClassVar[str]
    # Of the logarithm of the mean, as they were in `fit`; public.
    _log_bounds: tuple[float, float]

    @abstractmethod
    def _means(self) -> Means:
        """Public facts about targets, checked."""

    def _checked_bounds(self) -> tuple[float, float]:
        low, high = check_target_bounds(self.target_bounds)
        if low < 0:
            raise ValueError(
                "The 'target_bounds' parameter must be of at least 0 for a model of "
                f"the logarithm of a mean. Got {self.target_bounds!r}. Use "
                "DPLinearRegression for targets below 0."
            )
        if high < _NARROWEST * low:
            raise ValueError(
                "The 'target_bounds' parameter must be at least 2 % apart for a model "
                f"of the logarithm of a mean. Got {self.target_bounds!r}. Widen them."
            )
        return low, high

    def _units(self) -> Units:
        means = self._means()
        return Units(
            means.low,
            means.high,
            middle=0.0,
            scale=means.unit,
            start=math.log(means.start),
            size=1.0,
            per_alpha=means.per_alpha,
        )

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        super()._keep_weights(solution, objective, dtype)
        means = self._means()
        high = math.log(means.high)
        # Smaller means are all the same to the loss.
        low = high - FARTHEST
        if means.low > 0:
            low = max(low, math.log(means.low))
        self._log_bounds = low, high

    def predict(self, X: Any) -> np.ndarray:
        """Means for the rows, clipped as in `fit`, within the bounds of the targets.

        Rows are clipped as by the other linear models, at finite epsilon; means are
        ``exp(X @ coef_ + intercept_)`` of these, clipped to `target_bounds`, and above
        0 where the lowest is 0.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(np.exp(np.clip(self._raw(X), *self._log_bounds)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the deviance that is explained (D²); reads raw data, not private.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        float
            At most 1; 0 of the constant mean of `y`.
        """
        predicted = self.predict(X)
        return float(
            d2_tweedie_score(
                y, predicted, sample_weight=sample_weight, power=self._deviance_power
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # `fit` clips targets below the bounds; `score` has no deviance of them.
        tags.target_tags.positive_only = True
        return tags
