"""Declared weights of labels: decisions, probabilities of the records as they are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from skdp import DPGradientBoostingClassifier
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
    plain, heavy = (fitted(weights, epsilon=8.0) for weights in (None, {0: 1, 1: 9}))
    found = heavy.predict_proba(X)[:, 1]
    assert found.mean() == pytest.approx(p.mean(), rel=0.2)
    assert log_loss(y, found) < log_loss(y, plain.predict_proba(X)[:, 1]) + 0.01
    # Who is above a tenth counts as one of the rare ones.
    decided = heavy.predict(X).astype(bool)
    assert 2 * np.mean(plain.predict(X)) < np.mean(decided)
    assert np.mean(decided == (p > 0.1)) > 0.85
    assert np.array_equal(decided, heavy.decision_function(X) > 0)
    assert json.loads(heavy.to_json())["label_shift"] == pytest.approx([np.log(9)])
    # The broken twin is not moved back.
    heavy.set_params(correct_prior=False)
    assert heavy.predict_proba(X)[:, 1].mean() > 3 * p.mean()


def test_only_ratios_of_weights_matter():
    X, _, _ = records(200)
    facts = {"n": 500, "n_estimators": 20}
    one, other = (fitted(each, **facts) for each in ({0: 1, 1: 9}, {0: 0.5, 1: 4.5}))
    assert np.allclose(other.decision_function(X), one.decision_function(X))


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
