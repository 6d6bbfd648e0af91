"""Activations of hidden units by plain arithmetic: the same bits wherever a record is.

As in ``losses/_plain.py``: + - * /, comparisons and roundings, each number by itself.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from skdp._floats import FloatArray
from skdp.losses._plain import falling_exponential


class Activation(Protocol):
    """What a hidden unit makes of its raw value; its slope is between 0 and 1."""

    @property
    def is_bounded(self) -> bool:
        """Whether values are between -1 and 1."""
        ...

    def value(self, raw: FloatArray) -> FloatArray:
        """The unit's value."""
        ...

    def slope(self, value: FloatArray) -> FloatArray:
        """Derivative where the unit has a value."""
        ...


class Identity:
    """``z``: a linear model with a bottleneck."""

    is_bounded: ClassVar[bool] = False

    def value(self, raw: FloatArray) -> FloatArray:
        return raw

    def slope(self, value: FloatArray) -> FloatArray:
        return np.ones_like(value)


class Logistic:
    """``1 / (1 + exp(-z))``."""

    is_bounded: ClassVar[bool] = True

    def value(self, raw: FloatArray) -> FloatArray:
        """The unit's value, within 2.4e-12."""
        tail = falling_exponential(np.abs(raw))
        return np.asarray(np.where(raw >= 0, 1.0, tail) / (1.0 + tail))

    def slope(self, value: FloatArray) -> FloatArray:
        """At most a quarter."""
        return value * (1.0 - value)


class Relu:
    """``max(z, 0)``."""

    is_bounded: ClassVar[bool] = False

    def value(self, raw: FloatArray) -> FloatArray:
        return np.maximum(raw, 0.0)

    def slope(self, value: FloatArray) -> FloatArray:
        """1 where the unit is on, 0 elsewhere."""
        return np.asarray(value > 0, dtype=np.float64)


class Tanh:
    """``tanh(z)``."""

    is_bounded: ClassVar[bool] = True

    def value(self, raw: FloatArray) -> FloatArray:
        """The unit's value, within 5e-12."""
        tail = np.abs(raw)
        tail *= 2.0
        tail = falling_exponential(tail)
        value = 1.0 - tail
        tail += 1.0
        value /= tail
        return np.copysign(value, raw, out=value)

    def slope(self, value: FloatArray) -> FloatArray:
        """At most 1."""
        slope = value * value
        return np.subtract(1.0, slope, out=slope)


ACTIVATIONS: dict[str, Activation] = {
    "identity": Identity(),
    "logistic": Logistic(),
    "relu": Relu(),
    "tanh": Tanh(),
}
