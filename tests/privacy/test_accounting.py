"""Closed forms against 40-digit arithmetic, always on the private side."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.accounting._calibrate import fits
from skdp.privacy.accounting._events import Single, needs_no_delta
from skdp.privacy.accounting._gaussian import (
    gaussian_delta,
    gaussian_deltas,
    gaussian_epsilon,
    gaussian_mu,
    log_gaussian_deltas,
    pure_mu,
)

EPSILONS = [1e-6, *np.geomspace(1e-3, 1e6, 10), 1e8]
DELTAS = [1e-50, *np.geomspace(1e-12, 0.1, 6), 0.5]
MUS = [1e-16, 2.5524e-9, 9.9e-6, 1.01e-5, *np.geomspace(1e-4, 50, 12)]
# Calibration may use this much more noise than needed.
ALLOWED = 1.002


def true_delta(mu, epsilon):
    """The exact delta of a mu-GDP mechanism, with at least 20 correct digits."""
    with mpmath.workdps(50):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        below = mpmath.ncdf(mu / 2 - epsilon / mu)
        return below - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def is_private(mu, epsilon, delta):
    return true_delta(mu, epsilon) <= delta


def is_one_sided_and_tight(mu, epsilon, delta):
    """Whether mu-GDP is (epsilon, delta)-DP, and no longer with 0.2 % less noise."""
    return is_private(mu, epsilon, delta) and not is_private(
        mu * ALLOWED, epsilon, delta
    )


@pytest.mark.parametrize("delta", DELTAS)
def test_mu_of_a_budget_is_one_sided_and_tight(delta):
    for epsilon in EPSILONS:
        assert is_one_sided_and_tight(gaussian_mu(epsilon, delta), epsilon, delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_of_a_mu_is_one_sided_and_tight(delta):
    for mu in MUS:
        epsilon = gaussian_epsilon(mu, delta)
        assert is_private(mu, epsilon, delta)
        if epsilon > 0:
            assert not is_private(mu * ALLOWED, epsilon, delta)


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_broken_twins_of_mu_are_caught(factor):
    pairs = itertools.product(EPSILONS, DELTAS)
    assert not any(
        is_one_sided_and_tight(factor * gaussian_mu(epsilon, delta), epsilon, delta)
        for epsilon, delta in pairs
    )


@pytest.mark.parametrize("mu", MUS)
def test_delta_agrees_with_high_precision(mu):
    above = 2e-9 if mu > 1e-5 else 1e-3
    for epsilon in [0.0, *EPSILONS, *(mu * x for x in (0.5, 5.0, 20.0))]:
        exact = true_delta(mu, epsilon)
        found = gaussian_delta(mu, epsilon)
        assert exact - 1e-300 <= found <= exact * (1 + above) + 1e-300


def test_mu_and_epsilon_at_the_ends():
    assert gaussian_mu(math.inf, 1e-6) == math.inf
    assert gaussian_mu(1.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(math.inf, 1e-6) == math.inf
    assert gaussian_epsilon(0.1, 0.5) == 0.0
    # No interval is too long for its bisection to end.
    for mu in (1e60, 1e90, 1e99):
        assert gaussian_epsilon(mu, 1e-6) == pytest.approx(mu * mu / 2, rel=1e-6)
    tiny = gaussian_delta(1e-5, 0.0)
    assert gaussian_epsilon(1e-5, np.nextafter(tiny, 0.0)) < 1e-12


# Of every kind, events of two releases and of one.
COUNTED = {
    "gaussian": lambda n: GaussianEvent(5.0, n),
    "pure": lambda n: PureEvent(0.5, n),
    "range": lambda n: BoundedRangeEvent(0.5, n),
    "laplace": lambda n: LaplaceEvent(2.0, n),
    "box": lambda n: EpsilonDeltaEvent(0.5, 1e-7, n),
}
COSTS = ("mu_squared", "pure_epsilon", "box_delta", "gdp_mu_squared")


def costs_of(event):
    return np.array([getattr(event, name) for name in COSTS])


@pytest.mark.parametrize("kind", COUNTED)
def test_costs_of_parts_add_up(kind):
    """Of counts, of equal parts, and beside another part, however they are nested."""
    one, three = COUNTED[kind](1), COUNTED[kind](3)
    assert costs_of(three) == pytest.approx(3 * costs_of(one))
    assert costs_of(ComposedEvent((one,) * 3)) == pytest.approx(costs_of(three))
    for other in (GaussianEvent(4.0), PureEvent(0.25), EpsilonDeltaEvent(0.1, 1e-8)):
        nested = ComposedEvent((other, ComposedEvent((three,))))
        assert costs_of(nested) == pytest.approx(costs_of(three) + costs_of(other))


def test_an_event_states_a_cost():
    with pytest.raises(TypeError, match="must define a cost"):

        class Forgetful(Single):
            pass


@pytest.mark.parametrize("parts", [(), (GaussianEvent(5.0),), (PureEvent(1.0),)])
def test_nonprivate_part_makes_everything_infinite(parts):
    event = ComposedEvent((*parts, NonPrivateEvent()))
    assert epsilon_of(event, 1e-6) == math.inf
    assert not fits(event, Budget(1e6, 0.5))


def gaussian_lies_below_pure(mu, epsilon):
    """Whether telling apart is easier under mu-GDP at every type I error."""
    kink = 1 / (1 + math.exp(epsilon))
    errors = np.concatenate([np.geomspace(1e-12, 0.5, 400), kink * np.r_[0.9:1.1:21j]])
    pure = np.maximum(1 - math.exp(epsilon) * errors, math.exp(-epsilon) * (1 - errors))
    return bool(np.all(ndtr(-ndtri(errors) - mu) <= pure))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0])
def test_pure_mu_dominates_and_is_the_smallest(epsilon):
    assert gaussian_lies_below_pure(pure_mu(epsilon), epsilon)
    assert not gaussian_lies_below_pure(0.99 * pure_mu(epsilon), epsilon)


@pytest.mark.parametrize(
    "epsilon", [1e-20, 1e-6, 0.999, 1.001, 30.0, 699.9, 700.1, 5000.0]
)
def test_pure_mu_is_rounded_up_at_any_size(epsilon):
    with mpmath.workdps(60):
        kink = 1 / (1 + mpmath.exp(epsilon))
        assert mpmath.ncdf(-mpmath.mpf(pure_mu(epsilon)) / 2) <= kink
    assert pure_mu(math.inf) == math.inf


BUDGETS = [
    Budget(epsilon, delta)
    for epsilon in (0.01, 1.0, 20.0, 1e4)
    for delta in (1e-12, 1e-3)
]


@pytest.mark.parametrize("count", [1, 7, 10_000])
@pytest.mark.parametrize("budget", BUDGETS)
def test_calibration_is_one_sided(budget, count):
    multiplier = calibrate(lambda z: GaussianEvent(z, count), budget)
    mu = math.sqrt(count) / multiplier
    assert is_one_sided_and_tight(mu, budget.epsilon, budget.delta)
    recomputed = epsilon_of(GaussianEvent(multiplier, count), budget.delta)
    assert 0.99 * budget.epsilon <= recomputed <= budget.epsilon


@pytest.mark.parametrize("budget", BUDGETS)
def test_calibration_leaves_room_for_pure_parts(budget):
    def declare(z):
        return ComposedEvent((GaussianEvent(z, 3), PureEvent(budget.epsilon / 4)))

    multiplier = calibrate(declare, budget)
    assert epsilon_of(declare(multiplier), budget.delta) <= budget.epsilon
    assert epsilon_of(declare(multiplier / ALLOWED), budget.delta) > budget.epsilon


PURE_AND_MORE = {
    "pure": lambda z: PureEvent(1 / z, 100),
    "many": lambda z: PureEvent(1 / z, 10_000),
    "beside": lambda z: ComposedEvent((GaussianEvent(2 * z, 9), PureEvent(1 / z, 400))),
}


def least_multiplier(declare, budget, accepts):
    low, high = 1e-6, 1e6
    while high / low > 1 + 1e-7:
        middle = math.sqrt(low * high)
        low, high = (
            (low, middle) if accepts(declare(middle), budget) else (middle, high)
        )
    return high


def accepts_by_epsilon(event, budget):
    return epsilon_of(event, budget.delta) <= budget.epsilon


def sums_only(event, budget):
    """The twin: no squares where the sum of the epsilons is above the budget."""
    return event.pure_epsilon <= budget.epsilon and fits(event, budget)


@pytest.mark.parametrize("name", PURE_AND_MORE)
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(8.0, 1e-3)])
def test_fits_and_epsilon_are_the_same_bounds(name, budget):
    declare = PURE_AND_MORE[name]
    least = least_multiplier(declare, budget, accepts_by_epsilon)
    found = calibrate(declare, budget)
    assert accepts_by_epsilon(declare(found * (1 + 1e-6)), budget)
    assert least * (1 - 1e-6) <= found <= 1.00001 * least
    assert least_multiplier(declare, budget, sums_only) > 1.5 * least


@pytest.mark.parametrize("mu", [1e-9, 1e-7, 9e-6, 1.1e-5, 0.7, 20.0])
def test_logarithms_of_small_deltas_are_as_exact_as_they_say(mu):
    """`dominating_mu` compares with them, so rounding up would be the wrong side."""
    places = np.array([-mu / 2, 0.0, 0.3 * mu, 0.5, 3.0, 40.0, 150.0])
    epsilons = np.maximum(0.0, mu * (places + mu / 2))
    with mpmath.workdps(80):
        m, exact = mpmath.mpf(mu), []
        for e in map(mpmath.mpf, epsilons):
            second = mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            exact.append(float(mpmath.log(mpmath.ncdf(m / 2 - e / m) - second)))
    found = log_gaussian_deltas(mu, epsilons)
    assert np.abs(found - exact).max() <= 3e-9 + 1e-13 * np.abs(exact).max()
    # The twin takes what is rounded up by 1e-15, much beside a delta of 4e-8.
    if mu < 3e-7:
        assert abs(math.log(gaussian_deltas(mu, epsilons[:1])[0]) - exact[0]) > 1e-8


@pytest.mark.parametrize(
    ("declare", "budget"),
    [
        (GaussianEvent, Budget(1.0, 0.0)),
        (
            lambda z: ComposedEvent((GaussianEvent(z), PureEvent(2.0))),
            Budget(1.0, 1e-9),
        ),
    ],
)
def test_calibration_refuses_what_no_noise_can_mend(declare, budget):
    with pytest.raises(ValueError, match="No noise multiplier fits"):
        calibrate(declare, budget)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_values_out_of_range_are_refused(value):
    made = {
        "noise_multiplier": GaussianEvent,
        "epsilon": PureEvent,
        "count": lambda count: PureEvent(1.0, count),
        "delta": lambda delta: Budget(1.0, 1.0 if delta == 0 else delta),
    }
    for name, make in made.items():
        with pytest.raises((TypeError, ValueError), match=name):
            make(value)


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [(0.0, 1.0, 0.0), (1.0, np.inf, 0.0), (np.inf, 1.0, 1.0)],
)
def test_delta_at_the_ends(mu, epsilon, delta):
    assert gaussian_delta(mu, epsilon) == delta


@pytest.mark.parametrize(
    ("event", "needs_none"),
    [
        (PureEvent(0.5, 2), True),
        (LaplaceEvent(1.0), True),
        (ComposedEvent((PureEvent(0.5), LaplaceEvent(2.0))), True),
        # Many releases keep an epsilon below the sum of their own with a delta only.
        (PureEvent(0.01, 101), False),
        (GaussianEvent(100.0), False),
        (ComposedEvent((PureEvent(0.5), GaussianEvent(100.0))), False),
        (EpsilonDeltaEvent(0.5, 1e-9), False),
        (NonPrivateEvent(), False),
    ],
)
def test_which_events_keep_an_epsilon_of_1_without_delta(event, needs_none):
    assert needs_no_delta(event, 1.0) == needs_none
    if needs_none:
        assert epsilon_of(event, 0.0) <= 1 + 1e-9
