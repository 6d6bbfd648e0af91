"""DPLogisticRegression as its users meet it."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from skdp import DPLogisticRegression
from skdp.exceptions import PublicLabelsWarning
from tests.spies import SpyArray, SpyLedger


def sklearn_optimum(X, y, C):
    """scikit-learn without an intercept, converged."""
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=100_000)
    return model.fit(X, y)


def scaled(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9), y


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris, load_digits])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_infinite_epsilon_equals_scikit_learn(load, C):
    X, y = scaled(load)
    ours = DPLogisticRegression(math.inf, C=C, fit_intercept=False).fit(X, y)
    theirs = sklearn_optimum(X, y, C)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-4
    assert np.array_equal(ours.intercept_, np.zeros(len(ours.coef_)))
    assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() < 1e-4
    assert not ours.privacy_.is_private
    assert ours.privacy_.epsilon == math.inf


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16 / 8, y  # rows of norm at most 1 by the declared range 0..16


def test_private_models_are_useful(digits):
    X, y = digits
    model = DPLogisticRegression(8.0, adjacency="zero_out", classes=range(10))
    assert model.fit(X, y).score(X, y) > 0.8


def test_probabilities_labels_and_decisions_agree(digits):
    X, y = digits
    names = np.array(["zero", "one", "two"], dtype=object)
    few = y < 3
    for rows in (few, y < 2):
        model = DPLogisticRegression().fit(X[rows], names[y[rows]])
        proba = model.predict_proba(X)
        assert np.allclose(proba.sum(axis=1), 1)
        assert np.array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
        assert np.allclose(np.exp(model.predict_log_proba(X)), proba)
        assert set(model.predict(X)) <= set(names)


def test_clones_never_share_noise(digits):
    X, y = digits
    model = DPLogisticRegression(classes=range(10))
    a, b = model.fit(X, y).coef_, clone(model).fit(X, y).coef_
    assert not np.array_equal(a, b)
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.999


def test_labels_from_y_are_named_as_assumed_public(digits):
    X, y = digits
    with pytest.warns(PublicLabelsWarning, match="classes="):
        model = DPLogisticRegression().fit(X, y)
    assert any("taken from y" in fact for fact in model.privacy_.assumed_public)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DPLogisticRegression(classes=range(10)).fit(X, y)
    assert any("declared" in fact for fact in model.privacy_.assumed_public)


def test_declared_classes_may_be_absent(digits):
    X, y = digits
    model = DPLogisticRegression(classes=range(11)).fit(X, y)
    assert model.coef_.shape == (11, 64)
    model = DPLogisticRegression(classes=[0, 1]).fit(X, np.zeros(len(y), dtype=int))
    assert list(model.classes_) == [0, 1]


def test_data_are_converted_once_before_the_commit_and_never_after(tmp_path, digits):
    X, y = digits
    diary = SpyLedger.diary = []
    ledger = SpyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-6)
    model = DPLogisticRegression(ledger=ledger, classes=range(10))
    model.fit(SpyArray(X, "X", diary), SpyArray(y, "y", diary))
    assert diary[-1] == "commit"
    assert diary.count("convert X") == 1
    assert diary.count("convert y") <= 2


def public_traces(X, y, capsys, **params):
    """Everything a fit shows of itself, apart from its private outputs."""
    model = DPLogisticRegression(random_state=0, verbose=True, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    shapes = {
        name: getattr(value, "shape", None)
        for name, value in vars(model).items()
        if name.endswith("_")
    }
    record = model.privacy_.to_dict() | {"noise_scale": None}  # follows the iterates
    messages = [str(warning.message) for warning in caught]
    return shapes, record, messages, capsys.readouterr().out


def test_nothing_but_the_outputs_depends_on_the_data(capsys):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    tame, wild = rng.normal(size=(60, 3)), 1e200 * rng.normal(size=(60, 3))
    constant = np.zeros((60, 3))
    traces = [
        public_traces(X, y, capsys, classes=[0, 1]) for X in (tame, wild, constant)
    ]
    one_label = public_traces(tame, np.zeros(60, dtype=int), capsys, classes=[0, 1])
    assert traces[0] == traces[1] == traces[2] == one_label
