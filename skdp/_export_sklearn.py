"""Exported models as pipelines of scikit-learn's classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from skdp._arrays import FloatArray

# Every object is fitted to made-up rows and then gets its numbers, so that whatever
# else a version of scikit-learn keeps in a fitted object is there.


def as_pipeline(described: dict[str, Any]) -> Pipeline:
    """A fitted pipeline with the predictions of a model.

    Parameters
    ----------
    described : dict
        Result of `Exported._to_dict`.

    Raises
    ------
    ValueError
        If there is none.
    """
    if any(each["step"] == "boost" for each in described["steps"]):
        _refuse("boosted trees")
    n_features, steps = 0, []
    layers: list[tuple[FloatArray, FloatArray]] = []
    units = "identity"
    for each in described["steps"]:
        name, given = each["step"], each["with"]
        if name == "numbers":
            n_features = len(given["names"])
        elif name == "table":
            made, n_features = _table(given["columns"])
            steps += made
        elif name == "select":
            steps.append(_kept(n_features, given["indices"]))
            n_features = len(given["indices"])
        elif name == "limit":
            ends = np.array([-given["bound"], given["bound"]])
            rows = np.repeat(ends[:, None], n_features, axis=1)
            steps.append(MinMaxScaler(tuple(ends), clip=True).fit(rows))
        elif name == "clip":
            zeros = np.zeros(n_features)
            steps += _clipped(zeros, np.ones(n_features), given["norm"], 0.0)
        elif name == "centre":
            center, scale = (np.array(given[key]) for key in ("center", "scale"))
            steps += _clipped(center, scale, given["norm"], given["slack"])
        elif name == "layer":
            layers.append((np.array(given["weights"]), np.array(given["bias"])))
        elif name in ("tanh", "relu", "logistic"):
            units = name
        elif name == "convolve":
            _refuse("convolutions")
    return make_pipeline(*steps, _last(described, layers, units))


def _refuse(what: str) -> NoReturn:
    raise ValueError(
        "A model must be made of steps that scikit-learn has to leave as its pipeline. "
        f"Got {what}. Use export_predictor, which exports every model."
    )


# ------------------------------------------------------------------------ Clips of rows


def _scaled(mean: FloatArray, scale: FloatArray) -> StandardScaler:
    """``(x - mean) / scale``."""
    made = StandardScaler().fit(np.zeros((2, len(mean))))
    made.mean_, made.scale_, made.var_ = mean, scale, scale**2
    return made


def _kept(n_features: int, indices: Sequence[int]) -> ColumnTransformer:
    made = ColumnTransformer([("kept", "passthrough", list(indices))])
    return made.fit(np.zeros((2, n_features)))


def _distances(centers: FloatArray) -> KMeans:
    """Distances of rows from points."""
    n, n_features = centers.shape
    made = KMeans(n, n_init=1, random_state=0)
    made.fit(np.arange(n)[:, None] * np.ones(n_features))
    made.cluster_centers_ = centers
    return made


def _clipped(
    center: FloatArray, scale: FloatArray, norm: float, slack: float
) -> list[Any]:
    """Rows whose distance from a centre is clipped, in units of `norm` over `scale`.

    A row t of norm n becomes (1, t, n), and this divided by its largest entry, which is
    the larger of 1 and n.
    """
    width, n = norm / scale, len(center)
    moved = -center / width
    lengths = _distances(np.stack([np.zeros(n), moved]))
    rounding = math.sqrt(slack) or 1e-100
    own = float(np.linalg.norm(moved))
    added = _scaled(np.array([0.0, -own]), np.array([1.0, 1 / rounding]))
    norms = make_pipeline(lengths, added, _distances(np.zeros((1, 2))))
    rows = PolynomialFeatures(1).fit(np.zeros((2, n)))
    return [
        _scaled(center, width),
        FeatureUnion([("rows", rows), ("norms", norms)]),
        Normalizer("max"),
        _kept(n + 2, range(1, n + 1)),
        _scaled(moved, 1 / width),
    ]


# --------------------------------------------------------------------- Declared columns
# A `ColumnTransformer` fits its parts, here to the two ends of each column.


def _table(columns: list[dict[str, Any]]) -> tuple[list[Any], int]:
    """Steps that encode declared columns, and the number of features."""
    parts, weights, ends = [], [], {}
    is_by_position = all(column["of"] == f"x{column['at']}" for column in columns)
    for column in columns:
        if column["missing"] is not None or column.get("unit", 1.0) != 1.0:
            _refuse("declared dates, or columns with missing cells")
        if column["is"] == "interval" or column.get("other", 0) is None:
            _refuse("an encoder of bins, or one that refuses undeclared categories")
        name = column["of"]
        made, factors, ends[name] = _encoded(column)
        parts.append((name, made, [column["at"] if is_by_position else name]))
        weights.append(factors)
    factors = np.concatenate(weights)
    table = ColumnTransformer(parts, sparse_threshold=0.0).fit(pd.DataFrame(ends))
    return [table, _scaled(0 * factors, 1 / factors)], len(factors)


def _encoded(column: dict[str, Any]) -> tuple[Any, FloatArray, list[Any]]:
    """What encodes a column, its features' weights, and two cells to fit it to."""
    if column["is"] == "category":
        values = column["values"]
        made = OneHotEncoder(
            categories=[values], handle_unknown="ignore", sparse_output=False
        )
        return made, np.full(len(values), column["weight"]), values[:1] * 2
    (low, high), scale = column["ends"], column["scale"]
    steps = [MinMaxScaler((low, high), clip=True)]
    if scale != "positive":
        steps.append(FunctionTransformer(getattr(np, scale)))
    hats = [
        (f"hats_{n}", SplineTransformer(degree=1, knots=_knots(n)))
        for n in column["levels"]
    ]
    steps.append(MinMaxScaler((-1, 1), clip=True))
    if hats:
        steps.append(FeatureUnion([("line", "passthrough"), *hats]))
    if heaps := column.get("heaps"):
        clip, *rest = steps
        of_heaps = OneHotEncoder(
            categories=[heaps], handle_unknown="ignore", sparse_output=False
        )
        both = [("curve", make_pipeline(*rest)), ("heaps", of_heaps)]
        steps = [clip, FeatureUnion(both)]
    return make_pipeline(*steps), np.array(column["weight"]), [low, high]


def _knots(n_intervals: int) -> FloatArray:
    return np.linspace(-1.0, 1.0, n_intervals + 1)[:, None]


# ----------------------------------------------------------------------- The last step


def _last(
    described: dict[str, Any], layers: list[tuple[FloatArray, FloatArray]], units: str
) -> Any:
    """A linear model or a network of scikit-learn, after all other steps."""
    classes, shift = described["classes"], described["label_shift"]
    if np.any(shift or 0.0):
        _refuse("weights of labels, which predict_proba removes and predict does not")
    labels = [0.0, 1.0] if classes is None else classes
    rows = np.zeros((len(labels), len(layers[0][0])))
    if len(layers) > 1:
        return _network(layers, units, classes, shift is not None, rows)
    (weights, bias), made = layers[0], LinearRegression()
    if classes is not None:
        made = LogisticRegression() if shift is not None else LinearSVC()
    made.fit(rows, labels)
    made.coef_, made.intercept_ = weights.T, bias
    if classes is None:
        made.coef_, made.intercept_ = weights[:, 0], bias[0]
    end = described["steps"][-1]
    return _exponential(made, **end["with"]) if end["step"] == "exponential" else made


def _network(
    layers: list[tuple[FloatArray, FloatArray]],
    units: str,
    classes: list[Any] | None,
    has_probabilities: bool,
    rows: FloatArray,
) -> MLPClassifier | MLPRegressor:
    sizes = [len(bias) for _, bias in layers[:-1]]
    if classes is None:
        made = MLPRegressor(hidden_layer_sizes=sizes, activation=units)
        made.partial_fit(rows, [0.0, 1.0])
    elif has_probabilities:
        made = MLPClassifier(sizes, activation=units)
        made.partial_fit(rows, classes, classes=classes)
    else:
        _refuse("a network without probabilities")
    made.coefs_ = [weights for weights, _ in layers]
    made.intercepts_ = [bias for _, bias in layers]
    return made


def _exponential(
    made: LinearRegression, low: float, high: float
) -> TransformedTargetRegressor:
    """A regressor of means, from one of their logarithms, which are clipped first."""
    ends = {"a_min": low, "a_max": high}
    # An inverse goes through the steps from the last one to the first.
    means = make_pipeline(
        FunctionTransformer(np.log, np.exp),
        FunctionTransformer(inverse_func=np.clip, inv_kw_args=ends),
    )
    targets = np.exp([low, high])
    means.fit(targets[:, None])
    outer = TransformedTargetRegressor(made, transformer=means, check_inverse=False)
    outer.fit(np.zeros((2, len(made.coef_))), targets)
    outer.regressor_ = made
    return outer
