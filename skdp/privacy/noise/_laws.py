"""Noise laws of one release of known sensitivity, each with its event."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp.privacy.accounting._calibrate import Budget, calibrate
from skdp.privacy.accounting._events import (
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
)
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.noise._noise import (
    NoiseScale,
    NoiseSource,
    gaussian_scale,
    laplace_scale,
    spherical_is_possible,
    spherical_reach,
    spherical_scale,
)

# Natural logarithm of 1 / the probability that a draw exceeds `farthest`.
_NEVER = 800.0


class NoiseLaw(ABC):
    """A noise law with its event and draws; `multiplier` is scale over sensitivity.

    `norm`, 1 or 2, is the norm of the sensitivity that the law requires. A side release
    with `side_multiple` times the multiplier of a main release adds 1 % to the cost of
    the main release, in mu^2 or epsilon.
    """

    name: ClassVar[str]
    is_pure: ClassVar[bool] = True
    norm: ClassVar[int] = 2
    side_multiple: ClassVar[float] = 100.0

    @abstractmethod
    def event(self, multiplier: float, times: int = 1) -> Event:
        """Event of `times` releases."""

    @abstractmethod
    def deviation(self, multiplier: float, size: int) -> float:
        """Standard deviation of one of `size` entries, per unit of sensitivity."""

    @abstractmethod
    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        """Grid and scale of a release."""

    def is_possible(self, multiplier: float, size: int) -> bool:
        """Whether `size` entries of noise of this multiplier can be drawn."""
        return True

    @abstractmethod
    def farthest(self, scale: NoiseScale, size: int) -> float:
        """Norm that a draw exceeds with probability below exp(-800)."""

    @abstractmethod
    def release(
        self,
        noise: NoiseSource,
        query: FloatArray,
        sensitivity: float,
        multiplier: float,
        fine: bool = False,
    ) -> FloatArray:
        """Release `query`, whose `sensitivity` is in the law's norm."""


@dataclass(frozen=True)
class Gaussian(NoiseLaw):
    """N(0, sigma^2 I): Gaussian differential privacy, delta above 0."""

    name = "Gaussian"
    is_pure = False
    side_multiple = 10.0

    def event(self, multiplier: float, times: int = 1) -> Event:
        return GaussianEvent(multiplier, times)

    def deviation(self, multiplier: float, size: int) -> float:
        return multiplier

    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        return gaussian_scale(
            sensitivity=sensitivity, noise_multiplier=multiplier, size=size, fine=fine
        )

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


@dataclass(frozen=True)
class Spherical(NoiseLaw):
    """Density proportional to exp(-norm / scale): pure epsilon."""

    name = "spherical"

    def event(self, multiplier: float, times: int = 1) -> Event:
        return PureEvent(1 / multiplier, times)

    def deviation(self, multiplier: float, size: int) -> float:
        return multiplier * math.sqrt(size + 1)

    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        return spherical_scale(
            sensitivity=sensitivity, epsilon=1 / multiplier, size=size, fine=fine
        )

    def is_possible(self, multiplier: float, size: int) -> bool:
        return spherical_is_possible(epsilon=1 / multiplier, size=size)

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


@dataclass(frozen=True)
class Laplace(NoiseLaw):
    """Independent Laplace noise for an L1 sensitivity: pure epsilon."""

    name = "Laplace"
    norm = 1

    def event(self, multiplier: float, times: int = 1) -> Event:
        return LaplaceEvent(multiplier, times)

    def deviation(self, multiplier: float, size: int) -> float:
        return multiplier * math.sqrt(2)

    def scale(
        self, sensitivity: float, multiplier: float, size: int, fine: bool = False
    ) -> NoiseScale:
        return laplace_scale(sensitivity=sensitivity, epsilon=1 / multiplier, size=size)

    def farthest(self, scale: NoiseScale, size: int) -> float:
        # A union bound over the entries.
        return scale.sigma * size * (_NEVER + math.log(size))

    def release(
        self,
        noise: NoiseSource,
        query: FloatArray,
        sensitivity: float,
        multiplier: float,
        fine: bool = False,
    ) -> FloatArray:
        return noise.laplace(query, sensitivity=sensitivity, epsilon=1 / multiplier)


@dataclass(frozen=True)
class Choices:
    """The law of private selections, each of bounded range.

    `reach` is the bounded range of one selection times the line's noise multiplier.
    """

    reach: float = 1.0

    def epsilon(self, multiplier: float) -> float:
        """Bounded range of one selection."""
        return self.reach / multiplier

    def event(self, multiplier: float, times: int) -> Event:
        return BoundedRangeEvent(self.epsilon(multiplier), times)

    def choose(
        self,
        noise: NoiseSource,
        scores: FloatArray,
        k: int,
        sensitivity: float,
        multiplier: float,
    ) -> IntArray:
        """Indices of `k` nearly largest scores."""
        epsilon = self.epsilon(multiplier)
        return noise.top_k(scores, k, sensitivity=sensitivity, epsilon=epsilon)


@dataclass(frozen=True)
class PureChoices(Choices):
    """Selections of one candidate each; `reach` is their pure epsilon."""

    mechanism: Literal["permute_and_flip", "exponential"] = "permute_and_flip"

    def epsilon(self, multiplier: float) -> float:
        return self.reach

    def event(self, multiplier: float, times: int) -> Event:
        return PureEvent(self.reach, times)

    def choose(
        self,
        noise: NoiseSource,
        scores: FloatArray,
        k: int,
        sensitivity: float,
        multiplier: float,
    ) -> IntArray:
        select = noise.permute_and_flip
        if self.mechanism == "exponential":
            select = noise.exponential_mechanism
        chosen = select(scores, sensitivity=sensitivity, epsilon=self.reach)
        return np.array([chosen])


# Laws for an L2 sensitivity; Laplace needs an L1 sensitivity.
LAWS: dict[str, NoiseLaw] = {"gaussian": Gaussian(), "spherical": Spherical()}
# Laws for a number, or for counts of which a record changes few.
LAWS_OF_COUNTS: dict[str, NoiseLaw] = {"gaussian": Gaussian(), "laplace": Laplace()}


def budget_of(law: NoiseLaw, budget: Budget) -> Budget:
    """The budget of a release by this law: a pure law does not use delta."""
    return replace(budget, delta=0.0) if law.is_pure else budget


def law_of_counts(budget: Budget) -> NoiseLaw | None:
    """The law of one vector of counts, of which a record changes few; None if no noise.

    With delta = 0, Laplace noise in many counts is far smaller than spherical noise.
    """
    if not budget.is_finite:
        return None
    return Gaussian() if budget.delta > 0 else Laplace()


def deviation_once(law: NoiseLaw, budget: Budget, size: int) -> float:
    """Standard deviation of one of `size` entries, per unit of sensitivity.

    It is for one release that gets the whole budget, and only for rules of thumb, since
    it is not rounded up as in `calibrate`.
    """
    multiplier = 1 / budget.epsilon
    if not law.is_pure:
        multiplier = 1 / gaussian_mu(budget.epsilon, budget.delta)
    return law.deviation(multiplier, size)


def law_for(
    budget: Budget, size: int, sensitivities: dict[int, float], *, adds_up: bool
) -> NoiseLaw:
    """The law with the smallest standard deviation, from public facts.

    The budget has a finite epsilon; `sensitivities` has those in L1 and L2, by norm. If
    `adds_up` says that the cost adds to the cost of other releases, Gaussian noise is
    used where delta allows it, since its costs add up in squares.
    """
    if adds_up and budget.delta > 0:
        return Gaussian()
    laws: list[NoiseLaw] = [Laplace()]
    if Spherical().is_possible(1 / budget.epsilon, size):
        laws.append(Spherical())
    if budget.delta > 0:
        laws.append(Gaussian())

    def deviation(law: NoiseLaw) -> float:
        multiplier = calibrate(law.event, budget_of(law, budget))
        return law.deviation(multiplier, size) * sensitivities[law.norm]

    return min(laws, key=deviation)
