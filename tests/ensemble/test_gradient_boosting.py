"""Boosted models as users meet them: tables, books, stages, copies, refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    TableEncoder,
    privacy_report,
)
from skdp.columns import Range
from skdp.privacy import epsilon_of
from tests.ensemble.boosted import (
    BINARY,
    NEEDS,
    NUMBERS,
    decision,
    fitted,
    labels_of,
    quietly,
    table,
    unfitted,
)
from tests.preprocessing.tables import DECLARED, REFUSED


@pytest.fixture
def books(tmp_path):
    return BudgetLedger(tmp_path / "books.db", epsilon=50.0, delta=1e-5)


# ------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_a_table_that_is_not_as_declared_costs_nothing(change, text, books):
    X, score = table(60)
    y = labels_of("two classes", score)
    model = unfitted("two classes", ledger=books, random_state=None)
    before = dict(vars(model))
    changed = change(X)
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        model.fit(changed, np.resize(y, len(changed)))
    assert not books.spends()
    assert vars(model) == before
    assert "Female" not in str(caught.value)
    quietly(lambda: model.fit(X, y))
    assert len(books.spends()) == 1
    with pytest.raises((ValueError, TypeError), match=text):
        model.predict(changed)


@pytest.mark.parametrize("name", NEEDS)
def test_more_signal_than_noise_is_learned(name):
    X, score = table(3000)
    model = quietly(lambda: unfitted(name, epsilon=20.0).fit(X, labels_of(name, score)))
    X, score = table(1000, seed=1)
    least = {"two classes": 0.8, "three classes": 0.65, "numbers": 0.6}[name]
    assert model.score(X, labels_of(name, score)) > least


def test_targets_beyond_their_bounds_are_those_at_the_bounds():
    X, score = table(200)
    y = labels_of("numbers", score)
    y[:3] = -10, 30, 30
    far = y.copy()
    far[:3] = -1e9, 1e9, 1e300
    models = [quietly(lambda t=t: unfitted("numbers").fit(X, t)) for t in (y, far)]
    assert np.array_equal(decision(models[0], X), decision(models[1], X))


def test_labels_from_y_are_named_as_assumed_public():
    X, score = table(100)
    for classes, said in (([0, 1], "(declared)"), (None, "(taken from y)")):
        model = unfitted("two classes", classes=classes)
        quietly(lambda m=model: m.fit(X, labels_of("two classes", score)))
        assert f"set of labels {said}" in model.privacy_.assumed_public


# -------------------------------------------------------------------------------- books


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("name", NEEDS)
def test_the_event_is_the_budget(name, adjacency):
    model = fitted(name, random_state=None, adjacency=adjacency, epsilon=0.7)
    record = model.privacy_
    assert record.is_private
    assert epsilon_of(record.event, 1e-6) == pytest.approx(0.7, rel=1e-6)
    assert record.solver_params["n_estimators"] == 30
    assert record.n_features == len(DECLARED)
    assert any("declared columns" in fact for fact in record.assumed_public)
    assert any("seed" in fact for fact in record.assumed_public)
    assert record.data_norm is None
    assert privacy_report(model).epsilon == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize("name", NEEDS)
def test_a_forecast_is_what_fit_does(name):
    model = fitted(name, n_estimators=None)
    told = model.forecast(400)
    record = model.privacy_
    assert told.noise_multiplier == record.noise_multiplier
    assert told.solver_params == record.solver_params
    assert told.solver == record.solver == "newton_boosting"
    assert clone(model).forecast(400) == told
    ratios = [model.forecast(n).noise_to_signal for n in (100, 10_000)]
    # But for clips, which follow from the number of records.
    assert ratios[1] == pytest.approx(ratios[0] / 100, rel=0.8)


# ------------------------------------------------------------------------------- stages


@pytest.mark.parametrize("name", NEEDS)
def test_the_last_stage_is_the_model(name):
    X, _ = table()
    model = fitted(name)
    stages = list(model.staged_predict(X))
    assert len(stages) == 30
    assert np.array_equal(stages[-1], model.predict(X))
    if name != "numbers":
        *_, last = model.staged_predict_proba(X)
        assert np.array_equal(last, model.predict_proba(X))
        *_, last = model.staged_decision_function(X)
        assert np.array_equal(last, model.decision_function(X))
        assert np.allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


# -------------------------------------------------------------------------- importances


@pytest.mark.parametrize("name", NEEDS)
def test_importances_are_of_the_columns_of_X(name):
    X, score = table(3000)
    shuffled = X[["day", "code", "is_in", "sex", "gain", "age"]].assign(extra=0.0)
    columns = TableEncoder(DECLARED, remainder="drop")
    model = unfitted(name, columns=columns, epsilon=50.0)
    quietly(lambda: model.fit(shuffled, labels_of(name, score)))
    found = dict(zip(shuffled.columns, model.feature_importances_, strict=True))
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["extra"] == 0
    assert found["age"] > 3 * max(found["code"], found["is_in"])
    again = pickle.loads(pickle.dumps(model)).feature_importances_
    assert np.array_equal(again, model.feature_importances_)


# ----------------------------------------------------------------------------- refusals


BAD = [
    ({"columns": None}, "'columns' parameter must declare"),
    ({"columns": {}}, "columns"),
    ({"columns": TableEncoder(DECLARED, numeric="linear")}, "'bins' for trees"),
    ({"solver": "forest"}, "'solver' parameter must be one of"),
    ({"solver_params": {"residual_clip": 0.5}}, "'gaussian'} with solver='auto'"),
    ({"solver_params": {"law": "laplace"}}, "'gaussian'} with solver='auto'"),
    ({"n_estimators": -1}, "'n_estimators' parameter must be an integer"),
    ({"n_estimators": 1.5}, "'n_estimators' parameter must be an integer"),
    ({"learning_rate": 2.0}, "'learning_rate' parameter"),
    ({"max_depth": 99}, "'max_depth' parameter"),
    ({"max_interaction": 3}, "'max_interaction' parameter must be 'mix', 1, 2 or None"),
    ({"max_interaction": True}, "'max_interaction' parameter must be"),
    ({"max_interaction": [1]}, "'max_interaction' parameter must be"),
    ({"epsilon": -1}, "'epsilon' parameter"),
    ({"delta": 2.0}, "'delta' parameter"),
    ({"adjacency": "add"}, "'adjacency'"),
    ({"random_state": "x"}, "'random_state' parameter"),
]


@pytest.mark.parametrize(("params", "text"), BAD)
@pytest.mark.parametrize("name", ["two classes"])
def test_bad_parameters_are_refused_in_words_for_free(name, params, text, books):
    X, score = table(60)
    model = unfitted(name, **{"ledger": books, "random_state": None} | params)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=text):
        model.fit(X, labels_of(name, score))
    assert vars(model) == before
    assert not books.spends()


def test_targets_and_labels_are_refused_in_words_for_free(books):
    X, score = table(60)
    given = {"columns": DECLARED, "ledger": books}
    cases = [
        (DPGradientBoostingRegressor(**given), score, "'target_bounds' parameter"),
        (DPGradientBoostingRegressor(**given, **NUMBERS), None, "requires y"),
        (DPGradientBoostingRegressor(**given, **NUMBERS), score * np.nan, "finite"),
        (DPGradientBoostingRegressor(**given, **NUMBERS), score[:9], "inconsistent"),
        (DPGradientBoostingClassifier(**given, **BINARY), None, "requires y"),
        (DPGradientBoostingClassifier(**given, **BINARY), score > 99, "among those"),
        (DPGradientBoostingClassifier(**given), np.ones(60), "at least two classes"),
        (DPGradientBoostingClassifier(**given, classes=[1]), score, "two classes"),
    ]
    cases[5] = (*cases[5][:1], np.full(60, 2), cases[5][2])
    for model, y, text in cases:
        with pytest.raises((ValueError, TypeError), match=text):
            model.fit(X, y)
    assert not books.spends()


def test_parameters_are_not_given_twice():
    X, score = table(60)
    model = unfitted(
        "two classes",
        solver="newton_boosting",
        solver_params={"n_estimators": 5},
    )
    with pytest.raises(ValueError, match=r"must not repeat.*\['n_estimators'\]"):
        model.fit(X, labels_of("two classes", score))
    model.set_params(n_estimators=None)
    quietly(lambda: model.fit(X, labels_of("two classes", score)))
    assert model.privacy_.solver_params["n_estimators"] == 5
    assert model.privacy_.why_solver == "named by the user"


def test_what_is_not_declared_cannot_be_predicted():
    X = pd.DataFrame({"x": np.linspace(0, 1, 50)})
    model = DPGradientBoostingRegressor(
        5.0, columns={"x": Range(0, 1)}, target_bounds=(0, 1)
    )
    quietly(lambda: model.fit(X, X["x"]))
    with pytest.raises(ValueError, match="no missing values"):
        model.predict(X.assign(x=np.nan))
    ends = pd.DataFrame({"x": [-np.inf, 0.0, 1.0, np.inf]})
    found = model.predict(ends)
    assert found[0] == found[1]
    assert found[2] == found[3]
