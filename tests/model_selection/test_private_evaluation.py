"""Evaluations, confusion matrices and comparisons: one event each, and planted bugs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skdp
from skdp import BudgetExceeded, BudgetLedger, private_evaluation
from skdp.audit._exact import replayed, verdict
from tests.audit.tables import answered_by

# Of predicted labels alone.
confusion = partial(private_evaluation, response_method="predict")
ADJACENCIES = ("replace_one", "zero_out")


def classified(n=4000, seed=0, n_labels=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_labels, n)
    return rng.normal(size=(n, 3)) + np.eye(n_labels, 3)[y], y


X, Y = classified()
MODEL = LogisticRegression().fit(*classified(seed=1))
OTHER = LogisticRegression().fit(np.zeros((10, 3)), np.arange(10) % 2)


def evaluated(epsilon=math.inf, **params):
    return private_evaluation(MODEL, X, Y, epsilon=epsilon, **params)


# ------------------------------------------------------------------------- evaluation


def test_without_noise_it_is_what_scikit_learn_says():
    found, p = evaluated(), MODEL.predict_proba(X)[:, 1]
    assert found.roc_auc == pytest.approx(roc_auc_score(Y, p), abs=2e-3)
    matrix = found.confusion_matrix()
    assert np.array_equal(matrix.counts, confusion_matrix(Y, p >= 0.5))
    assert matrix.accuracy == pytest.approx(MODEL.score(X, Y))
    fine = evaluated(thresholds=np.linspace(0, 1, 401))
    positive, predicted = calibration_curve(Y, p, n_bins=10)
    curve = fine.calibration_curve(10)
    assert curve["predicted"].to_numpy() == pytest.approx(predicted, abs=2e-3)
    assert curve["positive"].to_numpy() == pytest.approx(positive, abs=2e-2)
    weights = np.histogram(p, np.linspace(0, 1, 11))[0]
    expected = np.average(np.abs(positive - predicted), weights=weights[weights > 0])
    assert fine.expected_calibration_error == pytest.approx(expected, abs=3e-3)
    assert found.error == 0.0
    # Records in one interval are in an order that counts do not show.
    assert 0 < found.roc_auc_error < 2e-3


def test_one_event_is_charged(tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    found = evaluated(0.9, ledger=ledger)
    assert len(ledger.spends()) == 1
    assert found.privacy_.epsilon == 0.9
    assert found.privacy_.solver == "gaussian"  # which adds up in squares
    with pytest.raises(BudgetExceeded):
        confusion(MODEL, X, Y, epsilon=0.9, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        private_evaluation((MODEL, OTHER), X, Y, epsilon=0.9, ledger=ledger)
    assert len(ledger.spends()) == 1


def test_pictures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = evaluated(1.0)
    assert found.plot_roc(name="model").roc_auc == found.roc_auc
    assert found.plot_precision_recall().line_ is not None
    assert found.plot_calibration().line_ is not None
    assert found.confusion_matrix().plot().im_ is not None
    pyplot.close("all")


def test_refusals():
    three = LogisticRegression().fit(*classified(n_labels=3))
    with pytest.raises(ValueError, match="two labels"):
        private_evaluation(three, X, Y, epsilon=1.0, response_method="predict_proba")
    with pytest.raises(ValueError, match="labels of the estimator"):
        evaluated(1.0, classes=[0, 7])
    with pytest.raises(ValueError, match="rise from 0 to 1"):
        evaluated(1.0, thresholds=[0.1, 0.2])
    with pytest.raises(ValueError, match="'threshold'"):
        evaluated(1.0).confusion_matrix(2.0)
    with pytest.raises(ValueError, match="'n_bins'"):
        evaluated(1.0).calibration_curve(99)


# Models that read one table in four forms.
READERS = {
    "names": lambda X, y: skdp.DPLogisticRegression(
        epsilon=9.0, data_norm=3.0, classes=[0, 1]
    ).fit(X[["a", "b", "c"]], y),
    # The other label, so that it differs from the first whatever the noise.
    "numbers": lambda X, y: skdp.DPLogisticRegression(
        epsilon=9.0, data_norm=3.0, classes=[0, 1]
    ).fit(X[["a", "b", "c"]].to_numpy(), 1 - y),
    "ranges": lambda X, y: skdp.DPLogisticRegression(
        columns={"a": (-3, 3), "d": ["u", "v"]}, classes=[0, 1]
    ).fit(X[["a", "d"]], y),
    "trees": lambda X, y: skdp.DPGradientBoostingClassifier(
        columns={"d": ["u", "v"]}, classes=[0, 1], n_estimators=3
    ).fit(X[["d"]], y),
}


def mixed(tmp_path, features, is_cut=()):
    """A table of numbers and texts in memory, and as a source."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["d"] = np.where(X[:, 1] > 0, "u", "v")
    frame.loc[np.flatnonzero(is_cut), "a"] = np.nan
    frame.assign(y=Y).to_parquet(tmp_path / "x.parquet")
    facts = {"target": "y", "n_samples": len(Y), "batch_size": 77}
    source = skdp.ParquetSource(
        tmp_path / "x.parquet", features=list(features), **facts
    )
    return frame, source


def disagree(first, second, rows, others, y):
    """How many records only the first labels right, and only the second."""
    one, other = first.predict(rows) == y, second.predict(others) == y
    return [float((one & ~other).sum()), float((other & ~one).sum())]


# What each of them takes in memory.
TAKES = {
    "names": lambda frame: frame[["a", "b", "c"]],
    "numbers": lambda frame: frame[["a", "b", "c"]].to_numpy(),
    "ranges": lambda frame: frame[["a", "d"]],
    "trees": lambda frame: frame[["d"]],
}


@pytest.mark.parametrize(
    ("first", "second", "features"),
    [("names", "numbers", "abc"), ("trees", "ranges", "ad")],
)
def test_models_of_different_columns_are_compared_on_a_source(
    first, second, features, tmp_path
):
    pytest.importorskip("pyarrow")
    frame, source = mixed(tmp_path, features)
    models = [READERS[name](frame, Y) for name in (first, second)]
    found = private_evaluation(models, source, epsilon=1e6)
    exact = disagree(*models, TAKES[first](frame), TAKES[second](frame), Y)
    assert [found.first_only, found.second_only] == pytest.approx(exact, abs=0.1)
    assert max(exact) > 10
    assert found.n_samples == len(Y)
    with pytest.raises(ValueError, match="left out with a source"):
        private_evaluation(models, source, Y, epsilon=1.0)


# Sources whose cells no model of numbers can read, if not by chance.
def texts(cells, is_bytes=False):
    pa = pytest.importorskip("pyarrow")
    dtype = pa.binary() if is_bytes else pa.string()
    return pa.array([str(cell).encode() for cell in cells], pa.binary()).cast(dtype)


def source_of(tmp_path, **columns):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    return skdp.ParquetSource(
        tmp_path / "x.parquet", target="y", n_samples=len(columns["y"])
    )


ASKED = {
    "score": skdp.private_score,
    "evaluation": private_evaluation,
    "confusion": confusion,
    "comparison": lambda model, *rest, **params: private_evaluation(
        (model, model), *rest, **params
    ),
}
TAKE_NUMBERS = {
    "skdp": skdp.DPLogisticRegression(data_norm=3.0, classes=[0, 1]),
    "other": LogisticRegression(),
    "pipeline": make_pipeline(FunctionTransformer(), LogisticRegression()),
    "missing": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize(
    ("asked", "name", "is_bytes"),
    [
        ("score", "skdp", False),
        ("evaluation", "other", False),
        ("confusion", "pipeline", True),
        ("comparison", "missing", True),
    ],
)
def test_what_is_no_column_of_numbers_is_refused_before_it_is_paid_for(
    asked, name, is_bytes, tmp_path
):
    model = clone(TAKE_NUMBERS[name]).fit(X[:, :2], Y)
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=5.0, delta=1e-5)
    # Were they read, one cell that is no number would end it after the commit.
    for cells in (np.arange(50), ["secret", *range(49)]):
        source = source_of(tmp_path, a=X[:50, 0], b=texts(cells, is_bytes), y=Y[:50])
        with pytest.raises(ValueError, match=r"numeric.*\['b'\]"):
            ASKED[asked](model, source, epsilon=1.0, ledger=ledger)
    assert not len(ledger.spends())


# ------------------------------------------------------------------- confusion matrix


def test_confusion_matrix_of_several_labels():
    rows, y = classified(n_labels=3)
    model = LogisticRegression().fit(rows, y)
    found = confusion(model, rows, y, epsilon=math.inf)
    expected = confusion_matrix(y, model.predict(rows))
    assert np.array_equal(found.counts, expected)
    noisy = confusion(model, rows, y, epsilon=1.0)
    assert np.abs(noisy.counts - expected).max() < 30 * noisy.error
    assert noisy.counts.min() >= 0


# ------------------------------------------------------------------------- comparison


def test_comparison_without_noise_is_mcnemar_s():
    found = private_evaluation((MODEL, OTHER), X, Y, epsilon=math.inf)
    first, second = (model.predict(X) == Y for model in (MODEL, OTHER))
    assert found.first_only == (first & ~second).sum()
    assert found.second_only == (second & ~first).sum()
    assert found.difference == pytest.approx(first.mean() - second.mean())
    apart = first.astype(float) - second
    assert found.standard_error == pytest.approx(apart.std() / math.sqrt(len(Y)))
    assert found.p_value < 1e-6
    same = private_evaluation((MODEL, MODEL), X, Y, epsilon=math.inf)
    assert (same.difference, same.p_value) == (0.0, 1.0)


# ----------------------------------------------------------------------- exact audits


class Says(BaseEstimator):
    """A model that says what stands in a column."""

    classes_ = np.array([0, 1])

    def __init__(self, column):
        self.column = column

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return X[:, self.column]

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, self.column], X[:, self.column]])


RESTS = np.array([[1, 0, 0], [0, 1, 1]])
# The first record of two neighbours, what both models say and the label; who asks.
CASES = {
    "evaluation": ((1, 0, 1), (0, 0, 1), partial(private_evaluation, Says(0))),
    "confusion": ((1, 0, 1), (0, 0, 1), partial(confusion, Says(0))),
    "comparison": (
        (1, 0, 1),
        (0, 1, 1),
        partial(private_evaluation, (Says(0), Says(1))),
    ),
}


def audited(name, adjacency, **bugs):
    first, second, release = CASES[name]
    event = []

    def run(record, noise):
        records = np.array([record, *RESTS])
        with answered_by(noise):
            facts = {"epsilon": 1.0, "adjacency": adjacency, "classes": [0, 1]}
            if name == "comparison":
                del facts["classes"]
            found = release(records[:, :2], records[:, 2], **facts)
        event.append(found.privacy_.event)
        return records

    pair = (first, second)
    if adjacency == "zero_out":
        pair = (first, first)
    one, other, _ = replayed(run, pair, 0, **bugs)
    if adjacency == "zero_out":  # without what stands in the null record's place
        moved = np.zeros_like(other[0].query)
        moved[np.flatnonzero(one[0].query)[-1]] = 1.0
        other = [replace(other[0], query=other[0].query - moved)]
    return verdict(one, other, event[0])


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", CASES)
def test_the_claim_is_attained_and_never_passed(name, adjacency):
    found = audited(name, adjacency)
    assert 0.999 <= found.total <= found.largest <= 1 + 1e-9


# --------------------------------------------------------------- what is counted


LABELS = skdp.DPLinearSVC(data_norm=3.0, classes=[0, 1]).fit(X, Y)  # no probabilities


REFUSED = {
    "three models": ((MODEL, MODEL, MODEL), {}, "Got 3. Compare two"),
    "no model": ([], {}, "Got 0"),
    "two and labels": ((MODEL, OTHER), {"classes": [0, 1]}, "left out with two"),
    "two and ends": ((MODEL, OTHER), {"thresholds": [0, 0.5, 1]}, "left out with two"),
    "two and probabilities": (
        (MODEL, OTHER),
        {"response_method": "predict_proba"},
        "left out with two",
    ),
    "ends of labels": (
        MODEL,
        {"response_method": "predict", "thresholds": [0, 0.5, 1]},
        "'thresholds' parameter must be None",
    ),
    "no such method": (MODEL, {"response_method": "score"}, "response_method"),
    "no probabilities": (LABELS, {"response_method": "predict_proba"}, "needs"),
    "ends without probabilities": (LABELS, {"thresholds": [0, 0.5, 1]}, "needs"),
    "three labels": (
        MODEL,
        {"response_method": "predict_proba", "classes": [0, 1, 2]},
        "two labels",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_counted_is_refused_before_it_is_paid_for(case, tmp_path):
    model, params, reason = REFUSED[case]
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=5.0, delta=1e-5)
    with pytest.raises(ValueError, match=reason):
        private_evaluation(model, X, Y, epsilon=1.0, ledger=ledger, **params)
    assert not len(ledger.spends())


def test_what_is_shown_are_the_numbers_and_their_cost():
    found = evaluated(1.0)
    assert "ROC AUC" in repr(found)
    assert found.privacy_.statement() in repr(found).replace("\n", " ")
    assert "predicted" in repr(found.confusion_matrix(0.2))
    compared = private_evaluation((MODEL, OTHER), X, Y, epsilon=1.0)
    assert f"{compared.difference:+.4f} (95 %" in repr(compared)
