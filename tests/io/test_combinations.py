"""Sources with the tools of scikit-learn and skdp: each works, or says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

import skdp
from skdp import (
    BoundedScaler,
    DeclaredOneHotEncoder,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPStandardScaler,
    RowNormClipper,
    TableEncoder,
    private_score,
)
from tests.io.places import (
    COLUMNS,
    FEATURES,
    N,
    in_database,
    in_files,
    kept,
    numbers,
)

LABELS = {"classes": [0, 1]}
BOUNDS = {"target_bounds": (0, 1)}
MODELS = {
    "boosting": DPGradientBoostingClassifier(1.0, columns=COLUMNS, **LABELS),
    "network, no noise": DPMLPClassifier(
        np.inf, solver="noisy_gd", solver_params={"n_steps": 3}, **LABELS
    ),
    "no noise": DPLogisticRegression(np.inf, **LABELS),
    "clipped": make_pipeline(RowNormClipper(0.5), DPLinearSVC(**LABELS)),
    "hot": make_pipeline(
        DeclaredOneHotEncoder([[0.0, 1.0]] * 3), DPLogisticRegression(**LABELS)
    ),
    "passed through": make_pipeline("passthrough", DPLogisticRegression(**LABELS)),
    "trees of numbers": DPGradientBoostingRegressor(1.0, columns=COLUMNS, **BOUNDS),
    "counts": DPPoissonRegressor(1.0, **BOUNDS),
    "amounts": DPGammaRegressor(1.0, target_bounds=(0.1, 1)),
    "quantiles": DPQuantileRegressor(1.0, columns=COLUMNS, **BOUNDS),
    "numbers, no noise": DPLinearRegression(np.inf, **BOUNDS),
}
PLACES = {"database": in_database, "files": in_files}


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


@pytest.mark.parametrize(
    ("name", "place"), [(name, list(PLACES)[i % 2]) for i, name in enumerate(MODELS)]
)
def test_models_fit_score_and_predict(name, place, kept_source):
    frame, model = numbers(), MODELS[name]
    is_label = is_classifier(model)
    target = "y" if is_label else "t"
    source = kept_source(place, target)
    assert model.fit(source) is model
    last = model[-1] if hasattr(model, "steps") else model
    assert last.privacy_.n_samples == N
    assert "as checked by" in last.privacy_.assumed_public[-1]
    expected = model.score(frame[FEATURES], frame[target])
    assert model.score(source) == pytest.approx(expected)
    facts = {} if is_label else {"scoring": "r2", "target_bounds": (0, 1)}
    score = private_score(model, source, epsilon=1e4, **facts)
    if is_label:
        assert float(score) == pytest.approx(expected, abs=0.01)
    assert np.isfinite(float(score))
    if place == "files":
        predicted = model.predict(source)
        assert np.array_equal(predicted, model.predict(frame[FEATURES]))
    else:
        with pytest.raises(ValueError, match="predict_to"):
            model.predict(source)


@pytest.mark.parametrize("container", ["pandas", "default"])
def test_set_output_passes_sources_on(container, tmp_path):
    source = source_in("files", tmp_path)
    scaler = BoundedScaler((-2, 2)).set_output(transform=container)
    model = make_pipeline(scaler, DPLogisticRegression(**LABELS)).fit(source)
    names = FEATURES if container == "pandas" else ["x0", "x1", "x2"]
    assert list(model[0].transform(source).feature_names) == names
    assert hasattr(model[1], "feature_names_in_") == (container == "pandas")
    assert len(model.predict(source)) == N


def test_predictions_in_an_order_that_is_declared():
    frame = numbers()
    model = DPLogisticRegression(**LABELS).fit(frame[FEATURES], frame["y"])
    source = in_database(frame, order_by="key")
    assert np.array_equal(model.predict(source), model.predict(frame[FEATURES]))
    assert model.predict_proba(source).shape == (N, 2)


@pytest.mark.parametrize("place", PLACES)
def test_predict_to_writes_keys_and_predictions(place, tmp_path):
    from pyarrow import parquet

    frame = numbers()
    model = MODELS["boosting"].fit(frame[FEATURES], frame["y"])
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
    "no classes": (
        lambda X: DPLogisticRegression().fit(X),
        ValueError,
        "Declare all labels",
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
    "GridSearchCV": (
        lambda X: GridSearchCV(MODEL, GRID, cv=2).fit(X),
        TypeError,
        CUT,
    ),
    "cross_val_score": (lambda X: cross_val_score(MODEL, X, cv=2), TypeError, CUT),
    "train_test_split": (lambda X: train_test_split(X), TypeError, CUT),
    "StandardScaler": (
        lambda X: make_pipeline(StandardScaler(), MODEL).fit(X),
        TypeError,
        CUT,
    ),
    "ColumnTransformer": (
        lambda X: ColumnTransformer([("s", BoundedScaler((-2, 2)), [0])]).fit(X),
        TypeError,
        CUT,
    ),
    "FeatureUnion": (
        lambda X: FeatureUnion([("s", BoundedScaler((-2, 2)))]).fit_transform(X),
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
def test_others_say_what_to_do(place, kept_source):
    for call, kind, words in REFUSED.values():
        with pytest.raises(kind, match=words):
            call(kept_source(place))


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
