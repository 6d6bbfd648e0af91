"""Rare labels, one in forty, with declared weights and without.

Run ``python -m benchmarks.class_weights`` at the root of a checkout. Takes minutes.

Balanced accuracy and AUC of held-out records, which are not private, and the mean
probability of the rare label over its share. The records are made up, so that
scikit-learn with ``class_weight="balanced"`` reaches what a reviewer's own did: 0.78.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from skdp import (
    BoundedScaler,
    DPGradientBoostingClassifier,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
)

EPSILONS = (0.5, 1.0, 4.0)
WEIGHTS = {0: 1, 1: 40}
_RECORDS, _TRAINED, _COLUMNS = 11_000, 8_250, 5
_INTERCEPT, _SLOPE = -4.8, 2.6

Table = tuple[np.ndarray, np.ndarray]
MODELS: dict[str, Any] = {
    "DPLogisticRegression": DPLogisticRegression,
    "DPLinearSVC": DPLinearSVC,
    "DPMLPClassifier": DPMLPClassifier,
    "DPGradientBoostingClassifier": DPGradientBoostingClassifier,
}


def records(seed: int) -> tuple[Table, Table]:
    """Training and held-out records; 2.4 % of the labels are 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (_RECORDS, _COLUMNS))
    raw = (X - 0.5) @ rng.choice([-1, 1], _COLUMNS)
    chance = 1 / (1 + np.exp(-_INTERCEPT - _SLOPE * raw))
    y = (rng.random(_RECORDS) < chance).astype(int)
    return (X[:_TRAINED], y[:_TRAINED]), (X[_TRAINED:], y[_TRAINED:])


def fitted(name: str, train: Table, epsilon: float, weights: Any) -> Any:
    """A model of declared columns, or of rows scaled by declared bounds."""
    X, y = train
    facts: dict[str, Any] = {"classes": [0, 1], "class_weight": weights}
    if name == "DPGradientBoostingClassifier":
        facts["columns"] = (0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that noise is strong is what is measured
        return MODELS[name](epsilon, **facts).fit(_scaled(name, X), y)


def measured(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, ...]:
    """Balanced accuracy, AUC, and the mean probability over the share."""
    told = np.nan
    if hasattr(model, "predict_proba"):
        told = model.predict_proba(X)[:, 1].mean() / y.mean()
    balanced = balanced_accuracy_score(y, model.predict(X))
    return balanced, roc_auc_score(y, model.decision_function(X)), told


def without_privacy(seed: int) -> tuple[float, ...]:
    """Scikit-learn, with weights from the labels."""
    train, (X, y) = records(seed)
    model = LogisticRegression(class_weight="balanced", C=100)
    return measured(model.fit(_scaled("", train[0]), train[1]), _scaled("", X), y)


def private(name: str, epsilon: float, weights: Any, seed: int) -> tuple[float, ...]:
    """A private fit."""
    train, (X, y) = records(seed)
    return measured(fitted(name, train, epsilon, weights), _scaled(name, X), y)


def _scaled(name: str, X: np.ndarray) -> np.ndarray:
    if name == "DPGradientBoostingClassifier":
        return X
    return np.asarray(BoundedScaler(bounds=(0, 1)).fit_transform(X))


def _line(cells: list[str], found: list[tuple[float, ...]]) -> None:
    mean, error = np.mean(found, 0), np.std(found, 0) / np.sqrt(len(found))
    shown = [f"{mean[0]:.3f} ± {error[0]:.3f}", f"{mean[1]:.3f}", f"{mean[2]:.2f}"]
    print(f"| {' | '.join([*cells, *shown])} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Rare labels with declared weights.")
    parser.add_argument("--repeats", type=int, default=20)
    seeds = range(parser.parse_args().repeats)
    print("| model | epsilon | weights | balanced accuracy | AUC | told over share |")
    print("|---|---|---|---|---|---|")
    without = [without_privacy(seed) for seed in seeds]
    _line(["scikit-learn", "", "balanced"], without)
    for name in MODELS:
        for epsilon in EPSILONS:
            for weights in (WEIGHTS, None):
                found = [private(name, epsilon, weights, seed) for seed in seeds]
                _line([name, f"{epsilon:g}", str(weights)], found)


if __name__ == "__main__":
    main()
