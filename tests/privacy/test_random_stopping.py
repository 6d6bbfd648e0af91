"""The best of a secret number of trials: bounds against exact small mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdp.privacy import (
    Budget,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PureEvent,
    SelectionEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.accounting import _random_stopping
from skdp.privacy.accounting._calibrate import fits
from skdp.privacy.accounting._gaussian import gaussian_delta
from skdp.privacy.accounting._random_stopping import (
    TrialCount,
    pure_selection_epsilon,
    selection_delta,
    selection_epsilon,
)

LAWS = {
    "geometric": TrialCount("negative_binomial", 12.0, 73),
    "logarithmic": TrialCount("negative_binomial", 12.0, 400, 0.0),
    "sharp": TrialCount("negative_binomial", 6.0, 200, 5.0),
    "poisson": TrialCount("poisson", 8.0, 60),
    "cut": TrialCount("negative_binomial", 20.0, 5),
    "one": TrialCount("negative_binomial", 1.5, 1),
}


def exact_release(law, probabilities):
    """Law of the best of K draws; outcomes are sorted from worst to best."""
    up_to = np.concatenate([[0.0], np.cumsum(probabilities)])
    generating = np.polyval(law.probabilities[::-1], np.minimum(up_to, 1.0))
    return np.append(np.diff(generating), law.probabilities[0])


def divergence(p, q, epsilon):
    """Hockey-stick divergence of two laws on the same outcomes."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def gaussian_pair(mu, rng, cells=60):
    """Two laws that are post-processing of N(0, 1) and N(mu, 1), in some order."""
    edges = np.concatenate([[-np.inf], np.linspace(-5, 5 + mu, cells - 1), [np.inf]])
    p, q = np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges - mu))
    order = [
        rng.permutation(cells),
        np.arange(cells),
        np.arange(cells)[::-1],
        # Best are outcomes of low loss, then those of the highest, then the rest.
        np.concatenate([np.arange(cells // 2, cells), np.arange(cells // 2)]),
        np.concatenate([np.arange(cells // 4, cells), np.arange(cells // 4)]),
    ][rng.integers(5)]
    return p[order], q[order]


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("mu", [1e-4, 0.3, 1.5])
def test_bound_holds_for_exact_mechanisms_and_uncharged_selection_does_not(name, mu):
    law, rng = LAWS[name], np.random.default_rng(0)
    uncharged_fails = 0
    for _ in range(12):
        p, q = gaussian_pair(mu, rng)
        best_p, best_q = exact_release(law, p), exact_release(law, q)
        for epsilon in mu * np.array([0.0, 0.3, 1.0, 2.0, 4.0]):
            bound = selection_delta(law, mu, epsilon)
            worst = max(
                divergence(best_p, best_q, epsilon), divergence(best_q, best_p, epsilon)
            )
            assert worst <= bound + 1e-14
            uncharged_fails += worst > gaussian_delta(mu, epsilon) + 1e-14
    # The planted bug: the fit is charged, the selection is not.
    assert (uncharged_fails > 0) == (name != "one")


def release_density(law, below, order=0):
    """w, or -w', where u is 1 - below."""
    p = law.probabilities
    counts = np.arange(len(p))
    factors = counts * p * (counts - 1 if order else 1)
    return np.polyval(factors[1 + order :][::-1], below)


def least_gap(law, mu, lines):
    """How far the lines stay above G at worst, relative to mu * w(0)."""
    slopes, offsets = lines
    t = np.random.default_rng(0).normal(0, 3, 4000)
    w, moved = (release_density(law, norm.sf(t + m)) for m in (0.0, mu))
    gaps = []
    for z in 1 + mu * np.array([-9.0, -4.0, -2.0, -1.0, -0.3, 0.0, 0.5]):
        if z > 0:
            gaps.append(np.max(slopes * z - offsets) - np.max(w * z - moved))
    return min(gaps) / (mu * release_density(law, 1.0))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("mu", [1e-6, 0.01, 2.0])
def test_lines_stay_above_the_curve_and_near_it(name, mu, monkeypatch):
    law = LAWS[name]
    gap = least_gap(law, mu, _random_stopping._lines(law, mu))
    assert -1e-9 <= gap <= 0.02
    if mu > 0.01 or name == "one":
        return  # other lines are the higher ones, or w is constant
    right = _random_stopping._largest_fall

    def short(trials, cells, mu):
        return 0.97 * right(trials, cells, mu)

    monkeypatch.setattr(_random_stopping, "_largest_fall", short)
    assert least_gap(law, mu, _random_stopping._lines(law, mu)) < -1e-4


def randomized_response(epsilon, rng, cells=12):
    """Neighbouring laws with ratios between exp(-epsilon) and exp(epsilon)."""
    low = math.exp(-epsilon)
    p = rng.uniform(size=cells) ** 4
    p /= p.sum()
    ratio = np.where(rng.uniform(size=cells) < 0.5, 1.0, low)
    q = p * ratio
    # Normalised by mixing up, which keeps the ratios within the bounds.
    q /= q.sum()
    return p, q


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [(name, (0.01, 0.5, 2.0)[i % 3]) for i, name in enumerate(LAWS)],
)
def test_pure_bound_holds_and_is_nearly_attained(name, epsilon):
    law, rng = LAWS[name], np.random.default_rng(1)
    bound, largest = pure_selection_epsilon(law, epsilon), 0.0
    for _ in range(8):
        p, q = randomized_response(epsilon, rng)
        own = np.max(np.abs(np.log(p / q)))
        best_p, best_q = exact_release(law, p), exact_release(law, q)
        has_mass = (best_p > 1e-9) & (best_q > 1e-9)
        largest_here = np.max(np.abs(np.log(best_p[has_mass] / best_q[has_mass])))
        assert largest_here <= pure_selection_epsilon(law, own) + 1e-6
        largest = max(largest, largest_here)
    # The worst pair: better than y is most likely at the kink of g, y has all the loss.
    for u in np.geomspace(1e-4, 0.5, 60):
        moved = min(math.exp(epsilon) * u, 1 - math.exp(-epsilon) * (1 - u))
        tiny = 1e-4
        p = np.array([1 - u - tiny, tiny, u])
        q = np.array([1 - moved - tiny * math.exp(-epsilon), tiny * math.exp(-epsilon)])
        q = np.append(q, moved)
        if (p <= 0).any() or (q <= 0).any():
            continue
        best_p, best_q = exact_release(law, p), exact_release(law, q)
        largest = max(largest, math.log(best_p[1] / best_q[1]))
    assert 0.9 * bound <= largest <= bound * (1 + 1e-3) + 1e-6


def selection(multiplier, law=LAWS["geometric"]):
    trial = GaussianEvent(multiplier)
    return SelectionEvent(trial, law.family, law.mean, law.most, law.shape)


def test_calibrated_to_the_budget_from_below():
    for epsilon in (0.5, 1.0, 2.0):
        multiplier = calibrate(selection, Budget(epsilon, 1e-6))
        cost = epsilon_of(selection(multiplier), 1e-6)
        assert epsilon * 0.998 <= cost <= epsilon
        assert fits(selection(multiplier), Budget(epsilon, 1e-6))
        assert not fits(selection(multiplier * 0.99), Budget(epsilon, 1e-6))


def test_selection_adds_to_other_events_by_shares_of_delta():
    event = ComposedEvent((selection(10.0), GaussianEvent(5.0)))
    expected = selection_epsilon(LAWS["geometric"], 0.1, 5e-7)
    expected += epsilon_of(GaussianEvent(5.0), 5e-7)
    assert epsilon_of(event, 1e-6) == pytest.approx(expected)
    # Of a pure trial the best of many costs more, at any delta.
    pure = SelectionEvent(PureEvent(0.5), "negative_binomial", 12.0, 73)
    assert 0.55 < pure.pure_epsilon == pure.epsilon(1e-6) == epsilon_of(pure, 0.0)


def test_disjoint_sets_cost_what_the_dearest_costs():
    parts = GaussianEvent(3.0), PureEvent(0.2), GaussianEvent(4.0, count=4)
    event = ParallelEvent(parts)
    dearest = max(epsilon_of(part, 1e-6) for part in parts)
    assert epsilon_of(event, 1e-6) == dearest
    assert fits(event, Budget(dearest * 1.001, 1e-6))
    assert not fits(event, Budget(dearest * 0.999, 1e-6))
    both = ComposedEvent((event, GaussianEvent(3.0)))
    mu = math.sqrt(max(4 / 16, 1 / 9) + 1 / 9)
    assert epsilon_of(both, 1e-6) <= epsilon_of(GaussianEvent(1 / mu), 1e-6) * 1.001
    pure = ParallelEvent((PureEvent(0.2), PureEvent(0.3)))
    assert epsilon_of(pure, 0.0) == pytest.approx(0.3)
    assert epsilon_of(ComposedEvent((pure, pure)), 0.0) == pytest.approx(0.6)
    mixed = ComposedEvent((event, LaplaceEvent(9.0)))
    simple = ComposedEvent((GaussianEvent(2.0), LaplaceEvent(9.0)))
    assert epsilon_of(mixed, 1e-6) == pytest.approx(epsilon_of(simple, 1e-6))
    unknown = ComposedEvent((ParallelEvent((EpsilonDeltaEvent(0.1, 1e-7),)), *parts))
    assert epsilon_of(unknown, 1e-6) == math.inf
    with pytest.raises(TypeError, match="at least one"):
        ParallelEvent(())


def test_trials_must_be_of_a_kind_that_a_search_can_count():
    with pytest.raises(TypeError, match="'trial' parameter must be a GaussianEvent"):
        SelectionEvent(EpsilonDeltaEvent(1.0, 0.1), "poisson", 3.0, 9)


def test_a_large_delta_alone_pays_for_faint_trials():
    assert selection_epsilon(LAWS["one"], 1e-3, 0.5) == 0.0
