"""A loss with declared weights of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.losses._base import Loss, LossId
from skdp.losses._regression import GammaLoss, QuantileLoss

# Losses whose residual has the sign of its label, at every prediction.
ONE_SIGN = (LossId.SIGMOID, LossId.HINGE, LossId.STEP)


@dataclass(frozen=True)
class WeightedLoss:
    r"""``v[y] * loss(y, raw)`` with public weights v in (0, 1], the largest of them 1.

    A record's weighted gradient lies between 0 and its gradient without the weight. So
    every bound of the loss also holds with weights, under both adjacencies. Scaling the
    weights by the largest is their only cost (``docs/proofs/noisy_gd.md``, Lemma 3e).

    Parameters
    ----------
    loss : Loss
        Loss of labels: y is 0 or 1 for one output, else in {0, ..., n_outputs - 1}.
    label_weights : tuple of float in (0, 1]
        Weight of each label.
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
    def prediction_unit(self) -> float:
        return self.loss.prediction_unit

    @property
    def noisy_clip(self) -> float:
        """The clip of the loss; a record is clipped to it times the record's weight."""
        return self.loss.noisy_clip

    @property
    def form(self) -> LossId:
        return self.loss.form

    @property
    def form_constants(self) -> tuple[float, ...]:
        """The constants of the loss, and the weights."""
        return (*self.loss.form_constants, *self.label_weights)

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.value(y, raw) * record_weights(self, y)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.residual(y, raw) * record_weights(self, y)[:, None]

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.curvature(y, raw) * record_weights(self, y)[:, None]

    def zero_out_bound(self, radius: float) -> float:
        """The bound of the loss, attained by the label of weight 1."""
        return self.loss.zero_out_bound(radius)

    def replace_one_bound(self, radius: float) -> float:
        """The bound of the loss: a diameter, which the convex hull with 0 keeps."""
        return self.loss.replace_one_bound(radius)


def weighted(loss: Loss, label_weights: tuple[float, ...]) -> Loss:
    """`loss` with these weights of labels; unchanged without weights."""
    return WeightedLoss(loss, label_weights) if label_weights else loss


def record_weights(loss: Loss, y: FloatArray) -> FloatArray:
    """Weight of each record by its label, 1 if the loss has no weights: (n,).

    Safe for any value that null records hold in place of a label.
    """
    weights = np.ones(len(y))
    for label, weight in enumerate(loss.label_weights):
        weights[y == label] = weight
    return weights


def heaviest_pair(loss: Loss, clip: float = math.inf) -> float:
    """Largest sum of the residuals of two records of opposite sign, over the largest.

    It is 2 if all labels have one weight, and if residuals of one label have both
    signs, so that records of one label may be as far apart. With a loss with sides,
    each side is clipped to `clip`.
    """
    if isinstance(loss, (QuantileLoss, GammaLoss)):
        sides = [min(side, clip) for side in loss.sides]
        return sum(sides) / max(sides)
    if not loss.label_weights or loss.n_outputs > 1 or loss.form not in ONE_SIGN:
        return 2.0
    return sum(loss.label_weights)


def without_weights(loss: Loss) -> Loss:
    """The loss with equal weights of labels."""
    return loss.loss if isinstance(loss, WeightedLoss) else loss


def heaviest(loss: Loss) -> tuple[float, float]:
    """The two largest weights of labels."""
    rising = sorted(loss.label_weights or (1.0, 1.0))
    return rising[-1], rising[-2]


def clip_of(loss: Loss, y: FloatArray, clip: float) -> FloatArray | float:
    """The norm to which each record's weighted residual is clipped: (n, 1), or one.

    It is the clip times the record's weight, so that weights count after the clip.
    """
    if math.isinf(clip) or not loss.label_weights:
        return clip
    return np.asarray(clip * record_weights(loss, y)[:, None])


def typical_weight(loss: Loss) -> float:
    """Mean label weight, if labels are as rare as their weights are large.

    For rules only: this fraction of the records determines the weights.
    """
    weights = loss.label_weights or (1.0,)
    return len(weights) / sum(1 / weight for weight in weights)


def typical_curvature(loss: Loss) -> float:
    """Curvature in an output that rules expect of a record; not a bound.

    At most 1 for numbers, even at a kink.
    """
    typical = loss.curvature_trace / loss.n_outputs * typical_weight(loss)
    return min(typical, 1.0) if loss.form.is_of_numbers else typical
