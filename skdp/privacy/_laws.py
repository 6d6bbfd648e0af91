"""Noise laws of one release with an L2 sensitivity, each with its event."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.privacy._events import Event, GaussianEvent, PureEvent
from skdp.privacy._noise import (
    NoiseScale,
    NoiseSource,
    gaussian_scale,
    spherical_reach,
    spherical_scale,
)

FloatArray = NDArray[np.float64]

# Natural logarithm of the probability with which a draw is farther than `farthest`.
_NEVER = 800.0


class NoiseLaw(Protocol):
    """A law, its event and its draws; `multiplier` is scale over sensitivity.

    A release with `side_multiple` times the multiplier of another adds 1 % to its cost,
    mu^2 or epsilon.
    """

    is_pure: bool
    name: str
    side_multiple: float

    def event(self, multiplier: float) -> Event:
        """What one release costs."""
        ...

    def deviation(self, multiplier: float, size: int) -> float:
        """Standard deviation of one of `size` entries, per unit of sensitivity."""
        ...

    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        """Grid and scale of a release."""
        ...

    def is_possible(self, multiplier: float, size: int) -> bool:
        """Whether `size` entries of noise of this multiplier can be drawn."""
        ...

    def farthest(self, scale: NoiseScale, size: int) -> float:
        """Norm that a draw exceeds with probability below exp(-800)."""
        ...

    def release(
        self,
        noise: NoiseSource,
        query: FloatArray,
        sensitivity: float,
        multiplier: float,
        fine: bool = False,
    ) -> FloatArray:
        """Release `query` of this L2 sensitivity."""
        ...


class Gaussian:
    """N(0, sigma^2 I): Gaussian differential privacy, delta above 0."""

    is_pure = False
    name = "Gaussian"
    side_multiple = 10.0

    def event(self, multiplier: float) -> Event:
        return GaussianEvent(multiplier)

    def deviation(self, multiplier: float, size: int) -> float:
        return multiplier

    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        return gaussian_scale(
            sensitivity=sensitivity, noise_multiplier=multiplier, size=size, fine=fine
        )

    def is_possible(self, multiplier: float, size: int) -> bool:
        return True

    def farthest(self, scale: NoiseScale, size: int) -> float:
        # Concentration of the norm, a 1-Lipschitz function of the draw.
        return scale.sigma * (math.sqrt(size) + math.sqrt(2 * _NEVER))

    def release(
        self,
        noise: NoiseSource,
        query: FloatArray,
        sensitivity: float,
        multiplier: float,
        fine: bool = False,
    ) -> FloatArray:
        return noise.gaussian(
            query, sensitivity=sensitivity, noise_multiplier=multiplier, fine=fine
        )


class Spherical:
    """Density proportional to exp(-norm / scale): pure epsilon."""

    is_pure = True
    name = "spherical"
    side_multiple = 100.0

    def event(self, multiplier: float) -> Event:
        return PureEvent(1 / multiplier)

    def deviation(self, multiplier: float, size: int) -> float:
        return multiplier * math.sqrt(size + 1)

    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        return spherical_scale(
            sensitivity=sensitivity, epsilon=1 / multiplier, size=size, fine=fine
        )

    def is_possible(self, multiplier: float, size: int) -> bool:
        # Not with so many entries that rounding takes all of so small an epsilon.
        return math.isfinite(self.scale(1.0, multiplier, size).sigma)

    def farthest(self, scale: NoiseScale, size: int) -> float:
        return scale.sigma * spherical_reach(size)

    def release(
        self,
        noise: NoiseSource,
        query: FloatArray,
        sensitivity: float,
        multiplier: float,
        fine: bool = False,
    ) -> FloatArray:
        return noise.spherical(
            query, sensitivity=sensitivity, epsilon=1 / multiplier, fine=fine
        )


LAWS: dict[str, NoiseLaw] = {"gaussian": Gaussian(), "spherical": Spherical()}
