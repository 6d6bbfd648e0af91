"""Makes the files of this folder; was run with skdp 1.0.0rc1, and is kept as evidence.

Usage: ``python make.py FOLDER LEDGER``. Noise is private, so that a second run gives
other numbers: what FOLDER has already is left as it is, and LEDGER must be a new file.
The script ran twice, with the ledgers ``study.db`` and ``second.db``. The folder was
``/study``, since models name the whole path of their ledger. Stored are a fitted model
of each family (``NAME.pickle``), what it answered and where its pickle looks for
classes (``expected.json``), results that are no models, and the ledgers.
"""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetLedger,
    DeclaredOneHotEncoder,
    DPCalibratedClassifier,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPRandomizedSearchCV,
    DPRobustClassifier,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    RowNormClipper,
    TableEncoder,
    describe,
    privacy_report,
    private_evaluation,
    private_score,
)
from skdp.columns import Boolean, Dates, Range
from skdp.neural_network import Convolution
from skdp.privacy import (
    BoundedRangeEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
)

TWO = {"classes": [0, 1]}
RANGE = {"target_bounds": (-1, 1)}
POSITIVE = {"target_bounds": (0.1, 5)}
DECLARED = {
    "age": Range(0, 100, missing=True),
    "job": ["office", "field", "none"],
    "citizen": Boolean(),
    "hired": Dates("2000-01-01", "2024-12-31", parts=["month"]),
}


def table():
    """Random rows with targets in [-1, 1], and whose each row is."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 4))
    return X, X[:, 0], rng.integers(0, 100, 400)


def frame():
    """Random rows of mixed columns."""
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2000-01-01") + pd.to_timedelta(
        rng.integers(0, 9000, 400), "D"
    )
    return pd.DataFrame(
        {
            "age": np.where(rng.random(400) < 0.1, np.nan, rng.integers(0, 100, 400)),
            "job": rng.choice(["office", "field", "none"], 400),
            "citizen": rng.random(400) < 0.5,
            "hired": days,
        }
    )


def pairs():
    """Random pairs of a user and an item, each once, and ratings in [1, 5]."""
    rng = np.random.default_rng(0)
    every = np.stack(np.meshgrid(np.arange(30), np.arange(20)), -1).reshape(-1, 2)
    X = rng.permutation(every)[:400]
    return X, rng.integers(1, 6, 400).astype(float)


def models(ledger, done):
    """Fitted models by name, but those of `done`.

    Each with rows and the name of a method to ask.
    """
    X, y, ids = table()
    rated, ratings = pairs()
    mixed, labels = frame(), (y > 0).astype(int)
    steps = DPLogisticRegression(solver="noisy_gd", **TWO)
    of_rows = {
        "robust": (DPRobustClassifier(**TWO), labels),
        "poisson": (DPPoissonRegressor(target_bounds=(0, 5)), y + 2),
        "gamma": (DPGammaRegressor(**POSITIVE), y + 2),
        "quantile": (DPQuantileRegressor(quantile=0.7, **RANGE), y),
        "noisy_newton": (DPLogisticRegression(solver="noisy_newton", **TWO), labels),
        "mlp_classifier": (DPMLPClassifier(hidden_layer_sizes=(3,), **TWO), labels),
        "mlp_regressor": (DPMLPRegressor(hidden_layer_sizes=(3,), **RANGE), y),
        "filters": (
            DPMLPClassifier(
                hidden_layer_sizes=(2,),
                convolutions=[Convolution(2, 2)],
                image_shape=(2, 2),
                **TWO,
            ),
            labels,
        ),
        "threshold": (DPTunedThresholdClassifier(steps), labels),
        "calibrated": (DPCalibratedClassifier(steps), labels),
        "svc": (DPLinearSVC(**TWO), labels),
        "svc_of_classes": (DPLinearSVC(classes=[0, 1, 2]), labels + (y > 0.5)),
        "sparse_regression": (
            DPSparseLinearRegression(n_nonzero_coefs=2, **RANGE),
            y,
        ),
        "randomized_search": (
            DPRandomizedSearchCV(steps, {"C": [1e-3, 1.0]}, n_iter=2),
            labels,
        ),
        "quantile_clipper": (DPQuantileClipper(bounds=(-2, 2)), None),
        "imputer": (DPSimpleImputer(bounds=(-2, 2)), None),
    }
    declared = {
        "bounded_scaler": BoundedScaler(bounds=(-2, 2)),
        "row_norm_clipper": RowNormClipper(),
    }
    stars = {"rating_bounds": (1, 5), "n_components": 2}
    of_pairs = {
        "ratings_of_values": DPMatrixFactorization(
            privacy_unit="rating_value", **stars
        ),
        "ratings_of_users": DPMatrixFactorization(
            privacy_unit="user", n_users=30, item_ids=range(20), **stars
        ),
        "ratings_without_privacy": DPMatrixFactorization(
            epsilon=np.inf, solver="als", random_state=0, **stars
        ),
    }
    of_frames = {
        "columns": (DPLogisticRegression(columns=DECLARED, **TWO), labels),
        "columns_regression": (DPLinearRegression(columns=DECLARED, **RANGE), y),
        "columns_sparse": (DPSparseLogisticRegression(columns=DECLARED, **TWO), labels),
        "boosting_classifier": (
            DPGradientBoostingClassifier(columns=DECLARED, **TWO),
            labels,
        ),
        "boosting_regressor": (
            DPGradientBoostingRegressor(columns=DECLARED, **RANGE),
            y,
        ),
        "searched_columns": (
            DPGridSearchCV(
                DPLogisticRegression(columns=TableEncoder(DECLARED), **TWO),
                {"columns__numeric": ["linear", "hats"]},
            ),
            labels,
        ),
    }
    unit = {"privacy_unit": "user"}
    of_users = {
        "users": (DPLogisticRegression(**TWO, **unit), labels),
        "users_adassp": (DPLinearRegression(solver="adassp", **RANGE, **unit), y),
        "users_scaler": (DPStandardScaler(bounds=(-1, 1), **unit), None),
        "users_pca": (DPPCA(n_components=2, **unit), None),
    }
    stream = DPLogisticRegression(
        solver="ftrl", solver_params={"n_parts": 4}, ledger=ledger, **TWO
    )
    fits = {
        **{
            name: (partial(model.set_params(ledger=ledger).fit, X, targets), X[:4])
            for name, (model, targets) in of_rows.items()
        },
        **{
            name: (partial(model.set_params(ledger=ledger).fit, mixed, targets), mixed)
            for name, (model, targets) in of_frames.items()
        },
        **{
            name: (partial(model.fit, X, targets, groups=ids), X[:4])
            for name, (model, targets) in of_users.items()
        },
        **{name: (partial(model.fit, X), X[:4]) for name, model in declared.items()},
        **{
            name: (partial(model.fit, rated, ratings), rated[:4])
            for name, model in of_pairs.items()
        },
        "stream": (partial(stream.partial_fit, X[:100], labels[:100]), X[:4]),
        "one_hot": (
            partial(
                DeclaredOneHotEncoder({"job": ["office", "field"]}).fit, mixed[["job"]]
            ),
            mixed[["job"]],
        ),
    }
    made = {
        name: (fit(), rows[:4])
        for name, (fit, rows) in fits.items()
        if name not in done
    }
    return {
        name: (model, rows, "predict" if hasattr(model, "predict") else "transform")
        for name, (model, rows) in made.items()
    }


EVENTS = [
    GaussianEvent(8.0, 3),
    PureEvent(0.1, 2),
    BoundedRangeEvent(0.1),
    LaplaceEvent(20.0),
    EpsilonDeltaEvent(0.1, 1e-9),
    PoissonGaussianEvent(2.0, 0.01, 10),
    PoissonGaussianEvent(2.0, 0.01, 10, adjacency="replace_one"),
    ObjectiveEvent(10.0, 0.5, curvature=0.01),
    ComposedEvent((GaussianEvent(9.0), PureEvent(0.1))),
    ParallelEvent((GaussianEvent(9.0), PureEvent(0.1))),
    SelectionEvent(GaussianEvent(9.0), "poisson", 3.0, 20),
    NonPrivateEvent(),
]


# One question to each result that is no model, which any later version must answer.
QUESTIONS = {
    "described": lambda found: [found.quantile("age", 0.5)],
    "evaluation": lambda found: [found.roc_auc],
    "confusion_matrix": lambda found: [found.accuracy],
    "comparison": lambda found: [found.difference, found.standard_error],
    "report": lambda found: [found.epsilon, found.delta],
    "score": lambda found: [found.value, found.standard_error, found.privacy.epsilon],
    "events": lambda found: [found == EVENTS],
}


def results(ledger, done):
    """Released results that are no models, by name, but those of `done`."""
    # Two names of that version: `private_evaluation` gives what they gave.
    from skdp import private_comparison
    from skdp.model_selection import private_confusion_matrix

    X, y, _ = table()
    labels = (y > 0).astype(int)
    model = DPLogisticRegression(**TWO).fit(X, labels)
    other = DPLinearRegression(**RANGE).fit(X, y)
    books = {"epsilon": 1.0, "ledger": ledger}
    made = {
        "described": partial(describe, frame(), DECLARED, **books),
        "evaluation": partial(private_evaluation, model, X, labels, **books),
        "confusion_matrix": partial(
            private_confusion_matrix, model, X, labels, **books
        ),
        "comparison": partial(private_comparison, model, model, X, labels, **books),
        "report": partial(privacy_report, other, delta=1e-6),
        "score": partial(private_score, model, X, labels, **books),
        "events": partial(list, EVENTS),
    }
    return {name: make() for name, make in made.items() if name not in done}


def places_in(content):
    """What a pickle imports from skdp: pairs of a module and a name."""
    texts, memo, found, last = [], [], set(), None
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            texts.append(argument)
        elif operation.name == "MEMOIZE":
            memo.append(texts[-1] if "UNICODE" in last else None)
        elif operation.name in ("BINGET", "LONG_BINGET"):
            texts += [memo[argument]] if memo[argument] else []
        elif operation.name == "STACK_GLOBAL":
            found.add((texts[-2], texts[-1]))
        last = operation.name
    return {(module, name) for module, name in found if module.startswith("skdp")}


def main(folder, books):
    """Write what the folder does not have yet."""
    os.chdir(folder)
    ledger = BudgetLedger(books, epsilon=100.0, delta=1e-3, dataset="study")
    expected = _expected()
    places = {tuple(place) for place in expected["places"]}
    for name, (model, rows, method) in models(ledger, expected["models"]).items():
        answer = np.asarray(getattr(model, method)(rows))
        record = getattr(model, "privacy_", None)  # declared steps release nothing
        expected["models"][name] = {
            "method": method,
            "rows": _kind(rows),
            "answer": answer.tolist(),
            "record": record and record.to_dict(),
        }
        places |= _save(name, model)
    for name, found in results(ledger, expected["results"]).items():
        expected["results"][name] = [float(each) for each in QUESTIONS[name](found)]
        places |= _save(name, found)
    expected["places"] = sorted(places)
    expected["spent"][books] = ledger.spent().epsilon
    with open("expected.json", "w") as file:
        json.dump(expected, file)


def _expected():
    """What the folder holds already, and the rows that are asked about."""
    mixed = frame()[:4].assign(hired=lambda rows: rows["hired"].astype(str))
    found = {"models": {}, "results": {}, "places": [], "spent": {}}
    if os.path.exists("expected.json"):
        with open("expected.json") as file:
            found = json.load(file)
    return {
        **found,
        "skdp_version": skdp.__version__,
        "rows": table()[0][:4].tolist(),
        "pairs": pairs()[0][:4].tolist(),
        "mixed": {name: [*map(_plain, mixed[name])] for name in mixed},
    }


def _kind(rows):
    """Which of the rows of the file these are."""
    if hasattr(rows, "columns"):
        return "mixed" if len(rows.columns) > 1 else "job"
    return "rows" if rows.dtype == float else "pairs"


def _plain(cell):
    """A cell as JSON has it; None is missing."""
    return None if cell != cell else getattr(cell, "item", lambda: cell)()


def _save(name, thing):
    content = pickle.dumps(thing, protocol=4)
    with open(f"{name}.pickle", "wb") as file:
        file.write(content)
    return places_in(content)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(*sys.argv[1:])
