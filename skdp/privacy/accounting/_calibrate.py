"""The cost of an event, and the smallest noise that fits a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from skdp._checks import check_delta, check_epsilon
from skdp.privacy.accounting._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PureEvent,
    SelectionEvent,
)
from skdp.privacy.accounting._gaussian import (
    gaussian_epsilon,
    gaussian_mu,
    narrowed,
    smallest,
)

# Relative width of the calibration bracket; the result is its private end.
_CALIBRATION_WIDTH = 1e-6
# Range of multipliers tried; events may scale them by up to 1e10 either way.
_LEAST, _MOST = 1e-90, 1e90
# Calibration aims this far below the budget's epsilon, so that the recomputed epsilon,
# a root that is rounded up, stays within the budget.
_ROOT_MARGIN = 1e-6
# Where an epsilon takes long to compute, the search stops this close to the budget.
_SECANT_WIDTH = 6e-4
# Below this multiplier the variance of a sampled event's loss predicts its cost badly.
_LEAST_GUESS = 0.3
_MOST_SECANTS = 25


@dataclass(frozen=True)
class Budget:
    """A privacy budget: a pair of epsilon and delta.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf
    delta : 0 or float in [1e-50, 1)
    adds_up : bool, default=False
        Whether the cost is added to that of other releases. Gaussian noise is then
        preferred, because its costs add up in squares.
    """

    epsilon: float
    delta: float
    adds_up: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))

    @property
    def is_finite(self) -> bool:
        """Whether epsilon is finite, so that the result is private."""
        return math.isfinite(self.epsilon)


def epsilon_of(event: Event, delta: float) -> float:
    """Epsilon of an event that is fixed in advance, at a given delta; an upper bound.

    Parameters
    ----------
    event : Event
    delta : 0 or float in [1e-50, 1)

    Returns
    -------
    float in [0, inf]
        Epsilon under the adjacency for which the noise multipliers were computed.

    Examples
    --------
    >>> from skdp.privacy import GaussianEvent, epsilon_of
    >>> round(epsilon_of(GaussianEvent(noise_multiplier=5.0, count=100), 1e-5), 4)
    9.9973
    """
    delta = check_delta(delta)
    return _bounds(event).epsilon(event, delta)


def fits(event: Event, budget: Budget) -> bool:
    """Whether an event that is fixed in advance is (epsilon, delta)-DP for the budget.

    The bounds are those of `epsilon_of`, evaluated in the other direction. Roots are
    rounded by at most a relative 1e-6, each to the safe side.
    """
    return _bounds(event).fits(event, budget)


@dataclass(frozen=True)
class _Bounds:
    """Bounds for one kind of event: its epsilon, and whether it fits a budget."""

    epsilon: Callable[[Event, float], float]
    fits: Callable[[Event, Budget], bool]


def _bounds(event: Event) -> _Bounds:
    """The tightest known bounds for the kinds of an event's parts."""
    kinds = [type(leaf) for leaf in event.leaves]
    if SelectionEvent in kinds:
        return _SELECTED
    if kinds == [ParallelEvent]:
        return _PARALLEL
    if all(kind in _CLOSED_KINDS for kind in kinds):
        return _CLOSED
    others = [kind for kind in kinds if kind not in _CLOSED_KINDS]
    if others == [ObjectiveEvent]:
        return _OBJECTIVE
    return _COMPOSED


def _selected_epsilon(event: Event, delta: float) -> float:
    """Epsilon of selections by separate bounds, and of the rest; delta is divided."""
    chosen = [leaf for leaf in event.leaves if isinstance(leaf, SelectionEvent)]
    others = tuple(x for x in event.leaves if not isinstance(x, SelectionEvent))
    share = delta / (len(chosen) + bool(others))
    total = math.fsum(leaf.epsilon(share) for leaf in chosen)
    return total + (epsilon_of(ComposedEvent(others), share) if others else 0.0)


def _parallel_parts(event: Event) -> tuple[Event, ...]:
    alone = [leaf for leaf in event.leaves if isinstance(leaf, ParallelEvent)]
    return tuple(part for parallel in alone for part in parallel.parts)


def _parallel_epsilon(event: Event, delta: float) -> float:
    """The largest epsilon among the parts."""
    return max(epsilon_of(part, delta) for part in _parallel_parts(event))


def _parallel_fits(event: Event, budget: Budget) -> bool:
    return all(fits(part, budget) for part in _parallel_parts(event))


def closed_epsilon(event: Event, delta: float) -> float:
    """Epsilon by closed forms: pure parts are added, or are converted to mu."""
    left = delta - event.box_delta
    if left < 0:
        return math.inf
    gaussian = gaussian_epsilon(math.sqrt(event.mu_squared), left)
    basic = event.pure_epsilon + gaussian
    if math.isinf(event.gdp_mu_squared):
        return basic
    return min(basic, gaussian_epsilon(math.sqrt(event.gdp_mu_squared), delta))


def _closed_fits(event: Event, budget: Budget) -> bool:
    left, mu_squared = budget.epsilon - event.pure_epsilon, event.mu_squared
    if left >= 0 and mu_squared == 0:
        return True
    if left > 0 and mu_squared <= gaussian_mu(left, budget.delta) ** 2:
        return True
    return event.gdp_mu_squared <= gaussian_mu(budget.epsilon, budget.delta) ** 2


def _profile(event: Event) -> Callable[[float], float]:
    """The delta, given epsilon, of one objective perturbation with Gaussian parts."""
    (objective,) = (x for x in event.leaves if isinstance(x, ObjectiveEvent))
    others = [leaf for leaf in event.leaves if leaf is not objective]
    mu = math.sqrt(math.fsum(leaf.mu_squared for leaf in others))
    return partial(objective.loss.delta, mu=mu)


def _objective_epsilon(event: Event, delta: float) -> float:
    """Epsilon from the profile, plus the pure parts."""
    pure, profile = event.pure_epsilon, _profile(event)
    if math.isinf(pure) or delta == 0:
        return math.inf
    if profile(0.0) <= delta:
        return pure

    def is_enough(epsilon: float) -> bool:
        return profile(epsilon) <= delta

    return pure + smallest(is_enough, 1e-6)


def _objective_fits(event: Event, budget: Budget) -> bool:
    left = budget.epsilon * (1 - _ROOT_MARGIN) - event.pure_epsilon
    return left >= 0 and budget.delta > 0 and _profile(event)(left) <= budget.delta


def _composed_epsilon(event: Event, delta: float) -> float:
    """The smaller of privacy-loss distributions and closed forms."""
    closed = closed_epsilon(event, delta)
    if math.isinf(event.pure_epsilon) or delta == 0:
        return closed
    leaves = [simple(leaf) for leaf in event.leaves]
    known = [leaf for leaf in leaves if leaf is not None]
    if len(known) < len(leaves):
        return closed
    return min(closed, _numeric_epsilon(tuple(known), delta))


@lru_cache(maxsize=1024)
def _numeric_epsilon(leaves: tuple[Event, ...], delta: float) -> float:
    """Cached, since fits of the same public facts have the same events."""
    # Imported here, because dp-accounting takes a second to import.
    from skdp.privacy.accounting._pld import pld_epsilon

    return pld_epsilon(leaves, delta)


def simple(leaf: Event) -> Event | None:
    """The event that replaces a leaf in a composition, or None."""
    return leaf.dominating if isinstance(leaf, ParallelEvent) else leaf


def _fits_by_epsilon(event: Event, budget: Budget) -> bool:
    return _bounds(event).epsilon(event, budget.delta) <= budget.epsilon


_CLOSED_KINDS = (GaussianEvent, PureEvent, NonPrivateEvent, ParallelEvent)
_SELECTED = _Bounds(_selected_epsilon, _fits_by_epsilon)
_PARALLEL = _Bounds(_parallel_epsilon, _parallel_fits)
_CLOSED = _Bounds(closed_epsilon, _closed_fits)
_OBJECTIVE = _Bounds(_objective_epsilon, _objective_fits)
_COMPOSED = _Bounds(_composed_epsilon, _fits_by_epsilon)


def calibrate(declare: Callable[[float], Event], budget: Budget) -> float:
    """Smallest noise multiplier whose declared event fits a budget, rounded up.

    Parameters
    ----------
    declare : callable
        Maps a noise multiplier to an event. The event must cost less for more noise,
        and the callable must have no side effects.
    budget : Budget
        The budget, with a finite epsilon.

    Returns
    -------
    float
        At most 1.00001 times the smallest sufficient multiplier, or 1.001 times if the
        event is composed numerically.

    Raises
    ------
    ValueError
        If no amount of noise fits, for example Gaussian noise at ``delta=0``.
    """
    event = declare(1.0)
    if isinstance(event, LaplaceEvent) and event.count == 1:
        # A delta would save about 2 delta of epsilon, and epsilon would depend on it.
        budget = replace(budget, delta=0.0)
    found = _by_secants(declare, budget)
    if found is not None:
        return found

    def admits(multiplier: float) -> bool:
        return fits(declare(multiplier), budget)

    low, high = _bracket(admits)
    if not admits(high):
        raise ValueError(
            f"No noise multiplier fits epsilon={budget.epsilon:g}, "
            f"delta={budget.delta:g} for this event. Got parts of fixed cost above "
            "the budget, a mechanism that is not pure with delta=0, or a budget that "
            "is too small for accounting. Use a larger epsilon, or a delta above 0."
        )
    return narrowed(admits, low, high, _CALIBRATION_WIDTH)[1]


def _bracket(admits: Callable[[float], bool]) -> tuple[float, float]:
    """A lower multiplier that does not fit, and an upper one that does, if any does.

    The strides grow, because the multipliers of extreme budgets are many octaves away.
    """
    low, high, stride = 0.5, 1.0, 2.0
    if admits(high):
        while low > _LEAST and admits(low):
            low, high, stride = max(low / stride, _LEAST), low, stride**2
        return low, high
    while high < _MOST and not admits(high):
        low, high, stride = high, min(high * stride, _MOST), stride**2
    return low, high


def _by_secants(declare: Callable[[float], Event], budget: Budget) -> float | None:
    """A multiplier whose epsilon is just below the budget, in few evaluations.

    For events composed numerically, whose epsilon takes long to compute: log epsilon is
    nearly linear in log multiplier. None for other events, or if none is found.
    """
    if budget.delta == 0 or _bounds(declare(1.0)) is not _COMPOSED:
        return None
    from skdp.privacy.accounting._pld import loss_variance

    # A Gaussian mechanism with about the same variance of the privacy loss.
    target = gaussian_mu(budget.epsilon, budget.delta) ** 2

    def is_near(multiplier: float) -> bool:
        return math.fsum(map(loss_variance, declare(multiplier).leaves)) <= target

    multiplier = smallest(is_near, _LEAST_GUESS)
    slope, last = -1.0, None
    for _ in range(_MOST_SECANTS):
        if not _LEAST < multiplier < _MOST:
            return None
        epsilon = epsilon_of(declare(multiplier), budget.delta)
        if epsilon == 0 or math.isinf(epsilon):
            multiplier *= 2.0 if epsilon else 0.6
            last = None
            continue
        excess = math.log(epsilon / budget.epsilon)
        if -_SECANT_WIDTH <= excess <= 0:
            return multiplier
        place = math.log(multiplier)
        if last is not None and place != last[0]:
            found = (excess - last[1]) / (place - last[0])
            slope = found if found < -0.1 else slope
        last = place, excess
        step = (-_SECANT_WIDTH / 2 - excess) / slope
        multiplier *= math.exp(max(-2.0, min(2.0, step)))
    return None
