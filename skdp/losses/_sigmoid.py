"""The sigmoid loss: a count of mistakes with a rounded step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from skdp._floats import FloatArray
from skdp._validation import check_count
from skdp.losses._base import Form
from skdp.losses._signs import signs_of


@dataclass(frozen=True)
class SigmoidLoss:
    r"""``1 / (1 + exp(s raw))`` with s = 2 y - 1 for y in {0, 1}; not convex [1]_.

    A record costs at most 1 however wrong it is, so that flipped labels far from the
    boundary hardly count: what they add to a gradient falls with their distance.

    With several outputs y is a class in {0, ..., n_outputs - 1}, and the loss is the
    sum of the binary losses of each class against the rest: one joint vector whose
    residuals are released together.

    Parameters
    ----------
    n_outputs : int, default=1
        1 for two classes, else the number of classes.

    References
    ----------
    .. [1] Mason, Baxter, Bartlett and Frean (1999). Boosting algorithms as gradient
       descent. NeurIPS. (losses of margins that are not convex)
    """

    n_outputs: int = 1
    is_convex: ClassVar[bool] = False
    corners: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    raw_unit: ClassVar[float] = 1.0
    noisy_clip: ClassVar[float] = math.inf
    # The largest |expit(r) expit(-r) (1 - 2 expit(r))|, where expit is (3 + 3^.5) / 6.
    smoothness: ClassVar[float] = 1 / (6 * math.sqrt(3)) * (1 + 1e-12)
    form: ClassVar[Form] = Form.STEP
    form_constants: ClassVar[tuple[float, float]] = (0.0, 0.0)
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        count = check_count("n_outputs", self.n_outputs)
        object.__setattr__(self, "n_outputs", count)

    @property
    def curvature_trace(self) -> float:
        return self.n_outputs * self.smoothness

    @property
    def value_at_zero(self) -> float:
        return self.n_outputs / 2

    @property
    def summands(self) -> int:
        """Every output's residual is between 0 and a quarter of its sign."""
        return self.n_outputs

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        losses = expit(-signs_of(y, self.n_outputs) * raw)
        return np.asarray(losses.sum(axis=1), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        bell = expit(raw) * expit(-raw)
        return np.asarray(-signs_of(y, self.n_outputs) * bell, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        p = np.asarray(expit(raw), dtype=np.float64)
        return -signs_of(y, self.n_outputs) * p * (1 - p) * (1 - 2 * p)

    def zero_out_bound(self, radius: float) -> float:
        """A quarter in every output, attained at W = 0."""
        # Proof page of noisy_gd, Lemma 3c.
        return math.sqrt(self.n_outputs) / 4 * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at W = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)
