"""Boosted models as users meet them: tables, books, stages, copies, refusals."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from skdp import (
    BudgetExceeded,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPSimpleImputer,
    TableEncoder,
    privacy_report,
    private_score,
    set_budget,
)
from skdp._fit import fit
from skdp.columns import Range
from skdp.ensemble import BOOSTERS
from skdp.exceptions import Refused
from skdp.privacy import epsilon_of
from skdp.sums._leaves import LeafSums
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
from tests.preprocessing.tables import DECLARED, FORMS, REFUSED


@pytest.fixture
def books(tmp_path):
    return BudgetLedger(tmp_path / "books.db", epsilon=50.0, delta=1e-5)


# ------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NEEDS)
def test_the_same_table_in_another_form_is_the_same_model(name, form):
    X, score = table()
    model = fitted(name)
    other = quietly(lambda: unfitted(name).fit(form(X), labels_of(name, score)))
    assert np.array_equal(decision(model, X), decision(other, form(X)))
    turned = X[X.columns[::-1]]
    assert np.array_equal(decision(model, X), decision(model, turned))


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
def test_float32_gives_the_model_of_the_same_numbers(name):
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3)).astype(np.float32)
    y = labels_of(name, 5 + 3 * X[:, 0])
    models = [
        quietly(lambda X=X: unfitted(name, columns=(-1, 1)).fit(X, y))
        for X in (X, X.astype(np.float64))
    ]
    assert np.array_equal(decision(models[0], X), decision(models[1], X))
    assert decision(models[0], X).dtype == np.float64


@pytest.mark.parametrize("name", NEEDS)
def test_more_signal_than_noise_is_learned(name):
    X, score = table(3000)
    model = quietly(lambda: unfitted(name, epsilon=20.0).fit(X, labels_of(name, score)))
    X, score = table(1000, seed=1)
    least = {"two classes": 0.8, "three classes": 0.65, "numbers": 0.6}[name]
    assert model.score(X, labels_of(name, score)) > least


@pytest.mark.parametrize("name", NEEDS)
def test_without_noise_the_rules_take_their_limit(name):
    X, score = table(1000)
    model = quietly(
        lambda: unfitted(name, epsilon=math.inf).fit(X, labels_of(name, score))
    )
    assert model.score(X, labels_of(name, score)) > 0.7
    assert not model.privacy_.is_private
    assert model.privacy_.noise_scale == 0
    tags = get_tags(model)
    own = tags.classifier_tags or tags.regressor_tags
    assert not own.poor_score


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


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """A fit that no ledger allows, of records that may not be read."""
    X, score = table(60)
    books = BudgetLedger(tmp_path / "small.db", epsilon=0.5, delta=1e-5)
    model = unfitted("two classes", ledger=books, random_state=None)
    monkeypatch.setattr(LeafSums, "open", lambda self, source: pytest.fail("read"))
    return lambda: model.fit(X, labels_of("two classes", score))


def test_nothing_is_read_that_the_books_do_not_allow(refused):
    with pytest.raises(BudgetExceeded):
        quietly(refused)


def test_broken_twin_that_reads_before_it_pays_is_found(refused, monkeypatch):
    def reading(model, planned, source, door):
        LeafSums.open(None, source)
        return fit(model, planned, source, door)

    monkeypatch.setattr("skdp.ensemble._estimators.fit", reading)
    with pytest.raises(pytest.fail.Exception, match="read"):
        quietly(refused)


def test_a_fit_is_on_the_books_by_name(books):
    X, score = table(60)
    model = unfitted("two classes", ledger=books, random_state=None)
    quietly(lambda: model.fit(X, labels_of("two classes", score)))
    assert "newton_boosting" in books.spends()[0].label


def test_trees_and_noise_are_new_in_every_private_fit():
    one, other = (fitted("two classes", random_state=None) for _ in range(2))
    assert one.tree_seed_ != other.tree_seed_
    X, _ = table()
    assert not np.array_equal(decision(one, X), decision(other, X))
    again = fitted("two classes")
    assert np.array_equal(decision(again, X), decision(fitted("two classes"), X))
    assert not again.privacy_.is_private


def test_pure_epsilon_is_refused_with_a_reason(books):
    X, score = table(60)
    model = unfitted("two classes", delta=0, ledger=books, random_state=None)
    with pytest.raises(Refused, match="Gaussian noise and cannot do delta=0"):
        model.fit(X, labels_of("two classes", score))
    assert not books.spends()


@pytest.mark.parametrize("name", NEEDS)
def test_the_budget_of_a_pipeline_can_be_set(name):
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    imputer = DPSimpleImputer(bounds=(-1, 1))
    model = unfitted(name, columns=(-1, 1), random_state=None)
    steps = set_budget(make_pipeline(imputer, model), epsilon=2.0, delta=1e-6)
    quietly(lambda: steps.fit(X, labels_of(name, 5 + 3 * X[:, 0])))
    assert privacy_report(steps).epsilon == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_in_a_private_search(name, books):
    X, score = table(300)
    grid = {"max_interaction": [1, None], "learning_rate": [0.1, 0.5]}
    model = unfitted(name, epsilon=1.0, random_state=None)
    search = DPGridSearchCV(model, grid, epsilon=5.0, ledger=books)
    quietly(lambda: search.fit(X, labels_of(name, score)))
    assert search.predict(X).shape == (300,)
    assert len(books.spends()) == 1
    assert search.best_estimator_.privacy_.release


def test_a_search_of_scikit_learn_pays_every_fit(books):
    X, score = table(200)
    model = unfitted("two classes", ledger=books, random_state=None)
    search = GridSearchCV(
        model, {"max_depth": [2, 4]}, cv=KFold(2), error_score="raise", n_jobs=2
    )
    quietly(lambda: search.fit(X, labels_of("two classes", score)))
    assert len(books.spends()) == 2 * 2 + 1


def test_a_private_score_refuses_another_table_for_free(books):
    X, score = table(200)
    y = labels_of("two classes", score)
    model = fitted("two classes", 200)
    with pytest.raises(ValueError, match="remainder='drop'"):
        private_score(model, X.assign(extra=1), y, epsilon=1.0, ledger=books)
    assert not books.spends()
    assert 0 <= private_score(model, X, y, epsilon=1.0, ledger=books).value <= 1


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


# ------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("name", NEEDS)
def test_copies_and_pickles(name):
    X, _ = table()
    model = fitted(name, max_interaction=2)
    stored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(decision(stored, X), decision(model, X))
    assert stored.privacy_ == model.privacy_
    assert stored.to_json() == model.to_json()
    assert repr(clone(model)) == repr(model)
    assert not hasattr(clone(model), "privacy_")
    assert list(model.feature_names_in_) == list(X.columns)


def test_a_pipeline_before_it():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    y = (X[:, 0] > 0).astype(int)
    steps = make_pipeline(
        DPSimpleImputer(bounds=(-1, 1)),
        DPGradientBoostingClassifier(20.0, columns=(-1, 1), **BINARY),
    )
    found = quietly(lambda: cross_val_score(steps, X, y, cv=KFold(3)))
    assert found.mean() > 0.7


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
    ({"solver_params": {"residual_clip": 0.5}}, "None with solver='auto'"),
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
@pytest.mark.parametrize("name", NEEDS)
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


def test_a_named_solver_knows_its_parameters():
    X, score = table(60)
    model = unfitted(
        "two classes", solver="newton_boosting", solver_params={"sigma": 0.0}
    )
    with pytest.raises(ValueError, match=r"Got \['sigma'\]\. Leave them out"):
        model.fit(X, labels_of("two classes", score))
    assert list(BOOSTERS) == sorted(BOOSTERS)


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


@pytest.mark.parametrize("columns", [None, DECLARED, TableEncoder(DECLARED)])
def test_tags_say_what_is_taken(columns):
    tags = get_tags(unfitted("two classes", columns=columns)).input_tags
    assert tags.sparse
    assert tags.allow_nan
    assert tags.string
    assert tags.categorical


def test_a_forecast_without_noise_is_refused():
    with pytest.raises(ValueError, match="'epsilon' parameter must be"):
        unfitted("two classes", epsilon=math.inf).forecast(100)
