"""Boosted trees of a table of numbers: losses, interactions; naive Bayes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import Any

from skdp import (
    DPCategoricalNB,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
)
from skdp.columns import Range
from tests.outcomes.outcome import Outcome, Released, of_fitted
from tests.outcomes.rows import rows, targets

KEYS = ("newton_boosting",)
N_CLASSES = {"logistic": 2, "softmax": 3, "squared": None}
# Losses of their own parameters, by one of these.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "weighted": ("logistic", {"class_weight": {0: 3.0}}),
    "three weighted": ("softmax", {"class_weight": {0: 3.0, 1: 2.0}}),
    "counts": ("squared", {"loss": "poisson", "target_bounds": (0.0, 3.0)}),
    "amounts": ("squared", {"loss": "gamma", "target_bounds": (0.1, 3.0)}),
    "quantile": ("squared", {"loss": "quantile", "quantile": 0.8}),
}
TABLES = ("plain", "float32", "fortran", "huge", "missing", "csr")
_MONOTONE = {"max_interaction": 2, "monotonic_cst": [1, 0, 0, 0, -1]}
SETTINGS: dict[str, dict[str, Any]] = {
    "mix": {},
    "pairs": {"max_interaction": 2},
    "monotone": _MONOTONE,
    "groups": {"interaction_cst": [[0, 1], [2, 3]]},
    "exact": {"epsilon": inf},
}


def fitted(loss: str, key: str, table: str, params: dict[str, Any]) -> Released:
    """What a fit releases, and predictions for its rows."""
    X = rows(table)
    given = {"columns": Range(-3, 3, missing=True), "epsilon": 30.0, "random_state": 0}
    given |= {"solver": key, "n_estimators": 12, "max_depth": 4} | params
    n_classes = N_CLASSES[loss]
    y = targets(X, n_classes)
    if n_classes is None:
        given = {"target_bounds": (-2.0, 3.0)} | given
        model = DPGradientBoostingRegressor(**given)
        return of_fitted(model.fit(X, y), predicted=model.predict(X))
    model = DPGradientBoostingClassifier(classes=list(range(n_classes)), **given)
    return of_fitted(model.fit(X, y), predicted=model.decision_function(X))


def counted(table: str, params: dict[str, Any]) -> Released:
    """What naive Bayes releases of three labels, and predictions for its rows."""
    X, columns = rows(table), Range(-3, 3, missing=True)
    given = {"columns": columns, "classes": [0, 1, 2], "random_state": 0}
    model = DPCategoricalNB(30.0, **given, **params).fit(X, targets(X, 3))
    return of_fitted(model, predicted=model.decision_function(X))


def outcomes() -> Iterator[Outcome]:
    """All of boosted trees, and of naive Bayes."""
    for table in TABLES:
        for adjacency in ("replace_one", "zero_out"):
            for delta in (1e-6, 0.0):
                params = {"adjacency": adjacency, "delta": delta}
                key = f"naive_bayes/{table}/{adjacency}/{delta:g}"
                yield Outcome(key, partial(counted, table, params))
    for key in KEYS:
        for loss in N_CLASSES:
            for name, params in SETTINGS.items():
                if loss == "softmax" and "monotonic_cst" in params:
                    continue
                for adjacency in ("replace_one", "zero_out"):
                    every = params | {"adjacency": adjacency}
                    make = partial(fitted, loss, key, "plain", every)
                    yield Outcome(f"boosted/{key}/{loss}/{name}/{adjacency}", make)
            for name, (likewise, params) in OTHERS.items():
                if loss == likewise:
                    make = partial(fitted, loss, key, "plain", params)
                    yield Outcome(f"boosted/{key}/{loss}/{name}", make)
            for table in TABLES[1:]:
                make = partial(fitted, loss, key, table, {})
                yield Outcome(f"boosted/{key}/{loss}/{table}", make)
