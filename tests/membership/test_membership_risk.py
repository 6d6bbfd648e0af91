"""Bounds on the best attack, beside brute force on laws that can be written down."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from scipy.stats import binom, norm

from skdp import BudgetLedger, DPLogisticRegression, private_score
from skdp._show import Display
from skdp.audit import membership_risk
from skdp.privacy import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
)
from skdp.privacy.accounting._events import BoundedRangeEvent
from skdp.privacy.accounting._risk import (
    gaussian_advantage,
    pair_advantage,
    risk_sentence,
)

RATES = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.99])


def best_test(p, q, rates):
    """Neyman and Pearson: the most that outcomes of these laws are told apart by."""
    order = np.argsort(-p / q, kind="stable")
    alarms, hits = np.cumsum(q[order]), np.cumsum(p[order])
    return np.interp(rates, np.append(0.0, alarms), np.append(0.0, hits))


def randomised_responses(epsilon, times):
    lies, truth = np.arange(times + 1), 1 / (1 + math.exp(-epsilon))
    return binom.pmf(lies, times, 1 - truth), binom.pmf(lies, times, truth)


@pytest.mark.parametrize(
    ("epsilon", "times"), [(1.0, 1), (0.5, 3), (0.1, 20), (2.0, 2), (0.05, 1000)]
)
def test_pure_releases(epsilon, times):
    risk = membership_risk(PureEvent(epsilon, times))
    p, q = randomised_responses(epsilon, times)
    np.testing.assert_allclose(
        risk.true_positive_rate(RATES), best_test(p, q, RATES), rtol=0, atol=1e-6
    )
    assert risk.advantage == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-6)


@pytest.mark.parametrize(("noise", "times"), [(4.2, 1), (1.0, 1), (30.0, 100)])
def test_gaussian_releases(noise, times):
    risk = membership_risk(GaussianEvent(noise, times))
    mu = math.sqrt(times) / noise
    exact = norm.sf(norm.isf(RATES) - mu)
    np.testing.assert_allclose(
        risk.true_positive_rate(RATES), exact, rtol=0, atol=1e-12
    )
    assert risk.advantage == pytest.approx(gaussian_advantage(mu), abs=1e-6)


def test_a_sampled_release():
    rate, noise = 0.1, 1.0
    x = np.linspace(-10, 12, 40001)
    alone = norm.pdf(x, 0, noise)
    mixed = (1 - rate) * alone + rate * norm.pdf(x, 1, noise)
    p, q = mixed / mixed.sum(), alone / alone.sum()
    exact = np.maximum(best_test(p, q, RATES), best_test(q, p, RATES))
    found = membership_risk(PoissonGaussianEvent(noise, rate)).true_positive_rate(RATES)
    assert np.all(found >= exact - 1e-6)
    # Both orders have to be bounded by one curve, which is concave.
    assert np.abs(found - exact).max() < 0.01


@pytest.mark.parametrize("k", [2, 5])
def test_persons_with_several_records(k):
    gaussian = membership_risk(GaussianEvent(4.0), n_records=k)
    assert gaussian.advantage == pytest.approx(gaussian_advantage(k / 4), abs=1e-6)
    pure = membership_risk(PureEvent(0.2), n_records=k)
    # From record to record the rate of hits grows by at most exp(0.2), and that of
    # misses shrinks by as little: less than k times the epsilon allows for.
    start = rates = np.linspace(0, 1, 100_001)
    for _ in range(k):
        rates = np.minimum(math.exp(0.2) * rates, 1 - math.exp(-0.2) * (1 - rates))
    assert pure.advantage == pytest.approx((rates - start).max(), abs=1e-5)
    assert pure.advantage < math.tanh(0.1 * k)
    assert f"{k} records" in pure.sentence()


KINDS = {
    "pure": PureEvent(0.1),
    "gaussian": GaussianEvent(3.0),
    "laplace": LaplaceEvent(5.0),
    "box": EpsilonDeltaEvent(1.0, 1e-5),
    "range": BoundedRangeEvent(0.3, 2),
    "sampled": PoissonGaussianEvent(1.0, 0.2, 100),
    "exchanged": PoissonGaussianEvent(1.0, 0.2, 100, "replace_one"),
    "disjoint boxes": ParallelEvent((EpsilonDeltaEvent(2.0, 1e-5),)),
    "disjoint samples": ParallelEvent((PoissonGaussianEvent(1.0, 0.2, 200),)),
    "selected": SelectionEvent(GaussianEvent(3.0), "poisson", 10.0, 100),
    "seeded": NonPrivateEvent(),
}


def lowered(event, other, rates=RATES):
    """By how much the curve is lower beside another event than without it."""
    alone = membership_risk(event).true_positive_rate(rates)
    both = membership_risk(ComposedEvent((event, other))).true_positive_rate(rates)
    return float((alone - both).max())


# Of exchanges in samples it takes long.
PAIRS = [("pure", name) for name in KINDS if name not in ("exchanged", "seeded")]
PAIRS += [("box", "laplace"), ("disjoint boxes", "sampled"), ("range", "gaussian")]


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_no_release_lowers_the_risk_of_another(names):
    one, other = (KINDS[name] for name in names)
    rates = np.array([1e-4, 0.05, 0.5])
    assert lowered(one, other, rates) <= 1e-3
    assert lowered(other, one, rates) <= 1e-3


def test_rates_that_are_hardly_there():
    risk = membership_risk(epsilon=800.0)
    assert risk.true_positive_rate(1e-305) == 1.0
    box = membership_risk(ParallelEvent((EpsilonDeltaEvent(1.0, 1e-3),)))
    # Such a mechanism may tell all of one record with probability 1e-3.
    assert box.true_positive_rate([0.0, 1e-310]).min() >= 1e-3
    with_more = ComposedEvent((EpsilonDeltaEvent(600.0, 1e-3), PureEvent(0.1)))
    assert membership_risk(with_more).true_positive_rate(0.0) >= 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_every_event_has_a_curve_that_rises(name):
    risk, rates = membership_risk(KINDS[name]), np.linspace(0, 1, 101)
    found = risk.true_positive_rate(rates)
    assert np.all(np.diff(found) >= 0)
    assert np.all((rates <= found) & (found <= 1))
    assert np.all(np.diff(found, 2) <= 1e-9)
    assert 0 < risk.advantage <= 1


def test_posterior_and_reconstruction():
    risk = membership_risk(epsilon=1.0)
    assert risk.posterior(0.5) == pytest.approx(math.e / (1 + math.e), rel=1e-9)
    assert risk.reconstruction(0.01) == pytest.approx(0.01 * math.e, rel=1e-9)
    assert risk.posterior(0.0) == 0.0


# --------------------------------------------------------------------------- records


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 3))
    return x, (x[:, 0] > 0).astype(int)


def test_fitted_models_say_what_a_record_risks(rows):
    facts = {"data_norm": 2.0, "solver_params": {"law": "gaussian"}}
    model = DPLogisticRegression(epsilon=1.0, delta=1e-6, **facts).fit(*rows)
    risk = membership_risk(model)
    assert model.privacy_.risk == risk.sentence()
    assert "54.8 % of the time instead of 50 %" in model.privacy_.risk
    assert model.privacy_.risk in model.privacy_._repr_html_()
    assert membership_risk(model.privacy_).to_dict() == risk.to_dict()
    assert json.loads(risk.to_json())["adjacency"] == "replace_one"
    assert risk.sentence() in " ".join(repr(risk).split())
    assert "<table>" in risk._repr_html_()
    score = private_score(model, *rows, epsilon=0.5)
    # The record's sentence is made of two numbers, this of the law of the noise.
    assert membership_risk(score).advantage <= pair_advantage(0.5, 0.0)
    assert "epsilon and delta" in score.privacy.risk


# Mechanisms that attain their guarantee, and the best chance to guess a fair coin.
BETS = {
    "noise on a sum": (GaussianEvent(2.0), 10.0, norm.cdf(0.25)),
    "a lie with probability 1/4": (PureEvent(math.log(3)), math.log(3), 0.75),
    "nothing hidden": (NonPrivateEvent(), math.inf, 1.0),
}


def stated(sentence):
    return float(re.search(r"wins at most (\S+) % of the time", sentence)[1])


@pytest.mark.parametrize("name", BETS)
def test_the_bet_is_won_as_often_as_the_sentence_says_rounded_up(name):
    event, epsilon, chance = BETS[name]
    said = stated(risk_sentence(event, epsilon, 0.0, "zero_out"))
    assert 100 * chance - 1e-9 <= said <= min(100 * chance + 0.1 + 1e-9, 100)


def test_broken_twin_that_rounds_down_is_found():
    assert math.floor(1000 * norm.cdf(0.25)) / 10 < 100 * norm.cdf(0.25) - 1e-9


def test_a_ledger_promises_its_cap(tmp_path):
    ledger = BudgetLedger(tmp_path / "a.db", epsilon=2.0, delta=1e-6)
    found = membership_risk(ledger=ledger)
    assert found.advantage == pytest.approx(pair_advantage(2.0, 1e-6), abs=1e-6)
    assert "cap of the ledger" in found.sentence()
    two, pair = membership_risk(ledger=ledger, n_records=2), (2.0, 1e-6)
    of_pair = membership_risk(epsilon=pair[0], delta=pair[1], n_records=2)
    assert two.advantage == of_pair.advantage > found.advantage


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, ValueError, "Got 0 of them"),
        ({"delta": 1e-6}, ValueError, "delta belongs to epsilon"),
        ({"model": PureEvent(1.0), "epsilon": 1.0}, ValueError, "Got 2 of them"),
        ({"model": DPLogisticRegression()}, TypeError, "without privacy_"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"ledger": "a.db"}, TypeError, "BudgetLedger"),
        ({"epsilon": 1.0, "n_records": 0}, ValueError, "n_records"),
    ],
)
def test_what_cannot_be_judged_is_refused(given, error, words):
    with pytest.raises(error, match=words):
        membership_risk(**given)


def test_rates_outside_of_the_unit_interval_are_refused():
    risk = membership_risk(epsilon=1.0)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        risk.true_positive_rate([0.1, 1.1])
    with pytest.raises(ValueError, match="prior"):
        risk.accuracy(2.0)


def test_the_picture():
    pytest.importorskip("matplotlib").use("Agg")
    risk = membership_risk(GaussianEvent(2.0))
    for log in (False, True):
        display = risk.plot(log=log)
        assert isinstance(display, Display)
        x, y = display.line_.get_data()
        np.testing.assert_allclose(y, risk.true_positive_rate(x))
        display.figure_.clear()
