"""Where the way to a minimum begins if the loss is not convex."""

from __future__ import annotations

from skdp.losses import HuberHingeLoss
from skdp.losses._weighted import weighted
from skdp.objectives import LinearObjective


def convex_start(objective: LinearObjective) -> LinearObjective:
    """The same facts with the rounded hinge of the same labels, weighted alike."""
    loss = objective.loss
    hinge = HuberHingeLoss(n_outputs=loss.n_outputs)
    return objective.with_loss(weighted(hinge, loss.label_weights))
