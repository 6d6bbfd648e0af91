"""Makes the files of this folder; was run with skdp 1.0.0rc1, and is kept as evidence.

Usage: ``python make.py FOLDER``. Noise is private, so that a second run gives other
numbers: never run it over these files. The folder was ``/study``, since models name the
whole path of their ledger. Stored are, of what version 0.1 did not have, a
fitted model of each family (``NAME.pickle``), what it answered and where its pickle
looks for classes (``expected.json``), results that are no models, and the books of all
of it (``study.db``).
"""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import sys
import warnings

import numpy as np
import pandas as pd

import skdp
from skdp import (
    DPPCA,
    BudgetLedger,
    DPCalibratedClassifier,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    TableEncoder,
    describe,
    privacy_report,
    private_evaluation,
)
from skdp.columns import Boolean, Dates, Range
from skdp.neural_network import Convolution

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


def models(ledger):
    """Fitted models by name, each with rows and the name of a method to ask."""
    X, y, ids = table()
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
    made = {}
    for name, (model, targets) in of_rows.items():
        made[name] = (model.set_params(ledger=ledger).fit(X, targets), X[:4])
    for name, (model, targets) in of_frames.items():
        made[name] = (model.set_params(ledger=ledger).fit(mixed, targets), mixed[:4])
    for name, (model, targets) in of_users.items():
        made[name] = (model.fit(X, targets, groups=ids), X[:4])
    stream = DPLogisticRegression(
        solver="ftrl", solver_params={"n_parts": 4}, ledger=ledger, **TWO
    )
    made["stream"] = (stream.partial_fit(X[:100], labels[:100]), X[:4])
    return {
        name: (model, rows, "predict" if hasattr(model, "predict") else "transform")
        for name, (model, rows) in made.items()
    }


# One question to each result that is no model, which any later version must answer.
QUESTIONS = {
    "described": lambda found: [found.quantile("age", 0.5)],
    "evaluation": lambda found: [found.roc_auc],
    "confusion_matrix": lambda found: [found.accuracy],
    "comparison": lambda found: [found.difference, found.standard_error],
    "report": lambda found: [found.epsilon, found.delta],
}


def results(ledger):
    """Released results that are no models, by name."""
    # Two names of that version: `private_evaluation` gives what they gave.
    from skdp import private_comparison
    from skdp.model_selection import private_confusion_matrix

    X, y, _ = table()
    labels = (y > 0).astype(int)
    model = DPLogisticRegression(**TWO).fit(X, labels)
    other = DPLinearRegression(**RANGE).fit(X, y)
    books = {"epsilon": 1.0, "ledger": ledger}
    return {
        "described": describe(frame(), DECLARED, **books),
        "evaluation": private_evaluation(model, X, labels, **books),
        "confusion_matrix": private_confusion_matrix(model, X, labels, **books),
        "comparison": private_comparison(model, model, X, labels, **books),
        "report": privacy_report(other, delta=1e-6),
    }


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


def main(folder):
    """Write everything."""
    os.chdir(folder)
    ledger = BudgetLedger("study.db", epsilon=100.0, delta=1e-3, dataset="study")
    mixed = frame()[:4].assign(hired=lambda rows: rows["hired"].astype(str))
    expected = {
        "skdp_version": skdp.__version__,
        "rows": table()[0][:4].tolist(),
        "mixed": {name: [*map(_plain, mixed[name])] for name in mixed},
        "models": {},
        "results": {},
    }
    places = set()
    for name, (model, rows, method) in models(ledger).items():
        answer = np.asarray(getattr(model, method)(rows))
        expected["models"][name] = {
            "method": method,
            "rows": "mixed" if hasattr(rows, "columns") else "rows",
            "answer": answer.tolist(),
            "record": model.privacy_.to_dict(),
        }
        places |= _save(name, model)
    for name, found in results(ledger).items():
        expected["results"][name] = [float(each) for each in QUESTIONS[name](found)]
        places |= _save(name, found)
    expected["places"] = sorted(places)
    expected["spent"] = ledger.spent().epsilon
    with open("expected.json", "w") as file:
        json.dump(expected, file)


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
        main(sys.argv[1])
