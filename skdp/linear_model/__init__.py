"""Private linear models."""

from skdp._base import Forecast
from skdp.linear_model._classifiers import (
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
)
from skdp.linear_model._forecast import forecast
from skdp.linear_model._log_link import DPGammaRegressor, DPPoissonRegressor
from skdp.linear_model._regressors import DPLinearRegression, DPQuantileRegressor
from skdp.linear_model._sparse import (
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp.linear_model._survival import DPDiscreteTimeSurvival

__all__ = [
    "DPDiscreteTimeSurvival",
    "DPGammaRegressor",
    "DPLinearRegression",
    "DPLinearSVC",
    "DPLogisticRegression",
    "DPPoissonRegressor",
    "DPQuantileRegressor",
    "DPRobustClassifier",
    "DPSparseLinearRegression",
    "DPSparseLogisticRegression",
    "Forecast",
    "forecast",
]
