"""Models that take a declared table: `columns=`, `encoder_`, `effects`."""

from __future__ import annotations

import math
import pickle
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from skdp import (
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    TableEncoder,
    private_score,
    set_budget,
)
from skdp.columns import Range
from skdp.linear_model import _rows
from skdp.linear_model._rows import knots_within
from skdp.privacy import Budget, BudgetLedger
from tests.preprocessing.tables import DECLARED, FORMS, REFUSED, frame

CLASSIFIERS = [DPLogisticRegression, DPLinearSVC, DPSparseLogisticRegression]
REGRESSORS = [DPLinearRegression, DPSparseLinearRegression]
MODELS = CLASSIFIERS + REGRESSORS


def needs(kind):
    """What a class has to be told beside its columns."""
    return {"classes": [0, 1]} if kind in CLASSIFIERS else {"target_bounds": (0, 1)}


def uncentred(kind):
    """Rows as the encoder gives them, of a class that may centre them."""
    return {"solver": "noisy_gd"} if kind._can_centre else {}


def targets(X):
    return np.arange(len(X)) % 2


def fitted(kind, X, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(1.0, columns=DECLARED, random_state=0, **needs(kind), **params)
        return model.fit(X, targets(X))


def decision(model, X):
    is_regressor = isinstance(model, tuple(REGRESSORS))
    return model.predict(X) if is_regressor else model.decision_function(X)


# ---------------------------------------------------------------------- as the encoder


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_the_encoder_and_then_the_model(kind):
    X = frame(800)  # as few as 200 encoded rows have the constant model
    model = fitted(kind, X, **uncentred(kind))
    encoder = TableEncoder(DECLARED, n_knots=model.encoder_.n_knots_)
    rows = encoder.fit_transform(X)
    bound = {}
    if "feature_bound" in model.get_params():
        bound = {"feature_bound": encoder.entry_bound_}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = kind(1.0, random_state=0, **needs(kind), **bound, **uncentred(kind))
        alone.fit(rows, targets(X))
    assert np.allclose(model.coef_, alone.coef_, rtol=1e-9, atol=1e-12)
    assert np.allclose(decision(model, X), decision(alone, rows), rtol=1e-9)
    assert model.privacy_.event == alone.privacy_.event


@pytest.mark.parametrize("kind", MODELS)
def test_effects_add_up_to_the_decision(kind):
    X = frame(200).assign(is_in=True)
    model = fitted(kind, X, **uncentred(kind))
    effects = model.effects()
    assert list(effects) == list(DECLARED)
    table = effects["is_in"].set_index("value")["effect"]
    out = X.assign(is_in=False)
    assert np.allclose(
        decision(model, X) - decision(model, out), table[True] - table[False]
    )


def test_effects_are_those_of_declared_columns():
    model = DPLogisticRegression(classes=[0, 1], epsilon=math.inf)
    model.fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="columns=None"):
        model.effects()


def test_sparse_and_dense_rows_are_the_same_model(monkeypatch):
    X = frame(300)
    params = {"solver": "noisy_gd", "solver_params": {"n_steps": 5}}
    dense = fitted(DPLogisticRegression, X, **params)
    monkeypatch.setattr("skdp.preprocessing._encoder._SPARSE_BELOW", 2.0)
    sparse = fitted(DPLogisticRegression, X, **params)
    assert np.allclose(dense.coef_, sparse.coef_, rtol=1e-9, atol=1e-12)
    assert np.allclose(decision(dense, X), decision(sparse, X), rtol=1e-9, atol=1e-12)


def test_an_encoder_says_how():
    X = frame(200)
    how = TableEncoder(DECLARED, numeric="linear", handle_unknown="error")
    model = DPLogisticRegression(columns=how, classes=[0, 1], epsilon=math.inf)
    with pytest.raises(ValueError, match="declared categories only"):
        model.fit(X, targets(X))
    model.set_params(columns__handle_unknown="ignore").fit(X, targets(X))
    assert set(model.encoder_.numeric_) == {"linear"}
    assert not hasattr(how, "columns_")


# ------------------------------------------------------------------------ mixed tables


@pytest.mark.parametrize("form", FORMS)
def test_the_same_table_in_another_form(form):
    X = frame()
    model, other = (fitted(DPLogisticRegression, x) for x in (X, form(X)))
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(decision(model, form(X)), decision(model, X))
    turned = model.predict_proba(X[X.columns[::-1]])
    assert np.array_equal(turned, model.predict_proba(X))


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_a_table_that_is_not_as_declared_is_refused(change, text, tmp_path):
    X = frame()
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-5)
    model = DPLogisticRegression(
        1.0, columns=DECLARED, ledger=ledger, classes=[0, 1], solver="noisy_gd"
    )
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        model.fit(change(X), targets(change(X)))
    assert not ledger.spends()
    assert not hasattr(model, "encoder_")
    assert "Female" not in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, targets(X))
    assert len(ledger.spends()) == 1
    with pytest.raises((ValueError, TypeError), match=text):
        model.predict(change(X))


def test_an_array_takes_a_range_or_a_sequence():
    X = np.linspace(-3, 3, 120).reshape(60, 2)
    for columns in [Range(-1, 1), (-1, 1), [(-1, 1), Range(-1, 1)]]:
        model = DPLogisticRegression(
            columns=columns, classes=[0, 1], epsilon=math.inf
        ).fit(X, targets(X))
        # Infinite cells lie at the end of the range, as the outermost finite ones do.
        ends = np.array([[-np.inf, np.inf], [-1, 1]])
        assert np.ptp(model.decision_function(ends)) == 0
        assert model.n_features_in_ == 2
        with pytest.raises(ValueError, match="3 features"):
            model.predict(X[:, [0, 0, 1]])


# --------------------------------------------------------------------- its parameters


@pytest.mark.parametrize("kind", MODELS)
def test_the_norm_stays_at_one(kind):
    X = frame()
    for norm in (0.5, 2.0):
        model = kind(columns=DECLARED, data_norm=norm, **needs(kind))
        with pytest.raises(ValueError, match=r"must be 1\.0 with 'columns'"):
            model.fit(X, targets(X))


def test_declarations_are_checked_first(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-5)
    model = DPLogisticRegression(columns={0: (0, 1)}, ledger=ledger, classes=[0, 1])
    with pytest.raises(ValueError, match="names of columns"):
        model.fit(frame(), np.arange(60) % 2)
    assert not ledger.spends()


def test_knots_follow_from_public_facts():
    fine = [
        knots_within(Budget(eps, 1e-6), "zero_out")(10_000, 5)
        for eps in (0.1, 1.0, math.inf)
    ]
    assert fine == sorted(fine)
    assert fine[0] < fine[-1] == 65
    assert knots_within(Budget(1.0, 0), "zero_out")(10_000, 5) == fine[1]
    # What two records can change is as if there were half as many.
    other = knots_within(Budget(1.0, 1e-6), "replace_one")
    assert other(20_000, 5) == fine[1]
    X, other = frame(300), frame(300, seed=1)
    models = [fitted(DPLogisticRegression, x) for x in (X, other)]
    assert models[0].encoder_.n_knots_ == models[1].encoder_.n_knots_


def test_broken_twin_that_counts_knots_by_values(monkeypatch):
    def by_values(model, table, budget, *others, **centred):
        n_missing = int(table.X["age"].isna().sum())
        model.columns = TableEncoder(DECLARED, n_knots=2 + n_missing)
        return real(model, table, budget, *others, **centred)

    real = _rows.rows_to_fit
    monkeypatch.setattr("skdp.linear_model._classifiers.rows_to_fit", by_values)
    models = [fitted(DPLogisticRegression, frame(300, seed)) for seed in (0, 1)]
    assert models[0].encoder_.n_knots_ != models[1].encoder_.n_knots_


@pytest.mark.parametrize("kind", MODELS)
def test_tags_say_what_is_taken(kind):
    for columns in (None, DECLARED):
        tags = get_tags(kind(columns=columns, **needs(kind))).input_tags
        takes_tables = columns is not None
        assert tags.sparse is not takes_tables
        assert tags.allow_nan is tags.string is tags.categorical is takes_tables


def test_fitted_anew_without_columns():
    X = frame()[["age"]].fillna(3.0)
    model = DPLogisticRegression(
        columns={"age": (0, 99)}, classes=[0, 1], epsilon=math.inf
    )
    model.fit(X, targets(X))
    model.set_params(columns=None).fit(X, targets(X))
    assert not hasattr(model, "encoder_")
    assert model.coef_.shape == (1, 1)


def test_parameters_changed_after_the_fit_change_no_prediction():
    X = frame()
    model = fitted(DPLogisticRegression, X)
    before = model.decision_function(X)
    model.set_params(columns=None)
    assert np.array_equal(model.decision_function(X), before)


# ------------------------------------------------------------------ copies and searches


@pytest.mark.parametrize("kind", MODELS)
def test_copies_and_pickles(kind):
    X = frame(200)
    model = fitted(kind, X)
    stored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(decision(stored, X), decision(model, X))
    again = clone(model)
    assert repr(again) == repr(model)
    assert not hasattr(again, "encoder_")
    assert model.n_features_in_ == len(DECLARED)
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.coef_.shape[-1] == len(model.encoder_.get_feature_names_out())


def test_the_record_says_that_columns_were_declared():
    record = fitted(DPLogisticRegression, frame(200)).privacy_
    assert any("declared columns" in fact for fact in record.assumed_public)
    assert record.data_norm == 1.0
    assert record.n_features == len(
        TableEncoder(DECLARED).fit(frame()).get_feature_names_out()
    ) or record.n_features > len(DECLARED)


@pytest.mark.parametrize("form", [lambda X: X, FORMS[-1]])
def test_in_a_private_search(form):
    X = form(frame(400))
    model = DPLogisticRegression(columns=TableEncoder(DECLARED), classes=[0, 1])
    grid = {"columns__numeric": ["linear", "hats"], "C": [0.1, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = DPGridSearchCV(model, grid, epsilon=5.0).fit(X, np.arange(400) % 2)
    assert search.predict(X).shape == (400,)
    assert search.n_features_in_ == len(DECLARED)


def test_a_search_over_declarations_is_refused():
    search = DPGridSearchCV(
        DPLogisticRegression(classes=[0, 1]), {"columns": [DECLARED, None]}
    )
    with pytest.raises(ValueError, match="must not be among"):
        search.fit(frame(), np.arange(60) % 2)


def test_its_budget_can_be_set():
    model = set_budget(
        DPLogisticRegression(columns=DECLARED, classes=[0, 1]), epsilon=2.0, delta=1e-6
    )
    assert (model.epsilon, model.columns) == (2.0, DECLARED)


def test_nothing_is_clipped_and_nothing_warned_of():
    X = pd.concat([frame(1000, seed) for seed in range(20)], ignore_index=True)
    model = DPLogisticRegression(1.0, columns=DECLARED, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, np.arange(len(X)) % 2).predict_proba(X)
    assert model.privacy_.warnings == ()


# --------------------------------------------------------------------- what users try


def an_array(X):
    """What a step before a model makes of the table."""
    return X.select_dtypes("number").to_numpy()


TRIED = [
    (["age", "sex"], None, "Declare the values of the column.*template"),
    (TableEncoder, None, "must be a mapping"),
    (frame(), None, r"Got an instance of DataFrame\. .*template"),
    (DECLARED | {"sex": ("Female", "Male")}, None, "list of strings in brackets"),
    (DECLARED | {"is_in": ["True", "False"]}, None, "must hold strings.*truth values"),
    (Range(0, 1, missing=True), None, "'sex' must hold numbers.*Got strings"),
    (list(DECLARED.values()), None, "must be declared by name"),
    (DECLARED, lambda X: X.assign(label=1), "Take them out of X, as the target must"),
    (DECLARED, an_array, "Pass the frame as it comes, without a step before"),
    (DECLARED, lambda X: csr_array(np.ones((60, 6))), "dense data is required"),
    (DECLARED, lambda X: X["age"], "Got an instance of Series"),
    (DECLARED, lambda X: X.to_dict("list"), "Got an instance of dict"),
    (DECLARED, lambda X: pd.concat({"a": X}, axis=1), "none named"),
    (DECLARED, lambda X: X.assign(gain=[Decimal(1)] * len(X)), "or of another one"),
]


@pytest.mark.parametrize(("columns", "change", "text"), TRIED)
def test_what_users_try_is_refused_and_costs_nothing(columns, change, text, tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-5)
    model = DPLogisticRegression(columns=columns, classes=[0, 1], ledger=ledger)
    before = set(vars(model))
    X = frame()
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        model.fit(X if change is None else change(X), targets(X))
    assert not ledger.spends()
    assert set(vars(model)) == before
    assert str(X["gain"].iloc[0])[:6] not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.set_axis(np.arange(len(X))[::-1] * 7),
        lambda X: X.set_axis(["same"] * len(X)),
        lambda X: X.astype({"age": object, "gain": object}),
        lambda X: X.loc[:, ::-1],
    ],
)
def test_what_users_try_and_may(change):
    X = frame(200)
    model, other = (fitted(DPLogisticRegression, x) for x in (X, change(X)))
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(decision(model, change(X)), decision(model, X))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("budget", [(math.inf, 1e-6), (100.0, 0)])
def test_without_noise_and_without_delta(kind, budget):
    epsilon, delta = budget
    X = frame(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(epsilon, delta=delta, columns=DECLARED, **needs(kind))
        model.fit(X, targets(X))
    assert np.isfinite(decision(model, X)).all()


def scored_on(ledger, model, X):
    return private_score(model, X, targets(X), epsilon=1.0, ledger=ledger)


@pytest.mark.parametrize("kind", [DPLogisticRegression, make_pipeline])
def test_a_score_of_a_table_that_is_not_as_declared_costs_nothing(kind, tmp_path):
    X = frame(200)
    model = fitted(DPLogisticRegression, X)
    if kind is make_pipeline:
        model = make_pipeline(TableEncoder(DECLARED), DPLogisticRegression())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, targets(X))
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-5)
    for change, text in REFUSED:
        with pytest.raises((ValueError, TypeError), match=text):
            scored_on(ledger, model, change(X))
    assert not ledger.spends()
    assert 0 <= scored_on(ledger, model, X.assign(sex="?")).value <= 1
    assert len(ledger.spends()) == 1


def test_broken_twin_that_scores_any_table_pays_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "skdp.model_selection._scores._check_first_step", lambda *given: None
    )
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-5)
    X = frame(200)
    scored_on(ledger, fitted(DPLogisticRegression, X), X.assign(extra=1))
    assert ledger.spends()


def test_folds_in_workers_are_all_charged(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=500.0, delta=1e-5)
    model = DPLogisticRegression(50.0, columns=DECLARED, classes=[0, 1], ledger=ledger)
    X = frame(200)
    scores = cross_val_score(
        model, X, targets(X), cv=KFold(3), n_jobs=2, error_score="raise"
    )
    assert len(scores) == len(ledger.spends()) == 3
