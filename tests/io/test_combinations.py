"""Sources with the tools of scikit-learn and skdp: each works, or says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    DeclaredOneHotEncoder,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    RowNormClipper,
    TableEncoder,
    private_score,
)
from skdp.exceptions import Refused
from tests.io.places import (
    COLUMNS,
    FEATURES,
    N,
    in_database,
    in_files,
    in_postgres,
    kept,
    numbers,
)

LABELS = {"classes": [0, 1]}
BOUNDS = {"target_bounds": (0, 1)}
CLASSIFIERS = {
    "logistic": DPLogisticRegression(1.0, **LABELS),
    "svc": DPLinearSVC(1.0, **LABELS),
    "sparse": DPSparseLogisticRegression(1.0, **LABELS),
    "declared": DPLogisticRegression(1.0, columns=COLUMNS, **LABELS),
    "declared as it comes": DPLogisticRegression(
        1.0, columns=COLUMNS, solver="noisy_gd", **LABELS
    ),
    "boosting": DPGradientBoostingClassifier(1.0, columns=COLUMNS, **LABELS),
    "network": DPMLPClassifier(1.0, **LABELS),
    "network, declared": DPMLPClassifier(1.0, columns=COLUMNS, **LABELS),
    "network, no noise": DPMLPClassifier(
        np.inf, solver="noisy_gd", solver_params={"n_steps": 3}, **LABELS
    ),
    "no noise": DPLogisticRegression(np.inf, **LABELS),
    "encoded": make_pipeline(TableEncoder(COLUMNS), DPLogisticRegression(**LABELS)),
    "scaled": make_pipeline(BoundedScaler((-2, 2)), DPLogisticRegression(**LABELS)),
    "clipped": make_pipeline(RowNormClipper(0.5), DPLinearSVC(**LABELS)),
    "hot": make_pipeline(
        DeclaredOneHotEncoder([[0.0, 1.0]] * 3), DPLogisticRegression(**LABELS)
    ),
    "standard": make_pipeline(
        DPStandardScaler(bounds=(-2, 2)), DPLogisticRegression(**LABELS)
    ),
    "quantiles": make_pipeline(
        DPQuantileClipper(bounds=(-2, 2)), DPLogisticRegression(**LABELS)
    ),
    "imputed": make_pipeline(
        DPSimpleImputer(bounds=(-2, 2)), RowNormClipper(), DPLinearSVC(**LABELS)
    ),
    "components": make_pipeline(DPPCA(n_components=2), DPLogisticRegression(**LABELS)),
    "passed through": make_pipeline("passthrough", DPLogisticRegression(**LABELS)),
}
REGRESSORS = {
    "linear": DPLinearRegression(1.0, **BOUNDS),
    "sparse": DPSparseLinearRegression(1.0, **BOUNDS),
    "declared": DPLinearRegression(1.0, columns=COLUMNS, **BOUNDS),
    "boosting": DPGradientBoostingRegressor(1.0, columns=COLUMNS, **BOUNDS),
    "network": DPMLPRegressor(1.0, **BOUNDS),
    "counts": DPPoissonRegressor(1.0, **BOUNDS),
    "counts, declared": DPPoissonRegressor(1.0, columns=COLUMNS, **BOUNDS),
    "amounts": DPGammaRegressor(1.0, target_bounds=(0.1, 1)),
    "quantiles": DPQuantileRegressor(1.0, **BOUNDS),
    "quantiles, declared": DPQuantileRegressor(1.0, columns=COLUMNS, **BOUNDS),
    "moments": DPLinearRegression(1.0, solver="adassp", **BOUNDS),
    "no noise": DPLinearRegression(np.inf, **BOUNDS),
    "scaled": make_pipeline(BoundedScaler((-2, 2)), DPLinearRegression(**BOUNDS)),
}
PLACES = {"database": in_database, "PostgreSQL": in_postgres, "files": in_files}


def source_in(place, tmp_path, frame=None, **facts):
    frame = numbers() if frame is None else frame
    if place == "files":
        return in_files(frame, tmp_path / "table", n_files=3, **facts)
    return PLACES[place](frame, **facts)


@pytest.fixture(scope="module")
def kept_source(tmp_path_factory):
    """Sources of the same table for all, by place and target."""
    folders = {target: tmp_path_factory.mktemp(target) for target in ("y", "t")}
    with kept() as once:
        yield lambda place, target="y": once(
            source_in, place, folders[target], target=target
        )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_fit_score_and_predict(name, place, kept_source):
    frame, model = numbers(), CLASSIFIERS[name]
    source = kept_source(place)
    assert model.fit(source) is model
    last = model[-1] if hasattr(model, "steps") else model
    assert last.privacy_.n_samples == N
    assert "as checked by" in last.privacy_.assumed_public[-1]
    assert model.score(source) == pytest.approx(
        model.score(frame[FEATURES], frame["y"])
    )
    score = private_score(model, source, epsilon=100.0)
    assert float(score) == pytest.approx(model.score(source), abs=0.01)
    if place == "files":
        predicted = model.predict(source)
        assert np.array_equal(predicted, model.predict(frame[FEATURES]))
    else:
        with pytest.raises(ValueError, match="predict_to"):
            model.predict(source)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_fit_score_and_predict(name, place, kept_source):
    frame, model = numbers(), REGRESSORS[name]
    source = kept_source(place, "t")
    model.fit(source)
    expected = model.score(frame[FEATURES], frame["t"])
    assert model.score(source) == pytest.approx(expected)
    score = private_score(
        model, source, epsilon=1e4, scoring="r2", target_bounds=(0, 1)
    )
    assert np.isfinite(float(score))
    if place == "files":
        predicted = model.predict(source)
        assert np.allclose(predicted, model.predict(frame[FEATURES]))


def test_fits_are_those_in_memory(tmp_path):
    """Up to the order in which numbers are added."""
    frame, facts = numbers(), {"random_state": 0, **LABELS}
    source = source_in("files", tmp_path, frame)
    for given in ({}, {"columns": COLUMNS}):
        asked = DPLogisticRegression(1.0, solver="noisy_gd", **given, **facts)
        there = asked.fit(source).coef_
        assert np.allclose(there, asked.fit(frame[FEATURES], frame["y"]).coef_)


@pytest.mark.parametrize("container", ["pandas", "default"])
def test_set_output_passes_sources_on(container, tmp_path):
    source = source_in("files", tmp_path)
    scaler = BoundedScaler((-2, 2)).set_output(transform=container)
    model = make_pipeline(scaler, DPLogisticRegression(**LABELS)).fit(source)
    names = FEATURES if container == "pandas" else ["x0", "x1", "x2"]
    assert list(model[0].transform(source).feature_names) == names
    assert hasattr(model[1], "feature_names_in_") == (container == "pandas")
    assert len(model.predict(source)) == N


@pytest.mark.parametrize("place", ["database", "PostgreSQL"])
def test_predictions_in_an_order_that_is_declared(place):
    frame = numbers()
    model = DPLogisticRegression(**LABELS).fit(frame[FEATURES], frame["y"])
    source = PLACES[place](frame, order_by="key")
    assert np.array_equal(model.predict(source), model.predict(frame[FEATURES]))
    assert model.predict_proba(source).shape == (N, 2)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["logistic", "boosting", "scaled"])
def test_predict_to_writes_keys_and_predictions(name, place, tmp_path):
    from pyarrow import parquet

    frame = numbers()
    model = CLASSIFIERS[name].fit(frame[FEATURES], frame["y"])
    frame.loc[5, "a"] = np.nan
    source, path = source_in(place, tmp_path, frame), tmp_path / "predictions.parquet"
    source.predict_to(model, path, keys=["key", "word"])
    found = parquet.read_table(path).to_pandas().sort_values("key")
    assert list(found.columns) == ["key", "word", "prediction"]
    assert list(found["key"]) == list(frame["key"])
    whole = frame.index != 5
    expected = model.predict(frame.loc[whole, FEATURES])
    assert np.array_equal(found.loc[whole, "prediction"], expected)
    assert np.isnan(found["prediction"].iloc[5])
    with pytest.raises(ValueError, match="does not exist"):
        source.predict_to(model, path, keys=["key"])
    with pytest.raises(ValueError, match="'keys'"):
        source.predict_to(model, tmp_path / "other", keys=["no column"])
    if place == "files":
        with pytest.raises(ValueError, match="predict_to"):
            model.predict(source)


# ------------------------------------------------------------------ what is refused

CUT = "cannot become an array"
MODEL = DPLogisticRegression(**LABELS)
GRID = {"C": [1.0]}
REFUSED = {
    "a y": (lambda X: MODEL.fit(X, np.zeros(N)), ValueError, "left out with a source"),
    "a y of a pipeline": (
        lambda X: make_pipeline(RowNormClipper(), MODEL).fit(X, np.zeros(N)),
        ValueError,
        "left out with a source",
    ),
    "no classes": (lambda X: DPLogisticRegression().fit(X), ValueError, "Declare them"),
    "no classes of boosting": (
        lambda X: DPGradientBoostingClassifier(columns=COLUMNS).fit(X),
        ValueError,
        "Declare them",
    ),
    "labels of another kind": (
        lambda X: DPLogisticRegression(classes=["0", "1"]).fit(X),
        ValueError,
        "stored as",
    ),
    "two declarations": (
        lambda X: DPLogisticRegression(columns=(-3, 3), **LABELS).fit(declared(X)),
        ValueError,
        "two different declarations",
    ),
    "undeclared boosting": (
        lambda X: DPGradientBoostingClassifier(**LABELS).fit(X),
        ValueError,
        "must declare the columns",
    ),
    "ratings": (
        lambda X: DPMatrixFactorization(rating_bounds=(0, 1)).fit(X, np.zeros(N)),
        (TypeError, ValueError),
        CUT,
    ),
    "GridSearchCV": (
        lambda X: GridSearchCV(MODEL, GRID, cv=2).fit(X),
        TypeError,
        CUT,
    ),
    "cross_val_score": (lambda X: cross_val_score(MODEL, X, cv=2), TypeError, CUT),
    "cross_val_predict": (lambda X: cross_val_predict(MODEL, X, cv=2), TypeError, CUT),
    "train_test_split": (lambda X: train_test_split(X), TypeError, CUT),
    "StandardScaler": (
        lambda X: make_pipeline(StandardScaler(), MODEL).fit(X),
        TypeError,
        CUT,
    ),
    "FunctionTransformer": (
        lambda X: make_pipeline(FunctionTransformer(np.abs), MODEL).fit(X),
        TypeError,
        CUT,
    ),
    "ColumnTransformer": (
        lambda X: ColumnTransformer([("s", BoundedScaler((-2, 2)), [0])]).fit(X),
        TypeError,
        CUT,
    ),
    "ColumnTransformer by name": (
        lambda X: ColumnTransformer([("s", BoundedScaler((-2, 2)), ["a"])]).fit(X),
        ValueError,
        "only supported for dataframes",
    ),
    "FeatureUnion": (
        lambda X: FeatureUnion([("s", BoundedScaler((-2, 2)))]).fit_transform(X),
        TypeError,
        CUT,
    ),
    "CalibratedClassifierCV": (
        lambda X: CalibratedClassifierCV(MODEL).fit(X, np.zeros(N)),
        TypeError,
        CUT,
    ),
    "StackingClassifier": (
        lambda X: StackingClassifier([("m", MODEL)]).fit(X, np.arange(N) % 2),
        (TypeError, ValueError),
        "source",
    ),
    "another model": (
        lambda X: LogisticRegression().fit(X, np.zeros(N)),
        TypeError,
        CUT,
    ),
    "an array": (np.asarray, TypeError, CUT),
    "a row": (lambda X: X[0], TypeError, CUT),
    "rows": (list, TypeError, CUT),
    "y of a score": (
        lambda X: MODEL.fit(X).score(X, np.zeros(N)),
        ValueError,
        "left out with a source",
    ),
    "y of a private score": (
        lambda X: private_score(MODEL.fit(X), X, np.zeros(N), epsilon=1.0),
        ValueError,
        "left out with a source",
    ),
    "score without noise": (
        lambda X: private_score(MODEL.fit(X), X, epsilon=np.inf),
        ValueError,
        "model.score",
    ),
    "step without noise": (
        lambda X: DPStandardScaler(np.inf, bounds=(-2, 2)).fit(X),
        ValueError,
        "finite epsilon",
    ),
}


def declared(X):
    """The same source with declarations."""
    other = object.__new__(type(X))
    vars(other).update(vars(X) | {"columns": COLUMNS})
    return other


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", REFUSED)
def test_others_say_what_to_do(name, place, kept_source):
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call(kept_source(place))


def test_auto_is_not_pure_without_an_order_and_names_what_is(tmp_path):
    pure = DPLogisticRegression(1.0, delta=0, **LABELS)
    assert pure.fit(source_in("files", tmp_path)).privacy_.solver == "online"
    source = source_in("database", tmp_path)
    with pytest.raises(
        Refused, match=r"can be done by \['nesterov', 'heavy_ball', 'multistage'\]"
    ):
        pure.fit(source)
    assert pure.set_params(solver="nesterov").fit(source).privacy_.delta == 0


def test_memory_of_a_pipeline_is_refused(tmp_path):
    steps = TableEncoder(COLUMNS), DPLogisticRegression(**LABELS)
    model = make_pipeline(*steps, memory=str(tmp_path / "cache"))
    with pytest.raises(TypeError, match="without memory="):
        model.fit(source_in("files", tmp_path))


def test_words_are_refused_by_name_where_numbers_are_wanted(tmp_path):
    source = source_in("files", tmp_path, features=[*FEATURES, "word"])
    with pytest.raises(ValueError, match=r"other kinds in the columns \['word'\]"):
        MODEL.fit(source)
    with pytest.raises(ValueError, match="must hold numbers, as declared"):
        DPLogisticRegression(columns={**COLUMNS, "word": (0, 1)}, **LABELS).fit(source)


def test_declarations_of_the_source_serve_models_that_have_none(tmp_path):
    source = source_in("files", tmp_path, columns=COLUMNS)
    facts = {"random_state": 0, **LABELS}
    for kind in (DPLogisticRegression, DPGradientBoostingClassifier):
        own = kind(1.0, columns=COLUMNS, **facts).fit(source)
        theirs = kind(1.0, **facts).fit(source)
        assert theirs.columns is None
        assert np.array_equal(
            own.decision_function(source), theirs.decision_function(source)
        )
    encoder = TableEncoder().fit(source)
    assert encoder.output_norm_ == 1.0


def test_names_are_public():
    assert skdp.ParquetSource is skdp.io.ParquetSource
    assert skdp.SqlSource is skdp.io.SqlSource
