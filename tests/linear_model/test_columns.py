"""Models that take a declared table: `columns=`, `encoder_`, `effects`."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    TableEncoder,
)
from skdp.columns import Range
from skdp.linear_model._rows import knots_within
from skdp.privacy import Budget, BudgetLedger
from tests.preprocessing.tables import DECLARED, frame

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


def test_an_encoder_says_how():
    X = frame(200)
    how = TableEncoder(DECLARED, numeric="linear", handle_unknown="error")
    model = DPLogisticRegression(columns=how, classes=[0, 1], epsilon=math.inf)
    with pytest.raises(ValueError, match="declared categories only"):
        model.fit(X, targets(X))
    model.set_params(columns__handle_unknown="ignore").fit(X, targets(X))
    assert set(model.encoder_.numeric_) == {"linear"}
    assert not hasattr(how, "columns_")


# --------------------------------------------------------------------- its parameters


@pytest.mark.parametrize("kind", MODELS)
def test_the_norm_stays_at_one(kind):
    X = frame()
    for norm in (0.5, 2.0):
        model = kind(columns=DECLARED, data_norm=norm, **needs(kind))
        with pytest.raises(ValueError, match=r"must be 1\.0 with 'columns'"):
            model.fit(X, targets(X))


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


def test_fitted_anew_without_columns():
    X = frame()[["age"]].fillna(3.0)
    model = DPLogisticRegression(
        columns={"age": (0, 99)}, classes=[0, 1], epsilon=math.inf
    )
    model.fit(X, targets(X))
    model.set_params(columns=None).fit(X, targets(X))
    assert not hasattr(model, "encoder_")
    assert model.coef_.shape == (1, 1)


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
    (DECLARED, lambda X: X.assign(label=1), "Take them out of X"),
    (DECLARED, an_array, "Pass the frame as it comes, without a step before"),
    (DECLARED, lambda X: csr_array(np.ones((60, 6))), "dense data is required"),
    (DECLARED, lambda X: X["age"], "Got an instance of Series"),
    (DECLARED, lambda X: X.to_dict("list"), "Got an instance of dict"),
    (DECLARED, lambda X: pd.concat({"a": X}, axis=1), "none named"),
    (DECLARED, lambda X: X.assign(gain=[Decimal(1)] * len(X)), "of an unsupported one"),
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


def test_a_model_without_declared_columns_has_no_effects():
    model = DPLogisticRegression(classes=[0, 1], epsilon=math.inf)
    with pytest.raises(ValueError, match="columns=None"):
        model.fit([[0.0], [1.0]], [0, 1]).effects()


def test_estimates_have_the_names_of_encoded_columns():
    X = frame(300)
    model = fitted(DPLogisticRegression, X, solver="noisy_newton")
    names = [*model.encoder_.get_feature_names_out(), "intercept"]
    assert list(model.estimates_.names) == names
    assert list(model.summary().index) == names
