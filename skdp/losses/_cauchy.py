"""The Cauchy loss: squares of errors that stop counting when they are large."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.losses._base import Form
from skdp.losses._signs import signs_of


@dataclass(frozen=True)
class CauchyLoss:
    r"""``c^2 / 2 log(1 + ((raw - s) / c)^2)`` with s = 2 y - 1; not convex [1]_.

    The regression of signs +1 and -1 on rows, with errors that count less the larger
    they are beyond c.

    With several outputs y is a class in {0, ..., n_outputs - 1}, and the loss is the
    sum of the binary losses of each class against the rest: one joint vector whose
    residuals are released together.

    Parameters
    ----------
    c : float in [1e-3, 1e3], default=1.0
        The error that weighs most.
    n_outputs : int, default=1
        1 for two classes, else the number of classes.

    References
    ----------
    .. [1] Black and Anandan (1996). The robust estimation of multiple motions. Computer
       Vision and Image Understanding 63(1). (the Lorentzian)
    """

    c: float = 1.0
    n_outputs: int = 1
    is_convex: ClassVar[bool] = False
    corners: ClassVar[int] = 2
    curvature_vanishes: ClassVar[bool] = False
    raw_unit: ClassVar[float] = 0.5
    noisy_clip: ClassVar[float] = math.inf
    smoothness: ClassVar[float] = 1.0
    form: ClassVar[Form] = Form.CAUCHY
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", check_real("c", self.c, low=1e-3, high=1e3))
        count = check_count("n_outputs", self.n_outputs)
        object.__setattr__(self, "n_outputs", count)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The error that weighs most."""
        return self.c, 0.0

    @property
    def curvature_trace(self) -> float:
        return float(self.n_outputs)

    @property
    def value_at_zero(self) -> float:
        return self.n_outputs * self.c**2 / 2 * math.log1p(1 / self.c**2)

    @property
    def summands(self) -> int:
        """Every output's residual is between -c / 2 and c / 2."""
        return self.n_outputs

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = np.abs(raw - signs_of(y, self.n_outputs)) / self.c
        # log(1 + q^2) without the square of a large q.
        small, large = np.minimum(error, 1.0), np.maximum(error, 1.0)
        logs = np.log1p(small**2) + np.log((1 + large**-2) / 2) + 2 * np.log(large)
        losses = self.c**2 / 2 * logs
        return np.asarray(losses.sum(axis=1), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - signs_of(y, self.n_outputs)
        share = error / self.c
        return np.asarray(error / (1 + share * share), dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        squares = ((raw - signs_of(y, self.n_outputs)) / self.c) ** 2
        return np.asarray((1 - squares) / (1 + squares) ** 2, dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """C / 2 in every output, or less where no error comes near c."""
        # Proof page of noisy_gd, Lemma 3d: errors are from 1 - radius to 1 + radius.
        nearest = min(max(self.c, 1 - radius), 1 + radius)
        worst = nearest / (1 + (nearest / self.c) ** 2)
        return math.sqrt(self.n_outputs) * worst * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient: opposite rows of both labels."""
        return 2 * self.zero_out_bound(radius)
