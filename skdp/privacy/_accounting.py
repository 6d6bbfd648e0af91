"""What an event costs, and the smallest noise that fits a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from skdp._validation import check_delta, check_epsilon
from skdp.privacy._events import Event
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu

# Relative width of the calibration bracket; the result is its private end.
_CALIBRATION_WIDTH = 1e-6


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) pair.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf
    delta : 0 or float in [1e-50, 1)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))

    @property
    def is_finite(self) -> bool:
        """Whether the budget asks for any privacy at all."""
        return math.isfinite(self.epsilon)


def epsilon_of(event: Event, delta: float) -> float:
    """Epsilon of an event fixed in advance, at a given delta; never too small.

    Parameters
    ----------
    event : GaussianEvent, PureEvent, ComposedEvent or NonPrivateEvent
    delta : 0 or float in [1e-50, 1)

    Returns
    -------
    float in [0, inf]
        Under the adjacency for which the event's noise multipliers were made.

    Examples
    --------
    >>> from skdp.privacy import GaussianEvent, epsilon_of
    >>> round(epsilon_of(GaussianEvent(noise_multiplier=5.0, count=100), 1e-5), 4)
    9.9973
    """
    delta = check_delta(delta)
    gaussian = gaussian_epsilon(math.sqrt(event.mu_squared), delta)
    basic = event.pure_epsilon + gaussian
    return min(basic, gaussian_epsilon(math.sqrt(event.gdp_mu_squared), delta))


def fits(event: Event, budget: Budget) -> bool:
    """Whether an event fixed in advance is (epsilon, delta)-DP for the budget.

    The same two bounds as `epsilon_of`, asked the other way round.
    """
    left = budget.epsilon - event.pure_epsilon
    if left < 0:
        return False
    if event.mu_squared == 0:
        return True
    if left > 0 and event.mu_squared <= gaussian_mu(left, budget.delta) ** 2:
        return True
    return event.gdp_mu_squared <= gaussian_mu(budget.epsilon, budget.delta) ** 2


def calibrate(declare: Callable[[float], Event], budget: Budget) -> float:
    """Smallest noise multiplier whose declared event fits a budget, rounded up.

    Parameters
    ----------
    declare : callable
        Maps a noise multiplier to the event; must cost less for more noise and
        must be pure.
    budget : Budget
        A finite epsilon.

    Returns
    -------
    float
        At most 1.00001 times the smallest sufficient multiplier.

    Raises
    ------
    ValueError
        If no amount of noise fits, for example Gaussian noise at ``delta=0``.
    """
    target = gaussian_mu(budget.epsilon, budget.delta)

    def admits(multiplier: float) -> bool:
        event = declare(multiplier)
        if event.pure_epsilon == 0:
            return event.mu_squared <= target**2
        return fits(event, budget)

    high = 1.0
    while not admits(high):
        high *= 2
        if high > 1e100:
            raise ValueError(
                f"No noise multiplier fits epsilon={budget.epsilon:g}, "
                f"delta={budget.delta:g} for this event. Got a mechanism that is not "
                "pure. Use a delta above 0, or a solver that offers pure epsilon."
            )
    low = high / 2
    while low > 1e-100 and admits(low):
        high, low = low, low / 2
    while high / low > 1 + _CALIBRATION_WIDTH:
        middle = math.sqrt(low * high)
        if admits(middle):
            high = middle
        else:
            low = middle
    return high
