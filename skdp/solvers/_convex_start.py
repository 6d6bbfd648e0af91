"""Where the way to a minimum begins if the loss is not convex."""

from __future__ import annotations

from skdp.losses import HuberHingeLoss
from skdp.objectives import LinearObjective


def convex_start(objective: LinearObjective) -> LinearObjective:
    """The same facts with the rounded hinge of the same labels."""
    return objective.with_loss(HuberHingeLoss(n_outputs=objective.loss.n_outputs))
