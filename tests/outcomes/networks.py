"""Networks: solvers, losses, activations, convolutions, kinds of rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import Any

from skdp import DPMLPClassifier, DPMLPRegressor
from skdp.neural_network import Convolution
from tests.outcomes.outcome import Outcome, Released, of_fitted
from tests.outcomes.rows import rows, targets

KEYS = ("noisy_adam", "noisy_gd", "noisy_sgd")
N_CLASSES = {"logistic": 2, "softmax": 3, "squared": None}
TABLES = ("plain", "float32", "fortran", "huge", "csr")
_SAMPLED = {"solver": "noisy_sgd", "solver_params": {"n_steps": 5, "batch_size": 60}}
_IMAGES = {"image_shape": (1, 5), "convolutions": [Convolution(3, 3, padding=1)]}
SETTINGS: dict[str, dict[str, Any]] = {
    "deep": {"hidden_layer_sizes": (4, 3), "activation": "relu"},
    "logistic": {"activation": "logistic"},
    "regularised": {"alpha": 0.1},
    "sampled": _SAMPLED,
    "filters": _IMAGES,
    "filters sampled": _IMAGES | _SAMPLED,
    "exact": {"epsilon": inf},
}
# Losses that are not convex, of classes.
OTHERS = ("cauchy", "sigmoid")


def fitted(loss: str, key: str, table: str, params: dict[str, Any]) -> Released:
    """What a fit releases, and predictions for its rows."""
    X = rows(table)
    given = {"epsilon": 30.0, "random_state": 0, "hidden_layer_sizes": 4}
    given |= {"solver": key, "solver_params": {"n_steps": 5}} | params
    n_classes = N_CLASSES[loss]
    y = targets(X, n_classes)
    if n_classes is None:
        model = DPMLPRegressor(**({"target_bounds": (-2.0, 3.0)} | given))
        return of_fitted(model.fit(X, y), predicted=model.predict(X))
    model = DPMLPClassifier(classes=list(range(n_classes)), **given)
    return of_fitted(model.fit(X, y), predicted=model.decision_function(X))


def outcomes() -> Iterator[Outcome]:
    """All of networks."""
    for loss in N_CLASSES:
        for key in KEYS:
            for adjacency in ("replace_one", "zero_out"):
                make = partial(fitted, loss, key, "plain", {"adjacency": adjacency})
                yield Outcome(f"networks/{key}/{loss}/{adjacency}", make)
        for name, params in SETTINGS.items():
            make = partial(fitted, loss, "noisy_gd", "plain", params)
            yield Outcome(f"networks/{loss}/{name}", make)
        for table in TABLES[1:]:
            make = partial(fitted, loss, "noisy_gd", table, {})
            yield Outcome(f"networks/{loss}/{table}", make)
    for other in OTHERS:
        for loss in ("logistic", "softmax"):
            make = partial(fitted, loss, "noisy_gd", "plain", {"loss": other})
            yield Outcome(f"networks/{loss}/{other}", make)
