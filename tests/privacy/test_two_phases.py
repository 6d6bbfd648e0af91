"""The rule of ledgers that version 0.1 wrote: what it charged, and that it held."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu, pure_mu
from skdp.privacy._two_phases import FilterState, filter_state

CAP = Budget(3.0, 1e-6)


def gaussian(epsilon, delta=1e-6, count=1):
    """The event of a Gaussian fit calibrated to a budget."""
    multiplier = calibrate(lambda z: GaussianEvent(z, count), Budget(epsilon, delta))
    return GaussianEvent(multiplier, count)


def is_accepted(state, event):
    return state.charged(event).exhausted() is None


def test_pure_events_only_add_up():
    state = filter_state(CAP, [PureEvent(0.25), PureEvent(0.5, 2), PureEvent(0.125)])
    assert state == FilterState(CAP, pure_epsilon=1.375)
    assert state.spent_epsilon() == 1.375
    assert state.remaining_epsilon() == 1.625


def test_squares_of_gaussian_events_add_up():
    multipliers = np.random.default_rng(0).uniform(5, 100, 50)
    state = filter_state(CAP, [GaussianEvent(z, 2) for z in multipliers])
    assert math.isclose(state.mu_squared, sum(2 / z**2 for z in multipliers))
    assert state.pure_epsilon == 0.0
    assert state.spent_epsilon() == gaussian_epsilon(
        math.sqrt(state.mu_squared), CAP.delta
    )


def test_pure_events_before_the_first_gaussian_one_keep_their_epsilon():
    state = filter_state(CAP, [PureEvent(0.5), GaussianEvent(8.0)])
    assert state == FilterState(CAP, pure_epsilon=0.5, mu_squared=1 / 64)
    assert state.mu_left() == gaussian_mu(2.5, CAP.delta)


def test_pure_events_after_a_gaussian_one_count_with_their_mu():
    state = filter_state(CAP, [GaussianEvent(8.0), PureEvent(0.1, 3)])
    assert state.pure_epsilon == 0.0
    assert math.isclose(state.mu_squared, 1 / 64 + 3 * pure_mu(0.1) ** 2)


def test_mixed_event_begins_the_second_phase():
    mixed = ComposedEvent((PureEvent(0.5), GaussianEvent(8.0)))
    once = filter_state(CAP, [mixed])
    assert once == FilterState(CAP, pure_epsilon=0.5, mu_squared=1 / 64)
    twice = once.charged(mixed)
    assert twice.pure_epsilon == 0.5
    assert math.isclose(twice.mu_squared, 1 / 32 + pure_mu(0.5) ** 2)


def test_many_selections_open_the_second_phase_by_their_squares():
    """Found in review: thirty selections of a fit at epsilon 1 were charged 2.4."""
    event = ComposedEvent((GaussianEvent(22.661, 10), BoundedRangeEvent(0.0624, 30)))
    assert event.pure_epsilon > 1.8 > 1.01 > epsilon_of(event, CAP.delta)
    state = FilterState(CAP).charged(event)
    assert state == FilterState(CAP, mu_squared=event.gdp_mu_squared)
    assert state.spent_epsilon() < 1.1
    # One selection of large range is cheaper as it is.
    single = ComposedEvent((GaussianEvent(22.661, 10), BoundedRangeEvent(1.0)))
    assert FilterState(CAP).charged(single).pure_epsilon == 1.0


def test_charging_leaves_the_state_as_it_was():
    state = FilterState(CAP)
    state.charged(GaussianEvent(1.0))
    assert state == FilterState(CAP)


class SumOfEpsilons(FilterState):
    """Broken twin: each fit at its own epsilon, not composed."""

    def charged(self, event, delta=0.0):
        alone = gaussian_epsilon(math.sqrt(event.mu_squared), self.cap.delta)
        total = self.pure_epsilon + event.pure_epsilon + alone
        return replace(self, pure_epsilon=total)


def ten_fits(kind):
    state = kind(Budget(100.0, 1e-6))
    for _ in range(10):
        state = state.charged(gaussian(1.0))
    return state.spent_epsilon()


def test_ten_gaussian_fits_cost_far_less_than_ten_and_the_sum_is_caught():
    assert 3.0 < ten_fits(FilterState) < 4.0
    assert ten_fits(SumOfEpsilons) > 9.9


@pytest.mark.parametrize("before", [[], [PureEvent(0.5)]])
def test_pure_cap_refuses_gaussian_noise_and_names_delta(before):
    state = filter_state(Budget(1.0, 0.0), before)
    assert state.charged(GaussianEvent(1e6)).exhausted() == "delta"
    assert state.charged(PureEvent(0.5)).exhausted() is None
    assert state.charged(PureEvent(1.1)).exhausted() == "epsilon"


EXACT = [
    (1.0, [gaussian(1.0)]),
    (1.0, [gaussian(1.0, count=100)]),
    (1.0, [PureEvent(1.0)]),
    (0.3, [PureEvent(0.1)] * 3),
    (0.3, [PureEvent(0.1, 3)]),
    (1.0, [PureEvent(0.1)] * 10),
    (7.0, [PureEvent(0.7)] * 10),
    (2.5, [PureEvent(1.5), gaussian(1.0)]),
    (0.3, [PureEvent(0.1), PureEvent(0.1), gaussian(0.0999)]),
]


@pytest.mark.parametrize(("epsilon", "events"), EXACT)
def test_cap_may_be_reached_exactly_but_not_passed(epsilon, events):
    state = filter_state(Budget(epsilon, 1e-6), events)
    assert state.exhausted() is None
    assert state.charged(gaussian(0.01)).exhausted() == "epsilon"
    assert state.charged(PureEvent(0.01)).exhausted() == "epsilon"


STATES = {
    "nothing": [],
    "pure": [PureEvent(0.3), PureEvent(0.7)],
    "gaussian": [gaussian(1.0)],
    "many gaussian": [gaussian(0.3, count=7)] * 20,
    "pure, gaussian": [PureEvent(1.5), gaussian(0.5)],
    "pure, gaussian, pure": [PureEvent(0.5), gaussian(1.0), PureEvent(0.1)],
    "of another delta": [gaussian(1.0, 1e-9), gaussian(1.0, 1e-4)],
    "nearly all": [gaussian(2.99)],
}


@pytest.mark.parametrize("cap", [CAP, Budget(30.0, 1e-9), Budget(4.0, 0.01)])
@pytest.mark.parametrize("events", STATES.values(), ids=STATES)
def test_remaining_epsilon_is_accepted_and_hardly_more(events, cap):
    state = filter_state(cap, events)
    assert state.exhausted() is None
    left = state.remaining_epsilon()
    assert left > 0
    assert is_accepted(state, gaussian(left, cap.delta))
    assert is_accepted(state, gaussian(left, cap.delta, count=50))
    assert not is_accepted(state, gaussian(1.01 * left, cap.delta))


@pytest.mark.parametrize("cap", [Budget(1.0, 0.0), Budget(1.0, 1e-6)])
def test_remaining_epsilon_of_pure_books_is_accepted_for_pure_events(cap):
    state = filter_state(cap, [PureEvent(0.1)] * 7)
    left = state.remaining_epsilon()
    assert math.isclose(left, 0.3)
    assert is_accepted(state, PureEvent(left))
    assert not is_accepted(state, PureEvent(1.01 * left))


@pytest.mark.parametrize("cap", [CAP, Budget(30.0, 1e-9), Budget(2000.0, 0.01)])
@pytest.mark.parametrize("events", STATES.values(), ids=STATES)
def test_remaining_pure_epsilon_is_accepted_and_hardly_more(events, cap):
    state = filter_state(cap, events)
    left = state.remaining_pure_epsilon()
    assert left > 0
    assert is_accepted(state, PureEvent(left))
    if left <= 700:  # beyond, a pure event's mu is bounded by less than it could be
        assert not is_accepted(state, PureEvent(1.01 * left))
    # The twin: what is left for Gaussian noise.
    if state.mu_squared > 0:
        assert not is_accepted(state, PureEvent(state.remaining_epsilon()))


def test_nothing_remains_of_a_cap_that_is_used_up():
    assert filter_state(Budget(0.3, 0.0), [PureEvent(0.1)] * 3).remaining_epsilon() == 0
    state = filter_state(Budget(1.0, 1e-6), [gaussian(1.0)])
    assert state.remaining_epsilon() < 0.01


@pytest.mark.parametrize("after", [[], [gaussian(1.0)], [PureEvent(0.1)]])
@pytest.mark.parametrize("before", [[], [gaussian(1.0)], [PureEvent(0.1)]])
def test_nonprivate_event_voids_the_books_for_ever(before, after):
    state = filter_state(CAP, [*before, NonPrivateEvent(), *after])
    assert state.is_void
    assert state.spent_epsilon() == math.inf
    assert state.remaining_epsilon() == 0.0


# An adversary --------------------------------------------------------------------


class NoSquares(FilterState):
    """Broken twin: the second phase keeps the largest mu, not the sum of squares."""

    def charged(self, event, delta=0.0):
        after = super().charged(event, delta)
        if self.mu_squared > 0:
            most = max(self.mu_squared, event.gdp_mu_squared)
            return replace(after, mu_squared=most)
        return after


class Forgetful(FilterState):
    """Broken twin: the first phase is forgotten when the second begins."""

    def charged(self, event, delta=0.0):
        after = super().charged(event, delta)
        return replace(after, pure_epsilon=0.0) if after.mu_squared > 0 else after


class PureIsFree(FilterState):
    """Broken twin: pure events after a Gaussian one cost nothing."""

    def charged(self, event, delta=0.0):
        if self.mu_squared > 0 and event.mu_squared == 0:
            return self
        return super().charged(event, delta)


class SumOfMus(FilterState):
    """Broken twin: the cap is compared with mu instead of its square."""

    def exhausted(self):
        halved = replace(self, mu_squared=self.mu_squared / 2)
        return FilterState(*vars(halved).values()).exhausted()


def next_event(state, rng):
    """The adversary's choice; it depends on all that was charged before."""
    left = max(state.remaining_epsilon(), 1e-3)
    epsilon = left * rng.choice([0.05, 0.3, 0.999, 1.0, 1.5])
    kind = rng.integers(5)
    if kind == 0:
        return PureEvent(epsilon, int(rng.integers(1, 4)))
    if kind == 1:
        return ComposedEvent((PureEvent(epsilon / 3), gaussian(epsilon / 3)))
    return gaussian(epsilon, rng.choice([1e-9, 1e-6, 1e-3]), int(rng.integers(1, 50)))


def attack(kind, cap, seed, n_tries=40):
    """Everything that the filter let an adversary have."""
    rng, state, taken = np.random.default_rng(seed), kind(cap), []
    for _ in range(n_tries):
        event = next_event(state, rng)
        if is_accepted(state, event):
            state, taken = state.charged(event), [*taken, event]
    return taken


def first_gaussian(events):
    return next((i for i, e in enumerate(events) if e.mu_squared > 0), len(events))


def is_within(cap, events):
    """The filter's theorem, from the events alone and in 50 digits."""
    split = first_gaussian(events)
    first, second = events[: split + 1], events[split + 1 :]
    pure = mpmath.fsum(event.pure_epsilon for event in first)
    squares = [e.mu_squared for e in first] + [e.gdp_mu_squared for e in second]
    left = cap.epsilon - pure
    if not any(squares):
        return left >= -1e-9
    if left <= 0:
        return False
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.fsum(squares))
        delta = mpmath.ncdf(mu / 2 - left / mu)
        delta -= mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
        return delta <= cap.delta


ATTACKS = [(cap, seed) for cap in (CAP, Budget(0.5, 1e-9)) for seed in range(15)]


@pytest.mark.parametrize(("cap", "seed"), ATTACKS)
def test_no_adversary_gets_more_than_the_cap(cap, seed):
    taken = attack(FilterState, cap, seed)
    assert len(taken) >= 2
    assert is_within(cap, taken)


@pytest.mark.parametrize("cap", [Budget(1.0, 0.0), Budget(0.3, 0.0)])
def test_no_adversary_gets_more_than_a_pure_cap(cap):
    for seed in range(5):
        taken = attack(FilterState, cap, seed)
        assert all(event.mu_squared == 0 for event in taken)
        assert is_within(cap, taken)


@pytest.mark.parametrize("twin", [NoSquares, Forgetful, PureIsFree, SumOfMus])
def test_adversary_finds_the_broken_twins(twin):
    assert not all(is_within(cap, attack(twin, cap, seed)) for cap, seed in ATTACKS)


# Black boxes and events without a square --------------------------------------------

SAMPLED = PoissonGaussianEvent(2.0, 0.01, 500)
BOX = EpsilonDeltaEvent(0.3, 2e-7)


def test_black_boxes_add_up_in_both_parts():
    state = filter_state(CAP, [BOX, PureEvent(0.5), LaplaceEvent(4.0, 2), BOX])
    assert math.isclose(state.pure_epsilon, 1.6)
    assert math.isclose(state.delta, 4e-7)
    assert state.mu_squared == 0
    assert state.exhausted() is None
    assert math.isclose(state.remaining_epsilon(), 1.4)
    assert math.isclose(state.delta_left(), 6e-7)
    assert filter_state(CAP, [BOX] * 6).exhausted() == "delta"
    assert filter_state(Budget(0.5, 1e-6), [BOX] * 2).exhausted() == "epsilon"


def test_sampled_event_is_charged_at_the_delta_of_its_fit():
    state = filter_state(CAP, [SAMPLED, SAMPLED], [1e-7, 3e-7])
    alone = [epsilon_of(SAMPLED, delta) for delta in (1e-7, 3e-7)]
    assert math.isclose(state.pure_epsilon, sum(alone))
    assert math.isclose(state.delta, 4e-7)
    assert FilterState(CAP).charged(SAMPLED).exhausted() == "delta"


def test_what_is_left_of_delta_fixes_the_second_phase():
    state = filter_state(CAP, [BOX, GaussianEvent(9.0), GaussianEvent(9.0)])
    assert state.mu_left() == gaussian_mu(3.0 - 0.3, 1e-6 - 2e-7)
    assert math.isclose(state.mu_squared, 2 / 81)
    spent = 0.3 + gaussian_epsilon(math.sqrt(state.mu_squared), 8e-7)
    assert math.isclose(state.spent_epsilon(), spent, rel_tol=1e-9)
    full = filter_state(CAP, [EpsilonDeltaEvent(0.1, 1e-6)])
    assert full.charged(GaussianEvent(1e6)).exhausted() == "delta"


@pytest.mark.parametrize("event", [SAMPLED, BOX])
def test_events_without_a_square_have_no_place_in_the_second_phase(event):
    state = filter_state(CAP, [GaussianEvent(9.0)])
    assert state.has_no_place_for(event)
    assert state.charged(event, 1e-7).exhausted() == "epsilon"
    assert not FilterState(CAP).has_no_place_for(event)
    assert not state.has_no_place_for(NonPrivateEvent())


def objective(epsilon, delta=1e-6):
    def declare(z):
        return ComposedEvent((ObjectiveEvent(z, 0.02, 3), GaussianEvent(50 * z)))

    return declare(calibrate(declare, Budget(epsilon, delta)))


def test_objective_event_that_fills_the_cap_is_taken_as_one_release():
    event = objective(3.0)
    assert math.sqrt(event.mu_squared) > gaussian_mu(3.0, 1e-6)
    state = FilterState(CAP).charged(event, 1e-6)
    assert state.exhausted() is None
    assert state.mu_squared == 0
    assert 2.99 <= state.pure_epsilon <= 3.0
    assert FilterState(CAP).charged(event, 0.0).exhausted() == "epsilon"


def test_small_objective_event_adds_its_square():
    event = objective(0.3)
    state = filter_state(CAP, [event, event], [1e-6, 1e-6])
    assert math.isclose(state.mu_squared, 2 * event.mu_squared)
    assert state.delta == 0.0


class DeltaIsFree(FilterState):
    """Broken twin: deltas of the first phase are not added."""

    def charged(self, event, delta=0.0):
        return replace(super().charged(event, delta), delta=0.0)


class BoxesInSquares(FilterState):
    """Broken twin: a black box in the second phase adds its epsilon's square."""

    def charged(self, event, delta=0.0):
        if self.mu_squared > 0 and math.isinf(event.gdp_mu_squared):
            alone = pure_mu(epsilon_of(event, delta))
            return replace(self, mu_squared=self.mu_squared + alone**2)
        return super().charged(event, delta)


OBJECTIVE = objective(0.5)


def mixed_attack(kind, cap, seed):
    """What the filter let an adversary have of all kinds of events."""
    rng, state, taken = np.random.default_rng(seed), kind(cap), []
    for _ in range(15):
        left = max(state.remaining_epsilon(), 1e-3) * rng.choice([0.05, 0.1, 0.3])
        delta = cap.delta * float(rng.choice([0.1, 0.4]))
        kinds = [
            EpsilonDeltaEvent(left, delta),
            PoissonGaussianEvent(float(rng.choice([2, 4])), 0.01, 200),
            OBJECTIVE,
            gaussian(left, delta),
            LaplaceEvent(1 / left),
        ]
        event = kinds[rng.choice(5, p=[0.4, 0.2, 0.1, 0.1, 0.2])]
        after = state.charged(event, delta)
        if after.exhausted() is None:
            state, taken = after, [*taken, (event, delta)]
    return taken


def is_within_mixed(cap, taken):
    """The theorem once more: boxes until the first square, then squares only."""
    epsilon = delta = mu_squared = 0.0
    for event, at in taken:
        if mu_squared > 0 or (math.isfinite(event.gdp_mu_squared) and event.mu_squared):
            mu_squared += event.gdp_mu_squared
        elif event.mu_squared == 0:
            epsilon, delta = epsilon + event.pure_epsilon, delta + event.box_delta
        else:
            epsilon, delta = epsilon + epsilon_of(event, at), delta + at
    left = cap.epsilon - epsilon
    if mu_squared == 0:
        return left >= -1e-9 and delta <= cap.delta * (1 + 1e-9)
    if left <= 0 or delta >= cap.delta or math.isinf(mu_squared):
        return False
    return gaussian_epsilon(math.sqrt(mu_squared), cap.delta - delta) <= left


MIXED = [(Budget(6.0, 1e-6), seed) for seed in range(8)]


@pytest.mark.parametrize(("cap", "seed"), MIXED)
def test_no_adversary_mixes_kinds_beyond_the_cap(cap, seed):
    taken = mixed_attack(FilterState, cap, seed)
    assert len(taken) >= 2
    assert is_within_mixed(cap, taken)


@pytest.mark.parametrize("twin", [DeltaIsFree, BoxesInSquares])
def test_mixing_adversary_finds_the_broken_twins(twin):
    assert not all(
        is_within_mixed(cap, mixed_attack(twin, cap, seed)) for cap, seed in MIXED
    )
