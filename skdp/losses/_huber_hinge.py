"""Hinge loss with a rounded corner."""

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
class HuberHingeLoss:
    r"""The hinge loss, quadratic within `h` of its corner.

    With z = s raw and s = 2 y - 1 for y in {0, 1}: 0 for ``z > 1 + h``,
    ``(1 + h - z)^2 / (4 h)`` for ``|1 - z| <= h``, and ``1 - z`` below [1]_.

    With several outputs y is a class in {0, ..., n_outputs - 1}, and the loss is the
    sum of the binary losses of each class against the rest: one joint vector whose
    residuals are released together.

    Parameters
    ----------
    h : float in [1e-3, 1e3], default=0.5
        Half the width of the rounded corner.
    n_outputs : int, default=1
        1 for two classes, else the number of classes.

    References
    ----------
    .. [1] Chapelle (2007). Training a support vector machine in the primal. Neural
       Computation 19(5), equation 2.7.
    """

    h: float = 0.5
    n_outputs: int = 1
    is_convex: ClassVar[bool] = True
    corners: ClassVar[int] = 1
    curvature_vanishes: ClassVar[bool] = False
    form: ClassVar[Form] = Form.HINGE
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "h", check_real("h", self.h, low=1e-3, high=1e3))
        count = check_count("n_outputs", self.n_outputs)
        object.__setattr__(self, "n_outputs", count)

    @property
    def smoothness(self) -> float:
        """1 / (2 h): the Hessian is diagonal in the outputs."""
        return 1 / (2 * self.h)

    @property
    def curvature_trace(self) -> float:
        return self.n_outputs / (2 * self.h)

    @property
    def value_at_zero(self) -> float:
        inside = min(1 + self.h, 2 * self.h)
        return self.n_outputs * (inside**2 / (4 * self.h) + 1 + self.h - inside)

    @property
    def summands(self) -> int:
        """Every output's residual is between 0 and its sign."""
        return self.n_outputs

    @property
    def form_constants(self) -> tuple[float, float]:
        """The half-width of the corner."""
        return self.h, 0.0

    @property
    def raw_unit(self) -> float:
        """Half of the margin that the hinge asks for."""
        return 0.5

    @property
    def noisy_clip(self) -> float:
        """A quarter of the residual norm at first, if there are several outputs."""
        return math.inf if self.n_outputs == 1 else math.sqrt(self.n_outputs) / 4

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        short = 1 + self.h - signs_of(y, self.n_outputs) * raw
        inside = np.clip(short, 0.0, 2 * self.h)
        losses = inside**2 / (4 * self.h) + (np.maximum(short, 0.0) - inside)
        return np.asarray(losses.sum(axis=1), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        signs = signs_of(y, self.n_outputs)
        slope = np.clip((1 + self.h - signs * raw) / (2 * self.h), 0.0, 1.0)
        return np.asarray(-signs * slope, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        short = 1 + self.h - signs_of(y, self.n_outputs) * raw
        is_round = (short > 0) & (short < 2 * self.h)
        return np.asarray(is_round / (2 * self.h), dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """sqrt(n_outputs) for h <= 1; below that near W = 0 for a wider corner."""
        # Proof page, Lemma 3b.
        worst = math.sqrt(self.n_outputs)
        near_zero = (worst * (1 + self.h) + radius) / (2 * self.h)
        return min(worst, near_zero) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at W = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)
