"""Linear classifiers as their users meet them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from skdp import DPLinearSVC, DPLogisticRegression, DPRobustClassifier
from skdp.exceptions import PublicLabelsWarning, Refused
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
        warnings.simplefilter("error", PublicLabelsWarning)
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


# ---------------------------------------------------------------------------- Hinges


@pytest.mark.parametrize("several", [False, True])
def test_infinite_epsilon_is_the_optimum_of_the_stated_objective(several):
    X, y = scaled(load_breast_cancer)
    if several:
        y = y + (X[:, 0] > 1)
    model = DPLinearSVC(math.inf, C=0.1, data_norm=3.0).fit(X, y)
    assert not model.privacy_.is_private
    augmented = np.column_stack([X, np.ones(len(X))])

    def objective(w, s):
        z = s * (augmented @ w)
        corner = (1.5 - z) ** 2 / 2
        hinge = np.where(z > 1.5, 0, np.where(z < 0.5, 1 - z, corner))
        slope = np.where(z > 1.5, 0, np.where(z < 0.5, -1, z - 1.5))
        return 0.1 * hinge.sum() + w @ w / 2, 0.1 * augmented.T @ (s * slope) + w

    for k, label in enumerate(model.classes_[1:] if not several else model.classes_):
        s = np.where(y == label, 1.0, -1.0)
        other = minimize(
            objective,
            np.zeros(31),
            args=(s,),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-7},
        ).x
        assert np.abs(model.coef_[k] - other[:-1]).max() < 1e-4
        assert abs(model.intercept_[k] - other[-1]) < 1e-4


# -------------------------------------------------------- Losses that are not convex


LABELS = {"classes": [0, 1], "delta": 1e-6, "random_state": 0}


def table(n=4000, wrong=0.0, seed=0):
    """Unit rows of five columns; some labels wrong, far on the other side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X /= np.linalg.norm(X, axis=1)[:, None]
    truth = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
    y = truth.copy()
    flipped = (X[:, 0] > 0.5) & (rng.random(n) < wrong)
    y[flipped] = 0
    return X, y, truth


@pytest.mark.parametrize("loss", ["sigmoid", "cauchy"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_it_learns_and_says_how(loss, delta):
    X, y, truth = table()
    model = DPRobustClassifier(4.0, loss=loss, **{**LABELS, "delta": delta})
    model.fit(X, y)
    assert model.privacy_.solver == ("online" if delta == 0 else "centred_descent")
    assert np.mean(model.predict(X) == truth) > 0.9


def test_the_last_iterate_alone_needs_convexity():
    """Its bound is one of contractions, which steps of this loss are not."""
    X, y, _ = table(200)
    model = DPRobustClassifier(
        solver="noisy_gd", solver_params={"release": "last"}, C=1.0, **LABELS
    )
    with pytest.raises(Refused, match=r"convex loss. Use release='path'"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("given", "is_gaussian"),
    [
        ({"solver_params": {"law": "gaussian"}}, True),
        ({"solver": "noisy_gd"}, True),
        ({"delta": 0.0, "solver_params": {"law": "gaussian"}}, False),
        # The default may be a constant with pure noise.
        ({}, False),
    ],
)
def test_costs_add_up_in_squares_with_gaussian_noise_only(given, is_gaussian):
    model = DPLogisticRegression(classes=[0, 1], **given)
    assert model.step_privacy().adds_in_squares == is_gaussian
