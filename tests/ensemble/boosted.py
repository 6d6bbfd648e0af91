"""Small boosted models, and their tables."""

from __future__ import annotations

import warnings

import numpy as np

from skdp import DPGradientBoostingClassifier, DPGradientBoostingRegressor
from skdp.ensemble._trees import read_to_predict
from tests.preprocessing.tables import DECLARED, frame

KINDS = (DPGradientBoostingClassifier, DPGradientBoostingRegressor)
BINARY = {"classes": [0, 1]}
THREE = {"classes": [0, 1, 2]}
NUMBERS = {"target_bounds": (-10, 30)}
# Each with the least that it has to be told.
NEEDS = {
    "two classes": (DPGradientBoostingClassifier, BINARY),
    "three classes": (DPGradientBoostingClassifier, THREE),
    "numbers": (DPGradientBoostingRegressor, NUMBERS),
}


def table(n=400, seed=0):
    """A mixed table in which age, gain and sex matter."""
    X = frame(n, seed)
    score = X["age"].fillna(30) / 20 + np.log1p(X["gain"]) / 5 + (X["sex"] == "Male")
    return X, score.to_numpy()


def labels_of(name, score):
    if name == "numbers":
        return 5 * (score - 3)
    return np.digitize(score, [4.5] if name == "two classes" else [4.0, 5.5])


def unfitted(name, **params):
    kind, needs = NEEDS[name]
    # So much that no model is a constant.
    given = {"epsilon": 5.0, "columns": DECLARED, "n_estimators": 30, "random_state": 0}
    return kind(**needs | given | params)


def quietly(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def fitted(name, n=400, **params):
    X, score = table(n)
    return quietly(lambda: unfitted(name, **params).fit(X, labels_of(name, score)))


def decision(model, X):
    """Raw predictions in units of what is predicted, as a matrix."""
    is_classifier = hasattr(model, "decision_function")
    raw = model.decision_function(X) if is_classifier else model.predict(X)
    return raw.reshape(len(raw), -1)


def codes_of(model, X):
    return read_to_predict(model, X)
