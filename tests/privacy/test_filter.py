"""The filter with set-asides: sums that no order and no adversary can get around."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from skdp.privacy import (
    Budget,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.accounting._gaussian import gaussian_mu, pure_mu
from skdp.privacy.ledger._filter import Charge, FilterState

CAP = Budget(3.0, 1e-6)
SAMPLED = PoissonGaussianEvent(2.0, 0.01, 500, "replace_one")
OBJECTIVE = ObjectiveEvent(8.4, 0.086, 1, 2, 0.36)
SEARCH = SelectionEvent(GaussianEvent(20.0), "negative_binomial", 3.0, 30, 0.0)


def gaussian(epsilon, delta=1e-6, count=1):
    """The event of a Gaussian fit calibrated to a budget."""
    multiplier = calibrate(lambda z: GaussianEvent(z, count), Budget(epsilon, delta))
    return GaussianEvent(multiplier, count)


def state_after(events, cap=CAP, reserve=None, delta=1e-7, kind=FilterState):
    state = kind(cap, reserve or Charge(0.0, cap.delta / 2))
    for event in events:
        state = state.charged(event, delta)
    return state


def is_accepted(state, event, delta=0.0):
    return state.charged(event, delta).exhausted() is None


def how_many(event, state, delta=1e-7):
    count = 0
    while is_accepted(state, event, delta) and count < 100:
        state, count = state.charged(event, delta), count + 1
    return count


# What is charged -----------------------------------------------------------------


def test_epsilons_add_up_over_the_whole_cap_before_any_squares():
    state = state_after(
        [PureEvent(0.25), PureEvent(0.5, 2), EpsilonDeltaEvent(1, 4e-7)]
    )
    assert state.spent == Charge(2.25, 4e-7)
    assert not state.is_open
    assert state.remaining_epsilon() == 0.75
    assert is_accepted(state, PureEvent(0.75))
    assert not is_accepted(state, PureEvent(0.76))
    assert state.charged(EpsilonDeltaEvent(0.1, 7e-7)).exhausted() == "delta"


def test_squares_add_up_beside_what_is_set_aside():
    multipliers = np.random.default_rng(0).uniform(20, 100, 50)
    reserve = Charge(0.5, 2e-7)
    state = state_after([GaussianEvent(z, 2) for z in multipliers], reserve=reserve)
    assert math.isclose(state.spent.mu_squared, sum(2 / z**2 for z in multipliers))
    assert (state.spent.epsilon, state.spent.delta) == (0, 0)
    whole = gaussian_mu(3.0 - 0.5, 1e-6 - 2e-7) ** 2
    assert math.isclose(state.room.mu_squared, whole - state.spent.mu_squared)
    assert (state.room.epsilon, state.room.delta) == (0.5, 2e-7)


def test_what_came_before_the_first_square_is_taken_from_what_is_set_aside():
    before = [PureEvent(0.3), EpsilonDeltaEvent(0.1, 1e-7)]
    for reserve, force in (
        (Charge(0.5, 2e-7), Charge(0.5, 2e-7)),
        (Charge(0.1, 5e-8), Charge(0.4, 1e-7)),
        (Charge(0.0, 0.0), Charge(0.4, 1e-7)),
    ):
        state = state_after([*before, GaussianEvent(9.0)], reserve=reserve)
        assert state.reserve == force
        whole = gaussian_mu(3.0 - force.epsilon, 1e-6 - force.delta) ** 2
        assert math.isclose(state.room.mu_squared, whole - 1 / 81)


def test_after_the_first_square_a_pure_release_is_set_aside_or_squared():
    state = state_after([GaussianEvent(9.0)], reserve=Charge(0.2, 5e-7))
    assert state.charge_of(PureEvent(0.19)) == Charge(0.19)
    assert state.charge_of(PureEvent(0.21)) == Charge(mu_squared=pure_mu(0.21) ** 2)
    box = EpsilonDeltaEvent(0.21, 1e-7)
    assert state.charge_of(box) == Charge(0.0, 1e-7, pure_mu(0.21) ** 2)


def test_a_sampled_event_takes_equal_shares_of_what_is_set_aside():
    state = state_after([])
    charge, whole = state.charge_of(SAMPLED), state.whole
    assert charge.epsilon == 0
    assert math.isclose(charge.delta / 5e-7, charge.mu_squared / whole.mu_squared)
    assert how_many(SAMPLED, state) == math.floor(5e-7 / charge.delta)
    # It costs hardly more than the Gaussian mechanism of the same epsilon.
    fit = gaussian(epsilon_of(SAMPLED, 1e-6))
    assert how_many(SAMPLED, state) >= 0.9 * how_many(fit, state)


def test_a_search_is_charged_its_epsilon_at_the_delta_of_its_fit():
    state = state_after([GaussianEvent(9.0)], reserve=Charge(0.5, 5e-7))
    for delta in (1e-7, 4e-7):
        assert state.charge_of(SEARCH, delta) == Charge(SEARCH.epsilon(delta), delta)
    assert not is_accepted(state, SEARCH, 6e-7)
    assert is_accepted(state_after([]), SEARCH, 6e-7)


def test_disjoint_sets_are_charged_the_largest_of_each_kind():
    state = state_after([GaussianEvent(9.0)], reserve=Charge(1.5, 5e-7))
    parts = [SAMPLED, OBJECTIVE, GaussianEvent(7.0)]
    alone = [state.charge_of(part) for part in parts]
    both = state.charge_of(ParallelEvent(tuple(parts)))
    assert both.epsilon == max(x.epsilon for x in alone)
    assert both.delta == max(x.delta for x in alone)
    assert both.mu_squared == max(x.mu_squared for x in alone)


def test_parts_of_an_event_add_up():
    state = state_after([GaussianEvent(9.0)], reserve=Charge(1.5, 5e-7))
    parts = [SAMPLED, OBJECTIVE, GaussianEvent(7.0), SEARCH, SEARCH]
    # Searches share the delta.
    whole = state.charge_of(ComposedEvent(tuple(parts)), 2e-8)
    alone = [state.charge_of(part, 1e-8) for part in parts]
    for name in ("epsilon", "delta", "mu_squared"):
        assert math.isclose(getattr(whole, name), sum(getattr(x, name) for x in alone))


@pytest.mark.parametrize("after", [[], [gaussian(1.0)], [PureEvent(0.1)]])
@pytest.mark.parametrize("before", [[], [gaussian(1.0)], [PureEvent(0.1)]])
def test_nonprivate_event_voids_the_ledger_for_ever(before, after):
    state = state_after([*before, NonPrivateEvent(), *after])
    assert state.spent.is_void
    assert state.spent_epsilon() == math.inf
    assert state.remaining_epsilon() == 0.0


STATES = {
    "nothing": [],
    "pure": [PureEvent(0.3), PureEvent(0.7)],
    "gaussian": [gaussian(1.0)],
    "sampled": [SAMPLED, SAMPLED],
    "many gaussian": [gaussian(0.3, count=7)] * 10,
    "pure, gaussian, pure": [PureEvent(0.5), gaussian(1.0), PureEvent(0.1)],
}


@pytest.mark.parametrize("reserve", [Charge(0.0, 5e-7), Charge(0.4, 1e-7)])
@pytest.mark.parametrize("events", STATES.values(), ids=STATES)
def test_what_is_told_to_be_left_is_accepted_and_hardly_more(events, reserve):
    state = state_after(events, reserve=reserve)
    assert state.exhausted() is None
    left, delta = state.remaining_epsilon(), state.delta_left()
    for count in (1, 50):
        assert is_accepted(state, gaussian(left, delta, count), delta)
    assert not is_accepted(state, gaussian(1.01 * left, delta), delta)
    pure = state.remaining_pure_epsilon()
    assert is_accepted(state, PureEvent(pure))
    assert not is_accepted(state, PureEvent(1.01 * pure))


# Order ---------------------------------------------------------------------------

SHARED = [
    gaussian(0.5),
    PureEvent(0.3),
    OBJECTIVE,
    EpsilonDeltaEvent(0.1, 1e-8),
    SEARCH,
]


def totals_of_orders(events, reserve, kind=FilterState):
    # Orders that begin alike are charged alike, once.
    def totals(state, left):
        if state.exhausted() is not None:
            return {None}
        if not left:
            spent = state.spent
            numbers = spent.epsilon, spent.delta, spent.mu_squared
            return {tuple(float(f"{x:.10g}") for x in numbers)}
        return set().union(
            *(
                totals(state.charged(event, 1e-8), left[:i] + left[i + 1 :])
                for i, event in enumerate(left)
            )
        )

    return totals(kind(CAP, reserve), events)


class FirstComesFirst(FilterState):
    """Broken twin: what is set aside follows from what comes first, as in phases."""

    @property
    def whole(self):
        return replace(super().room, mu_squared=super().whole.mu_squared)


def test_order_decides_nothing_of_what_is_set_aside():
    reserve = Charge(1.2, 5e-7)
    (total,) = totals_of_orders(SHARED, reserve)
    assert total is not None
    totals = totals_of_orders(SHARED, reserve, FirstComesFirst)
    assert None not in totals
    assert len(totals) > 1


# An adversary in the books ----------------------------------------------------------


class NoSquares(FilterState):
    """Broken twin: the largest mu, not the sum of squares."""

    def after(self, charge):
        state = super().after(charge)
        most = max(self.spent.mu_squared, charge.mu_squared)
        return replace(state, spent=replace(state.spent, mu_squared=most))


class DeltaIsFree(FilterState):
    """Broken twin: deltas are not added."""

    def after(self, charge):
        state = super().after(charge)
        return replace(state, spent=replace(state.spent, delta=0.0))


class Forgetful(FilterState):
    """Broken twin: what came before the first square is not set aside."""

    def after(self, charge):
        state = super().after(charge)
        if state.is_open and not self.is_open:
            spent = replace(charge, mu_squared=state.spent.mu_squared)
            return replace(state, spent=spent, reserve=self.reserve)
        return state


POOL = [SAMPLED, OBJECTIVE, SEARCH]


def next_event(state, rng, pool=POOL):
    """The adversary's choice; it depends on all that was charged before."""
    left = max(state.remaining_epsilon(), 1e-3)
    epsilon = left * rng.choice([0.05, 0.3, 0.999, 1.0, 1.5])
    delta = state.cap.delta * float(rng.choice([1e-3, 0.1, 0.4]))
    kind = rng.integers(8)
    if kind == 0:
        return PureEvent(epsilon, int(rng.integers(1, 4))), delta
    if kind == 1:
        mu = gaussian_mu(epsilon / 3, state.cap.delta)
        return ComposedEvent((PureEvent(epsilon / 3), GaussianEvent(1 / mu))), delta
    if kind == 2:
        return EpsilonDeltaEvent(epsilon, delta), delta
    if kind == 3:
        return LaplaceEvent(1 / epsilon), delta
    if kind == 4 and pool:
        return pool[rng.integers(len(pool))], delta
    return GaussianEvent(1 / gaussian_mu(epsilon, state.cap.delta)), delta


def attack(kind, cap, reserve, rng, pool=(), n_tries=25):
    """The charges that the filter let an adversary have, with their events."""
    state, taken = kind(cap, reserve), []
    for _ in range(n_tries):
        event, delta = next_event(state, rng, pool)
        charge = state.charge_of(event, delta)
        after = state.after(charge)
        if after.exhausted() is None:
            state, taken = after, [*taken, charge]
    return taken


def is_within(cap, reserve, charges):
    """The theorem from the charges alone, in 50 digits."""
    first = next((i for i, x in enumerate(charges) if x.mu_squared), len(charges))
    early = charges[: first + 1]
    slack = 1 + mpmath.mpf(2e-10)
    with mpmath.workdps(50):
        epsilons = mpmath.fsum(x.epsilon for x in charges)
        deltas = mpmath.fsum(x.delta for x in charges)
        if first == len(charges):
            return epsilons <= cap.epsilon * slack and deltas <= cap.delta * slack
        kept = max(reserve.epsilon, mpmath.fsum(x.epsilon for x in early))
        shown = max(reserve.delta, mpmath.fsum(x.delta for x in early))
        if epsilons > kept * slack or deltas > shown * slack:
            return False
        left = cap.epsilon - kept
        if left <= 0:
            return False
        mu = mpmath.sqrt(mpmath.fsum(x.mu_squared for x in charges))
        tail = mpmath.ncdf(mu / 2 - left / mu)
        tail -= mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
        return shown + (1 - shown) * tail <= cap.delta


CAPS = [
    (CAP, Charge(0.0, 5e-7)),
    (CAP, Charge(1.2, 5e-7)),
    (Budget(0.5, 1e-9), Charge(0.1, 1e-10)),
    (Budget(4.0, 0.01), Charge(3.0, 0.0)),
]


@pytest.mark.parametrize(("cap", "reserve"), CAPS)
def test_no_adversary_gets_more_than_the_cap(cap, reserve):
    rng = np.random.default_rng(3)
    lengths = []
    # Charges of these take a while to find, and are taken by every hundredth.
    for i in range(101):
        taken = attack(FilterState, cap, reserve, rng, () if i % 100 else POOL)
        assert is_within(cap, reserve, taken)
        lengths.append(len(taken))
    assert np.mean(lengths) > 3


@pytest.mark.parametrize("twin", [NoSquares, DeltaIsFree, Forgetful])
def test_adversary_finds_the_broken_twins(twin):
    rng = np.random.default_rng(3)
    assert not all(
        is_within(cap, reserve, attack(twin, cap, reserve, rng))
        for _ in range(40)
        for cap, reserve in CAPS
    )


def test_half_of_delta_is_set_aside_by_itself():
    state = FilterState.of(CAP)
    assert state.reserve == Charge(0.0, CAP.delta / 2)
    assert not state.is_open
