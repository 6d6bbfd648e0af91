"""Where the way to a minimum begins if the loss is not convex."""

from __future__ import annotations

from skdp.losses import HuberHingeLoss
from skdp.losses._base import Loss
from skdp.losses._weighted import weighted
from skdp.objectives._linear import LinearObjective


def convex_loss(loss: Loss) -> Loss:
    """The rounded hinge of the same labels, weighted alike."""
    hinge = HuberHingeLoss(n_outputs=loss.n_outputs)
    return weighted(hinge, loss.label_weights)


def convex_start(objective: LinearObjective) -> LinearObjective:
    """The same facts with that loss."""
    return objective.with_loss(convex_loss(objective.loss))
