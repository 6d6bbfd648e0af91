"""The constant model, and descents whose intercept does not overshoot."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import (
    DPGammaRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
)
from skdp.audit import audit_estimator
from skdp.columns import Range
from skdp.exceptions import NoiseDominatesWarning
from skdp.privacy._query import Bound
from skdp.solvers._steps import restarted

CLASSES = {"classes": [0, 1]}
MODELS = [
    DPLogisticRegression(0.01, **CLASSES),
    DPLogisticRegression(0.01, **CLASSES, delta=0.0),
    DPRobustClassifier(0.01, **CLASSES, columns=Range(-1, 1)),
    DPMLPClassifier(0.01, **CLASSES),
    DPLinearRegression(0.01, target_bounds=(0, 5)),
    DPPoissonRegressor(0.01, target_bounds=(0, 5), columns=Range(-1, 1)),
    DPGammaRegressor(0.01, target_bounds=(0.1, 5)),
    DPQuantileRegressor(0.01, target_bounds=(0, 5), delta=0.0),
]


def table(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_where_noise_dominates_all_records_are_predicted_alike(model, adjacency):
    X, y = table(40)
    model = model.set_params(adjacency=adjacency)
    with pytest.warns(NoiseDominatesWarning, match="noise dominates"):
        model.fit(X, y)
    raw = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else None
    assert np.ptp(model.predict(X) if raw is None else raw) == 0
    assert "no weights" in model.privacy_.why_solver
    assert model.privacy_.epsilon == 0.01


def test_a_named_solver_keeps_its_weights():
    X, y = table(500)
    model = DPLogisticRegression(0.01, **CLASSES, solver="noisy_gd", random_state=0)
    with pytest.warns(NoiseDominatesWarning):
        model.fit(X, y)
    assert model.coef_.any()


def test_forecast_names_the_solver_of_the_constant():
    model = DPLogisticRegression(0.01, **CLASSES)
    X, y = table(500)
    with pytest.warns(NoiseDominatesWarning):
        record = model.fit(X, y).privacy_
    told = model.forecast(500, 3)
    assert (told.solver, told.why_solver) == (record.solver, record.why_solver)
    assert told.noise_multiplier == record.noise_multiplier


def test_the_base_rate_is_found():
    # n mu is 20: the deviation of a share is 0.05, and the bound is 6 of these.
    X = np.zeros((4_500, 4))
    y = np.arange(4_500) % 10 == 0
    model = DPLogisticRegression(
        0.01, classes=[False, True], adjacency="zero_out", random_state=0
    )
    with pytest.warns(NoiseDominatesWarning):
        model.fit(X, y)
    assert model.predict_proba(X)[0, 1] == pytest.approx(0.1, abs=0.3)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
def test_the_constant_costs_what_is_charged(adjacency):
    X, y = table(20)
    model = DPLogisticRegression(0.05, **CLASSES, adjacency=adjacency)
    result = audit_estimator(model, X, y, access="transcript")
    assert result.passed
    assert all(found <= paid * 1.001 for found, paid in result.parts.values())


@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
def test_a_constant_whose_bound_forgets_the_second_record_is_refuted(monkeypatch):
    honest = Bound.under
    monkeypatch.setattr(Bound, "under", lambda self, relation: honest(self, "zero_out"))
    X, y = table(20)
    result = audit_estimator(
        DPLogisticRegression(0.05, **CLASSES), X, y, access="transcript"
    )
    assert not result.passed


def test_only_an_intercept_that_climbs_is_stopped():
    velocity = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0]])
    gradient = np.array([[1.0, -1.0, -1.0], [1.0, -1.0, -1.0]])
    expected = [[1.0, 1.0, -1.0], [0.0, 1.0, 0.0]]
    assert restarted(velocity, gradient).tolist() == expected


@pytest.mark.parametrize("columns", [None, Range(-1, 1)], ids=["rows", "columns"])
def test_rare_labels_are_predicted_about_as_often_as_they_are(columns):
    # Without restarts the mean prediction was 0 to 0.1 times the base rate.
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(20_000, 4))
    y = (rng.random(20_000) < 0.005 * np.exp(3 * X[:, 0])).astype(int)
    model = DPLogisticRegression(
        4.0, **CLASSES, columns=columns, solver="auto", random_state=0
    )
    found = model.fit(X, y).predict_proba(X)[:, 1].mean()
    assert 0.4 < found / y.mean() < 2.5


def test_frequent_labels_are_not_predicted_too_often():
    # With a clip of residuals the log-loss was 1.1 to 1.4 times that of the constant.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 4))
    y = rng.choice(3, size=20_000, p=[0.97, 0.02, 0.01])
    model = DPLogisticRegression(
        1.0, classes=[0, 1, 2], columns=Range(-1, 1), random_state=0
    )
    p = model.fit(X, y).predict_proba(X)
    shares = np.bincount(y) / len(y)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    assert loss < 1.1 * -(shares @ np.log(shares))


def test_means_near_a_bound_are_found():
    # Without restarts the mean was 1.2 to 1.4 times the truth.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(10_000, 5))
    y = np.clip(rng.gamma(5.0, 160.0, size=10_000), 1, 1000)
    model = DPGammaRegressor(
        1.0, target_bounds=(1, 1000), columns=Range(-1, 1), random_state=0
    )
    assert model.fit(X, y).predict(X).mean() == pytest.approx(y.mean(), rel=0.12)
