"""What a ledger may charge for an event: the ways, each a valid charge.

As a *release* an event is charged its epsilon at some delta. In *squares* it is charged
leaf by leaf: noise that adds up in squares its mu; a sampled part and objective
perturbation the least multiple of the set-asides that is valid; pure parts and black
boxes either a share of epsilon or their mu; the best of secretly many trials, which has
no good mu, its epsilon at a share of delta. All is known before the data are read.
Proofs in ``docs/proofs/accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from skdp.privacy._accounting import epsilon_of
from skdp.privacy._charge import Charge, Profile, largest_of, least_charge, sum_of
from skdp.privacy._events import (
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
)
from skdp.privacy._gaussian import pure_mu
from skdp.privacy._search_events import ParallelEvent, SelectionEvent

# Bound on the relative error of `log_deltas`, added to round up.
_LOG_ERROR = 1e-8
# What a composition may leave out, as a share of the delta that is set aside.
_TRUNCATED = 1e-2


def release(event: Event, delta: float) -> Charge:
    """The charge of an event as one (epsilon, delta)-DP release.

    `delta` is that at which its epsilon is taken, unless its parts have their own.
    """
    if event.mu_squared == 0:
        return Charge(event.pure_epsilon, event.box_delta)
    return Charge(_epsilon_alone(cast(Hashable, event), delta), delta)


def is_release(event: Event) -> bool:
    """Whether no part of an event has squares of its own to add up."""
    return all(
        leaf.mu_squared == 0 or isinstance(leaf, SelectionEvent)
        for leaf in event.leaves
    )


def in_squares(
    event: Event, delta: float, whole: Charge, *, pure_in_squares: bool
) -> Charge | None:
    """The charge of an event leaf by leaf.

    Parameters
    ----------
    event : Event
    delta : 0 or float in [1e-50, 1)
        Shared by the searches with secret trials that it holds.
    whole : Charge
        Set-asides that a part without a mu of its own takes in equal shares.
    pure_in_squares : bool
        Whether pure parts are charged a mu, or a share of epsilon.

    Returns
    -------
    Charge or None
        None if some part has none.
    """
    parts = list(_parts(event, delta, whole, pure_in_squares))
    known = [part for part in parts if part is not None and part.is_finite]
    return sum_of(known) if len(known) == len(parts) else None


def _parts(
    event: Event, delta: float, whole: Charge, pure_in_squares: bool
) -> Iterator[Charge | None]:
    sampled = tuple(x for x in event.leaves if isinstance(x, PoissonGaussianEvent))
    if sampled:
        yield _of_sampled(sampled, whole)
    searches = sum(isinstance(leaf, SelectionEvent) for leaf in event.leaves)
    for leaf in event.leaves:
        if isinstance(leaf, PoissonGaussianEvent):
            continue
        if isinstance(leaf, SelectionEvent) and isinstance(leaf.trial, GaussianEvent):
            yield Charge(leaf.epsilon(delta / searches), delta / searches)
        elif isinstance(leaf, ObjectiveEvent):
            yield _of_objective(leaf, whole)
        elif isinstance(leaf, ParallelEvent):
            yield _of_parallel(leaf, delta, whole, pure_in_squares)
        else:
            yield _of_leaf(leaf, pure_in_squares)


def _of_leaf(leaf: Event, pure_in_squares: bool) -> Charge:
    """By closed forms; the delta of a black box is charged either way."""
    if leaf.mu_squared == 0 and not pure_in_squares:
        return Charge(leaf.pure_epsilon, leaf.box_delta)
    if isinstance(leaf, EpsilonDeltaEvent):
        squares = leaf.count * pure_mu(leaf.epsilon) ** 2
        return Charge(0.0, leaf.box_delta, squares)
    return Charge(0.0, 0.0, leaf.gdp_mu_squared)


def _of_parallel(
    leaf: ParallelEvent, delta: float, whole: Charge, pure_in_squares: bool
) -> Charge | None:
    """A record is in one of the disjoint sets: the largest charge of any."""
    parts = [
        in_squares(part, delta, whole, pure_in_squares=pure_in_squares)
        for part in leaf.parts
    ]
    known = [part for part in parts if part is not None]
    return largest_of(known) if len(known) == len(parts) else None


@lru_cache(maxsize=1024)
def _of_sampled(leaves: tuple[Event, ...], whole: Charge) -> Charge | None:
    if whole.delta <= 0:
        return None
    # A power of ten, so that few are kept for all that may be set aside.
    least = 10.0 ** math.floor(math.log10(whole.delta * _TRUNCATED))
    profile = _profile_of_sampled(leaves, max(least, 1e-50))
    return None if profile is None else least_charge(profile, whole)


@lru_cache(maxsize=16)
def _profile_of_sampled(leaves: tuple[Event, ...], least: float) -> Profile | None:
    # Imported here, because what it rests on takes a second to import.
    from skdp.privacy._pld import pld_profile

    return pld_profile(leaves, least)


@lru_cache(maxsize=1024)
def _of_objective(leaf: ObjectiveEvent, whole: Charge) -> Charge:
    """By its dominating mu alone, or a multiple of the set-asides if that is less."""

    def profile(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(np.minimum(leaf.loss.log_deltas(epsilons) + _LOG_ERROR, 0.0))

    alone = Charge(0.0, 0.0, leaf.mu_squared)
    shared = least_charge(profile, whole)
    ways = [alone] if shared is None else [alone, shared]
    return min(ways, key=lambda way: way.share_of(whole))


@lru_cache(maxsize=4096)
def _epsilon_alone(event: Hashable, delta: float) -> float:
    """Kept, since a refusal asks for it again."""
    return epsilon_of(cast(Event, event), delta)
