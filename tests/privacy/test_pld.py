"""Numerical composition: against closed forms, and each trap of the library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.accounting import _pld as pld
from skdp.privacy.accounting._gaussian import gaussian_delta, gaussian_epsilon, pure_mu
from skdp.privacy.accounting._objective_perturbation import ObjectiveLoss

ALLOWED = 1.002


def randomised_response_delta(epsilon, count, at):
    """Exact delta of `count` randomised responses, by the binomial distribution."""
    k = np.arange(count + 1)
    loss = (2 * k - count) * epsilon
    chance = binom.pmf(k, count, 1 / (1 + math.exp(-epsilon)))
    return float(np.sum(chance * np.maximum(0, -np.expm1(np.minimum(at - loss, 0)))))


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
@pytest.mark.parametrize(("multiplier", "count"), [(5.0, 1), (80.0, 10**4)])
def test_gaussian_composition_agrees_with_its_closed_form(multiplier, count, delta):
    exact = gaussian_epsilon(math.sqrt(count) / multiplier, delta)
    found = pld.pld_epsilon([GaussianEvent(multiplier, count)], delta)
    # Rounding of the transforms is charged to delta: 9e-11 for 100,000 steps.
    assert exact * (1 - 1e-6) <= found <= exact * 1.003


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 50), (0.5, 20), (1.3, 3)])
def test_pure_black_boxes_agree_with_randomised_response(epsilon, count):
    found = pld.pld_epsilon([PureEvent(epsilon, count)], 1e-4)
    assert math.isfinite(found)
    assert randomised_response_delta(epsilon, count, found) <= 1e-4
    assert randomised_response_delta(epsilon, count, found / 1.01 - 2e-3) > 1e-4
    assert found <= count * epsilon * 1.005


@pytest.mark.parametrize("count", [1, 5, 100])
def test_black_boxes_lose_their_deltas(count):
    event = EpsilonDeltaEvent(0.2, 1e-6, count)
    alone = 1 - (1 - 1e-6) ** count
    assert pld.pld_epsilon([event], alone / 2) == math.inf
    found = epsilon_of(event, 1e-3)
    boxes = randomised_response_delta(0.2, count, found)
    assert alone + (1 - alone) * boxes <= 1e-3
    assert found <= 0.2 * count
    assert epsilon_of(EpsilonDeltaEvent(0.2, 1e-6), 1e-6) == 0.2
    assert epsilon_of(EpsilonDeltaEvent(0.2, 1e-6), 0.99e-6) == math.inf


def test_laplace_is_exact_alone_and_pure_at_delta_zero():
    # delta = 1 - exp((epsilon - 1 / multiplier) / 2) for one release.
    for multiplier in (0.5, 2.0, 10.0):
        exact = 1 / multiplier + 2 * math.log1p(-1e-3)
        found = epsilon_of(LaplaceEvent(multiplier), 1e-3)
        assert exact * (1 - 1e-9) <= found <= exact + 0.003 / multiplier
    assert epsilon_of(LaplaceEvent(4.0, 6), 0.0) == 1.5
    assert calibrate(lambda z: LaplaceEvent(z, 6), Budget(1.5, 0.0)) <= 4.0 * ALLOWED


# Selections of bounded range -----------------------------------------------------


def range_profile(epsilon, at):
    """Largest delta of a release of epsilon-bounded range, for an `at` of 0 or more."""
    if at >= epsilon:
        return 0.0
    return math.expm1((at - epsilon) / 2) ** 2 / -math.expm1(-epsilon)


def selection(scores, epsilon):
    """Probabilities of the exponential mechanism for a sensitivity of 1."""
    weights = np.exp(epsilon / 2 * (scores - scores.max()))
    return weights / weights.sum()


def excess(p, q, at):
    return float(np.maximum(p - math.exp(at) * q, 0).sum())


def largest_excess(epsilon, range_of, trials=3000):
    """By how much random selections exceed the profile of some range."""
    rng = np.random.default_rng(5)
    worst = -math.inf
    for _ in range(trials):
        scores = rng.normal(size=4) * rng.choice([0.3, 3.0, 20.0])
        moved = scores + rng.choice([-1.0, 1.0], size=4)
        p, q = selection(scores, epsilon), selection(moved, epsilon)
        for at in (0.0, 0.3 * epsilon, 0.8 * epsilon):
            worst = max(worst, excess(p, q, at) - range_profile(range_of, at))
    return worst


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_selection_exceeds_the_profile_and_a_smaller_range_is_caught(epsilon):
    assert largest_excess(epsilon, epsilon) <= 1e-12
    assert largest_excess(epsilon, 0.8 * epsilon) > 1e-3 * epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
def test_one_selection_costs_what_its_profile_says(epsilon):
    for share in (0.05, 0.5, 0.95):
        delta = range_profile(epsilon, share * epsilon)
        if delta < 1e-12:
            continue
        found = pld.pld_epsilon([BoundedRangeEvent(epsilon)], delta)
        assert share * epsilon * (1 - 1e-9) <= found <= (share + 0.011) * epsilon


@pytest.mark.parametrize("epsilon", [1e-4, 0.03, 1.0, 7.0, 60.0])
def test_a_selection_is_dominated_by_the_gaussian_of_its_mu(epsilon):
    mu = math.sqrt(BoundedRangeEvent(epsilon).gdp_mu_squared)
    points = np.linspace(0, 0.999, 400) * epsilon
    profile = [range_profile(epsilon, at) for at in points]
    gaussian = [gaussian_delta(mu, at) for at in points]
    assert all(a <= b + 1e-15 for a, b in zip(profile, gaussian, strict=True))
    assert mu == pure_mu(epsilon / 2)
    if epsilon < 10:  # beyond, both deltas are 1 at 0
        less = [gaussian_delta(0.99 * mu, at) for at in points]
        assert any(a > b for a, b in zip(profile, less, strict=True))


# Poisson sampling ----------------------------------------------------------------


def sampled_delta(multiplier, rate, epsilon, order):
    """Exact delta of one sampled Gaussian release, by its two half-lines."""
    if order == "remove":
        level = math.log1p(math.expm1(epsilon) / rate)
        return rate * gaussian_delta(1 / multiplier, level)
    # The null record's data against the sampled: {x < edge} is the best event.
    ratio = (math.exp(-epsilon) - (1 - rate)) / rate
    if ratio <= 0:
        return 0.0
    edge = multiplier**2 * math.log(ratio) + 0.5
    mixed = (1 - rate) * ndtr(edge / multiplier)
    mixed += rate * ndtr((edge - 1) / multiplier)
    return float(ndtr(edge / multiplier) - math.exp(epsilon) * mixed)


@pytest.mark.parametrize(("multiplier", "rate"), [(0.7, 0.01), (2.0, 0.3), (0.7, 0.9)])
def test_one_sampled_release_is_exact_in_the_worse_order(multiplier, rate):
    found = pld.pld_epsilon([PoissonGaussianEvent(multiplier, rate)], 1e-4)

    def worst(epsilon):
        orders = ("remove", "add")
        return max(sampled_delta(multiplier, rate, epsilon, o) for o in orders)

    assert worst(found) <= 1e-4 < worst(0.99 * found)


# By two steps, to the null record and from it.
@pytest.mark.parametrize(("multiplier", "count", "epsilon"), [(1.0, 1000, 3.518)])
def test_reference_values_under_replace_one(multiplier, count, epsilon):
    event = PoissonGaussianEvent(multiplier, 0.01, count, "replace_one")
    found = epsilon_of(event, 1e-5)
    assert epsilon * 0.998 <= found <= epsilon * ALLOWED
    # No more than equal steps cost, of the worse order each.
    half = PoissonGaussianEvent(multiplier, 0.01, count)
    share = 1e-5 / (1 + math.exp(found / 2))
    assert found <= 2 * epsilon_of(half, share) * 1.001


def exchanged_delta(multiplier, rate, epsilon):
    """Delta of one sampled release of a record against the opposite one.

    Their ratio grows with the release, so the best event is a half-line.
    """

    def excess(edge):
        far, near = (ndtr(-(edge + x) / multiplier) for x in (1, -1))
        null = ndtr(-edge / multiplier)
        mine = (1 - rate) * null + rate * near
        return mine - math.exp(epsilon) * ((1 - rate) * null + rate * far)

    edges = np.linspace(-10 * multiplier, 30 * multiplier, 200_001)
    return float(np.max(excess(edges)))


ONCE = [(0.7, 0.01, 1e-3), (0.7, 0.01, 1e-5), (1.5, 0.3, 1e-5), (3.0, 0.9, 1e-4)]


@pytest.mark.parametrize(("multiplier", "rate", "delta"), ONCE)
def test_one_exchange_costs_what_opposite_records_do(multiplier, rate, delta):
    event = PoissonGaussianEvent(multiplier, rate, 1, "replace_one")
    found = epsilon_of(event, delta)
    assert exchanged_delta(multiplier, rate, found) <= delta
    assert exchanged_delta(multiplier, rate, 0.998 * found) > delta


@pytest.mark.parametrize("twin", ["no rest", "one order", "rounds down"])
def test_broken_twins_of_the_two_steps_are_below(monkeypatch, twin):
    multiplier, rate, delta = 1.5, 0.3, 1e-5
    event = PoissonGaussianEvent(multiplier, rate, 1, "replace_one")
    orders = pld._orders

    def broken(events, at):
        away, back = orders(events, at)
        return {
            "no rest": (away, lambda e: 0 * e),
            "one order": (back, back),
            "rounds down": tuple(
                lambda e, order=order: order(e + 0.05) for order in (away, back)
            ),
        }[twin]

    monkeypatch.setattr(pld, "_orders", broken)
    found = pld.pld_epsilon([event], delta)
    assert exchanged_delta(multiplier, rate, found) > 1.02 * delta


def test_hockey_sticks_of_a_grid_are_those_of_the_library():
    event = PoissonGaussianEvent(1.2, 0.02, 300, "replace_one")
    whole = pld._compose((event,), 1e-7)
    epsilons = np.linspace(-4, 6, 201)
    for mass in (whole._pmf_remove, whole._pmf_add):
        theirs = mass.get_delta_for_epsilon(epsilons)
        ours = pld._HockeyStick(mass)(epsilons)
        assert (ours >= theirs - 1e-15).all()
        assert (ours <= theirs * 1.001 + 1e-9).all()


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_small_deltas_fall_back_to_a_looser_bound(adjacency):
    event = PoissonGaussianEvent(1.5, 0.01, 1000, adjacency)
    found = [epsilon_of(event, delta) for delta in (1e-9, 1e-13, 1e-20, 1e-40)]
    assert found == sorted(found)
    assert math.isfinite(found[-1])
    mixed = ComposedEvent((event, PureEvent(0.5)))
    assert epsilon_of(mixed, 1e-40) == math.inf


# Mixtures ------------------------------------------------------------------------

PARTS = {
    "gaussian": GaussianEvent(8.0, 3),
    "laplace": LaplaceEvent(10.0, 5),
    "poisson": PoissonGaussianEvent(1.4, 0.01, 500),
    "objective": ObjectiveEvent(9.0, 0.01, 4, 6),
    "pure": PureEvent(0.1, 4),
    "box": EpsilonDeltaEvent(0.1, 1e-7),
}


@pytest.mark.parametrize("name", PARTS)
def test_every_part_counts(name):
    rest = tuple(part for other, part in PARTS.items() if other != name)
    whole = epsilon_of(ComposedEvent(tuple(PARTS.values())), 1e-5)
    assert epsilon_of(ComposedEvent(rest), 1e-5) < whole


def test_sampled_part_under_replace_one_becomes_a_black_box():
    sampled = PoissonGaussianEvent(2.0, 0.01, 500, "replace_one")
    whole = epsilon_of(ComposedEvent((sampled, GaussianEvent(20.0))), 1e-5)
    box = epsilon_of(sampled, 0.5e-5)
    assert box < whole <= box + epsilon_of(GaussianEvent(20.0), 0.5e-5)
    # The box has a delta, which the rest cannot use.
    pure = ComposedEvent((PureEvent(box), GaussianEvent(20.0)))
    assert epsilon_of(pure, 1e-5) < whole
    other = PoissonGaussianEvent(2.0, 0.01, 500, "zero_out")
    with pytest.raises(ValueError, match="the same adjacency"):
        epsilon_of(ComposedEvent((sampled, other)), 1e-5)


def declare_mixture(z):
    return ComposedEvent((LaplaceEvent(z, 20), GaussianEvent(z, 5)))


def declare_beside_fixed_parts(z):
    return ComposedEvent((PureEvent(0.3), PoissonGaussianEvent(z, 0.01, 100)))


@pytest.mark.parametrize("declare", [declare_mixture, declare_beside_fixed_parts])
def test_calibration_of_mixtures_is_one_sided(declare):
    budget = Budget(1.0, 1e-5)
    multiplier = calibrate(declare, budget)
    assert epsilon_of(declare(multiplier), budget.delta) <= budget.epsilon
    assert epsilon_of(declare(multiplier / ALLOWED), budget.delta) > budget.epsilon


# Traps and broken twins ----------------------------------------------------------


def test_broken_twin_that_rounds_losses_down_is_below(monkeypatch):
    event = ObjectiveEvent(4.0, 0.05, 3)
    fine = pld.pld_epsilon([event, event], 1e-5)
    monkeypatch.setattr(pld, "_interval", lambda events: 0.05)
    assert pld.pld_epsilon([event, event], 1e-5) >= fine
    above = ObjectiveLoss.survival
    monkeypatch.setattr(
        ObjectiveLoss, "survival", lambda self, t: above(self, t + 0.05)
    )
    assert pld.pld_epsilon([event, event], 1e-5) < fine


def least_delta(q, z, steps, epsilon):
    """P(S > t) - exp(epsilon) Q(S > t) for the sum S of all releases: a lower bound.

    Under Q S ~ N(0, steps z^2); under P its mean is q steps on average, with a variance
    that the binomial number of samples enlarges. Any t gives a valid bound; the tail of
    the enlarged normal is that of the mixture up to far less than what is found.
    """
    deviation = z * math.sqrt(steps)
    mean = q * steps
    wide = math.hypot(deviation, math.sqrt(steps * q * (1 - q)))
    t = mean / 2 + epsilon * deviation**2 / mean
    return ndtr((mean - t) / wide) - math.exp(epsilon) * ndtr(-t / deviation)


TINY_DELTAS = [
    (0.01, 2.66e6, 10**6, 1e-9),
    (0.01, 2.66e6, 10**4, 1e-12),
    (1e-4, 3e5, 10**6, 1e-9),
]


@pytest.mark.parametrize(("q", "z", "steps", "delta"), TINY_DELTAS)
def test_a_sampled_event_is_not_free_at_tiny_deltas(q, z, steps, delta):
    claimed = epsilon_of(PoissonGaussianEvent(z, q, steps), delta)
    assert least_delta(q, z, steps, claimed) <= delta


def test_rounding_of_renyi_divergences_left_out_is_found_out(monkeypatch):
    monkeypatch.setattr(pld, "_RENYI_ROUNDING", 1e-300)
    monkeypatch.setattr(pld, "gaussian_epsilon", lambda mu, delta: math.inf)
    q, z, steps, delta = TINY_DELTAS[0]
    claimed = pld.pld_epsilon([PoissonGaussianEvent(z, q, steps)], delta)
    assert least_delta(q, z, steps, claimed) > 100 * delta


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_calibration_keeps_a_tiny_budget(adjacency):
    """Two real records move the sum twice as far as one and the null record."""
    budget = Budget(1e-6, 1e-12)
    z = calibrate(lambda z: PoissonGaussianEvent(z, 0.01, 10**4, adjacency), budget)
    own = z if adjacency == "zero_out" else z / 2
    assert least_delta(0.01, own, 10**4, budget.epsilon) <= budget.delta
