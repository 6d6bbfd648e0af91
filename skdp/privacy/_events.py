"""Events: frozen descriptions of everything a mechanism releases.

An event is declared from public facts before any data is read. Its noise
multiplier is sigma divided by the sensitivity under the adjacency that stands
beside the event (in `Problem`, in the privacy record, in the ledger).

Every event here is an adaptive composition of Gaussian mechanisms and of pure
epsilon-DP mechanisms, and answers three questions about itself:

``mu_squared``
    Sum of mu^2 over its Gaussian parts (exact, no loss).
``pure_epsilon``
    Sum of epsilon over its pure parts (basic composition).
``gdp_mu_squared``
    mu^2 of the whole, pure parts converted to Gaussian differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from skdp._validation import check_count, check_real
from skdp.privacy._gaussian import pure_mu


class Event(Protocol):
    """What accounting needs to know of an event."""

    @property
    def mu_squared(self) -> float: ...

    @property
    def pure_epsilon(self) -> float: ...

    @property
    def gdp_mu_squared(self) -> float: ...


def _set(event: object, **values: float) -> None:
    """Put plain numbers into a frozen event, so that equal events have equal text."""
    for name, value in values.items():
        object.__setattr__(event, name, value)


@dataclass(frozen=True)
class GaussianEvent:
    """`count` Gaussian releases, each with noise sigma = multiplier * sensitivity.

    Parameters
    ----------
    noise_multiplier : float in [1e-100, 1e100]
        sigma / L2 sensitivity, no unit.
    count : int, default=1
        Number of releases; later queries may depend on earlier releases.
    """

    noise_multiplier: float
    count: int = 1

    def __post_init__(self) -> None:
        multiplier = check_real(
            "noise_multiplier", self.noise_multiplier, low=1e-100, high=1e100
        )
        _set(self, noise_multiplier=multiplier)
        _set(self, count=check_count("count", self.count, high=2**53))

    @property
    def mu_squared(self) -> float:
        return self.count * (1 / self.noise_multiplier) ** 2

    @property
    def pure_epsilon(self) -> float:
        return 0.0

    @property
    def gdp_mu_squared(self) -> float:
        return self.mu_squared


@dataclass(frozen=True)
class PureEvent:
    """`count` releases, each epsilon-DP; Laplace noise of scale b has 1/multiplier.

    Parameters
    ----------
    epsilon : float in [1e-100, 1e100]
    count : int, default=1
    """

    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        _set(self, epsilon=check_real("epsilon", self.epsilon, low=1e-100, high=1e100))
        _set(self, count=check_count("count", self.count, high=2**53))

    @property
    def mu_squared(self) -> float:
        return 0.0

    @property
    def pure_epsilon(self) -> float:
        return self.count * self.epsilon

    @property
    def gdp_mu_squared(self) -> float:
        return self.count * pure_mu(self.epsilon) ** 2


@dataclass(frozen=True)
class ComposedEvent:
    """Several events on the same data, all declared in advance.

    Parameters
    ----------
    parts : tuple of events
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not all(hasattr(part, "gdp_mu_squared") for part in self.parts):
            raise TypeError("The 'parts' parameter must hold events only.")

    @property
    def mu_squared(self) -> float:
        return math.fsum(part.mu_squared for part in self.parts)

    @property
    def pure_epsilon(self) -> float:
        return math.fsum(part.pure_epsilon for part in self.parts)

    @property
    def gdp_mu_squared(self) -> float:
        return math.fsum(part.gdp_mu_squared for part in self.parts)


@dataclass(frozen=True)
class NonPrivateEvent:
    """A release with no privacy: no noise, or noise from a seed."""

    @property
    def mu_squared(self) -> float:
        return math.inf

    @property
    def pure_epsilon(self) -> float:
        return math.inf

    @property
    def gdp_mu_squared(self) -> float:
        return math.inf
