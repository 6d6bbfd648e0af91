"""The estimators: predictions, refusals, books, searches, sources, stored state."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp import (
    DPGridSearchCV,
    DPMLPClassifier,
    DPMLPRegressor,
)
from skdp.exceptions import NoiseDominatesWarning
from skdp.neural_network import Convolution
from skdp.privacy import NonPrivateEvent

FEW = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}}
KINDS = {
    "classifier": DPMLPClassifier(10.0, classes=[0, 1], **FEW),
    "classes": DPMLPClassifier(10.0, classes=[0, 1, 2], **FEW),
    "regressor": DPMLPRegressor(10.0, target_bounds=(0, 3), **FEW),
}
IMAGES = {"convolutions": [Convolution(3, 2)], "image_shape": (2, 2)}
by_kind = pytest.mark.parametrize("name", KINDS)


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng.integers(0, 2, n)


def raw_of(model, X):
    raw = model._raw(X)
    if isinstance(model, DPMLPClassifier):
        given = model.decision_function(X)
        assert np.array_equal(raw[:, 0] if raw.shape[1] == 1 else raw, given)
    else:
        assert np.array_equal(raw[:, 0], model.predict(X))
    return raw


@by_kind
@pytest.mark.parametrize("hidden", [(), 5, (5, 3)])
@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic", "identity"])
def test_predictions_are_those_of_its_weights(name, hidden, activation):
    params = {"hidden_layer_sizes": hidden, "activation": activation}
    model = clone(KINDS[name]).set_params(data_norm=2.0, **params)
    X, y = table()
    model.fit(X, y)
    units = [hidden] if isinstance(hidden, int) else list(hidden)
    sizes = [4, *units, len(model.intercepts_[-1])]
    assert [coef.shape for coef in model.coefs_] == list(pairwise(sizes))
    values = X * (2.0 / np.maximum(np.linalg.norm(X, axis=1), 2.0))[:, None]
    functions = {
        "tanh": np.tanh,
        "relu": lambda z: np.maximum(z, 0),
        "logistic": lambda z: 1 / (1 + np.exp(-z)),
        "identity": lambda z: z,
    }
    for coef, intercept in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        values = functions[activation](values @ coef + intercept)
    wanted = values @ model.coefs_[-1] + model.intercepts_[-1]
    assert np.allclose(raw_of(model, X), wanted, rtol=1e-9, atol=1e-9)


@by_kind
def test_predictions_of_images_are_those_of_their_weights(name):
    convolutions = [Convolution(3, 2, padding=1, pool=2), Convolution(2, 2)]
    model = clone(KINDS[name]).set_params(
        convolutions=convolutions, image_shape=(3, 4), data_norm=2.0, random_state=0
    )
    X, y = table(300, 12)
    model.fit(X, y)
    n_outputs = len(model.intercepts_[-1])
    shapes = [(4, 3), (12, 2), (12, 32), (32, n_outputs)]
    assert [coef.shape for coef in model.coefs_] == shapes
    rows = X * (2.0 / np.maximum(np.linalg.norm(X, axis=1), 2.0))[:, None]
    coefs = list(zip(model.coefs_, model.intercepts_, strict=True))
    wanted = []
    for image in rows.reshape(-1, 3, 4)[:20]:
        wide = np.pad(image, 1)
        raw = np.empty((4, 5, 3))
        for i, j in np.ndindex(4, 5):
            raw[i, j] = wide[i : i + 2, j : j + 2].ravel() @ coefs[0][0] + coefs[0][1]
        kept = np.empty((3, 4, 3))
        for i, j in np.ndindex(3, 4):
            kept[i, j] = np.tanh(raw[i : i + 2, j : j + 2].max(axis=(0, 1)))
        values = np.empty((2, 3, 2))
        for i, j in np.ndindex(2, 3):
            patch = kept[i : i + 2, j : j + 2].ravel()
            values[i, j] = np.tanh(patch @ coefs[1][0] + coefs[1][1])
        values = np.tanh(values.ravel() @ coefs[2][0] + coefs[2][1])
        wanted.append(values @ coefs[3][0] + coefs[3][1])
    assert np.allclose(raw_of(model, X)[:20], wanted, rtol=1e-9, atol=1e-9)
    sparse = clone(model).fit(csr_array(X), y)
    for own, theirs in zip(model.coefs_, sparse.coefs_, strict=True):
        assert np.array_equal(own, theirs)
    assert np.allclose(raw_of(model, X), model._raw(csr_array(X)), rtol=1e-12)


@by_kind
def test_storage_of_rows_changes_nothing(name):
    X, y = table()
    X[np.abs(X) < 0.7] = 0.0
    model = clone(KINDS[name]).set_params(random_state=0)
    fitted = [
        clone(model).fit(rows, y)
        for rows in (X, csr_array(X), np.asfortranarray(X), X[:, ::-1][:, ::-1])
    ]
    for other in fitted[1:]:
        for own, theirs in zip(fitted[0].coefs_, other.coefs_, strict=True):
            assert np.array_equal(own, theirs)
    assert fitted[0].init_seed_ == fitted[1].init_seed_
    narrow = clone(model).fit(X.astype(np.float32), y)
    assert {coef.dtype for coef in narrow.coefs_} == {np.dtype(np.float32)}


def test_without_privacy_it_learns_what_no_line_can_tell():
    X, _ = table(500, 2)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = DPMLPClassifier(math.inf, classes=[0, 1]).fit(X, y)
    assert model.score(X, y) > 0.95
    assert isinstance(model.privacy_.event, NonPrivateEvent)
    curve = DPMLPRegressor(math.inf, target_bounds=(-1, 1))
    assert curve.fit(X, np.sin(2 * X[:, 0])).score(X, np.sin(2 * X[:, 0])) > 0.9


def test_declared_columns_are_encoded():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(17, 90, 500)})
    frame["job"] = rng.choice(["a", "b"], 500)
    y = (frame["age"] > 50).astype(int)
    columns = {"age": (17, 90), "job": ["a", "b"]}
    model = clone(KINDS["classifier"]).set_params(columns=columns).fit(frame, y)
    assert model.n_features_in_ == 2
    assert model.coefs_[0].shape[0] == model.encoder_.transform(frame).shape[1]
    assert len(model.predict(frame)) == 500
    with pytest.raises(ValueError, match="'data_norm' parameter must be 1"):
        clone(model).set_params(data_norm=2.0).fit(frame, y)


@by_kind
def test_stored_models_predict_the_same(name):
    X, y = table()
    model = clone(KINDS[name]).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(raw_of(model, X), raw_of(again, X))
    # What a fit was with, whatever the parameters have become since.
    again.set_params(activation="relu", data_norm=0.01)
    assert np.array_equal(raw_of(model, X), raw_of(again, X))


REFUSED = {
    "loss": ["hinge", None],
    "convolutions": [[3], (3, 2), "many", [Convolution(2, 2)]],
    "image_shape": [(2, 2), 3],
    "hidden_layer_sizes": [(0,), (5, 5000), (3,) * 9, "many", (2.5,)],
    "activation": ["sine", None],
    "alpha": [-1.0],
    "solver": ["bolt_on", "lbfgs", "auto"],
    "solver_params": [{"sigma": 1.0}],
    "delta": [0.0],
    "data_norm": [0.0, math.inf],
}
CASES = [(name, value) for name, values in REFUSED.items() for value in values]


REFUSED_IMAGES = [
    {"image_shape": None},
    {"image_shape": (2,)},
    {"image_shape": "22"},
    {"image_shape": (2, 2.0)},
    {"image_shape": (2, 3)},
    {"convolutions": [Convolution(3, 3)]},
    {"convolutions": [Convolution(1, 1)] * 8},
    {"columns": [(0, 1)] * 4},
]


@pytest.mark.parametrize("changed", REFUSED_IMAGES, ids=repr)
def test_images_that_cannot_be_are_refused_before_anything_is_spent(changed):
    X, y = table()
    model = clone(KINDS["classifier"]).set_params(**(IMAGES | changed))
    with pytest.raises((ValueError, TypeError), match=r"image_shape|convolutions"):
        model.fit(X, y)
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize(("name", "value"), CASES)
def test_what_is_out_of_range_is_refused_before_anything_is_spent(name, value):
    X, y = table()
    model = clone(KINDS["classifier"]).set_params(**{name: value})
    with pytest.raises((ValueError, TypeError), match=name):
        model.fit(X, y)
    assert not hasattr(model, "privacy_")


def test_forecast_tells_solver_and_noise():
    told = DPMLPClassifier(1.0, classes=[0, 1]).forecast(50_000, 20)
    assert (told.solver, told.n_records) == ("noisy_sgd", 50_000)
    assert told.noise_to_signal < 0.3
    model = DPMLPClassifier(0.01, classes=[0, 1], **FEW)
    assert model.forecast(300, 4).noise_dominates
    with pytest.warns(NoiseDominatesWarning):
        model.fit(*table())
    with pytest.raises(ValueError, match="epsilon"):
        DPMLPClassifier(math.inf).forecast(10, 3)


def made_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) / 4
    return X, (X[:, 0] > 0).astype(int)


def test_without_noise_all_records_make_a_step():
    X, y = made_up()
    raw = []
    for batch_size in (6, len(y)):
        steps = {"n_steps": 3, "batch_size": batch_size}
        model = DPMLPClassifier(np.inf, classes=[0, 1], solver="noisy_sgd")
        model.set_params(solver_params=steps, random_state=0)
        raw.append(model.fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(*raw)


def test_far_bounds_do_not_overflow_single_precision():
    X, y = made_up()
    model = DPMLPRegressor(1.0, target_bounds=(-1e38, 1e38), random_state=0)
    found = model.fit(X.astype(np.float32), y).predict(X.astype(np.float32))
    assert np.isfinite(found).all()


def test_a_search_of_the_default_solver_takes_composable_noise():
    X, y = table(600)
    model = DPMLPClassifier(classes=[0, 1])
    grid = {"hidden_layer_sizes": [(2,), (3,)]}
    search = DPGridSearchCV(model, grid, epsilon=3.0, delta=1e-6).fit(X, y)
    assert search.best_estimator_.solver == "noisy_gd"
    assert search.best_estimator_.coefs_[0].shape[1] in (2, 3)
