"""DPLogisticRegression as its users meet it."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import BoundedScaler, DPLogisticRegression, RowNormClipper
from skdp.exceptions import LargeDeltaWarning, PublicLabelsWarning, SeededNoiseWarning
from tests.problems import make_ledger
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


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_infinite_epsilon_with_intercept_equals_scikit_learn_on_one_more_column(load):
    X, y = scaled(load)
    ours = DPLogisticRegression(math.inf, C=1.0, data_norm=3.0).fit(X, y)
    augmented = np.column_stack([X, np.ones(len(X))])
    theirs = sklearn_optimum(augmented, y, 1.0)
    assert np.abs(ours.coef_ - theirs.coef_[:, :-1]).max() < 1e-4
    assert np.abs(ours.intercept_ - theirs.coef_[:, -1]).max() < 1e-4


def test_default_without_privacy_is_scikit_learns_default_strength():
    X, y = scaled(load_breast_cancer)
    ours = DPLogisticRegression(math.inf, fit_intercept=False).fit(X, y)
    assert np.abs(ours.coef_ - sklearn_optimum(X, y, 1.0).coef_).max() < 1e-4


def test_large_epsilon_approaches_the_optimum():
    X, y = scaled(load_breast_cancer)
    X = X / np.linalg.norm(X, axis=1).max()
    common = {"C": 1.0, "fit_intercept": False, "classes": [0, 1]}
    optimum = DPLogisticRegression(math.inf, **common).fit(X, y)
    params = {"n_steps": 1000, "step_size": 2.0, "momentum": 0.9}
    model = DPLogisticRegression(
        1e6, delta=1e-6, solver="noisy_gd", solver_params=params, **common
    ).fit(X, y)
    assert np.abs(model.coef_ - optimum.coef_).max() < 0.05


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16 / 8, y  # rows of norm at most 1 by the declared range 0..16


def test_private_models_are_useful(digits):
    X, y = digits
    model = DPLogisticRegression(8.0, adjacency="zero_out", classes=range(10))
    assert model.fit(X, y).score(X, y) > 0.8


def test_decision_function_is_exactly_the_linear_form_within_the_norm(digits):
    X, y = digits
    for target in (y, y % 2):
        model = DPLogisticRegression(solver="noisy_gd").fit(X, target)
        raw = X @ model.coef_.T + model.intercept_
        assert np.array_equal(model.decision_function(X).reshape(raw.shape), raw)
        unit = X / np.linalg.norm(X, axis=1)[:, None]
        raw = unit @ model.coef_.T + model.intercept_
        far = model.decision_function(1e6 * X).reshape(raw.shape)
        assert np.allclose(far, raw, rtol=1e-12, atol=1e-12)


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


def test_storages_and_dtypes(digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    for stored in (X, X.astype(np.float32), csr_array(X), csr_matrix(X), frame):
        model = DPLogisticRegression(classes=range(10)).fit(stored, y)
        dtype = getattr(stored, "dtype", np.float64)
        assert model.coef_.dtype == model.intercept_.dtype == dtype
        assert model.decision_function(stored).dtype == dtype
    assert list(model.feature_names_in_) == list(frame.columns)


def test_seeded_fits_agree_between_storages(digits):
    X, y = digits
    for solver, near in (("noisy_gd", 1e-6), ("auto", 1e-2)):
        model = DPLogisticRegression(random_state=0, solver=solver)
        dense = clone(model).fit(X, y).coef_
        sparse = clone(model).fit(csr_array(X), y).coef_
        assert np.allclose(dense, sparse, atol=near)


def test_notebook_views_warn_of_nothing(digits):
    model = DPLogisticRegression(classes=range(10)).fit(*digits)
    assert "DPLogisticRegression" in model._repr_html_()
    assert "differentially private" in model.privacy_._repr_html_()


def test_set_output_in_a_pipeline(digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    model = make_pipeline(
        BoundedScaler(bounds=(0, 1 / 8)), RowNormClipper(), DPLogisticRegression()
    ).set_output(transform="pandas")
    model.fit(frame, y)
    assert list(model[-1].feature_names_in_) == list(frame.columns)


def test_clones_never_share_noise(digits):
    X, y = digits
    model = DPLogisticRegression(classes=range(10))
    a, b = model.fit(X, y).coef_, clone(model).fit(X, y).coef_
    assert not np.array_equal(a, b)
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.999


def test_workers_never_share_noise(digits):
    X, y = digits
    grid = {"delta": [1e-6, 1.0000001e-6]}  # as good as the same model twice
    # A named solver: "auto" may find that nothing is worth its noise, twice.
    model = DPLogisticRegression(0.1, solver="noisy_gd", classes=range(10))
    # Two models with unlike noise may be right equally often, but not equally sure.
    search = GridSearchCV(model, grid, n_jobs=2, cv=2, scoring="neg_log_loss")
    scores = search.fit(X, y).cv_results_
    assert not np.allclose(
        scores["split0_test_score"][0], scores["split0_test_score"][1]
    )


def test_a_seed_reproduces_and_says_that_it_is_not_private(digits):
    X, y = digits
    model = DPLogisticRegression(random_state=3, classes=range(10))
    with pytest.warns(SeededNoiseWarning, match="not a private release"):
        first = model.fit(X, y).coef_
    with pytest.warns(SeededNoiseWarning):
        assert np.array_equal(first, clone(model).fit(X, y).coef_)
    assert model.privacy_.epsilon == math.inf
    assert "NOT a private release" in repr(model.privacy_)


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


def test_large_delta_fits_with_a_warning_on_the_record(digits):
    X, y = digits
    with pytest.warns(LargeDeltaWarning, match="1 / n_samples"):
        model = DPLogisticRegression(delta=0.01, classes=range(10)).fit(X, y)
    assert model.privacy_.warnings
    assert model.privacy_.is_private


def test_cross_validation_works(digits):
    X, y = digits
    scores = cross_val_score(DPLogisticRegression(8.0), X, y, cv=3)
    assert scores.min() > 0.5


def test_pickle_keeps_the_model_and_its_record(digits):
    X, y = digits
    model = DPLogisticRegression(classes=range(10)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.coef_, model.coef_)
    assert again.privacy_ == model.privacy_


def test_data_are_converted_once_before_the_commit_and_never_after(tmp_path, digits):
    X, y = digits
    diary = SpyLedger.diary = []
    ledger = SpyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-6)
    model = DPLogisticRegression(ledger=ledger, classes=range(10))
    model.fit(SpyArray(X, "X", diary), SpyArray(y, "y", diary))
    assert diary[-1] == "commit"
    assert diary.count("convert X") == 1
    assert diary.count("convert y") <= 2


def test_broken_twin_that_looks_again_is_seen_by_the_diary():
    diary = []
    spy = SpyArray(np.ones((3, 2)), "X", diary)
    np.asarray(spy), diary.append("commit"), np.asarray(spy)
    assert diary[-1] != "commit"


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


def test_the_ledger_is_charged_and_named_on_the_record(tmp_path, digits):
    X, y = digits
    ledger = make_ledger(tmp_path, dataset="digits")
    model = DPLogisticRegression(ledger=ledger, classes=range(10)).fit(X, y)
    assert model.privacy_.ledger == ledger.path
    assert model.privacy_.dataset == "digits"
    (spend,) = ledger.spends()
    assert spend.event == model.privacy_.event
    assert "DPLogisticRegression" in spend.label
    assert ledger.spent().epsilon <= 1.0
