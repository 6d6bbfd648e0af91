"""Makes the files of this folder; was run with skdp 0.1.0, and is kept as evidence.

Usage: ``python make.py FOLDER``. Noise is private, so that a second run gives other
numbers: never run it over these files. Stored are, for each family, a fitted model
(``NAME.pickle``) and what it answered (``expected.json``), the books of a study
(``study.db``), a handle on them (``ledger.pickle``), events of all kinds
(``events.pickle``), a private score (``score.pickle``) and a record (``record.json``,
``record.pickle``).
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings

import numpy as np

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    Budget,
    BudgetLedger,
    DeclaredOneHotEncoder,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPQuantileClipper,
    DPRandomizedSearchCV,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    RowNormClipper,
    private_score,
)
from skdp.privacy import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonGaussianEvent,
    PureEvent,
    epsilon_of,
)
from skdp.privacy._events import BoundedRangeEvent, ObjectiveEvent
from skdp.privacy._search_events import ParallelEvent, SelectionEvent

SAMPLED = [PoissonGaussianEvent(2.0, 0.01, 50, "replace_one")]
OTHERS = [
    PureEvent(0.1),
    BoundedRangeEvent(0.1, 2),
    LaplaceEvent(20.0, 3),
    EpsilonDeltaEvent(0.1, 1e-9),
    SelectionEvent(GaussianEvent(50.0), "negative_binomial", 3.0, 30, 0.0),
    ParallelEvent((GaussianEvent(30.0), GaussianEvent(20.0))),
    ComposedEvent((GaussianEvent(20.0, 2), PureEvent(0.05))),
    GaussianEvent(10.0, 4),
    ObjectiveEvent(20.0, 0.01, curvature=0.1),
    ObjectiveEvent(20.0, 0.01, corners=3, half_corners=2),
]
CLASSES = [0, 1, 2]


def table():
    """Random rows with labels and targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    return X, rng.integers(0, 3, 300), np.clip(X[:, 0], -1, 1)


def ratings():
    """Random pairs of ids with ratings from 1 to 5."""
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.integers(0, 8, 60), rng.integers(0, 5, 60)], axis=1)
    pairs = np.unique(pairs, axis=0)
    return pairs, rng.integers(1, 6, len(pairs)).astype(float)


def models(ledger):
    """Fitted models by name, each with rows and the name of a method to ask."""
    X, labels, y = table()
    binary = (labels > 0).astype(int)
    regression = {"target_bounds": (-1, 1)}
    two = {"classes": [0, 1]}
    grid = {"C": [0.01, 1.0]}
    rows = X[:4]
    made = {
        "logistic": DPLogisticRegression(classes=CLASSES, ledger=ledger).fit(X, labels),
        "logistic_exact": DPLogisticRegression(epsilon=np.inf, **two).fit(X, binary),
        "noisy_gd": DPLogisticRegression(solver="noisy_gd", **two).fit(X, binary),
        "noisy_sgd": DPLogisticRegression(solver="noisy_sgd", **two).fit(X, binary),
        "objective": DPLogisticRegression(solver="objective_perturbation", **two).fit(
            X, binary
        ),
        "svc": DPLinearSVC(classes=CLASSES).fit(X, labels),
        "regression": DPLinearRegression(**regression).fit(X, y),
        "adassp": DPLinearRegression(delta=0, **regression).fit(X, y),
        "sparse_regression": DPSparseLinearRegression(**regression).fit(X, y),
        "sparse_logistic": DPSparseLogisticRegression(**two).fit(X, binary),
        "peeling": DPSparseLinearRegression(solver="peeling", **regression).fit(X, y),
        "two_stage": DPSparseLogisticRegression(solver="two_stage", **two).fit(
            X, binary
        ),
    }
    search = DPLogisticRegression(solver="noisy_gd", **two)
    for method in ("composition", "random_stopping", "disjoint_splits"):
        made[f"search_{method}"] = DPGridSearchCV(search, grid, method=method).fit(
            X, binary
        )
    made["randomized_search"] = DPRandomizedSearchCV(search, grid, n_iter=2).fit(
        X, binary
    )
    asked = {name: (model, rows, "predict") for name, model in made.items()}
    for name, model in {
        "bounded_scaler": BoundedScaler(bounds=(-1, 1)),
        "row_norm_clipper": RowNormClipper(),
        "standard_scaler": DPStandardScaler(bounds=(-1, 1)),
        "standard_scaler_pure": DPStandardScaler(bounds=(-1, 1), delta=0),
        "quantile_clipper": DPQuantileClipper(bounds=(-1, 1)),
        "simple_imputer": DPSimpleImputer(bounds=(-1, 1)),
        "pca": DPPCA(n_components=2),
    }.items():
        asked[name] = (model.fit(X), rows, "transform")
    codes = labels[:, None].astype(float)
    encoder = DeclaredOneHotEncoder(categories=CLASSES, sparse_output=False)
    asked["one_hot_encoder"] = (encoder.fit(codes), codes[:4], "transform")
    pairs, values = ratings()
    stars = {"rating_bounds": (1, 5), "n_components": 2}
    for name, params in {
        "factorization": {"privacy_unit": "rating_value"},
        "factorization_exact": {"epsilon": np.inf, "random_state": 0},
        "factorization_hamsi": {
            "epsilon": np.inf,
            "solver": "hamsi",
            "random_state": 0,
        },
        "factorization_user": {
            "privacy_unit": "user",
            "n_users": 8,
            "item_ids": list(range(5)),
        },
    }.items():
        model = DPMatrixFactorization(**stars, **params).fit(pairs, values)
        asked[name] = (model, pairs[:4], "predict")
    return asked


def books(path):
    """A ledger that holds one event of each kind."""
    ledger = BudgetLedger(path, epsilon=50.0, delta=1e-5, dataset="study")
    for number, event in enumerate(SAMPLED + OTHERS):
        ledger.commit(
            event,
            adjacency="replace_one",
            budget=Budget(1.0, 1e-7),
            label=f"event {number}",
        )
    return ledger


def main(folder):
    """Write everything."""
    os.chdir(folder)  # a handle holds the absolute name of its file
    ledger = books("study.db")
    expected = {"skdp_version": skdp.__version__, "models": {}}
    for name, (model, rows, method) in models(ledger).items():
        answer = np.asarray(getattr(model, method)(rows))
        _save(name, model, ledger)
        record = getattr(model, "privacy_", None)
        expected["models"][name] = {
            "method": method,
            "rows": np.asarray(rows).tolist(),
            "answer": answer.tolist(),
            "record": None if record is None else record.to_dict(),
            "statement": None if record is None else record.statement(),
            "epsilon": None if record is None else repr(epsilon_of(record.event, 1e-6)),
        }
        if name == "noisy_gd":
            _save("record", record, ledger)
            with open("record.json", "w") as file:
                file.write(record.to_json())
    X, labels, _ = table()
    model = DPLogisticRegression(classes=CLASSES).fit(X, labels)
    score = private_score(model, X, labels, epsilon=1.0)
    expected["score"] = float(score)
    _save("score", score, ledger)
    _save("ledger", ledger, ledger)
    _save("events", [*SAMPLED, *OTHERS, NonPrivateEvent()], ledger)
    expected["ledger"] = {
        "spent": ledger.spent().epsilon,
        "remaining": [ledger.remaining().epsilon, ledger.remaining().delta],
        "epsilon_alone": ledger.to_frame()["epsilon_alone"].tolist(),
    }
    with open("expected.json", "w") as file:
        json.dump(expected, file)


def _save(name, thing, ledger):
    """Pickle a thing whose ledger is named by the file alone: no path of a machine."""
    path = ledger.path
    ledger.path = os.path.basename(path)
    record = getattr(thing, "privacy_", None)
    if record is not None and record.ledger:
        object.__setattr__(record, "ledger", ledger.path)
    with open(f"{name}.pickle", "wb") as file:
        pickle.dump(thing, file, protocol=4)
    ledger.path = path


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(sys.argv[1])
