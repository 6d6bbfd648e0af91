"""What models minimise: losses of raw predictions, and public facts of a fit."""

from skdp.objectives._activations import ACTIVATIONS, Activation
from skdp.objectives._linear import LinearObjective
from skdp.objectives._network import NetworkObjective

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "LinearObjective",
    "NetworkObjective",
]
