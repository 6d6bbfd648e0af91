"""The losses that `skdp.forecast` takes; all else in this room is private."""

from skdp.losses._cauchy import CauchyLoss
from skdp.losses._gamma import GammaLoss
from skdp.losses._huber_hinge import HuberHingeLoss
from skdp.losses._logistic import LogisticLoss
from skdp.losses._poisson import PoissonLoss
from skdp.losses._quantile import QuantileLoss
from skdp.losses._sigmoid import SigmoidLoss
from skdp.losses._softmax import SoftmaxLoss
from skdp.losses._squared import SquaredLoss

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
