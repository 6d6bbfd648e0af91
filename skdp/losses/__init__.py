"""Losses with the constants that private solvers need."""

from skdp.losses._base import Form, Loss
from skdp.losses._cauchy import CauchyLoss
from skdp.losses._gamma import GammaLoss
from skdp.losses._huber_hinge import HuberHingeLoss
from skdp.losses._logistic import LogisticLoss
from skdp.losses._poisson import PoissonLoss
from skdp.losses._quantile import QuantileLoss
from skdp.losses._sigmoid import SigmoidLoss
from skdp.losses._softmax import SoftmaxLoss
from skdp.losses._squared import SquaredLoss
from skdp.losses._weighted import WeightedLoss

__all__ = [
    "CauchyLoss",
    "Form",
    "GammaLoss",
    "HuberHingeLoss",
    "LogisticLoss",
    "Loss",
    "PoissonLoss",
    "QuantileLoss",
    "SigmoidLoss",
    "SoftmaxLoss",
    "SquaredLoss",
    "WeightedLoss",
]
