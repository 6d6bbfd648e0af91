"""Private networks of few layers."""

from typing import Any

from skdp.losses._objective import LAYERS
from skdp.neural_network._estimators import DPMLPClassifier, DPMLPRegressor
from skdp.neural_network._solvers import NETWORK_SOLVERS

__all__ = ["NETWORK_SOLVERS", "Convolution", "DPMLPClassifier", "DPMLPRegressor"]


def __getattr__(name: str) -> Any:
    """Layers of annexes, such as `Convolution`."""
    if name in LAYERS:
        return LAYERS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
