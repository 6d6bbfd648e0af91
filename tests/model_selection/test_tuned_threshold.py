"""`DPTunedThresholdClassifier`: what a chosen threshold is worth.

What it costs, and its audits, are in `test_evaluated.py`.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPLogisticRegression,
    DPTunedThresholdClassifier,
    private_score,
)
from skdp.model_selection._held_out_models import FINE, THRESHOLD_SCORES


def rare(n=6000, seed=0):
    X, y = make_classification(
        n, 5, n_informative=4, n_redundant=0, weights=[0.95], random_state=seed
    )
    return X / 5, y


X, Y = rare()


def tuned(epsilon=2.0, **params):
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    return DPTunedThresholdClassifier(model, epsilon=epsilon, **params)


# --------------------------------------------------------------------- what it is worth


@pytest.mark.parametrize("scoring", THRESHOLD_SCORES)
def test_nearly_without_noise_the_threshold_is_the_best(scoring):
    fitted = tuned(epsilon=1e6, scoring=scoring, random_state=0).fit(X, Y)
    evaluation = fitted.evaluation_
    matrices = [evaluation.confusion_matrix(cut).counts for cut in FINE]
    found = [THRESHOLD_SCORES[scoring](matrix) for matrix in matrices]
    assert fitted.best_score_ == max(found)
    assert fitted.best_threshold_ in FINE
    assert fitted.score(X, Y) == pytest.approx(fitted.best_score_, abs=0.1)


def test_predictions_follow_from_the_threshold():
    fitted = tuned().fit(X, Y)
    positive = fitted.predict_proba(X)[:, 1]
    labels = np.where(positive >= fitted.best_threshold_, 1, 0)
    assert np.array_equal(fitted.predict(X), labels)
    assert np.array_equal(fitted.decision_function(X) >= 0, labels == 1)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), labels)
    again.best_threshold_ = positive[7]  # a record at the threshold is above it
    assert again.predict(X)[7] == 1


def test_a_declared_threshold_is_free(tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=2.0, delta=1e-5)
    model = DPLogisticRegression(classes=[0, 1], ledger=ledger).fit(X, Y)
    fixed = FixedThresholdClassifier(model, threshold=0.05, pos_label=1)
    fixed.fit(X, Y)
    # It clones and fits anew: one more spend. Of a fitted model nothing is spent.
    assert len(ledger.spends()) == 2
    FixedThresholdClassifier(FrozenEstimator(model), threshold=0.05).fit(X, Y)
    assert len(ledger.spends()) == 2


def test_in_a_pipeline_with_labels_that_are_strings():
    names = np.array(["no", "yes"])[Y]
    steps = make_pipeline(BoundedScaler((-2, 2)), DPLogisticRegression())
    steps.set_params(dplogisticregression__classes=["no", "yes"])
    fitted = DPTunedThresholdClassifier(steps).fit(X, names)
    assert set(fitted.predict(X)) <= {"no", "yes"}
    assert fitted.evaluation_.labels == ("no", "yes")
    expected = balanced_accuracy_score(names, fitted.predict(X))
    assert fitted.score(X, names) == pytest.approx(expected)
    assert (
        0 <= clone(fitted).set_params(scoring="f1").fit(X, names).score(X, names) <= 1
    )
    score = private_score(fitted, X, names, epsilon=1.0, scoring="balanced_accuracy")
    assert 0 <= score.value <= 1
