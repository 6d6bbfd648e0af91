"""`LossFacts`: what a loss of boosted trees knows beside predictions and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skdp._floats import FloatArray

LeafLoss = Literal["logistic", "softmax", "squared", "poisson", "quantile"]

# With larger ones squares of what is left of units underflow, and steps are 0 / 0.
_MOST_ORIGIN = 1e17


@dataclass(frozen=True)
class LossFacts:
    """Public or released numbers that a loss depends on; most losses need none.

    Parameters
    ----------
    level : float in (0, 1), default=0.5
        Of the quantile.
    origin : float in [0, 1e17], default=1.0
        What targets of counts are above, where they are scaled to [-1, 1].
    cap : float above 0, default=1.0
        Mean from which on the curvature of counts is 1.
    label_weights : tuple of float in (0, 1], default=()
        By which records of each label are multiplied; empty: all by 1.
    """

    level: float = 0.5
    origin: float = 1.0
    cap: float = 1.0
    label_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        is_scaled = 0 <= self.origin <= _MOST_ORIGIN
        is_known = 0 < self.level < 1 and is_scaled and self.cap > 0
        if not is_known or not all(0 < each <= 1 for each in self.label_weights):
            raise ValueError(
                "Facts of a loss must be a level between 0 and 1, an origin from 0 to "
                "1e17, a cap above 0, and weights of labels above 0 and up to 1. "
                f"Got {self}. Scale them."
            )

    @property
    def farthest(self) -> float:
        """The highest mean of counts, in units of their scale."""
        return self.origin + 1.0

    @property
    def typical_weight(self) -> float:
        """Mean weight of records of labels that are as rare as they weigh much."""
        weights = self.label_weights or (1.0,)
        return len(weights) / sum(1 / each for each in weights)

    def heaviest(self) -> tuple[float, float]:
        """The two largest weights of labels."""
        rising = sorted(self.label_weights or (1.0, 1.0))
        return rising[-1], rising[-2]

    def numbers(self, loss: LeafLoss, n_outputs: int) -> FloatArray:
        """What the compiled loops of the loss read."""
        if loss == "quantile":
            return np.array([self.level])
        if loss == "poisson":
            return np.array([self.origin, self.cap])
        labels = max(n_outputs, 2)
        return np.array(self.label_weights or (1.0,) * labels)


# Of losses that need no more.
PLAIN = LossFacts()
