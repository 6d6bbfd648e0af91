"""Private networks of few layers."""

from typing import Any

from skdp.neural_network._classifier import DPMLPClassifier
from skdp.neural_network._registry import NETWORK_SOLVERS
from skdp.neural_network._regressor import DPMLPRegressor
from skdp.objectives._layer import LAYERS

__all__ = ["NETWORK_SOLVERS", "Convolution", "DPMLPClassifier", "DPMLPRegressor"]


def __getattr__(name: str) -> Any:
    """Layers of annexes, such as `Convolution`."""
    if name in LAYERS:
        return LAYERS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
