"""Losses that `skdp.forecast` takes; every other name in this package is private."""

from skdp.losses._classification import (
    CauchyLoss,
    HuberHingeLoss,
    LogisticLoss,
    SigmoidLoss,
    SoftmaxLoss,
)
from skdp.losses._regression import GammaLoss, PoissonLoss, QuantileLoss, SquaredLoss

__all__ = [
    "CauchyLoss",
    "GammaLoss",
    "HuberHingeLoss",
    "LogisticLoss",
    "PoissonLoss",
    "QuantileLoss",
    "SigmoidLoss",
    "SoftmaxLoss",
    "SquaredLoss",
]
