"""Models that are evaluated on held-out records: one event, no common record, twins.

Of `DPTunedThresholdClassifier` and `DPCalibratedClassifier` alike.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from skdp import (
    BudgetExceeded,
    BudgetLedger,
    DPCalibratedClassifier,
    DPGridSearchCV,
    DPLinearSVC,
    DPLogisticRegression,
    DPTunedThresholdClassifier,
    privacy_report,
    set_budget,
)
from skdp.audit._exact import replayed, told_apart
from skdp.model_selection import _evaluation, _methods, _search
from skdp.model_selection._scorer_sums import NamedScoring
from skdp.privacy import epsilon_of
from skdp.privacy.release import _door
from tests.audit.linear import BUDGETS
from tests.audit.searches import _calibrated_once
from tests.audit.tables import answered_by
from tests.model_selection.toys import NoisySum

# What each of them reads off the released histogram.
READ_OFF = {
    DPTunedThresholdClassifier: lambda fitted: fitted.best_threshold_,
    DPCalibratedClassifier: lambda fitted: fitted.calibrator_,
}
KINDS = tuple(READ_OFF)
X, Y = make_classification(3000, 5, random_state=0)
X = X / 5


def evaluated(kind, epsilon=2.0, **params):
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    return kind(model, epsilon=epsilon, **params)


# ---------------------------------------------------------------------------- the books


@pytest.mark.parametrize(
    ("kind", "adjacency", "delta"),
    [(KINDS[0], "replace_one", 1e-6), (KINDS[1], "zero_out", 0.0)],
)
def test_one_event_at_the_joint_cost(kind, adjacency, delta, tmp_path):
    ledger = BudgetLedger(
        tmp_path / "x.db", epsilon=1.0, delta=delta * 10, adjacency=adjacency
    )
    params = {"delta": delta, "adjacency": adjacency, "ledger": ledger}
    model = evaluated(kind, 0.9, **params).fit(X, Y)
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
    "thresholds": ({"thresholds": [0.1, 0.9]}, ValueError, "rise from 0 to 1"),
    "infinite": ({"epsilon": math.inf}, ValueError, "only private fits"),
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
    "fitted": (
        {"estimator": FrozenEstimator(DPLogisticRegression(classes=[0, 1]))},
        ValueError,
        r"private_evaluation\(model, X, y, .*calibrate",
    ),
}
OWN = {
    DPTunedThresholdClassifier: {"scoring": "roc_auc"},
    DPCalibratedClassifier: {"method": "temperature"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_spends_nothing(kind, tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    (own,) = OWN[kind]
    for params, error, words in [*BAD.values(), (OWN[kind], ValueError, f"'{own}'")]:
        model = evaluated(kind, ledger=ledger).set_params(**params)
        with pytest.raises(error, match=words):
            model.fit(X, Y)
        assert not len(ledger.spends())
        assert not hasattr(model, "privacy_")
    search = DPGridSearchCV(DPLogisticRegression(classes=[0, 1]), {"C": [1.0]})
    with pytest.raises((TypeError, ValueError), match="search"):
        kind(search).fit(X, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_reports(kind):
    fitted = evaluated(kind).fit(X, Y)
    assert fitted.scoring_ in repr(fitted.report())
    assert f"{fitted.best_score_:.4f}" in repr(fitted.report())
    assert kind.__name__ in repr(privacy_report(fitted))
    assert kind.__name__ in repr(privacy_report(evaluated(kind)))
    assert set_budget(evaluated(kind), epsilon=0.3, delta=1e-6).epsilon == 0.3


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


def audited(kind, adjacency, law="gaussian", seeds=(0,), **bugs):
    """Found over charged of fit and histogram, by where the record is."""
    budget, parts = BUDGETS[law], []

    def run(table, noise):
        toy = Toy(classes=(0, 1))
        model = kind(
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


@pytest.mark.parametrize(
    ("kind", "adjacency", "law"),
    [(KINDS[0], "replace_one", "pure"), (KINDS[1], "zero_out", "gaussian")],
)
def test_a_record_is_in_one_part_and_pays_all_that_is_charged(kind, adjacency, law):
    found = audited(kind, adjacency, law)
    assert found.max() <= 1 + 1e-9
    fitted, asked = (found > 0.99).T
    # A toy's sum moves by all of its bound, a record by two cells or one.
    assert (fitted ^ asked).all()
    assert (np.minimum(*found.T) == 0).all()
    assert asked.sum() == 2  # a fifth of the records


def test_planted_bugs_are_caught(monkeypatch):
    kind = KINDS[0]
    assert audited(kind, "replace_one", shrink=0.9).max() > 1.04
    honest = _methods.Split

    def split(train, validation):
        return honest(np.concatenate([train, validation]), validation)

    monkeypatch.setattr(_methods, "Split", split)
    found = audited(kind, "replace_one")
    assert (np.minimum(*found.T) > 0.9).any()  # one record pays twice
    monkeypatch.undo()
    # A histogram that is charged for one cell.
    monkeypatch.setattr(NamedScoring, "sensitivity", lambda self, adjacency, norm: 1.0)
    assert audited(kind, "replace_one").max() > 1.4


def read_off(kind, counts_of, monkeypatch):
    """What two neighbours make of the same releases."""
    found = []

    def run(table, noise):
        model = kind(
            Toy(classes=(0, 1)), epsilon=0.5, thresholds=tuple(np.linspace(0, 1, 9))
        )
        with answered_by(noise) as patch:
            for module in (_door, _search):
                patch.setattr(module, "calibrate", _calibrated_once)
            if counts_of is not None:
                patch.setattr(_evaluation, "cell_counts", counts_of(noise))
            found.append(READ_OFF[kind](model.fit(*table)))

    for at in range(N):
        found.clear()
        replayed(run, pair_of("replace_one", at), 1)
        yield tuple(found)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_off_follows_from_what_was_released(kind, monkeypatch):
    assert all(one == other for one, other in read_off(kind, None, monkeypatch))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_off_raw_counts_is_caught(kind, monkeypatch):
    def raw(noise):
        return lambda params, statistic, n: noise.asked[-1].query.reshape(2, -1)

    assert any(one != other for one, other in read_off(kind, raw, monkeypatch))
