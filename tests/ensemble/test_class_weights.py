"""Declared weights of labels: decisions, probabilities of the records as they are."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from scipy.special import expit, log_softmax
from sklearn.metrics import balanced_accuracy_score, log_loss

from skdp import BudgetLedger, DPGradientBoostingClassifier
from skdp._input import label_weights
from skdp.columns import Range
from skdp.ensemble import _boosting
from skdp.losses._classification import without_weights
from skdp.privacy import epsilon_of
from tests.ensemble.boosted import quietly


def records(n=20_000, n_classes=2, seed=0):
    """A rare label, more often on one side."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 3))
    p = expit(-4 + 3 * X[:, 0])
    y = (rng.random(n) < p).astype(int)
    if n_classes == 3:
        y = np.where((y == 0) & (X[:, 1] > 0.5), 2, y)
    return X, y, p


def fitted(weights, n_classes=2, n=20_000, **params):
    X, y, _ = records(n, n_classes)
    given = {"epsilon": 4.0, "columns": (0, 1), "classes": list(range(n_classes))}
    given |= {"n_estimators": 100, "random_state": 0, "class_weight": weights}
    model = DPGradientBoostingClassifier(**given | params)
    return quietly(lambda: model.fit(X, y))


def test_probabilities_are_those_of_the_records_and_decisions_of_weights():
    X, y, p = records(seed=1)
    plain, heavy = (
        fitted(weights, epsilon=1.0, n_estimators=None)
        for weights in (None, {0: 1, 1: 9})
    )
    found = heavy.predict_proba(X)[:, 1]
    others = [
        fitted({0: 1, 1: 9}, epsilon=1.0, n_estimators=None, random_state=seed)
        for seed in (1, 2)
    ]
    # Of one fit the mean moves by a tenth with the noise.
    means = [found.mean(), *(each.predict_proba(X)[:, 1].mean() for each in others)]
    assert np.mean(means) == pytest.approx(p.mean(), rel=0.15)
    assert log_loss(y, found) < log_loss(y, plain.predict_proba(X)[:, 1]) + 0.01
    # Who is above a tenth counts as one of the rare ones.
    decided = heavy.predict(X).astype(bool)
    assert 2 * np.mean(plain.predict(X)) < np.mean(decided)
    assert np.mean(decided == (p > 0.1)) > 0.85
    assert np.array_equal(decided, heavy.decision_function(X) > 0)


def test_what_trees_continue_is_of_the_weighted_records(monkeypatch):
    """The linear model alone; its twin takes all labels alike from the same start."""
    X, y, _ = records(n=30_000, seed=1)
    facts = {"n": 8000, "epsilon": 1.0, "n_estimators": 0}
    found = balanced_accuracy_score(y, fitted({1: 9}, **facts).predict(X))
    assert found > 0.6
    monkeypatch.setattr(_boosting, "linear_loss", without_weights)
    alike = balanced_accuracy_score(y, fitted({1: 9}, **facts).predict(X))
    assert alike < found - 0.05


def test_broken_twin_that_is_not_moved_back_is_found():
    X, _, p = records(seed=1)
    found = fitted({1: 9}, correct_prior=False).predict_proba(X)[:, 1]
    assert found.mean() > 3 * p.mean()


@pytest.mark.parametrize("weights", [{1: 9}, {0: 0.5, 1: 4.5}, {0: 1e-3, 1: 9e-3}])
def test_only_ratios_of_weights_matter(weights):
    X, _, _ = records(200)
    one, other = fitted({0: 1, 1: 9}), fitted(weights)
    assert np.allclose(other.decision_function(X), one.decision_function(X))


@pytest.mark.parametrize("weights", [{}, {0: 1}, {0: 3, 1: 3}])
def test_weights_that_are_alike_are_none(weights):
    X, _, _ = records(200)
    one, other = fitted(None, n=500), fitted(weights, n=500)
    assert np.array_equal(other.predict_proba(X), one.predict_proba(X))
    assert one.privacy_.sensitivity == other.privacy_.sensitivity


def test_several_classes():
    X, y, _ = records(n_classes=3, seed=1)
    # With so much no residual is clipped, which makes rare labels rarer.
    model = fitted({1: 2, 2: 5}, n_classes=3, epsilon=20.0)
    shares = model.predict_proba(X)
    assert np.allclose(shares.mean(axis=0), np.bincount(y) / len(y), atol=0.03)
    raw = log_softmax(model.decision_function(X) - np.log([1, 2, 5]), axis=1)
    assert np.allclose(np.exp(raw), shares)
    assert np.allclose(np.exp(model.predict_log_proba(X)), shares)
    assert np.array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))


def test_stages_copies_and_json():
    X, _, _ = records(50)
    model = fitted({1: 9}, n=500, n_estimators=5)
    *_, last = model.staged_predict_proba(X)
    assert np.array_equal(last, model.predict_proba(X))
    stored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(stored.predict_proba(X), model.predict_proba(X))
    assert json.loads(model.to_json())["class_weight"] == [1 / 9, 1.0]


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_event_is_the_budget_and_weights_cost_noise(adjacency):
    facts = {"n": 400, "random_state": None, "epsilon": 0.7, "adjacency": adjacency}
    model = fitted({1: 9}, **facts)
    assert epsilon_of(model.privacy_.event, 1e-6) == pytest.approx(0.7, rel=1e-6)
    assert "weights of labels (declared)" in model.privacy_.assumed_public
    told = model.forecast(400, 3)
    assert told.solver_params == model.privacy_.solver_params
    plain = fitted(None, **facts).forecast(400, 3)
    assert told.noise_to_signal > plain.noise_to_signal


def test_a_forecast_without_classes():
    model = DPGradientBoostingClassifier(columns=(0, 1), class_weight={"ill": 9})
    assert model.forecast(1000, 3).noise_to_signal > 0


def test_a_forecast_of_weights_of_three_labels():
    model = DPGradientBoostingClassifier(
        columns=(0, 1), class_weight={0: 1, 1: 2, 2: 3}
    )
    assert model.forecast(1000, 3).noise_to_signal > 0


def test_weights_by_label():
    labels = np.array(["fine", "ill"])
    assert label_weights({"ill": 4}, labels) == (0.25, 1.0)
    assert label_weights({True: 2}, np.array([False, True])) == (0.5, 1.0)
    assert label_weights(None, labels) == ()


BAD = [
    ("balanced", "'balanced' would compute weights from the number"),
    ([1, 2], "None or a mapping of labels"),
    ({2: 3.0}, r"among \[0, 1\]. Got \[2\]"),
    ({0: 0.0}, r"'class_weight\[0\]' parameter"),
    ({0: -1.0}, r"'class_weight\[0\]' parameter"),
    ({1: math.inf}, r"'class_weight\[1\]' parameter"),
    ({1: 2e6}, r"'class_weight\[1\]' parameter"),
    ({1: "much"}, r"'class_weight\[1\]' parameter"),
]


@pytest.mark.parametrize(("weights", "text"), BAD)
def test_bad_weights_are_refused_in_words_for_free(weights, text, tmp_path):
    books = BudgetLedger(tmp_path / "books.db", epsilon=50.0, delta=1e-5)
    model = DPGradientBoostingClassifier(
        columns=Range(0, 1), classes=[0, 1], class_weight=weights, ledger=books
    )
    before, (X, y, _) = dict(vars(model)), records(60)
    with pytest.raises((ValueError, TypeError), match=text):
        model.fit(X, y)
    with pytest.raises((ValueError, TypeError), match=text):
        model.forecast(1000, 3)
    model.set_params(class_weight=None, correct_prior="yes")
    with pytest.raises(TypeError, match="'correct_prior' parameter must be True or"):
        model.fit(X, y)
    model.set_params(class_weight=weights, correct_prior=True)
    assert vars(model) == before
    assert not books.spends()
