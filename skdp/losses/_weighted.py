"""A loss that counts records of some labels more than others, by declared weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.losses._base import Loss, LossId
from skdp.losses._regression import GammaLoss, QuantileLoss

# Whose residuals have the sign of their label, whatever is predicted.
_ONE_SIGN = (LossId.SIGMOID, LossId.HINGE, LossId.STEP)


@dataclass(frozen=True)
class WeightedLoss:
    r"""``v[y] * loss(y, raw)`` with public weights v in (0, 1], the largest of them 1.

    A record's weighted gradient lies between 0 and its gradient without the weight. So
    every bound of the loss holds for it too, under both adjacencies: weights in units
    of the largest are the whole of what weights cost (``docs/proofs/noisy_gd.md``,
    Lemma 3e).

    Parameters
    ----------
    loss : Loss
        Of labels: y is 0 or 1 for one output, else in {0, ..., n_outputs - 1}.
    label_weights : tuple of float in (0, 1]
        Of each label.
    """

    loss: Loss
    label_weights: tuple[float, ...]

    def __post_init__(self) -> None:
        weights, n_labels = self.label_weights, max(self.loss.n_outputs, 2)
        is_scaled = all(0 < weight <= 1 for weight in weights) and 1 in weights
        if self.loss.form.is_of_numbers or self.loss.label_weights:
            raise ValueError(
                "The 'loss' must be one of labels without weights. Got "
                f"{self.loss!r}. Use for example LogisticLoss()."
            )
        if len(weights) != n_labels or not is_scaled:
            raise ValueError(
                f"The 'label_weights' must be {n_labels} numbers above 0, the largest "
                f"of them 1. Got {weights!r}. Divide them by the largest."
            )

    @property
    def n_outputs(self) -> int:
        return self.loss.n_outputs

    @property
    def is_convex(self) -> bool:
        return self.loss.is_convex

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness

    @property
    def curvature_trace(self) -> float:
        return self.loss.curvature_trace

    @property
    def value_at_zero(self) -> float:
        return self.loss.value_at_zero

    @property
    def corners(self) -> int:
        return self.loss.corners

    @property
    def summands(self) -> int:
        return self.loss.summands

    @property
    def curvature_vanishes(self) -> bool:
        """As without weights: ``v r (1 - r) <= v r (1 - v r)``."""
        return self.loss.curvature_vanishes

    @property
    def prediction_unit(self) -> float:
        return self.loss.prediction_unit

    @property
    def noisy_clip(self) -> float:
        """That of the loss; a record is clipped to it times its own weight."""
        return self.loss.noisy_clip

    @property
    def form(self) -> LossId:
        return self.loss.form

    @property
    def form_constants(self) -> tuple[float, ...]:
        """Those of the loss, and the weights."""
        return (*self.loss.form_constants, *self.label_weights)

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.value(y, raw) * record_weights(self, y)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.residual(y, raw) * record_weights(self, y)[:, None]

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.curvature(y, raw) * record_weights(self, y)[:, None]

    def zero_out_bound(self, radius: float) -> float:
        """That of the loss, attained by the label of weight 1."""
        return self.loss.zero_out_bound(radius)

    def replace_one_bound(self, radius: float) -> float:
        """That of the loss: a diameter, which a convex hull with 0 shares."""
        return self.loss.replace_one_bound(radius)


def weighted(loss: Loss, label_weights: tuple[float, ...]) -> Loss:
    """`loss` with these weights of labels; without any it stays as it is."""
    return WeightedLoss(loss, label_weights) if label_weights else loss


def record_weights(loss: Loss, y: FloatArray) -> FloatArray:
    """Of each record by its label, 1 if the loss has no weights: (n,).

    Safe for whatever null records hold in place of a label.
    """
    weights = np.ones(len(y))
    for label, weight in enumerate(loss.label_weights):
        weights[y == label] = weight
    return weights


def heaviest_pair(loss: Loss, clip: float = math.inf) -> float:
    """Residuals of two records of unlike sign together, at most, over the largest.

    2 where all labels weigh the same, and where residuals of a label have not one sign,
    so that records of one label may be as far apart. Of a loss with sides, each of them
    clipped to `clip`.
    """
    if isinstance(loss, (QuantileLoss, GammaLoss)):
        sides = [min(side, clip) for side in loss.sides]
        return sum(sides) / max(sides)
    if not loss.label_weights or loss.n_outputs > 1 or loss.form not in _ONE_SIGN:
        return 2.0
    return sum(loss.label_weights)


def clip_of(loss: Loss, y: FloatArray, clip: float) -> FloatArray | float:
    """The norm that each record's weighted residual is clipped to: (n, 1), or one.

    Of the clip times its weight, so that weights count after the clip.
    """
    if math.isinf(clip) or not loss.label_weights:
        return clip
    return np.asarray(clip * record_weights(loss, y)[:, None])


def typical_weight(loss: Loss) -> float:
    """Mean weight of records of labels that are as rare as they weigh much.

    For rules only: so many times the number of records tell of the weights.
    """
    weights = loss.label_weights or (1.0,)
    return len(weights) / sum(1 / weight for weight in weights)


def typical_curvature(loss: Loss) -> float:
    """Curvature in an output that rules expect of a record; no bound on anything."""
    return loss.curvature_trace / loss.n_outputs * typical_weight(loss)
