"""Audits of one run: both bounds beside laws that can be written down, and end to end.

Seeds are fixed. With fresh ones an honest fit would be refuted with probability below
1e-7 (confidence 1 - 1e-8 each), and the simulation fail with probability below 1e-8.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import (
    BudgetLedger,
    DPLinearRegression,
    DPStandardScaler,
)
from skdp.audit import CanaryPairs, Guesses, audit_one_run
from skdp.audit._one_run import expected_guesses
from skdp.privacy.accounting._gaussian import gaussian_mu

SURE = 1 - 1e-8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4)) / 4
TARGETS = np.clip(X @ np.array([2.0, -1, 0, 1]), -1, 1)
LABELS = (TARGETS > 0).astype(int)


# ---------------------------------------------------------- the bounds, by enumeration


def told_or_answered(m, r, v, epsilon, delta):
    """P(v or more right): each coin is told by `delta`, or by randomised response."""
    told = np.arange(m + 1)
    chances = binom.pmf(told, m, delta)
    left = r - np.minimum(told, r)
    right = binom.sf(v - np.minimum(told, r) - 1, left, expit(epsilon))
    return float(chances @ right)


CASES = [
    (m, r, v, epsilon, delta)
    for m, r in [(1, 1), (20, 1), (20, 20), (100, 10), (300, 60)]
    for v in sorted({1, (r + 1) // 2, math.ceil(0.8 * r), r})
    for epsilon in (0.0, 0.5, 2.0)
    for delta in (0.0, 1e-6, 1e-3)
]


def broken_by(bound):
    return [
        case
        for case in CASES
        if told_or_answered(*case) > bound(*case) * (1 + 1e-9) + 1e-13
    ]


def of_pair(m, r, v, epsilon, delta):
    guesses = Guesses(n_canaries=m, n_guesses=r, n_right=v)
    return guesses.p_value(epsilon, delta)


def test_bound_of_pairs_holds_for_what_tells_the_most():
    assert not broken_by(of_pair)
    # Broken twin: delta is forgotten.
    assert broken_by(lambda m, r, v, epsilon, _: of_pair(m, r, v, epsilon, 0.0))


def test_bound_of_pairs_is_attained():
    assert of_pair(50, 20, 17, 1.3, 0.0) == pytest.approx(
        told_or_answered(50, 20, 17, 1.3, 0.0), rel=1e-12
    )
    # Beyond luck, to the first order in m delta.
    m, epsilon, delta = 200, 1.0, 1e-7
    luck = told_or_answered(m, 1, 1, epsilon, 0.0)
    beyond = told_or_answered(m, 1, 1, epsilon, delta) - luck
    claimed = of_pair(m, 1, 1, epsilon, delta) - luck
    assert beyond == pytest.approx(claimed, rel=1e-4)


def pure_least(epsilon, power):
    """False positive rate that a pure guarantee needs for a power."""
    late = -math.expm1(epsilon) + math.exp(epsilon) * power
    return max(0.0, power * math.exp(-epsilon), late)


def gaussian_least(mu, power):
    return float(ndtr(ndtri(power) - mu)) if power > 0 else 0.0


LAWS = [(partial(pure_least, e), float(expit(e))) for e in (0.0, 0.5, 2.0)]
LAWS += [(partial(gaussian_least, mu), float(ndtr(mu / 2))) for mu in (0.0, 0.3, 1.5)]


def recursion(guesses, tau, least):
    return guesses._least_total(tau, least) > 1 + 1e-9


def refuted_truths(refutes):
    """Laws that are refuted at what they really do, of which all are guessed."""
    return [
        (m, v)
        for least, told in LAWS
        for m in (1, 5, 60)
        for v in {1, (m + 1) // 2, math.ceil(0.8 * m), m}
        if refutes(
            Guesses(n_canaries=m, n_guesses=m, n_right=v),
            float(binom.sf(v - 1, m, told)),
            least,
        )
    ]


def test_recursion_refutes_no_truth():
    assert not refuted_truths(recursion)
    # Broken twin: half of the chance is asked of as many right guesses.
    assert refuted_truths(lambda guesses, tau, law: recursion(guesses, 2 * tau, law))


def test_recursion_is_attained():
    # By randomised response if all guesses are right, and by one Gaussian coin.
    for v, factor in [(60, 1.0001), (50, 8.0)]:
        guesses = Guesses(n_canaries=60, n_guesses=60, n_right=v)
        tail = float(binom.sf(v - 1, 60, expit(1.0)))
        assert recursion(guesses, factor * tail, partial(pure_least, 1.0))
    one = Guesses(n_canaries=1, n_guesses=1, n_right=1)
    assert one.gaussian_p_value(1.0) == pytest.approx(float(ndtr(0.5)), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "m"), [(0.1, 100), (1.0, 10), (1.0, 400)])
def test_confidence_is_kept_by_randomised_response(epsilon, m):
    counts = np.arange(m + 1)
    bounds = [
        Guesses(n_canaries=m, n_guesses=m, n_right=v).least_epsilon(0.0, 0.95)
        for v in counts
    ]
    wrong = binom.pmf(counts, m, expit(epsilon))[np.array(bounds) > epsilon].sum()
    assert wrong <= 0.05
    assert m < 100 or wrong > 0.01, "loose"


def test_expected_guesses_are_those_of_a_simulation():
    m, r, mu = 2000, 400, 0.8
    rng = np.random.default_rng(1)
    coins = rng.integers(2, size=(200, m)) * 2 - 1
    seen = coins * mu / 2 + rng.normal(size=coins.shape)
    surest = np.argsort(-np.abs(seen), axis=1)[:, :r]
    right = np.take_along_axis(np.sign(seen) == coins, surest, axis=1).sum(axis=1)
    expected = expected_guesses(m, r, mu).n_right
    assert abs(right.mean() - expected) < 1 + 6 * right.std() / math.sqrt(200)


# ----------------------------------------------------------------------- end to end


class NoisyDirections(ClassifierMixin, BaseEstimator):
    """Sum of rows signed by their labels, with Gaussian noise; a foreign estimator.

    At epsilon, delta under replace_one, times `noise`. `peeks` plants a bug: the seed's
    own stream is shown in place of the sum.
    """

    def __init__(self, epsilon=8.0, delta=1e-6, noise=1.0, seed=0):
        self.epsilon, self.delta, self.noise, self.seed = epsilon, delta, noise, seed

    def fit(self, X, y):
        rng = np.random.default_rng(self.seed)
        self.classes_ = np.unique(y)
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        sigma = 2 / gaussian_mu(self.epsilon, self.delta) * self.noise
        self.coef_ = signs @ np.asarray(X) + sigma * rng.normal(size=X.shape[1])
        return self

    def decision_function(self, X):
        return np.asarray(X) @ self.coef_

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


foreign = partial(audit_one_run, X=X, y=LABELS, adjacency="replace_one")


def test_half_noise_is_found_in_one_run():
    seed = 0
    honest = foreign(
        NoisyDirections(seed=seed), n_canaries=2000, confidence=SURE, random_state=seed
    )
    assert not honest.refutes
    assert not honest.refutes_gaussian
    halved = NoisyDirections(seed=seed, noise=0.5)
    found = foreign(halved, n_canaries=2000, random_state=seed)
    assert found.refutes_gaussian
    none = foreign(NoisyDirections(seed=seed, noise=1e-3), random_state=seed)
    assert none.refutes_gaussian
    # One run of 1,000 canaries, a fifth of them guessed, shows 4.2 at the most.
    assert none.epsilon_lower > 4


def linear(**params):
    params = {"target_bounds": (-1, 1), "solver": "noisy_gd", **params}
    return DPLinearRegression(**{"epsilon": 4.0, "delta": 1e-6, **params})


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_models_of_skdp_show_a_part_of_their_epsilon_and_no_more(adjacency):
    model = linear(adjacency=adjacency, fit_intercept=False, random_state=3)
    found = audit_one_run(model, X, TARGETS, random_state=3)
    assert found.adjacency == adjacency
    assert 0.5 < found.epsilon_lower < found.gaussian_epsilon_lower < 4
    sure = replace(found.bounds, confidence=SURE)
    assert max(sure.epsilon_lower, sure.gaussian_epsilon_lower) < 4


def test_coins_are_not_drawn_from_the_estimators_seed():
    class Peeks(NoisyDirections):
        """Shows what its seed draws first: the coins, if they were of this stream."""

        def fit(self, X, y):
            super().fit(X, y)
            drawn = np.random.RandomState(self.seed).randint(2, size=X.shape[1] - 4)
            self.coef_ = np.append(np.zeros(4), drawn - 0.5)
            return self

    found = foreign(Peeks(seed=11), random_state=11, n_guesses=1000)
    assert abs(found.bounds.guesses.n_right - 500) < 100
    # Broken twin of the check: coins of that very stream would all be right.
    coins = np.random.RandomState(11).randint(2, size=1000)
    drawn = np.random.RandomState(11).randint(2, size=1000)
    assert (coins == drawn).all()


def test_canaries_of_ones_own_and_scores_of_ones_own():
    frame = pd.DataFrame({"a": np.zeros(40), "b": np.zeros(40)})
    rows = pd.DataFrame({"a": np.ones(30), "b": np.linspace(-1, 1, 30)})
    pairs = CanaryPairs(rows, np.ones(30), -rows, np.zeros(30))
    asked = []

    def score(model, given):
        asked.append((model, given))
        return np.asarray(given.X["b"])

    model = NoisyDirections()
    found = foreign(model, X=frame, y=np.arange(40) % 2, canaries=pairs, score=score)
    assert found.bounds.guesses.n_canaries == 30
    assert found.bounds.guesses.n_guesses == 6
    ((fitted, given),) = asked
    assert given is pairs
    assert fitted is not model
    assert not hasattr(model, "coef_")


def test_what_coins_say_is_what_is_fitted():
    pairs = CanaryPairs(np.eye(3), [1, 1, 1], -np.eye(3), [0, 0, 0])
    rows, labels = pairs.by_coins(np.array([1, 0, 1]))
    np.testing.assert_array_equal(np.diag(rows), [1, -1, 1])
    np.testing.assert_array_equal(labels, [1, 0, 1])


def test_the_null_record_adds_nothing():
    """Under zero_out a row of zeros leaves the exact fit as it was."""
    asked = []

    def score(model, pairs):
        asked.append(pairs)
        return np.zeros(len(pairs))

    model = linear(adjacency="zero_out", fit_intercept=False, random_state=0)
    audit_one_run(model, X, TARGETS, n_canaries=5, score=score)
    (pairs,) = asked
    assert not pairs.other_X.any()
    assert not pairs.other_y.any()
    np.testing.assert_allclose(np.linalg.norm(pairs.X, axis=1), 1)


def test_pipelines_and_what_is_claimed_of_them():
    pipeline = make_pipeline(FunctionTransformer(), linear(epsilon=2.0, random_state=0))
    found = audit_one_run(pipeline, X, TARGETS, n_canaries=100, random_state=0)
    assert (found.claimed_epsilon, found.bounds.delta) == (2.0, 1e-6)
    two = make_pipeline(DPStandardScaler(bounds=(-1, 1)), linear())
    refused("several private steps", two)
    given = audit_one_run(pipeline, X, TARGETS, n_canaries=100, epsilon=3.0, delta=0)
    assert (given.claimed_epsilon, given.bounds.delta) == (3.0, 0.0)
    assert given.expected is None
    assert given.gaussian_epsilon_lower == 0.0
    assert given.to_dict()["expected_epsilon_lower"] is None


def test_what_is_told():
    found = foreign(NoisyDirections(), n_canaries=200, random_state=0)
    told = json.loads(found.to_json())
    assert told["n_guesses"] == 40
    assert told["claimed_epsilon"] == 8.0
    assert told["sentence"] == found.sentence() in " ".join(repr(found).split())
    assert "NoisyDirections" in found._repr_html_()
    assert "replace_one" in found.sentence()
    in_rows = foreign(NoisyDirections(), canaries="rows", n_canaries=30)
    assert in_rows.bounds.guesses.n_canaries == 30
    endless = foreign(NoisyDirections(), n_canaries=50, epsilon=math.inf)
    assert json.loads(endless.to_json())["claimed_epsilon"] is None
    assert not endless.refutes


def refused(message, model, **params):
    given = {"X": X, "y": TARGETS, **params}
    with pytest.raises((ValueError, TypeError), match=message):
        audit_one_run(model, **given)


def test_what_is_refused(tmp_path):
    books = BudgetLedger(tmp_path / "books.db", epsilon=5, delta=1e-5)
    refused("ledger", linear(ledger=books))
    refused("ledger", make_pipeline(linear(ledger=books)))
    assert not list(books.spends())
    refused("fit_intercept", linear(adjacency="zero_out"))
    refused("adjacency", NoisyDirections(), y=LABELS)
    refused("adjacency", linear(), adjacency="zero_out")
    refused("adjacency", NoisyDirections(), y=LABELS, adjacency="user")
    # A row of zeros is not their null record.
    refused("of its own", NoisyDirections(), y=LABELS, adjacency="zero_out")
    steps = make_pipeline(linear(adjacency="zero_out", fit_intercept=False))
    refused("of its own", steps)
    refused("canaries", linear(), canaries="trees")
    refused("n_guesses", linear(), n_guesses=1001)
    refused("n_canaries", linear(), n_canaries=0)
    refused("confidence", linear(), confidence=1.0)
    refused("shape", linear(), score=lambda model, pairs: np.zeros(3), n_canaries=9)
    nothing = partial(np.full, 9, np.nan)
    refused("finite", linear(), score=lambda *_: nothing(), n_canaries=9)
    refused("two labels", NoisyDirections(), y=np.zeros(600), adjacency="replace_one")
    with pytest.raises(ValueError, match="row by row"):
        CanaryPairs(np.eye(2), [0, 1], np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="n_right"):
        Guesses(n_canaries=5, n_guesses=3, n_right=4)
