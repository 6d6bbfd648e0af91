"""Private linear models."""

from skdp.linear_model._logistic import DPLogisticRegression

__all__ = ["DPLogisticRegression"]
