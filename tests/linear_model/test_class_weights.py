"""Declared weights of labels: decisions, probabilities, penalties, refusals."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skdp import (
    BudgetLedger,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPRobustClassifier,
    DPSparseLogisticRegression,
)
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.solvers import SOLVERS

KINDS = [
    DPLogisticRegression,
    DPSparseLogisticRegression,
    DPLinearSVC,
    DPRobustClassifier,
    DPMLPClassifier,
]
PROBABLE = [DPLogisticRegression, DPSparseLogisticRegression, DPMLPClassifier]
# Those of papers have tests of their own.
OWN = [key for key in SOLVERS if SOLVERS[key].__module__.startswith("skdp.solvers")]
HEAVY = {0: 1, 1: 9}


def records(n=6000, n_classes=2, seed=0):
    """A rare label, more often on one side; rows of norm at most 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)) / math.sqrt(3)
    p = expit(-2.7 + 3 * X[:, 0])
    y = (rng.random(n) < p).astype(int)
    if n_classes == 3:
        y = np.where((y == 0) & (X[:, 1] > 0.2), 2, y)
    return X, y, p


def fitted(kind=DPLogisticRegression, weights=HEAVY, n=6000, n_classes=2, **params):
    X, y, _ = records(n, n_classes)
    facts = {"epsilon": 50.0, "classes": list(range(n_classes)), "random_state": 0}
    if kind is DPMLPClassifier:
        facts |= {"hidden_layer_sizes": (4,), "solver": "noisy_sgd"}
        facts["solver_params"] = {"n_steps": 200}
    return kind(**facts | params, class_weight=weights).fit(X, y)


def rare(model, n=6000):
    """Share of the records that are said to have the rare label."""
    return model.predict(records(n, seed=1)[0]).mean()


# --------------------------------------------------------------------- what it does


def test_without_privacy_it_is_scikit_learns_optimum():
    X, y, _ = records()
    for strength in (0.01, 1.0):
        model = fitted(epsilon=math.inf, C=strength, random_state=None)
        other = LogisticRegression(
            C=strength, class_weight=HEAVY, solver="liblinear", tol=1e-10
        ).fit(X, y)
        assert np.allclose(model.coef_, other.coef_, atol=1e-5)
        assert np.allclose(model.intercept_, other.intercept_, atol=1e-5)
    X, y, _ = records(n_classes=3)
    weights = {0: 2.0, 2: 5.0}
    model = fitted(
        weights=weights, n_classes=3, epsilon=math.inf, fit_intercept=False, C=1.0
    )
    other = LogisticRegression(
        fit_intercept=False, class_weight={1: 1.0} | weights, tol=1e-10, max_iter=1000
    ).fit(X, y)
    assert np.allclose(model.coef_, other.coef_, atol=1e-4)


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPMLPClassifier])
def test_decisions_are_of_the_weighted_records(kind):
    plain, heavy = (fitted(kind, weights) for weights in (None, HEAVY))
    share = records(seed=1)[1].mean()
    assert rare(plain) < share / 2
    assert 0.3 < rare(heavy) < 0.7


def takes(key, kind, **params):
    """Two fits by a solver, None if it refuses the loss."""
    try:
        return [
            fitted(kind, w, n=2000, epsilon=1e5, solver=key, **params)
            for w in (None, HEAVY)
        ]
    except Refused:
        return None


@pytest.mark.parametrize("key", OWN)
def test_no_solver_forgets_the_weights(key):
    kinds = [DPSparseLogisticRegression]
    if not SOLVERS[key].is_sparse:
        kinds = [DPLogisticRegression, DPRobustClassifier]
    found = next((both for kind in kinds if (both := takes(key, kind))), None)
    assert bool(found) == (key not in ("adassp", "noisy_newton"))
    if found:
        plain, heavy = found
        assert rare(heavy, 2000) > rare(plain, 2000) + 0.05


@pytest.mark.parametrize("kind", PROBABLE)
def test_probabilities_are_those_of_the_records(kind):
    X, _, p = records(seed=1)
    model = fitted(kind, epsilon=1e4)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(p.mean(), rel=0.15)
    assert np.allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    # The broken twin is not moved back.
    model.set_params(correct_prior=False)
    assert model.predict_proba(X)[:, 1].mean() > 2 * p.mean()


@pytest.mark.parametrize("kind", [DPSparseLogisticRegression, DPMLPClassifier])
def test_only_ratios_matter_and_equal_weights_are_none(kind):
    X = records(200)[0]
    one = fitted(kind, HEAVY, n=500)
    for same in ({1: 9}, {0: 0.5, 1: 4.5}, {0: 1e-3, 1: 9e-3}):
        other = fitted(kind, same, n=500)
        assert np.allclose(other.decision_function(X), one.decision_function(X))
    plain = fitted(kind, None, n=500)
    for alike in ({}, {0: 1}, {0: 3, 1: 3}):
        other = fitted(kind, alike, n=500)
        assert np.array_equal(other.decision_function(X), plain.decision_function(X))


# ------------------------------------------------------------------------- refusals

BAD = [
    ("balanced", "'balanced' would compute weights from the number"),
    ([1, 2], "None or a mapping of labels"),
    ({2: 3.0}, r"among \[0, 1\]. Got \[2\]"),
    ({0: 0.0}, r"'class_weight\[0\]' parameter"),
    ({1: math.inf}, r"'class_weight\[1\]' parameter"),
    ({1: 2e6}, r"'class_weight\[1\]' parameter"),
    ({1: "much"}, r"'class_weight\[1\]' parameter"),
]


@pytest.mark.parametrize(
    ("kind", "weights", "text"),
    [(kind, *case) for kind, case in zip(itertools.cycle(KINDS), BAD)],
)
def test_bad_weights_are_refused_in_words_for_free(kind, weights, text, tmp_path):
    books = BudgetLedger(tmp_path / "books.db", epsilon=50.0, delta=1e-5)
    model = kind(classes=[0, 1], class_weight=weights, ledger=books)
    before, (X, y, _) = dict(vars(model)), records(60)
    with pytest.raises((ValueError, TypeError), match=text):
        model.fit(X, y)
    assert vars(model) == before
    if "correct_prior" in inspect.signature(kind).parameters:
        model.set_params(class_weight=None, correct_prior="yes")
        with pytest.raises(TypeError, match="'correct_prior' parameter must be True"):
            model.fit(X, y)
    assert not books.spends()


def test_a_loss_is_weighted_once_and_in_units_of_the_largest():
    loss = LogisticLoss()
    for weights in ((0.5, 0.5), (1.0, 2.0), (1.0, 0.0), (1.0,), (1.0, math.nan)):
        with pytest.raises(ValueError, match="'label_weights' must be 2 numbers"):
            WeightedLoss(loss, weights)
    for other in (SquaredLoss(1.0), WeightedLoss(loss, (1.0, 0.5))):
        with pytest.raises(ValueError, match="without weights"):
            WeightedLoss(other, (1.0, 0.5))
