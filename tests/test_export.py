"""Models that leave without skdp predict the same numbers where skdp is not."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import skdp
from skdp import TableEncoder
from skdp._export import Exported
from skdp._predictor import Predictor
from skdp.columns import Boolean, Range
from skdp.neural_network import Convolution
from tests.preprocessing.tables import DECLARED, frame

KINDS = {n: k for n in skdp.__all__ if isinstance(k := getattr(skdp, n), type)}
# The survival model has curves of hazards: tests/linear_model/test_survival.py.
MODELS = sorted(
    name
    for name, kind in KINDS.items()
    if issubclass(kind, Exported) and name != "DPDiscreteTimeSurvival"
)
METHODS = ("predict", "decision_function", "predict_proba")
# Without missing cells, dates and curves, which not every export has.
PLAIN = {"age": (17, 90), "sex": ["Female", "Male"], "is_in": Boolean()}


def rows(n, seed):
    """Numbers; most rows are longer than 1."""
    return np.random.default_rng(seed).normal(size=(n, 4))


def table(n, seed):
    """A mixed table, with cells beyond ranges, unknown, missing and at edges."""
    X = frame(n, seed)
    X["age"] = X["age"].round()
    return X.replace({"sex": {"?": "nan"}})  # a category that is not declared


def targets(X, n_classes):
    """Labels, or numbers from 0.5 to 9, that depend on X."""
    if isinstance(X, pd.DataFrame):
        score = X["age"].fillna(30) / 40 + (X["sex"] == "Male")
    else:
        score = 2 + X[:, 0] - X[:, 1]
    if not n_classes:
        return np.clip(np.asarray(score), 0.5, 9.0)
    labels = np.digitize(score, [2.0, 3.0])
    return np.array(["no", "yes"])[labels.clip(0, 1)] if n_classes == 2 else labels


def fitted(name, kind, n_classes, X=None, **params):
    estimator = getattr(skdp, name)
    given = {"epsilon": 20.0, "random_state": 0} | params
    if kind != "numbers":
        given.setdefault("columns", DECLARED)
    elif name.startswith(("DPGradient", "DPCategorical")):
        given["columns"] = Range(-2, 2)
    if n_classes:
        given["classes"] = ["no", "yes"] if n_classes == 2 else [0, 1, 2]
    else:
        given["target_bounds"] = (0.5, 9.0)
    if X is None:
        X = rows(500, 0) if kind == "numbers" else table(500, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(**given).fit(X, targets(X, n_classes))


def is_classifier(name):
    return name.endswith(("Classifier", "SVC", "NB")) or "Logistic" in name


CASES = {
    f"{name}-{kind}-{n_classes}": (name, kind, n_classes, {})
    for name in MODELS
    for kind in ("numbers", "columns")
    for n_classes in ((2, 3) if is_classifier(name) else (0,))
}
WEIGHTS = {"class_weight": {"yes": 4.0}}
CASES |= {
    "weights": ("DPLogisticRegression", "columns", 2, WEIGHTS),
    "weights kept": (
        "DPLogisticRegression",
        "numbers",
        2,
        WEIGHTS | {"correct_prior": False},
    ),
    "weighted trees": ("DPGradientBoostingClassifier", "columns", 2, WEIGHTS),
    "monotone trees": (
        "DPGradientBoostingClassifier",
        "columns",
        2,
        {"monotonic_cst": {"age": 1}},
    ),
    "trees of means": (
        "DPGradientBoostingRegressor",
        "columns",
        0,
        {"loss": "poisson"},
    ),
    "trees of amounts": (
        "DPGradientBoostingRegressor",
        "columns",
        0,
        {"loss": "gamma"},
    ),
    "bins": (
        "DPLogisticRegression",
        "columns",
        2,
        {"columns": TableEncoder(DECLARED, numeric="bins", n_knots=9)},
    ),
    "lines": (
        "DPLinearRegression",
        "columns",
        0,
        {"columns": TableEncoder(DECLARED, numeric="linear"), "solver": "noisy_gd"},
    ),
    "no noise": ("DPLogisticRegression", "columns", 3, {"epsilon": np.inf}),
    "selected": (
        "DPSparseLogisticRegression",
        "numbers",
        2,
        {"solver": "peeling", "feature_bound": 0.4, "n_nonzero_coefs": 2},
    ),
    "logistic units": ("DPMLPClassifier", "columns", 3, {"activation": "logistic"}),
    "relu": (
        "DPMLPRegressor",
        "numbers",
        0,
        {"activation": "relu", "hidden_layer_sizes": (5, 4)},
    ),
    "no probabilities": ("DPMLPClassifier", "numbers", 2, {"loss": "cauchy"}),
}
# Everything that the project is made of, and what it needs.
READ = """
    import pickle, sys
    for name in ("skdp", "numba", "scipy", "sklearn", "pandas"):
        if name not in {allowed!r}:
            sys.modules[name] = None  # importing it raises
    sys.path.insert(0, {folder!r})
    with open({asked!r}, "rb") as file:
        asked = pickle.load(file)
    found = {{}}
    for name, (source, X, methods) in asked.items():
        model = __import__(source).model if isinstance(source, str) else source
        found[name] = [getattr(model, method)(X) for method in methods]
    assert not any(n.startswith("skdp") for n in sys.modules if sys.modules[n])
    with open({asked!r}, "wb") as file:
        pickle.dump(found, file)
"""


def elsewhere(folder, asked, allowed=()):
    """Predictions in a process without skdp; `asked` names model, rows, methods."""
    path = folder / "asked.pickle"
    path.write_bytes(pickle.dumps(asked))
    code = READ.format(allowed=allowed, folder=str(folder), asked=str(path))
    run = [sys.executable, "-I", "-c", textwrap.dedent(code)]
    subprocess.run(run, check=True, cwd=folder)
    return pickle.loads(path.read_bytes())


def columns_of(X):
    """Columns as plain arrays, which need no pandas."""
    if isinstance(X, np.ndarray):
        return X
    cells = {name: X[name].to_numpy(dtype=object, na_value=None) for name in X}
    if "day" in X:
        cells["day"] = X["day"].to_numpy("datetime64[us]")
    return cells


def methods_of(model):
    return [name for name in METHODS if hasattr(model, name)]


def asked_rows(kind):
    return 3 * rows(300, 1) if kind == "numbers" else table(300, 1)


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """For each case the model, rows, its file, and predictions without skdp."""
    folder, models, asked = tmp_path_factory.mktemp("exported"), {}, {}
    for i, (case, (name, kind, n_classes, params)) in enumerate(CASES.items()):
        model, X = fitted(name, kind, n_classes, **params), asked_rows(kind)
        model.export_predictor(folder / f"model_{i}.py")
        models[case] = model, X, folder / f"model_{i}.py"
        asked[case] = f"model_{i}", columns_of(X), methods_of(model)
    found = elsewhere(folder, asked)
    return {case: (*models[case], found[case]) for case in CASES}


def is_same(expected, found, atol=1e-12):
    if expected.dtype.kind == "f":
        return np.allclose(found, expected, rtol=1e-12, atol=atol)
    return np.array_equal(found, expected)


def test_every_model_is_here():
    rooms = ("linear_model", "ensemble", "neural_network", "naive_bayes")
    public = {n for room in rooms for n in getattr(skdp, room).__all__}
    public.remove("DPDiscreteTimeSurvival")
    assert {name for name in public if name.startswith("DP")} == set(MODELS)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_file_predicts_the_same_without_skdp(left, case):
    model, X, _, found = left[case]
    methods = methods_of(model)
    assert len(methods) == len(found) >= 1
    for method, values in zip(methods, found, strict=True):
        expected = getattr(model, method)(X)
        assert np.ptp(expected) > 0 if expected.dtype.kind == "f" else True
        assert is_same(expected, values), method


@pytest.mark.parametrize("case", CASES)
def test_a_file_has_at_most_60_lines(left, case):
    lines = left[case][2].read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 60
    assert not any("skdp" in line for line in lines[1:] if "import" in line)


# ---------------------------------------------------------------------- Broken twins


def changed(model, change):
    """The reader of a model's JSON after a change of its steps."""
    described = json.loads(model.to_json())
    change(described["steps"])
    return Predictor(json.dumps(described))


def without(name):
    def change(steps):
        kept = [each for each in steps if each["step"] != name]
        assert len(kept) < len(steps)
        steps[:] = kept

    return change


@pytest.mark.parametrize(
    ("case", "step"),
    [
        ("DPLogisticRegression-numbers-2", "clip"),
        ("DPLogisticRegression-columns-2", "centre"),
        ("DPMLPRegressor-numbers-0", "clip"),
        ("DPPoissonRegressor-numbers-0", "exponential"),
        ("selected", "limit"),
    ],
)
def test_broken_twin_that_leaves_out_a_step_is_found(left, case, step):
    model, X, *_ = left[case]
    found = changed(model, without(step)).predict_proba if is_probable(model) else None
    found = found or changed(model, without(step)).predict
    expected = getattr(model, "predict_proba" if is_probable(model) else "predict")(X)
    assert not is_same(expected, found(columns_of(X)), atol=1e-4)


def is_probable(model):
    return hasattr(model, "predict_proba")


def drop_tables(steps):
    steps[-1]["with"]["tables"] = []


def forget_missing(steps):
    for column in steps[0]["with"]["columns"]:
        if column["missing"] is not None:
            column["missing"] = 0


def naive_edges(steps):
    for column in steps[0]["with"]["columns"]:
        if column["is"] == "interval":
            ends = column["edges"][0], column["edges"][-1]
            edges = np.linspace(*ends, len(column["edges"]))
            column["edges"] = (edges + 1e-9).tolist()


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("monotone trees", drop_tables),
        ("DPGradientBoostingClassifier-columns-2", forget_missing),
        ("DPLogisticRegression-columns-2", forget_missing),
    ],
)
def test_broken_twin_that_changes_a_step_is_found(left, case, change):
    model, X, *_ = left[case]
    found = changed(model, change).predict_proba(columns_of(X))
    assert not is_same(model.predict_proba(X), found, atol=1e-4)


def test_numbers_at_edges_are_in_the_same_interval():
    # Half of them are at edges of intervals, the largest at the end of the range.
    X = np.arange(65.0).repeat(10)[:, None] / 16
    declared = [Range(0, 4), Range(1e-3, 4, log=True)]
    both = np.hstack([X, X[::-1]])
    model = fitted("DPGradientBoostingClassifier", "", 2, X=both, columns=declared)
    found = Predictor(model.to_json()).predict_proba(both)
    assert is_same(model.predict_proba(both), found)
    broken = changed(model, naive_edges).predict_proba(both)
    assert not is_same(model.predict_proba(both), broken, atol=1e-6)


# ----------------------------------------------------------------- Inputs and refusals


def test_convolutions_leave_too(tmp_path):
    layer = Convolution(3, 3, padding=1, pool=2, pool_stride=2)
    X = np.random.default_rng(0).normal(size=(200, 36))
    model = skdp.DPMLPClassifier(
        20.0,
        convolutions=[layer, Convolution(2, 2)],
        image_shape=(6, 6),
        data_norm=5.0,
        classes=["no", "yes"],
        hidden_layer_sizes=4,
        random_state=0,
    ).fit(X, targets(X, 2))
    model.export_predictor(tmp_path / "conv.py")
    found = elsewhere(tmp_path, {"conv": ("conv", 2 * X, ["predict_proba"])})
    assert is_same(model.predict_proba(2 * X), found["conv"][0])


def test_a_frame_and_mappings_are_read_by_name():
    X = pd.DataFrame(rows(400, 0), columns=list("abcd"))
    model = fitted("DPLogisticRegression", "numbers", 2, X=X.to_numpy())
    named = skdp.DPLogisticRegression(20.0, classes=["no", "yes"], random_state=0)
    named.fit(X, targets(X.to_numpy(), 2))
    expected = model.decision_function(X.to_numpy())
    reader, turned = Predictor(named.to_json()), X[list("dcba")]
    for rows_ in (X.to_numpy(), X, turned, turned.to_dict("list")):
        assert is_same(expected, reader.decision_function(rows_))


def test_huge_rows_are_clipped():
    model = fitted("DPLinearRegression", "numbers", 0)
    X = rows(6, 1) * np.array([[0.0], [1e-300], [1e-9], [1e9], [1e200], [1e307]])
    assert is_same(model.predict(X), Predictor(model.to_json()).predict(X))


def test_what_is_not_declared_is_refused():
    encoder = strict(PLAIN)
    model = fitted("DPLinearSVC", "", 2, X=plain(500, 0), columns=encoder)
    reader, X = Predictor(model.to_json()), columns_of(plain(20, 1))
    for name, cell in (("age", None), ("sex", "other"), ("is_in", None)):
        cells = np.array(X[name], object)
        cells[3] = cell
        with pytest.raises(ValueError, match=f"{name!r} must hold what is declared"):
            reader.predict(X | {name: cells})
    numbers = Predictor(fitted("DPLinearSVC", "numbers", 2).to_json())
    for bad in (np.zeros((2, 5)), np.full((2, 4), np.nan)):
        with pytest.raises(ValueError, match="4 columns of finite numbers"):
            numbers.predict(bad)


def strict(columns):
    return TableEncoder(columns, remainder="drop", handle_unknown="error")


def plain(n, seed):
    X = frame(n, seed)
    X["age"], X["is_in"] = X["age"].fillna(40.0), X["is_in"].fillna(True).astype(bool)
    return X.assign(sex=X["sex"].where(X["sex"] != "?", "Male"))


def test_nothing_leaves_but_what_was_released_or_declared(left):
    fields = ["schema", "skdp", "estimator", "classes", "label_shift", "steps"]
    for case in CASES:
        described = json.loads(left[case][0].to_json())
        assert list(described) == [*fields, "privacy"]
        assert described["privacy"] == json.loads(left[case][0].privacy_.to_json())


@pytest.mark.parametrize("export", ["to_json", "export_sklearn"])
def test_an_unfitted_model_does_not_leave(export):
    with pytest.raises(NotFittedError):
        getattr(skdp.DPLogisticRegression(), export)()


# ------------------------------------------------------------- scikit-learn and ONNX


def is_pipeline(case):
    name, kind, _, _ = CASES[case]
    has_dates = kind == "columns"  # and missing cells
    refused = {"weights", "no probabilities"}
    has_trees = "Gradient" in name or name.endswith("NB")
    return not (has_dates or case in refused or has_trees)


@pytest.mark.parametrize("case", CASES)
def test_other_models_say_that_there_is_no_pipeline(left, case):
    if is_pipeline(case):
        return
    with pytest.raises(ValueError, match="Use export_predictor"):
        left[case][0].export_sklearn()


PIPELINES = {case: CASES[case] for case in CASES if is_pipeline(case)}
MORE = {"columns": PLAIN | {"gain": Range(0, 99_999, log=True)}}
PLAIN_CASES = {
    f"{name}-plain-{n}": (name, "plain", n, MORE)
    for name, n in (
        ("DPLogisticRegression", 2),
        ("DPLinearRegression", 0),
        ("DPMLPClassifier", 3),
        ("DPSparseLogisticRegression", 2),
    )
}


@pytest.mark.long
def test_pipelines_predict_the_same_without_skdp(left, tmp_path):
    asked, expected = {}, {}
    for case in PIPELINES:
        model, X, *_ = left[case]
        asked[case] = model.export_sklearn(), X, model
    for case, (name, _, n, params) in PLAIN_CASES.items():
        X = frame(300, 1).drop(columns=["day", "code"]).assign(is_in=True)
        X["age"] = X["age"].fillna(-5.0)
        encoder = TableEncoder(params["columns"], remainder="drop")
        model = fitted(name, "plain", n, X=plain(500, 0), columns=encoder)
        asked[case] = model.export_sklearn(), X, model
    for case, (pipeline, X, model) in asked.items():
        methods = [m for m in methods_of(model) if hasattr(pipeline, m)]
        asked[case] = pipeline, X, methods
        expected[case] = [getattr(model, method)(X) for method in methods]
        assert len(methods) >= 1
    allowed = ("scipy", "sklearn", "pandas")
    found = elsewhere(tmp_path, asked, allowed)
    for case in asked:
        # skdp's exponentials of units are within 1e-11.
        atol = 1e-10 if "MLP" in case or case == "logistic units" else 1e-12
        for own, values in zip(expected[case], found[case], strict=True):
            assert is_same(own, values, atol=atol), case


ONNX = {
    "numbers": ("DPLogisticRegression", 3, {"epsilon": np.inf}),
    "regression": ("DPLinearRegression", 0, {"epsilon": np.inf}),
    "network": ("DPMLPClassifier", 2, {"data_norm": 100.0, "epsilon": np.inf}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", ONNX)
def test_onnx_predicts_the_same(case, dtype):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    name, n_classes, params = ONNX[case]
    model, X = fitted(name, "numbers", n_classes, **params), rows(50, 1)
    method = "predict_proba" if n_classes else "predict"
    options = {"zipmap": False} if n_classes else None
    pipeline = model.export_sklearn()
    onnx = skl2onnx.to_onnx(pipeline, X[:1].astype(dtype), options=options)
    session = onnxruntime.InferenceSession(onnx.SerializeToString())
    found = session.run(None, {"X": X.astype(dtype)})[-1]
    expected = getattr(model, method)(X)
    atol = 1e-5 if dtype == np.float32 else 1e-11
    assert np.allclose(found.reshape(expected.shape), expected, rtol=atol, atol=atol)


def test_onnx_of_declared_columns():
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    types = pytest.importorskip("skl2onnx.common.data_types")
    declared = {"age": (17, 90), "sex": ["Female", "Male"]}
    encoder = TableEncoder(declared, numeric="linear", remainder="drop")
    model = fitted("DPMLPClassifier", "plain", 2, X=plain(500, 0), columns=encoder)
    kinds = {"age": types.DoubleTensorType, "sex": types.StringTensorType}
    given = [(name, kind([None, 1])) for name, kind in kinds.items()]
    onnx = skl2onnx.to_onnx(
        model.export_sklearn(), initial_types=given, options={"zipmap": False}
    )
    session, X = onnxruntime.InferenceSession(onnx.SerializeToString()), plain(50, 1)
    feed = {"age": X[["age"]].to_numpy(), "sex": X[["sex"]].to_numpy(dtype=object)}
    found = session.run(None, feed)[-1]
    assert np.allclose(found, model.predict_proba(X), rtol=0, atol=1e-10)


def test_a_model_without_features_leaves(left):
    model, X, *_ = left["selected"]
    empty = pickle.loads(pickle.dumps(model))
    empty.coef_ = 0 * empty.coef_
    for found in (Predictor(empty.to_json()), empty.export_sklearn()):
        assert is_same(empty.predict_proba(X), found.predict_proba(X))


def test_labels_and_rows_of_other_types():
    X = rows(300, 0).astype(np.float32)
    model = skdp.DPLogisticRegression(20.0, classes=[False, True], random_state=0)
    model.fit(X, X[:, 0] > 0)
    exact, reader = X.astype(np.float64), Predictor(model.to_json())
    assert is_same(model.decision_function(exact), reader.decision_function(exact))
    assert reader.predict(exact).dtype == bool
    assert np.array_equal(reader.predict(X), model.predict(exact))
