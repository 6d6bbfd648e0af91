"""Private networks of few layers."""

from skdp.neural_network._classifier import DPMLPClassifier
from skdp.neural_network._registry import NETWORK_SOLVERS
from skdp.neural_network._regressor import DPMLPRegressor
from skdp.objectives._convolution import Convolution

__all__ = ["NETWORK_SOLVERS", "Convolution", "DPMLPClassifier", "DPMLPRegressor"]
