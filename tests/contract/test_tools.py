"""scikit-learn's tools on every public estimator: each works, or is refused in words.

One matrix: estimators, ways from a table to a model, tools. A new one of any joins by
one line. What a tool costs is the number of releases in the books.
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass
from typing import Any

import joblib
import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetLedger,
    DeclaredOneHotEncoder,
    DPCategoricalNB,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPKMeans,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    RowNormClipper,
    TableEncoder,
)
from skdp.columns import Boolean, Categories, Range
from tests.wide import part_of

matplotlib.use("Agg")


N = 300
MUCH = 1e3  # so that tools can be seen to work; what they cost does not depend on it
FOLDS = KFold(3)

# What any way to a model makes of a table lies in there.
BOOSTED = {"columns": Range(-1, 1), "n_estimators": 60}
# Trees of few leaves, on tables of so few records.
BOOSTED |= {"learning_rate": 0.5, "max_depth": 4}
# Enough steps on so few records; the others take what `solver="auto"` makes of them.
QUICK = {"solver": "noisy_gd", "solver_params": {"n_steps": 60}}
LINEAR_CLASSIFIERS = {
    "DPLogisticRegression": DPLogisticRegression(MUCH),
    "DPLinearSVC": DPLinearSVC(MUCH, **QUICK),
    "DPRobustClassifier": DPRobustClassifier(
        MUCH, **QUICK | {"solver": "graduated_gd"}
    ),
    "DPSparseLogisticRegression": DPSparseLogisticRegression(MUCH),
}
CLASSIFIERS = LINEAR_CLASSIFIERS | {
    "DPCategoricalNB": DPCategoricalNB(MUCH, columns=Range(-1, 1)),
    "DPGradientBoostingClassifier": DPGradientBoostingClassifier(MUCH, **BOOSTED),
}
LINEAR_REGRESSORS = {
    "DPLinearRegression": DPLinearRegression(MUCH, **QUICK, target_bounds=(0, 1)),
    "DPSparseLinearRegression": DPSparseLinearRegression(MUCH, target_bounds=(0, 1)),
    "DPPoissonRegressor": DPPoissonRegressor(MUCH, target_bounds=(0, 1)),
    "DPGammaRegressor": DPGammaRegressor(MUCH, target_bounds=(0.05, 1)),
    "DPQuantileRegressor": DPQuantileRegressor(MUCH, target_bounds=(0, 1)),
}
REGRESSORS = LINEAR_REGRESSORS | {
    "DPGradientBoostingRegressor": DPGradientBoostingRegressor(
        MUCH, **BOOSTED, target_bounds=(0, 1)
    ),
}
# Without a number for each feature or column.
NETWORKS = {
    "DPMLPClassifier": DPMLPClassifier(MUCH, hidden_layer_sizes=8),
    "DPMLPRegressor": DPMLPRegressor(MUCH, hidden_layer_sizes=8, target_bounds=(0, 1)),
}
CLASSIFIERS["DPMLPClassifier"] = NETWORKS["DPMLPClassifier"]
REGRESSORS["DPMLPRegressor"] = NETWORKS["DPMLPRegressor"]
MODELS = CLASSIFIERS | REGRESSORS
TRANSFORMERS = {
    "BoundedScaler": BoundedScaler((0, 1)),
    "RowNormClipper": RowNormClipper(),
    "DeclaredOneHotEncoder": DeclaredOneHotEncoder([0, 1]),
    "TableEncoder": TableEncoder(Range(0, 1)),
    "DPStandardScaler": DPStandardScaler(MUCH, bounds=(0, 1)),
    "DPQuantileClipper": DPQuantileClipper(MUCH, bounds=(0, 1)),
    "DPSimpleImputer": DPSimpleImputer(MUCH, bounds=(0, 1)),
    "DPPCA": DPPCA(epsilon=MUCH),
    "DPKMeans": DPKMeans(epsilon=MUCH, bounds=(0, 1)),
}
RATINGS = {
    "DPMatrixFactorization": DPMatrixFactorization(
        MUCH, privacy_unit="rating_value", rating_bounds=(1, 5), n_components=2
    ),
}
# Their rows come out as float64, whatever the table held.
ALWAYS_DOUBLE = {"DeclaredOneHotEncoder", "TableEncoder"}
ALWAYS_DOUBLE |= {"DPCategoricalNB", *(name for name in MODELS if "Boosting" in name)}
# Tools themselves: tests/model_selection.
SEARCHES = {"DPGridSearchCV", "DPRandomizedSearchCV", "DPTunedThresholdClassifier"}
SEARCHES |= {"DPCalibratedClassifier", "DPConformalClassifier", "DPConformalRegressor"}

DECLARED = {
    "age": Range(17, 90),
    "hours": Range(1, 99),
    "kids": Range(0, 5, missing=True),
    "sex": Categories(["F", "M"]),
    "job": Categories(["a", "b", "c"]),
    "citizen": Boolean(),
}


def encoded(model):
    encoder = TableEncoder(DECLARED, numeric="linear")
    return make_pipeline(encoder, model)


def declared(model):
    is_linear = model.columns is None  # trees cut ranges, and draw no lines
    how = TableEncoder(DECLARED, numeric="linear") if is_linear else DECLARED
    return clone(model).set_params(columns=how)


# How a model meets a table of mixed columns.
WAYS = {
    "columns": declared,
    "encoder": encoded,
}


def make_frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(17, 90, N),
            "hours": rng.uniform(1, 99, N),
            "kids": pd.array(rng.integers(0, 5, N), dtype="Int64"),
            "sex": pd.array(rng.choice(["F", "M"], N), dtype="string"),
            "job": pd.Categorical(rng.choice(["a", "b", "c"], N)),
            "citizen": pd.array(rng.random(N) < 0.8, dtype="boolean"),
        }
    )
    frame.loc[3, "kids"] = pd.NA
    return frame


FRAME = make_frame()
OLD = (FRAME["age"] > 50).to_numpy()
TEXT = np.where(OLD, "old", "young")
CODES = OLD.astype(int)
AGES = ((FRAME["age"] - 17) / 73).to_numpy()
NUMBERS = np.random.default_rng(1).uniform(size=(N, 3)) / 2


@dataclass(frozen=True)
class Case:
    """A private model behind a table, on the books."""

    model: Any
    path: Any  # from a model to what meets the table
    books: BudgetLedger

    @property
    def is_classifier(self):
        return is_classifier(self.model)

    @property
    def labels(self):
        return TEXT if self.is_classifier else AGES

    def alone(self, **params):
        given = {"classes": ["old", "young"]} if self.is_classifier else {}
        return clone(self.model).set_params(ledger=self.books, **given | params)

    def whole(self, **params):
        return self.path(self.alone(**params))


@pytest.fixture
def books(tmp_path):
    return BudgetLedger(tmp_path / "study.db", epsilon=1e7, delta=1e-3)


def last(model):
    """The private model at the end of what meets the table."""
    return model[-1] if isinstance(model, Pipeline) else model


def weights(model):
    """All numbers that a model released."""
    if hasattr(model, "coefs_"):
        return np.concatenate([coef.ravel() for coef in model.coefs_])
    if hasattr(model, "feature_log_prob_"):
        return np.concatenate(model.feature_log_prob_, axis=1)
    return model.coef_ if hasattr(model, "coef_") else model._model.boosted.values


def same(first, second):
    assert first.dtype == second.dtype
    np.testing.assert_array_equal(first, second)


def spends(books, n_releases):
    """Whether so many releases are in the books, with a finite sum."""
    assert len(books.spends()) == n_releases
    assert (0 < books.spent().epsilon < 1e7) == (n_releases > 0)


# Tools: each returns how many releases it must have cost.


def pickled(case):
    model = case.whole().fit(FRAME, case.labels)
    again = pickle.loads(pickle.dumps(model))
    same(again.predict(FRAME), model.predict(FRAME))
    assert last(again).privacy_ == last(model).privacy_
    return 1


def cloned(case):
    model = case.whole().fit(FRAME, case.labels)
    again = clone(model)
    assert repr(again.get_params()) == repr(model.get_params())
    assert not hasattr(last(again), "privacy_")
    return 1


def named_output(case):
    if case.path is declared:  # no transformer: nothing to set, nothing in the way
        assert not hasattr(case.whole(), "set_output")
        model = make_pipeline(case.whole()).set_output(transform="pandas")
        model.fit(FRAME, case.labels).predict(FRAME)
        assert list(model[-1].feature_names_in_) == list(FRAME)
        return 1
    model = case.whole().set_output(transform="pandas").fit(FRAME, case.labels)
    assert list(model[-1].feature_names_in_) == list(model[:-1].get_feature_names_out())
    return 1


def scores(case):
    found = cross_val_score(
        case.whole(), FRAME, case.labels, cv=FOLDS, error_score="raise"
    )
    # Ages near 0 are below the bounds of a gamma model, whose deviances they are.
    least = 0.65 if isinstance(case.model, DPGammaRegressor) else 0.8
    assert (found > least).all()
    return 3


def searched(case):
    model = case.whole()
    where = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    grid = {f"{where}epsilon": [MUCH / 2, MUCH]}
    search = GridSearchCV(model, grid, cv=FOLDS, error_score="raise")
    search.fit(FRAME, case.labels)
    asked = [spend.epsilon for spend in case.books.spends()]
    assert set(asked) == {MUCH / 2, MUCH}
    # The ledger adds up every fit, not the winner's alone.
    assert max(asked) < case.books.spent().epsilon <= sum(asked)
    return 2 * 3 + 1


TOOLS = {
    "pickle": pickled,
    "clone": cloned,
    "set_output": named_output,
    "cross_val_score": scores,
    "GridSearchCV": searched,
}


def on_axes(cell):
    """Each estimator, and each tool on each way to a model."""
    name, tool, way = cell
    return (name,), (tool, way)


@pytest.mark.parametrize(
    ("name", "tool", "way"),
    part_of(itertools.product(MODELS, TOOLS, WAYS), on_axes),
)
def test_a_tool_works_and_costs_what_it_says(name, tool, way, books):
    spends(books, TOOLS[tool](Case(MODELS[name], WAYS[way], books)))


def test_every_public_estimator_is_in_the_matrix():
    public = {
        name
        for name in skdp.__all__
        if isinstance(getattr(skdp, name), type) and hasattr(getattr(skdp, name), "fit")
    }
    cells = MODELS | TRANSFORMERS | RATINGS
    # A federation fits others, and is none; tools pass on no y of two columns.
    others = {"Federation", "DPDiscreteTimeSurvival"}
    assert public - others == set(cells) | SEARCHES
    assert all(type(estimator).__name__ == name for name, estimator in cells.items())


def test_broken_twin_that_is_not_in_the_ledger_is_found(books):
    class Twin(Case):
        def alone(self, **params):
            return super().alone(**params).set_params(ledger=None)

    case = Twin(MODELS["DPLinearSVC"], encoded, books)
    with pytest.raises(AssertionError):
        spends(books, scores(case))


# What is refused, with nothing spent.


@pytest.mark.parametrize(
    ("name", "kind"),
    part_of(itertools.product(CLASSIFIERS, [StackingClassifier, VotingClassifier])),
)
def test_tools_that_number_labels_are_told_of(name, kind, books):
    case = Case(CLASSIFIERS[name], encoded, books)
    with pytest.raises(ValueError, match="pass y as numbers 0, 1"):
        kind([("a", case.whole())]).fit(FRAME, TEXT)
    with pytest.raises(ValueError, match="pass y as numbers 0, 1"):
        cross_val_predict(
            case.whole(), FRAME, TEXT, cv=FOLDS, method="decision_function"
        )
    spends(books, 0)


# Labels and targets as pandas stores them.

LABELS = {
    "str": (list(TEXT), ["old", "young"]),
    "object": (pd.Series(TEXT, dtype=object), ["old", "young"]),
    "string": (pd.Series(TEXT, dtype="string"), ["old", "young"]),
    "category": (pd.Series(TEXT, dtype="category"), ["old", "young"]),
    "category of int": (pd.Series(CODES).astype("category"), [0, 1]),
    "int8": (CODES.astype(np.int8), [0, 1]),
    "Int64": (pd.Series(CODES, dtype="Int64"), [0, 1]),
    "Float64": (pd.Series(CODES, dtype="Float64"), [0, 1]),
    "bool": (OLD, [False, True]),
    "boolean": (pd.Series(OLD, dtype="boolean"), [False, True]),
}


def seeded(model):
    return clone(model).set_params(random_state=0)


@pytest.mark.parametrize(
    ("name", "kind"), part_of(itertools.product(CLASSIFIERS, LABELS))
)
def test_labels_of_every_kind_make_one_model(name, kind):
    labels, classes = LABELS[kind]
    model = seeded(CLASSIFIERS[name]).set_params(classes=classes).fit(NUMBERS, labels)
    same(model.classes_, np.array(classes))
    first_is_old = classes[0] == "old"
    plain = seeded(model).set_params(classes=[0, 1])
    plain.fit(NUMBERS, np.where(OLD, not first_is_old, first_is_old).astype(int))
    same(weights(model), weights(plain))
    assert set(model.predict(NUMBERS)) <= set(classes)
    # Undeclared, they are what scikit-learn makes of them.
    taken = seeded(model).set_params(classes=None).fit(NUMBERS, labels)
    same(taken.classes_, LinearSVC().fit(NUMBERS, labels).classes_)
    for each, how in ((model, "declared"), (taken, "taken from y")):
        assert f"set of labels ({how})" in each.privacy_.assumed_public


TARGETS = ["float32", "Float64", "Float32", "double[pyarrow]"]


@pytest.mark.parametrize(
    ("name", "kind"), part_of(itertools.product(REGRESSORS, TARGETS))
)
def test_targets_of_every_kind_make_one_model(name, kind):
    halves = np.round(2 * AGES) / 2  # the same numbers in every kind
    plain = seeded(REGRESSORS[name]).fit(NUMBERS, halves)
    model = seeded(REGRESSORS[name]).fit(NUMBERS, pd.Series(halves, dtype=kind))
    same(weights(model), weights(plain))


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_are_clipped_to_their_bounds(name):
    low, high = REGRESSORS[name].target_bounds
    far = np.where(OLD, AGES, 1e6 * (AGES - 0.2))
    found, clipped = (
        seeded(REGRESSORS[name]).fit(NUMBERS, y) for y in (far, np.clip(far, low, high))
    )
    same(found.predict(NUMBERS), clipped.predict(NUMBERS))


# Features as float32 and as nullable columns.


def outputs(name, X):
    """Numbers that an estimator makes of float32 rows."""
    if name in TRANSFORMERS:
        return [clone(TRANSFORMERS[name]).fit(X).transform(X)]
    given = {"classes": [0, 1]} if name in CLASSIFIERS else {}
    model = clone(MODELS[name]).set_params(**given)
    model.fit(X, CODES if name in CLASSIFIERS else AGES)
    asked = ("decision_function", "predict_proba") if given else ("predict",)
    found = [getattr(model, ask)(X) for ask in asked if hasattr(model, ask)]
    return [weights(model), *found]


def keeps_float32(found):
    return all(numbers.dtype == np.float32 for numbers in found)


@pytest.mark.parametrize("name", MODELS | TRANSFORMERS)
def test_float32_stays_float32_where_promised(name):
    whole = name == "DeclaredOneHotEncoder"
    X = (NUMBERS > 0.2 if whole else NUMBERS).astype(np.float32)
    promised = name not in ALWAYS_DOUBLE
    assert keeps_float32(outputs(name, X)) == promised
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert keeps_float32(outputs(name, frame)) == promised
    # scikit-learn reads nullable columns as float64.
    assert not keeps_float32(outputs(name, frame.astype("Float32")))


# Transformers.


def rows_for(name):
    """A frame that a transformer takes as it is."""
    X = NUMBERS > 0.2 if name == "DeclaredOneHotEncoder" else NUMBERS
    return pd.DataFrame(X.astype(float), columns=["a", "b", "c"])


def on_books(name, books):
    step = clone(TRANSFORMERS[name])
    return step.set_params(ledger=books) if "ledger" in step.get_params() else step


def n_own_releases(name):
    return int("ledger" in TRANSFORMERS[name].get_params())


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_is_stored_cloned_and_named(name, books):
    X = rows_for(name)
    step = on_books(name, books).fit(X)
    rows = step.transform(X)
    path = f"{books.path}.joblib"
    joblib.dump(step, path)
    for again in (pickle.loads(pickle.dumps(step)), joblib.load(path)):
        same(again.transform(X), rows)
        assert vars(again).get("privacy_") == vars(step).get("privacy_")
    assert repr(clone(step)) == repr(step)
    names = list(step.get_feature_names_out())
    for library in ("pandas", "polars"):
        framed = pickle.loads(pickle.dumps(step)).set_output(transform=library)
        assert list(framed.transform(X).columns) == names
    spends(books, n_own_releases(name))


# Ratings: rows are pairs of ids, so that tools for features do not apply.
