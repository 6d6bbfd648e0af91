"""`DPTunedThresholdClassifier`: one event, parts without a common record, and twins."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DPGridSearchCV,
    DPLinearSVC,
    DPLogisticRegression,
    DPTunedThresholdClassifier,
    privacy_report,
    private_score,
    set_budget,
)
from skdp.audit._replay import replayed, told_apart
from skdp.model_selection import _held_out, _search
from skdp.model_selection._histogram_scoring import RocAuc
from skdp.model_selection._tuned_threshold import FINE, THRESHOLD_SCORES
from skdp.privacy import _door, epsilon_of
from tests.audit.linear import BUDGETS
from tests.audit.searches import _calibrated_once
from tests.audit.tables import answered_by
from tests.model_selection.toys import NoisySum

ADJACENCIES = ("replace_one", "zero_out")


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


def test_rare_labels_are_found():
    # At this epsilon noise is a few records; the gain is some tenths.
    fitted = tuned(epsilon=50.0).fit(X, Y)
    plain = balanced_accuracy_score(Y, fitted.estimator_.predict(X))
    assert fitted.score(X, Y) > plain + 0.03
    assert fitted.best_threshold_ < 0.5


@pytest.mark.parametrize("scoring", THRESHOLD_SCORES)
def test_nearly_without_noise_the_threshold_is_the_best(scoring):
    fitted = tuned(epsilon=1e6, scoring=scoring).fit(X, Y)
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


def test_a_declared_threshold_is_free(tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=2.0, delta=1e-5)
    model = DPLogisticRegression(classes=[0, 1], ledger=ledger).fit(X, Y)
    fixed = FixedThresholdClassifier(model, threshold=0.05, pos_label=1)
    fixed.fit(X, Y)
    # It clones and fits anew: one more spend. Of a fitted model nothing is spent.
    assert len(ledger.spends()) == 2
    FixedThresholdClassifier(FrozenEstimator(model), threshold=0.05).fit(X, Y)
    assert len(ledger.spends()) == 2


def test_reports():
    fitted = tuned().fit(X, Y)
    assert "balanced_accuracy" in repr(fitted.report())
    assert "DPTunedThresholdClassifier" in repr(privacy_report(fitted))
    assert "DPTunedThresholdClassifier" in repr(privacy_report(tuned()))
    assert set_budget(tuned(), epsilon=0.3, delta=1e-6).epsilon == 0.3


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


# ---------------------------------------------------------------------------- the books


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_one_event_at_the_joint_cost(adjacency, delta, tmp_path):
    ledger = BudgetLedger(
        tmp_path / "x.db", epsilon=1.0, delta=delta * 10, adjacency=adjacency
    )
    model = tuned(0.9, delta=delta, adjacency=adjacency, ledger=ledger).fit(X, Y)
    record = model.privacy_
    assert len(ledger.spends()) == 1
    assert record.is_private
    assert (record.epsilon, record.delta) == (0.9, delta)
    assert epsilon_of(record.event, delta) <= 0.9
    assert model.estimator_.privacy_.release
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, Y)
    assert len(ledger.spends()) == 1


BAD = {
    "scoring": ({"scoring": "roc_auc"}, ValueError, "'scoring'"),
    "thresholds": ({"thresholds": [0.1, 0.9]}, ValueError, "rise from 0 to 1"),
    "infinite": ({"epsilon": math.inf}, ValueError, "private fits only"),
    "part": ({"validation_fraction": 1.0}, ValueError, "validation_fraction"),
    "no probabilities": (
        {"estimator": DPLinearSVC(classes=[0, 1])},
        ValueError,
        "predict_proba",
    ),
    "three labels": (
        {"estimator": DPLogisticRegression(classes=[0, 1, 2])},
        ValueError,
        "Only binary",
    ),
    "not private": (
        {"estimator": LogisticRegression()},
        ValueError,
        "must have a private step",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_spends_nothing(name, tmp_path):
    params, error, words = BAD[name]
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    model = tuned(ledger=ledger).set_params(**params)
    with pytest.raises(error, match=words):
        model.fit(X, Y)
    assert not len(ledger.spends())
    assert not hasattr(model, "privacy_")


def test_no_search_within_it():
    with pytest.raises((TypeError, ValueError), match="search"):
        DPTunedThresholdClassifier(
            DPGridSearchCV(DPLogisticRegression(classes=[0, 1]), {"C": [1.0]})
        ).fit(X, Y)


# --------------------------------------------------------------------------- the audits


class Toy(NoisySum):
    """Predicts the second column as the probability of label 1, if there is a sum."""

    def predict_proba(self, X):
        p = np.clip(X[:, 1], 0, 1)
        return np.column_stack([1 - p, p])


N = 12


def pair_of(adjacency, at):
    """Tables that differ in one record; the null record has a label of no cell."""
    rows, y = np.zeros((N, 2)), np.zeros(N, dtype=int)
    rows[:, 1] = np.linspace(0, 1, N)
    rows[at], y[at] = (1.0, 0.6), 1
    other, labels = rows.copy(), y.copy()
    replaced = {"replace_one": ((-1.0, 0.7), 0), "zero_out": ((0.0, 0.0), 2)}
    other[at], labels[at] = replaced[adjacency]
    return (rows, y), (other, labels)


def audited(adjacency, law="gaussian", seeds=(0,), **bugs):
    """Found over charged of fit and histogram, by where the record is."""
    budget, parts = BUDGETS[law], []

    def run(table, noise):
        toy = Toy(classes=(0, 1))
        model = DPTunedThresholdClassifier(
            toy,
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=adjacency,
            thresholds=(0.0, 0.5, 1.0),
        )
        with answered_by(noise) as patch:
            for module in (_door, _search):
                patch.setattr(module, "calibrate", _calibrated_once)
            return model.fit(*table).privacy_.event

    for at in range(N):
        for seed in seeds:
            first, second, _ = replayed(run, pair_of(adjacency, at), seed, **bugs)
            costs = [
                (a.share, told_apart(a, b), a.share.cost)
                for a, b in zip(first, second, strict=True)
            ]
            parts.append(
                [
                    math.sqrt(x / cost) if share.is_squared else x / cost
                    for share, x, cost in costs
                ]
            )
    return np.array(parts)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("law", ["gaussian", "pure"])
def test_a_record_is_in_one_part_and_pays_all_that_is_charged(adjacency, law):
    found = audited(adjacency, law)
    assert found.max() <= 1 + 1e-9
    fitted, asked = (found > 0.99).T
    # A toy's sum moves by all of its bound, a record by two cells or one.
    assert (fitted ^ asked).all()
    assert (np.minimum(*found.T) == 0).all()
    assert asked.sum() == 2  # a fifth of the records


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_less_noise_is_caught(adjacency):
    assert audited(adjacency, shrink=0.9).max() > 1.04


def test_records_in_both_parts_are_caught(monkeypatch):
    honest = _held_out.Split

    def split(train, validation):
        return honest(np.concatenate([train, validation]), validation)

    monkeypatch.setattr(_held_out, "Split", split)
    found = audited("replace_one")
    assert (np.minimum(*found.T) > 0.9).any()  # one record pays twice


def test_a_histogram_that_is_charged_for_one_cell_is_caught(monkeypatch):
    monkeypatch.setattr(RocAuc, "sensitivity", lambda self, adjacency, norm: 1.0)
    assert audited("replace_one").max() > 1.4


def chosen_by(counts_of, monkeypatch):
    """Thresholds of two neighbours that are told the same releases."""
    cuts = []

    def run(table, noise):
        model = DPTunedThresholdClassifier(
            Toy(classes=(0, 1)),
            scoring="accuracy",
            epsilon=0.5,
            thresholds=tuple(np.linspace(0, 1, 9)),
        )
        with answered_by(noise) as patch:
            for module in (_door, _search):
                patch.setattr(module, "calibrate", _calibrated_once)
            if counts_of is not None:
                patch.setattr(RocAuc, "counts", counts_of(noise))
            cuts.append(model.fit(*table).best_threshold_)

    for at in range(N):
        cuts.clear()
        replayed(run, pair_of("replace_one", at), 1)
        yield tuple(cuts)


def test_the_threshold_follows_from_what_was_released(monkeypatch):
    assert all(one == other for one, other in chosen_by(None, monkeypatch))


def test_a_threshold_of_raw_scores_is_caught(monkeypatch):
    def raw(noise):
        return lambda self, statistic, n: noise.asked[-1].query.reshape(2, -1)

    assert any(one != other for one, other in chosen_by(raw, monkeypatch))
