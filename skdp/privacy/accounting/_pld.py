"""Composition by privacy-loss distributions: the only module with `dp-accounting`.

The library rounds privacy losses to a grid so that every hockey-stick divergence is
bounded from above [1]_, and convolves them by Fourier transform. This module decides
what the library leaves open:

- In the library, a noise multiplier is sigma over the contribution or sigma over the
  sensitivity, depending on the accountant and the adjacency. Here it is sigma over the
  sensitivity under the adjacency that is stored with the event, so each pair is built
  with sensitivity 1 and without an adjacency.
- The library has no event for an (epsilon, delta) black box or for objective
  perturbation; they are built from their profiles. The library's records name modules
  to import, and are never read.
- A grid that is coarse compared with the loss of one step is worse than a Renyi bound.
  `_interval` chooses the grid from public facts.
- A Fourier transform has a rounding error of about one unit per step, which is added to
  delta. For a delta as small as this error, Renyi divergences bound the cost, with the
  same multiplier and adjacency.

Poisson sampling is exact under zero_out: a record against the null record is the
pair of add and remove. Under replace_one the guarantee of the whole composition
follows by two steps, from a record to the null record and from there to the other
record, each with the profile of its order and with a part of epsilon
(``docs/proofs/accounting.md``).

References
----------
.. [1] Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022). Connect the dots:
   tighter discrete approximations of privacy loss distributions. PoPETs.
   https://arxiv.org/abs/2207.04380
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdp.privacy.accounting._events import (
    BoundedRangeEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
)
from skdp.privacy.accounting._gaussian import gaussian_epsilon, smallest

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# Connecting the dots adds to each step a variance of at most interval^2 / 4, and of a
# sixth on average. With these fractions of the standard deviations of a step and of the
# whole, the excess noise stays below 0.05 %.
_STEP_SHARE = 0.05
_WHOLE_SHARE = 0.01
# Rounding of a Fourier transform and its power, per step, added to delta.
_ROUNDING = 2.0**-50
# mu^2, per step, of an additional Gaussian mechanism that covers the rounding of the
# divergence of order alpha >= 1.1: 1e-14 alpha / (alpha - 1), many units.
_RENYI_ROUNDING = 2e-13
# Mass that each convolution may move to infinity, as a fraction of delta.
_TRUNCATED = 1e-6
_MOST_CELLS = 2**19
# Losses above this are not composed: exponentials overflow, and there is no privacy.
_MOST_LOSS = 500.0
# Search for the division of epsilon between the two steps of replace_one: number of
# points, number of refinements around the best point, and their factor.
_POINTS, _LOOKS, _CLOSER = 33, 3, 0.1
# The division is sought within this many standard deviations of the loss around 1/2.
_AROUND = 4.0
# Bound on the relative rounding error of sums over a grid of losses; added to round up.
_SUM_ERROR = 1e-9

Array = NDArray[np.float64]
Profile = Callable[[Array], Array]


def pld_epsilon(leaves: Iterable[Event], delta: float) -> float:
    """Upper bound on epsilon of the adaptive composition of some events.

    All Poisson events have the same adjacency, and delta is 0 or in [1e-50, 1).

    Returns
    -------
    float in [0, inf]
        A looser bound, by Renyi divergences, if delta is below the rounding error of
        the transforms; inf if this fails too or the cost is in the hundreds.
    """
    events = tuple(leaves)
    # A standard deviation s of the loss costs an epsilon of at least about s^2 / 2.
    variance = math.fsum(map(loss_variance, events))
    if variance > _MOST_LOSS or any(_reach(e) > _MOST_LOSS for e in events):
        return math.inf
    grouped = [e for e in events if getattr(e, "adjacency", None) == "replace_one"]
    if not grouped:
        return _epsilon(events, delta)
    others = tuple(event for event in events if event not in grouped)
    if not others:
        return _group_epsilon(tuple(grouped), delta)
    if any(isinstance(event, PoissonGaussianEvent) for event in others):
        raise ValueError(
            "The Poisson events of a composition must have the same adjacency. "
            "Got both 'replace_one' and 'zero_out'."
        )
    # The sampled part becomes a black box with half of delta.
    epsilon = _group_epsilon(tuple(grouped), delta / 2)
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon + _epsilon(others, delta / 2)
    return _epsilon((*others, EpsilonDeltaEvent(epsilon, delta / 2)), delta)


def _epsilon(events: tuple[Event, ...], delta: float) -> float:
    left = delta - _rounding(events)
    if left <= delta / 2:
        return _renyi_bound(events)(delta)
    epsilon = float(_compose(events, left).get_epsilon_for_delta(left))
    if any(isinstance(event, BoundedRangeEvent) for event in events):
        # No single pair of distributions is the worst for every order of divergence:
        # with many selections the Renyi bound may be smaller.
        return min(epsilon, _renyi_bound(events)(delta))
    return epsilon


def _group_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """Epsilon by two steps, from a record to the null record and to another record."""
    if delta <= 8 * _rounding(events):
        return _coarse_group_epsilon(events, delta)
    profile = _exchange(events, delta)

    def is_enough(epsilon: float) -> bool:
        return float(profile(np.array([epsilon]))[0]) <= delta

    found = 0.0 if is_enough(0.0) else smallest(is_enough, 1e-6)
    # With such a large epsilon, the remaining share may be below the rounding.
    return found if found < _MOST_LOSS else _coarse_group_epsilon(events, delta)


def _coarse_group_epsilon(events: tuple[Event, ...], delta: float) -> float:
    found = 2 * _fixed_point(_renyi_bound(events), delta)
    return found if found < _MOST_LOSS else math.inf


def pld_profile(leaves: Iterable[Event], delta: float) -> Profile | None:
    """Upper bound on delta at any epsilon of 0 or more, in both orders.

    `leaves` are as for `pld_epsilon`, and all or none of them are Poisson events under
    replace_one. `delta`, in [1e-50, 1), is the smallest delta that matters.

    Returns
    -------
    callable or None
        Maps an array to an array; None if transforms cannot resolve this delta, or the
        cost is in the hundreds.
    """
    events = tuple(leaves)
    lost = _rounding(events)
    variance = math.fsum(map(loss_variance, events))
    if delta <= 8 * lost or variance > _MOST_LOSS:
        return None
    if any(_reach(event) > _MOST_LOSS for event in events):
        return None
    if any(getattr(event, "adjacency", None) == "replace_one" for event in events):
        return _exchange(events, delta)
    orders = _orders(events, delta)

    def profile(epsilons: Array) -> Array:
        found = np.maximum(*(order(epsilons) for order in orders)) + lost
        return np.asarray(np.minimum(1.0, found))

    return profile


def _exchange(events: tuple[Event, ...], delta: float) -> Profile:
    """The profile under replace_one, by two steps with the null record between them.

    P <= e^a P0 + r(a) and P0 <= e^(e - a) P' + s(e - a) for every real a, so that
    r(a) + e^a s(e - a) is a valid delta at e. The smallest one over some a is used.
    """
    away, back = _orders(events, delta)
    lost = _rounding(events)
    width = _AROUND * math.sqrt(math.fsum(map(loss_variance, events)))

    def profile(epsilons: Array) -> Array:
        centre, reach = epsilons / 2, epsilons / 2 + width
        best = np.ones(epsilons.shape)
        for _ in range(_LOOKS):
            first = centre[:, None] + np.outer(reach, np.linspace(-1, 1, _POINTS))
            kept = np.minimum(first, _MOST_LOSS)
            rest = back(epsilons[:, None] - kept) + lost
            found = away(kept) + lost + np.exp(kept) * rest
            at = found.argmin(axis=1)[:, None]
            centre = np.take_along_axis(kept, at, axis=1)[:, 0]
            best = np.minimum(best, np.take_along_axis(found, at, axis=1)[:, 0])
            reach = reach * _CLOSER
        return best

    return profile


class _HockeyStick:
    """E[(1 - exp(epsilon - L))_+] for a loss L on a grid, at any real epsilons."""

    def __init__(self, mass: Any) -> None:
        dense = mass.to_dense_pmf()
        self._interval: float = dense._discretization
        self._lowest: int = dense._lower_loss
        self._endless: float = dense._infinity_mass
        masses = np.asarray(dense._probs, dtype=np.float64)
        losses = (np.arange(len(masses)) + self._lowest) * self._interval
        weighted = masses * np.exp(np.clip(-losses, -700.0, 700.0))
        self._above = _sums_from(masses)
        self._weighted_above = _sums_from(weighted)

    def __call__(self, epsilons: Array) -> Array:
        place = np.floor(epsilons / self._interval) - self._lowest + 1
        i = np.clip(place, 0, len(self._above) - 1).astype(np.intp)
        part = np.exp(np.minimum(epsilons, 700.0)) * self._weighted_above[i]
        found = self._above[i] * (1 + _SUM_ERROR) - part
        return np.asarray(self._endless + np.maximum(found, 0.0))


def _sums_from(values: Array) -> Array:
    """Sums of all values from each index to the end, and a final 0."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _orders(events: tuple[Event, ...], delta: float) -> tuple[Profile, Profile]:
    """Profiles of a record against the null record, and of the reverse."""
    whole: Any = _compose(events, delta)
    return _HockeyStick(whole._pmf_remove), _HockeyStick(whole._pmf_add)


def _fixed_point(bound: Callable[[float], float], delta: float) -> float:
    """An e with ``bound(delta / (1 + exp(e))) <= e``, hardly above the smallest one.

    `bound` decreases with delta, so the bound at the delta of a larger e also holds at
    the delta of a smaller e.
    """
    epsilon = bound(delta / 2)
    while True:
        enough = bound(delta / (1 + math.exp(min(epsilon, 700.0))))
        if enough <= epsilon or enough > _MOST_LOSS:
            return enough
        epsilon = enough * (1 + 1e-6)


class _NoWarningsFrom(logging.Filter):
    """Drops one thread's log records up to the level of warnings."""

    def __init__(self, thread: int) -> None:
        super().__init__()
        self._thread = thread

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread or record.levelno > logging.WARNING


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Suppress the library's warnings about omitted orders; fewer orders are valid."""
    import absl.logging

    logger = absl.logging.get_absl_logger()
    mine = _NoWarningsFrom(threading.get_ident())
    logger.addFilter(mine)
    try:
        yield
    finally:
        logger.removeFilter(mine)


@_quiet_library()
def _renyi_bound(events: tuple[Event, ...]) -> Callable[[float], float]:
    """A looser bound on epsilon for any delta; inf if an event has no Renyi curve."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    steps, mu_squared = 0, 0.0  # unsampled: sampling never costs more
    for event in events:
        if isinstance(event, BoundedRangeEvent):
            # zCDP of epsilon^2 / 8: the loss lies in an interval of length epsilon.
            accountant.compose(dp_event.ZCDpEvent(event.epsilon**2 / 8), event.count)
            steps += event.count
            mu_squared += event.gdp_mu_squared
            continue
        if not isinstance(event, (GaussianEvent, LaplaceEvent, PoissonGaussianEvent)):
            return lambda delta: math.inf
        single: Any = dp_event.GaussianDpEvent(event.noise_multiplier)
        if isinstance(event, LaplaceEvent):
            single = dp_event.LaplaceDpEvent(event.noise_multiplier)
        if isinstance(event, PoissonGaussianEvent):
            single = dp_event.PoissonSampledDpEvent(event.sampling_rate, single)
        accountant.compose(single, event.count)
        steps += event.count
        sampled = isinstance(event, PoissonGaussianEvent)
        plain = GaussianEvent(event.noise_multiplier, event.count) if sampled else event
        mu_squared += plain.gdp_mu_squared
    accountant.compose(dp_event.GaussianDpEvent(1 / math.sqrt(_RENYI_ROUNDING * steps)))

    @_quiet_library()
    def bound(delta: float) -> float:
        plain = gaussian_epsilon(math.sqrt(mu_squared), delta)
        return min(plain, float(accountant.get_epsilon(delta)))

    return bound


def _rounding(events: tuple[Event, ...]) -> float:
    return _ROUNDING * sum(getattr(event, "count", 1) for event in events)


def loss_variance(event: Event) -> float:
    """Approximate variance of the privacy loss of an event; used as a scale only."""
    return getattr(event, "count", 1) * _KINDS[type(event)][0](event)


def _interval(events: tuple[Event, ...]) -> float:
    """The grid's step, small compared with the losses of one step and of the whole."""
    steps = sum(getattr(event, "count", 1) for event in events)
    whole = math.sqrt(math.fsum(map(loss_variance, events)))
    wanted = whole * min(_STEP_SHARE / math.sqrt(steps), _WHOLE_SHARE)
    # A coarser grid is never unsafe, and the grid must fit into memory.
    reach = max(20 * whole, *(_reach(event) for event in events))
    return max(wanted, reach / _MOST_CELLS)


def _reach(event: Any) -> float:
    """Approximate largest loss of one step that matters."""
    if hasattr(event, "epsilon"):
        return float(event.epsilon)
    mu = 1 / float(event.noise_multiplier)
    return mu * (mu / 2 + 12)


def _compose(events: tuple[Event, ...], delta: float) -> PrivacyLossDistribution:
    """The distribution of the whole, in both orders."""
    interval = _interval(events)
    truncated = _TRUNCATED * delta / len(events)

    def one(event: Event) -> PrivacyLossDistribution:
        build = _KINDS[type(event)][1]
        single = build(event, interval, truncated)
        count = getattr(event, "count", 1)
        return single.self_compose(count, truncated) if count > 1 else single

    return reduce(lambda a, b: a.compose(b, truncated), map(one, events))


@cache
def _library() -> Any:
    """`dp_accounting`'s distributions, imported at their first use."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    return pld_pmf, privacy_loss_distribution


def _gaussian(event: Any, interval: float, truncated: float) -> Any:
    return _library()[1].from_gaussian_mechanism(
        event.noise_multiplier,
        value_discretization_interval=interval,
        log_mass_truncation_bound=math.log(truncated / event.count),
        sampling_prob=getattr(event, "sampling_rate", 1.0),
    )


def _laplace(event: LaplaceEvent, interval: float, truncated: float) -> Any:
    return _library()[1].from_laplace_mechanism(
        event.noise_multiplier, value_discretization_interval=interval
    )


def _black_box(event: Any, interval: float, truncated: float) -> Any:
    """Randomised response, together with a disclosure of probability delta."""
    pmfs, distributions = _library()
    epsilon, delta = event.epsilon, getattr(event, "delta", 0.0)
    ends = [math.floor(-epsilon / interval), math.ceil(-epsilon / interval)]
    ends += [math.floor(epsilon / interval), math.ceil(epsilon / interval)]
    grid = np.unique(ends)
    e = np.minimum(grid * interval, epsilon)
    # (exp(epsilon) - exp(e)) / (1 + exp(epsilon)) without overflow.
    kept = -np.expm1(e - epsilon) / (1 + math.exp(-epsilon))
    deltas = np.where(e <= -epsilon, -np.expm1(np.minimum(e, 0.0)), kept)
    profile = np.clip(delta + (1 - delta) * deltas, 0.0, 1.0)
    return distributions.PrivacyLossDistribution(
        pmfs.create_pmf_pessimistic_connect_dots(interval, grid, profile)
    )


def _bounded_range(event: BoundedRangeEvent, interval: float, truncated: float) -> Any:
    """Two logistic distributions whose means differ by epsilon."""
    pmfs, distributions = _library()
    epsilon = event.epsilon
    reach = math.ceil(epsilon / interval)
    grid = np.arange(-reach, reach + 1)
    # The lowest point may be below -epsilon, where the profile is 1 - exp(e). A smaller
    # value there would give the second distribution a mass above 1.
    e = np.minimum(grid * interval, epsilon)
    above = np.minimum(np.abs(e), epsilon)
    # (exp(epsilon/2) - exp(|e|/2))^2 / (exp(epsilon) - 1) without overflow.
    kept = np.expm1((above - epsilon) / 2) ** 2 / -math.expm1(-epsilon)
    below = -np.expm1(np.minimum(e, 0.0)) + np.exp(np.minimum(e, 0.0)) * kept
    profile = np.clip(np.where(e < 0, below, kept), 0.0, 1.0)
    return distributions.PrivacyLossDistribution(
        pmfs.create_pmf_pessimistic_connect_dots(interval, grid, profile)
    )


def _objective(event: ObjectiveEvent, interval: float, truncated: float) -> Any:
    """The bound on the loss, rounded up: the same variable serves both orders."""
    pmfs, distributions = _library()
    loss, high = event.loss, 1.0
    while float(loss.survival(np.asarray(high))) > truncated:
        high *= 1.5
    points = np.arange(math.ceil(high / interval) + 1)
    survival = loss.survival(np.asarray(points * interval, dtype=np.float64))
    masses = -np.diff(survival, prepend=1.0)
    return distributions.PrivacyLossDistribution(
        pmfs.create_pmf(
            dict(zip(points.tolist(), masses.tolist(), strict=True)),
            interval,
            float(survival[-1]),
            True,
        )
    )


def _gaussian_variance(event: Any) -> float:
    return float(1 / event.noise_multiplier**2)


def _sampled_variance(event: PoissonGaussianEvent) -> float:
    grown = math.expm1(min(_gaussian_variance(event), 4.0))
    return event.sampling_rate**2 * grown


def _box_variance(event: Any) -> float:
    return float((event.epsilon * math.tanh(event.epsilon / 2)) or 1e-300)


def _range_variance(event: BoundedRangeEvent) -> float:
    return min(event.epsilon, event.epsilon**2 / 3)


def _laplace_variance(event: LaplaceEvent) -> float:
    ratio = 1 / event.noise_multiplier
    return min(ratio, ratio**2)


_Variance = Callable[[Any], float]
_Build = Callable[[Any, float, float], Any]
_KINDS: dict[type[Any], tuple[_Variance, _Build]] = {
    GaussianEvent: (_gaussian_variance, _gaussian),
    PoissonGaussianEvent: (_sampled_variance, _gaussian),
    LaplaceEvent: (_laplace_variance, _laplace),
    PureEvent: (_box_variance, _black_box),
    EpsilonDeltaEvent: (_box_variance, _black_box),
    BoundedRangeEvent: (_range_variance, _bounded_range),
    ObjectiveEvent: (_gaussian_variance, _objective),
}
