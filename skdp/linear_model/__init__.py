"""Private linear models."""

from skdp._forecast import Forecast
from skdp.linear_model._forecast import forecast
from skdp.linear_model._gamma import DPGammaRegressor
from skdp.linear_model._linear_regression import DPLinearRegression
from skdp.linear_model._logistic import DPLogisticRegression
from skdp.linear_model._poisson import DPPoissonRegressor
from skdp.linear_model._quantile import DPQuantileRegressor
from skdp.linear_model._robust import DPRobustClassifier
from skdp.linear_model._sparse_linear_regression import DPSparseLinearRegression
from skdp.linear_model._sparse_logistic_regression import DPSparseLogisticRegression
from skdp.linear_model._svc import DPLinearSVC

__all__ = [
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
