"""Simulated coverage of every bound, with twins that are too sure of themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from skdp.audit._result import (
    epsilon_lower_bound,
    epsilon_of_event,
    epsilon_of_halves,
    epsilon_of_mu,
    epsilon_of_thresholds,
    lower_rate,
    mu_of_pairs,
    mu_of_samples,
    upper_rate,
)
from skdp.privacy.accounting._gaussian import gaussian_epsilon, pure_mu

DELTA, CUTS = 1e-2, (-0.5, 0.5, 1.5)


def independent(rng, mu, n):
    return rng.normal(size=n) + mu, rng.normal(size=n)


def paired(rng, mu, n, rho=0.9):
    shared, own = rng.normal(size=n), rng.normal(size=(2, n))
    a, b = math.sqrt(rho) * shared + math.sqrt(1 - rho) * own
    return a + mu, b


def identical_noise(rng, mu, n):
    return paired(rng, mu, n, rho=1.0)


def by_thresholds(inside, outside, error):
    return epsilon_of_thresholds(inside, outside, CUTS, DELTA, error)


def by_halves(inside, outside, error):
    return epsilon_lower_bound(inside, outside, DELTA, 1 - error)


EPSILON = gaussian_epsilon(1.0, DELTA)
METHODS = {
    "samples": (independent, mu_of_samples, 1.0),
    "pairs": (paired, mu_of_pairs, 1.0),
    "pairs of the same noise": (identical_noise, mu_of_pairs, 1.0),
    "pairs that share nothing": (independent, mu_of_pairs, 1.0),
    "thresholds": (independent, by_thresholds, EPSILON),
    "thresholds of pairs": (identical_noise, by_thresholds, EPSILON),
    "halves": (independent, by_halves, EPSILON),
}


def misses(make, method, truth, times, n, error):
    rng = np.random.default_rng(0)
    return sum(method(*make(rng, 1.0, n), error) > truth for _ in range(times))


def is_too_many(found, times, error):
    return binom.sf(found - 1, times, error) < 1e-9


@pytest.mark.parametrize("name", METHODS)
def test_a_bound_is_beyond_the_truth_no_more_often_than_stated(name):
    found = misses(*METHODS[name], times=300, n=60, error=0.1)
    assert not is_too_many(found, 300, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.3, 0.05, 0.005])
@pytest.mark.parametrize("name", METHODS)
def test_long_coverage(name, error):
    found = misses(*METHODS[name], times=5000, n=150, error=error)
    assert not is_too_many(found, 5000, error)


def test_rates_are_those_of_clopper_and_pearson():
    assert binom.sf(6, 20, lower_rate(7, 20, 0.01)) == pytest.approx(0.01)
    assert binom.cdf(7, 20, upper_rate(7, 20, 0.01)) == pytest.approx(0.01)
    assert lower_rate(0, 20, 0.01) == 0.0
    assert upper_rate(20, 20, 0.01) == 1.0


def test_an_event_that_is_always_seen_and_never():
    found = epsilon_of_event(150, 150, 0, 150, 1e-6, 1e-6)
    assert 2.0 < found < 3.0
    assert epsilon_of_event(0, 150, 150, 150, 1e-6, 1e-6) == 0.0


def test_several_thresholds_share_the_error():
    rng = np.random.default_rng(0)
    sides = rng.normal(size=200) + 2, rng.normal(size=200)
    together = epsilon_of_thresholds(*sides, CUTS, DELTA, 0.03)
    alone = [epsilon_of_thresholds(*sides, [t], DELTA, 0.01) for t in CUTS]
    assert together == max(alone) > 0


def test_without_noise_or_without_a_gap():
    still = np.zeros(20)
    assert mu_of_samples(still + 1, still, 0.1) == math.inf
    assert mu_of_pairs(still + 1, still, 0.1) == math.inf
    assert mu_of_samples(still, still + 1, 0.1) == 0.0
    assert epsilon_of_mu(0.0, 1e-6) == 0.0
    assert epsilon_of_mu(math.inf, 1e-6) == math.inf


def test_far_samples_are_bounded_too():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=150) + 50, rng.normal(size=150)
    assert 30 < mu_of_samples(first, second, 1e-6) < 50


def test_epsilon_of_mu_is_not_above_the_truth():
    assert 0.99999 < epsilon_of_mu(0.2367, 1e-6) / gaussian_epsilon(0.2367, 1e-6) < 1
    assert pure_mu(epsilon_of_mu(0.8, 0.0)) <= 0.8


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01, 0.3])
def test_halves_of_a_release_that_tells_all_it_may_refute_nothing(delta):
    # Both errors are known of the best test that (epsilon, delta) allows at the middle.
    for epsilon in (0.1, 1.0, 3.0):
        power = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
        mu = 2 * float(ndtri(power))
        found = epsilon_of_halves(mu, delta)
        assert epsilon * (1 - 1e-4) < found <= epsilon
        if delta >= 0.01:  # the twin that forgets delta
            assert epsilon_of_mu(mu, 0.0) > epsilon
    assert epsilon_of_halves(0.0, delta) == 0.0
    assert epsilon_of_halves(math.inf, delta) == math.inf
