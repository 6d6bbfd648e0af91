"""`DPCalibratedClassifier`: probabilities that are shares, and maps that are rising."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

import skdp
from skdp import DPCalibratedClassifier, DPLogisticRegression
from skdp.model_selection import Isotonic, PrivateEvaluation, Sigmoid
from skdp.model_selection._calibrators import CALIBRATORS

METHODS = tuple(CALIBRATORS)
X, Y = make_classification(20_000, 5, random_state=0)
X = X / 5


class Bold(DPLogisticRegression):
    """Far too sure of itself."""

    def predict_proba(self, X):
        p = expit(4 * logit(super().predict_proba(X)[:, 1]))
        return np.column_stack([1 - p, p])


def calibrated(epsilon=1.0, **params):
    model = Bold(data_norm=1.0, classes=[0, 1])
    return DPCalibratedClassifier(model, epsilon=epsilon, **params)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("method", METHODS)
def test_bold_probabilities_come_near_to_shares(method, adjacency):
    fitted = calibrated(method=method, adjacency=adjacency).fit(X[::2], Y[::2])
    before = fitted.estimator_.predict_proba(X[1::2])[:, 1]
    after = fitted.predict_proba(X[1::2])
    assert log_loss(Y[1::2], after) < log_loss(Y[1::2], before) - 0.05
    assert after.shape == (10_000, 2)
    assert after.sum(axis=1) == pytest.approx(1)
    assert (0 < after).all()
    assert (after < 1).all()
    assert (np.diff(after[np.argsort(before), 1]) >= 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_all_follows_from_the_fitted_map(method):
    fitted = calibrated(method=method).fit(X, Y)
    p = fitted.predict_proba(X)[:, 1]
    raw = fitted.estimator_.predict_proba(X)[:, 1]
    assert np.array_equal(p, fitted.evaluation_.calibrate(raw, method))
    assert np.array_equal(fitted.predict(X), (p >= 0.5).astype(int))
    assert np.array_equal(fitted.decision_function(X), p - 0.5)
    assert np.exp(fitted.predict_log_proba(X)[:, 1]) == pytest.approx(p)
    assert fitted.score(X, Y) == np.mean(fitted.predict(X) == Y)
    again = pickle.loads(pickle.dumps(fitted)).set_params(method="sigmoid")
    assert np.array_equal(again.predict_proba(X)[:, 1], p)


def test_a_source_gives_the_same_map(tmp_path):
    pytest.importorskip("duckdb")
    frame = pd.DataFrame(X[:2000], columns=[f"x{i}" for i in range(5)])
    frame.assign(y=Y[:2000]).to_parquet(tmp_path / "rows.parquet")
    source = skdp.ParquetSource(tmp_path / "rows.parquet", target="y", n_samples=2000)
    one, other = (
        calibrated(random_state=0).fit(*rows) for rows in ((source,), (frame, Y[:2000]))
    )
    assert one.calibrator_ == other.calibrator_
    assert one.predict_proba(frame) == pytest.approx(other.predict_proba(frame))
    with pytest.raises(TypeError, match="table in memory"):
        one.score(source)


# ----------------------------------------------------------------------------- the maps

MIDDLES = np.linspace(0.05, 0.95, 10)


def test_a_line_of_log_odds_is_found():
    shares, weights = expit(2 * logit(MIDDLES) - 1), np.arange(1.0, 11.0)
    found = Sigmoid.of(MIDDLES, shares, weights)
    assert (found.slope, found.intercept) == pytest.approx((2, -1), abs=1e-3)
    assert found(MIDDLES) == pytest.approx(shares, abs=1e-4)


@pytest.mark.parametrize("kind", [Sigmoid, Isotonic])
def test_falling_shares_give_their_mean(kind):
    found = kind.of(MIDDLES, MIDDLES[::-1], np.ones(10))
    assert found(np.array([0.0, 0.3, 1.0])) == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_stay_where_there_are_no_records(method):
    thresholds = np.linspace(0, 1, 25)
    empty = PrivateEvaluation((0, 1), thresholds, np.zeros((2, 24)), 0.0, None)
    inside = np.linspace(0.05, 0.95, 50)
    assert empty.calibrate(inside, method) == pytest.approx(inside, abs=1e-5)


def perfect(thresholds, n=1e6):
    """Two labels that are told apart at 1/2 without an error."""
    middles = (thresholds[1:] + thresholds[:-1]) / 2
    counts = n * np.stack([middles < 0.5, middles > 0.5])
    counts *= np.abs(middles - 0.5) < 0.1
    return PrivateEvaluation((0, 1), thresholds, counts, 0.0, None)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "ends", [(0, 5e-324, 0.5, 1), (0, 0.5, 1 - 1e-16, 1), (0, 1e-300, 0.5, 1)]
)
def test_intervals_may_be_as_narrow_as_doubles_are(method, ends):
    found = perfect(np.array(ends)).calibrator(method)
    p = found(np.linspace(0, 1, 11))
    assert ((0 < p) & (p < 1)).all()
    assert (np.diff(p) >= 0).all()
