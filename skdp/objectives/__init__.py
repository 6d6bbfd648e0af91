"""What models minimise: losses of raw predictions, and public facts of a fit."""

from skdp.objectives._linear import Expected, LinearObjective

__all__ = ["Expected", "LinearObjective"]
