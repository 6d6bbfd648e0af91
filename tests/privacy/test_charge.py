"""Charges are valid, and no adaptive adversary passes the sum of them."""

from __future__ import annotations

import math
from functools import cache, lru_cache

import mpmath
import numpy as np
import pytest
from scipy.signal import fftconvolve

from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
    EpsilonDeltaEvent,
    GaussianEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
)
from skdp.privacy.accounting._gaussian import gaussian_deltas_below, pure_mu
from skdp.privacy.accounting._pld import _compose
from skdp.privacy.ledger import _filter as charges
from skdp.privacy.ledger._filter import (
    Charge,
    FilterState,
    is_valid,
    least_charge,
)

WHOLE = Charge(1.5, 5e-7, 0.2)


def exact_delta(mu, epsilon):
    """Hockey stick of mu-GDP at any real epsilon, in many digits."""
    mu, epsilon = mpmath.mpf(float(mu)), mpmath.mpf(float(epsilon))
    if mu == 0:
        return max(mpmath.mpf(0), 1 - mpmath.exp(epsilon))
    far = mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - far


def bound(charge, epsilon):
    """T of a charge at any real epsilon."""
    rest = exact_delta(math.sqrt(charge.mu_squared), epsilon - charge.epsilon)
    return charge.delta + (1 - charge.delta) * rest


def test_delta_rounded_down_is_below_and_near():
    rng = np.random.default_rng(0)
    places = [*rng.uniform(-45, 38, 600), *rng.uniform(-1, 0, 100)]
    sizes = [*10 ** rng.uniform(-7, 1.6, 600), *10 ** rng.uniform(-9, -6, 100)]
    with mpmath.workdps(50):
        for mu, place in zip(sizes, places, strict=True):
            epsilon = mu * (place + mu / 2)
            found = float(gaussian_deltas_below(mu, np.array([epsilon]))[0])
            exact = exact_delta(mu, epsilon)
            assert found <= exact
            if epsilon <= 700 and exact > 1e-280:
                assert found >= exact * (1 - 1e-6) - 2e-14


# Charges against exact hockey sticks ------------------------------------------------


def sampled_orders(event):
    """Hockey sticks of a sampled event under zero_out, by the library itself.

    Below 0 by the other order, since the library rounds up what is sure to be lost.
    """
    whole = _compose((event,), 1e-9)
    away, back = (m.get_delta_for_epsilon for m in (whole._pmf_remove, whole._pmf_add))
    return [both_sides(away, back), both_sides(back, away)]


def both_sides(own, other):
    """A hockey stick at every real epsilon, from those of both orders above 0."""

    def stick(at):
        if at >= 0:
            return float(own(at))
        return -math.expm1(at) + math.exp(at) * float(other(-at))

    return stick


def violations(charge, orders, epsilons):
    """Where a charge is below a hockey stick, of all points."""
    with mpmath.workdps(30):
        return sum(
            any(order(float(e)) > bound(charge, e) * (1 + 1e-9) for order in orders)
            for e in epsilons
        )


def charge_of(event, whole=WHOLE):
    # Through the filter, so that it is what a ledger writes down.
    reserve = Charge(whole.epsilon, whole.delta)
    return FilterState(Budget(3.0, 1e-6), reserve).charge_of(event, 1e-7)


EPSILONS = np.concatenate([np.linspace(-3, 3, 61), np.linspace(-0.5, 0.5, 60)])
TWINS = {
    "epsilon": lambda x: Charge(0.8 * x.epsilon, x.delta, x.mu_squared),
    "delta": lambda x: Charge(x.epsilon, 0.9 * x.delta, x.mu_squared),
    "mu": lambda x: Charge(x.epsilon, x.delta, 0.96 * x.mu_squared),
}


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize(("z", "q", "steps"), [(1.0, 0.01, 300), (2.0, 0.2, 5)])
def test_charge_of_a_sampled_event_is_valid_and_less_is_not(z, q, steps, epsilon):
    event = PoissonGaussianEvent(z, q, steps)
    charge = charge_of(event, Charge(epsilon, 5e-7))
    orders = sampled_orders(event)
    points = np.concatenate([EPSILONS, np.linspace(0, 4, 400)])
    assert violations(charge, orders, points) == 0
    smaller = charge.times(0.93)
    assert violations(smaller, orders, points) > 0


def test_charge_of_an_exchange_is_valid_for_opposite_records():
    """Of one step; the hockey stick by half-lines, at all real epsilons."""
    z, q = 1.5, 0.3
    edges = np.linspace(-60, 60, 40_001)

    def stick(epsilon):
        tail = [
            0.5 * np.vectorize(math.erfc)((edges + x) / z / 2**0.5) for x in (-1, 0, 1)
        ]
        mine = (1 - q) * tail[1] + q * tail[0]
        theirs = (1 - q) * tail[1] + q * tail[2]
        excess = np.max(mine - math.exp(epsilon) * theirs)
        return max(float(excess), 0.0)

    stick = lru_cache(stick)
    charge = charge_of(PoissonGaussianEvent(z, q, 1, "replace_one"), Charge(0.3, 5e-7))
    points = np.linspace(-4, 4, 81)
    assert violations(charge, [stick], points) == 0
    assert violations(charge.times(0.9), [stick], points) > 0


@pytest.mark.parametrize("kind", [(8.4, 0.086, 1, 2, 0.36), (4.0, 0.3), (20.0, 0.1, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 1.5])
def test_charge_of_objective_perturbation_covers_its_bound(kind, epsilon):
    event = ObjectiveEvent(*kind)
    charge = charge_of(event, Charge(epsilon, 5e-7))

    grid = np.linspace(0, 4, 20_001)
    logs = event.loss.log_deltas(grid)

    def above(at):
        """The less of two valid bounds; between points, that at the left one."""
        left = min(int(at / grid[1]), len(grid) - 1)
        return min(event.loss.delta(at), math.exp(logs[left]))

    bounds = both_sides(above, above)
    shift = event.log_determinant
    points = np.concatenate([np.linspace(-2 * shift, 2 * shift, 81), EPSILONS])
    assert violations(charge, [bounds], points) == 0
    if charge.epsilon and charge.mu_squared:
        found = [violations(twin(charge), [bounds], points) for twin in TWINS.values()]
        assert found[0] > 0
        assert found[2] > 0


def extremal(epsilon, delta):
    """The largest hockey stick of any (epsilon, delta)-DP release."""

    def stick(at):
        if at >= epsilon:
            kept = 0.0
        elif at <= -epsilon:
            kept = -math.expm1(at)
        else:
            kept = -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))
        return delta + (1 - delta) * kept

    return stick


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (1.0, 1e-3), (2.5, 0.1)])
def test_charges_of_black_boxes_are_valid_and_less_is_not(epsilon, delta):
    orders = [extremal(epsilon, delta)]
    ways = [Charge(epsilon, delta), Charge(0.0, delta, pure_mu(epsilon) ** 2)]
    for way in ways:
        assert violations(way, orders, EPSILONS) == 0
    points = np.linspace(-epsilon, epsilon, 201)
    assert violations(TWINS["epsilon"](ways[0]), orders, points) > 0
    assert violations(TWINS["mu"](ways[1]), orders, points) > 0
    if delta:
        assert violations(TWINS["delta"](ways[0]), orders, points) > 0


def test_least_charge_is_a_multiple_of_the_whole_and_valid():
    def profile(at):
        return np.array([float(extremal(0.2, 1e-9)(e)) for e in at])

    charge = least_charge(profile, WHOLE)
    assert math.isclose(charge.epsilon / 1.5, charge.delta / 5e-7)
    assert math.isclose(charge.epsilon / 1.5, charge.mu_squared / 0.2)
    assert least_charge(profile, WHOLE.times(0.9 * charge.epsilon / 1.5)) is None
    assert least_charge(profile, Charge(1.5, 0.0, 0.2)) is None
    grid = np.linspace(0, 1, 500)
    assert is_valid(WHOLE, grid, profile(grid))


def test_twin_that_reads_the_grid_the_other_way_undercharges(monkeypatch):
    """Bounds at the right end of a cell, on a coarse grid."""
    monkeypatch.setattr(charges, "_EVEN", 12)
    monkeypatch.setattr(charges, "_BY_RATIO", 12)
    event = PoissonGaussianEvent(1.0, 0.01, 300)
    orders = sampled_orders(event)

    def profile(at):
        return np.maximum(*(np.array([float(o(float(e))) for e in at]) for o in orders))

    points = np.linspace(0, 4, 400)
    whole = Charge(0.0, 5e-7, 0.4)
    assert violations(least_charge(profile, whole), orders, points) == 0

    def shifted(at):
        return profile(np.append(at[1:], at[-1])) if len(at) > 1 else profile(at)

    assert violations(least_charge(shifted, whole), orders, points) > 0


# The optimal adaptive adversary -----------------------------------------------------

LOSSES = np.linspace(-12.0, 14.0, 6501)


def nodes(points):
    """Of N(0, 1); many even ones, since the value has kinks."""
    x = np.linspace(-7.0, 7.0, points)
    weights = np.exp(-x * x / 2)
    return x, weights / weights.sum()


def gaussian_step(mu, points=161):
    return [(w, mu * mu / 2 + mu * x) for x, w in zip(*nodes(points), strict=True)]


def pure_step(epsilon):
    p = 1 / (1 + math.exp(-epsilon))
    return [(p, epsilon), (1 - p, -epsilon)]


def sampled_steps(z, q, points=161):
    """One sampled release, in both orders, by quadrature."""

    def loss(y):
        return np.log1p(q * np.expm1((2 * y - 1) / (2 * z * z)))

    null = [(z * x, w) for x, w in zip(*nodes(points), strict=True)]
    mixed = [(w * (1 - q), loss(y)) for y, w in null]
    mixed += [(w * q, loss(y + 1)) for y, w in null]
    return mixed, [(w, -loss(y)) for y, w in null]


def leaky(delta, step):
    """A step beside which everything is shown with some probability."""
    return [((1 - delta) * w, x) for w, x in step] + [(delta, math.inf)]


def expected(values, step):
    """Mean after a step, of values interpolated between losses and flat beyond."""
    weights, losses = np.array(step).T
    shown = np.isinf(losses)
    places, weights_in = losses[~shown] / (LOSSES[1] - LOSSES[0]), weights[~shown]
    left = np.floor(places).astype(int)
    share, first = places - left, left.min()
    kernel = np.bincount(left - first, weights_in * (1 - share), np.ptp(left) + 2)
    kernel += np.bincount(left - first + 1, weights_in * share)
    reached = np.arange(first, first + len(values) + len(kernel) - 1)
    seen = values[np.clip(reached, 0, len(values) - 1)]
    return fftconvolve(seen, kernel[::-1], mode="valid") + weights[shown].sum()


def best_of_all(epsilon, actions, budget):
    """The largest delta at `epsilon` of any adaptive choice within a budget.

    `actions` are pairs of a price, a tuple of integers, and a distribution of the loss.
    By dynamic programming over what is left and the loss so far.
    """
    end = np.maximum(0.0, -np.expm1(np.minimum(epsilon - LOSSES, 0.0)))

    @cache
    def value(*left):
        best = end
        for price, step in actions:
            rest = tuple(a - b for a, b in zip(left, price, strict=True))
            if min(rest) >= 0:
                best = np.maximum(best, expected(value(*rest), step))
        return best

    return float(np.interp(0.0, LOSSES, value(*budget)))


# So many units of the epsilon set aside, of the delta and of the squares may be spent.
UNITS = (2, 2, 6)
ATTACKED = [(1.0, 1e-3, 0.2, 0.5), (2.0, 1e-2, 0.5, 0.3), (1.0, 1e-5, 0.3, 0.5)]


def unit_charge(epsilon, delta, set_aside, shown):
    """A unit of each set-aside, of the filter's own limits."""
    reserve = Charge(set_aside * epsilon, shown * delta)
    whole = FilterState(Budget(epsilon, delta), reserve).whole
    return Charge(
        whole.epsilon / UNITS[0], whole.delta / UNITS[1], whole.mu_squared / UNITS[2]
    )


def menu(unit):
    """What an adversary may ask for, each at a price that covers its charge."""
    mu, actions = math.sqrt(unit.mu_squared), []
    for k in (1, 2, 3):
        # Gaussian noise, randomised response and a leak, in every mixture.
        pure = unit_pure(math.sqrt(k) * mu)
        for price, step in (
            ((0, 0, k), gaussian_step(math.sqrt(k) * mu)),
            ((0, 0, k), pure_step(pure)),
            ((0, 1, k), leaky(unit.delta, gaussian_step(math.sqrt(k) * mu))),
            ((0, 1, k), leaky(unit.delta, pure_step(pure))),
        ):
            actions.append((price, step))
    for k in (1, 2):
        actions.append(((k, 0, 0), pure_step(k * unit.epsilon)))
        actions.append(((k, 1, 0), leaky(unit.delta, pure_step(k * unit.epsilon))))
        shifted = [(w, x + k * unit.epsilon) for w, x in gaussian_step(mu)]
        # The charge itself, as if a release had this loss, though none could have.
        actions.append(((k, 1, 1), leaky(unit.delta, shifted)))
    for z, q in ((1.0, 0.05), (2.0, 0.3)):
        event = PoissonGaussianEvent(z, q)
        found = least_charge(_profile_of(event), _times(unit, UNITS))
        if found is not None:
            price = _price(found, unit)
            actions += [(price, step) for step in sampled_steps(z, q)]
    return actions


def unit_pure(mu):
    """The epsilon whose mu this is."""
    low, high = 1e-9, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if pure_mu(middle) <= mu else (low, middle)
    return low


def _profile_of(event):
    orders = sampled_orders(event)
    return lambda e: np.maximum(
        *(np.array([float(o(float(x))) for x in e]) for o in orders)
    )


def _times(unit, units):
    epsilon, delta, squares = units
    return Charge(epsilon * unit.epsilon, delta * unit.delta, squares * unit.mu_squared)


def _price(charge, unit):
    """Whole units that cover a charge."""
    shares = (
        charge.epsilon / unit.epsilon,
        charge.delta / unit.delta,
        charge.mu_squared / unit.mu_squared,
    )
    return tuple(math.ceil(share - 1e-9) for share in shares)


@pytest.mark.parametrize(("epsilon", "delta", "set_aside", "shown"), ATTACKED)
def test_optimal_adversary_stays_below_the_cap(epsilon, delta, set_aside, shown):
    unit = unit_charge(epsilon, delta, set_aside, shown)
    found = best_of_all(epsilon, menu(unit), UNITS)
    # Nearly all of it can be had; interpolation on the grid of losses rounds up.
    assert 0.5 * delta < found <= 1.002 * delta


# What the adversary finds if the filter allows a little more.
BROKEN = {
    "squares of the whole cap": ((0.2, 0.5), (2, 2, 8)),
    "delta twice": ((0.2, 0.5), (2, 4, 6)),
    "epsilon twice": ((0.2, 0.5), (4, 2, 6)),
}


@pytest.mark.parametrize(("shares", "units"), BROKEN.values(), ids=BROKEN)
def test_optimal_adversary_finds_the_broken_twins(shares, units):
    unit = unit_charge(1.0, 1e-3, *shares)
    assert best_of_all(1.0, menu(unit), units) > 1.02e-3


def test_events_of_closed_form_are_charged_what_they_say():
    state = FilterState(Budget(3.0, 1e-6), Charge(0.5, 5e-7)).charged(GaussianEvent(9))
    assert state.charge_of(GaussianEvent(8.0, 2)) == Charge(mu_squared=2 / 64)
    assert state.charge_of(BoundedRangeEvent(0.2, 2)) == Charge(0.4)
    assert state.charge_of(PureEvent(0.2, 2)) == Charge(0.4)
    assert state.charge_of(EpsilonDeltaEvent(0.2, 1e-8, 2)) == Charge(0.4, 2e-8)
