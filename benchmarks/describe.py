"""Descriptions, scores and thresholds: how far what is released is from what is true.

Run ``python -m benchmarks.describe adult | auc | threshold | users | intervals`` at the
root of a checkout. Every number is computed from raw data beside the released one: the
output is not private.

adult
    `describe` of the training records of Adult, whose columns are declared.
auc
    `private_evaluation` of a private model on 10,000 test records of Adult.
threshold
    Balanced accuracy of rare labels of made-up tables, with and without a threshold
    that is chosen privately.
users
    `describe` of Adult dealt to persons of 1 to 5 rows, each of whom is protected, by
    the ways of ``benchmarks.users``.
intervals
    What the number of intervals of scores was settled by: made-up tables.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.metrics import roc_auc_score as roc_auc_of

from benchmarks.users import DELTA, MOST_ROWS, dealt
from skdp import (
    BudgetLedger,
    DPLogisticRegression,
    DPTunedThresholdClassifier,
    describe,
    private_evaluation,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, Dataset, load_adult
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu

_DECLARED = ADULT_BOUNDS | ADULT_CATEGORIES
_QUARTILES = (0.25, 0.5, 0.75)
_N_TEST = 10_000


def adult_or_stop() -> Dataset:
    """Adult itself, no stand-in."""
    data = load_adult()
    if data.name != "adult":
        raise SystemExit("Adult is not there; see docs/data.md.")
    return data


def description_errors(
    X: pd.DataFrame, epsilon: float, repeats: int
) -> dict[str, np.ndarray]:
    """Errors of means over the mean, and of quartiles over the declared range.

    Returns
    -------
    dict of arrays of shape (repeats, n_columns), quartiles (repeats, n_columns, 3)
    """
    numbers = X[list(ADULT_BOUNDS)]
    widths = np.array([high - low for low, high in ADULT_BOUNDS.values()])
    means, quartiles = numbers.mean().to_numpy(), numbers.quantile(_QUARTILES)
    apart: dict[str, list[Any]] = {"means": [], "quartiles": []}
    for _ in range(repeats):
        found = describe(X, _DECLARED, epsilon=epsilon)
        mean = np.array([found.means[name].mean for name in numbers])
        cuts = [[found.quantile(name, q) for q in _QUARTILES] for name in numbers]
        apart["means"].append(np.abs(mean - means) / np.abs(means))
        wrong = np.abs(np.array(cuts) - quartiles.to_numpy().T)
        apart["quartiles"].append(wrong / widths[:, None])
    return {name: np.array(found) for name, found in apart.items()}


def adult(repeats: int) -> None:
    """A line for each epsilon and column."""
    X = adult_or_stop().X_train
    print(
        f"describe of Adult, {len(X)} records, {len(_DECLARED)} columns, {repeats} runs"
    )
    for epsilon in (0.1, 0.5, 1.0):
        found = description_errors(X, epsilon, repeats)
        print(
            f"epsilon={epsilon:g}: median relative error of means "
            f"{np.median(found['means']):.4%}, median error of quartiles "
            f"{np.median(found['quartiles']):.4%} of the range, largest "
            f"{found['quartiles'].max():.2%}"
        )
        for i, name in enumerate(ADULT_BOUNDS):
            print(
                f"  {name:<15} mean {np.median(found['means'][:, i]):9.4%}   quartiles "
                f"{np.median(found['quartiles'][:, i]):.4%}"
            )


def auc_errors(
    model: Any, X: Any, y: np.ndarray, repeats: int, **params: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Released less exact ROC AUC, and average precision."""
    p = model.predict_proba(X)[:, 1]
    exact = roc_auc_of(y, p), average_precision_score(y, p)
    runs = [private_evaluation(model, X, y, **params) for _ in range(repeats)]
    return (
        np.array([run.roc_auc - exact[0] for run in runs]),
        np.array([run.average_precision - exact[1] for run in runs]),
    )


def smooth_errors(
    model: Any, X: Any, y: np.ndarray, repeats: int, **params: Any
) -> np.ndarray:
    """Released less exact ROC AUC, of a smooth curve through eight intervals."""
    exact = roc_auc_of(y, model.predict_proba(X)[:, 1])
    narrow = np.sin(np.linspace(0, np.pi / 2, 9)) ** 2
    few = params | {"thresholds": np.r_[0.0, narrow[1:-1], 1.0]}
    runs = [private_evaluation(model, X, y, **few) for _ in range(repeats)]
    return np.array([run.smooth_roc_auc - exact for run in runs])


class Told(ClassifierMixin, BaseEstimator):
    """Predicts the probability that stands in the only column."""

    classes_ = np.array([0, 1])

    def fit(self, X: np.ndarray, y: np.ndarray) -> Told:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([1 - X[:, 0], X[:, 0]])


def auc(repeats: int) -> None:
    """A line for each way to ask."""
    data = adult_or_stop()
    columns = {"columns": _DECLARED, "classes": [0, 1]}
    model = DPLogisticRegression(1.0, **columns).fit(data.X_train, data.y_train)
    # Predicted once: what is evaluated is the same.
    X, y = model.predict_proba(data.X_test[:_N_TEST])[:, 1:], data.y_test[:_N_TEST]
    model = Told()
    print(f"private_evaluation of Adult, {len(y)} records, {repeats} runs")
    for epsilon in (0.1, 0.3, 1.0):
        for adjacency in ("replace_one", "zero_out"):
            for books in (False, True):
                facts: dict[str, Any] = {"epsilon": epsilon, "adjacency": adjacency}
                with tempfile.TemporaryDirectory() as folder:
                    if books:
                        facts["ledger"] = BudgetLedger(
                            Path(folder) / "books.db",
                            epsilon=1e4,
                            delta=1e-3,
                            adjacency=adjacency,
                        )
                    wrong, area = auc_errors(model, X, y, repeats, **facts)
                    smooth = smooth_errors(model, X, y, repeats, **facts)
                print(
                    f"epsilon={epsilon:g} {adjacency:<11} "
                    f"{'Gaussian, in a ledger' if books else 'the least noise':<21}  "
                    f"ROC AUC: median error {np.median(np.abs(wrong)):.4f}, root mean "
                    f"square {np.sqrt(np.mean(wrong**2)):.4f}, within 0.01 "
                    f"{np.mean(np.abs(wrong) <= 0.01):.0%}; average precision: median "
                    f"error {np.median(np.abs(area)):.4f}; smooth ROC AUC of eight "
                    f"intervals: median error {np.median(np.abs(smooth)):.4f}, root "
                    f"mean square {np.sqrt(np.mean(smooth**2)):.4f}, within 0.01 "
                    f"{np.mean(np.abs(smooth) <= 0.01):.0%}",
                    flush=True,
                )


def threshold(repeats: int) -> None:
    """A line for each epsilon, of tables with one positive label in 40."""
    print(f"balanced accuracy, 11,000 records, 1:40, mean of {repeats} fits")
    for epsilon in (0.5, 1.0, 4.0):
        found = np.array([_balanced(epsilon, seed) for seed in range(repeats)])
        plain, tuned, weighted = found.mean(axis=0)
        print(
            f"epsilon={epsilon:g}: at 1/2 {plain:.3f}, tuned {tuned:.3f} (lowest "
            f"{found[:, 1].min():.3f}); balanced weights, not private {weighted:.3f} "
            f"(lowest {found[:, 2].min():.3f})",
            flush=True,
        )


def _balanced(epsilon: float, seed: int) -> tuple[float, float, float]:
    X, y = make_classification(
        22_000, 10, n_informative=6, weights=[40 / 41], flip_y=0.005, random_state=seed
    )
    X /= np.sqrt(10.0)
    model = DPLogisticRegression(classes=[0, 1], data_norm=2.0)
    tuned = DPTunedThresholdClassifier(model, epsilon=epsilon).fit(X[::2], y[::2])
    plain = DPLogisticRegression(epsilon, classes=[0, 1], data_norm=2.0)
    plain.fit(X[::2], y[::2])
    weighted = LogisticRegression(class_weight="balanced").fit(X[::2], y[::2])
    return (
        balanced_accuracy_score(y[1::2], plain.predict(X[1::2])),
        tuned.score(X[1::2], y[1::2]),
        balanced_accuracy_score(y[1::2], weighted.predict(X[1::2])),
    )


def intervals(repeats: int) -> None:
    """Root mean square error of ROC AUC, by number and kind of intervals."""
    print(f"ROC AUC at epsilon 0.3, 10,000 records, root mean square of {repeats} runs")
    kinds: dict[str, Callable[[int], np.ndarray]] = {
        "equal": lambda n: np.linspace(0, 1, n + 1),
        "fine": lambda n: np.sin(np.linspace(0, np.pi / 2, n + 1)) ** 2,
    }
    for share in (0.5, 0.24, 0.08):
        for apart in (0.5, 1.5):
            X, y = make_classification(
                20_000,
                10,
                n_informative=5,
                weights=[1 - share],
                class_sep=apart,
                flip_y=0.02,
                random_state=int(10 * apart),
            )
            model = LogisticRegression().fit(X[:10_000], y[:10_000])
            cells = []
            for name, ends in kinds.items():
                for n in (8, 16, 24, 32, 64):
                    facts = {"epsilon": 0.3, "thresholds": ends(n)}
                    wrong, _ = auc_errors(
                        model, X[10_000:], y[10_000:], repeats, **facts
                    )
                    cells.append(f"{name} {n}: {np.sqrt(np.mean(wrong**2)):.4f}")
            smooth = smooth_errors(model, X[10_000:], y[10_000:], repeats, epsilon=0.3)
            cells.append(f"smooth fine 8: {np.sqrt(np.mean(smooth**2)):.4f}")
            print(
                f"positive {share:g}, apart {apart:g}:  {'  '.join(cells)}", flush=True
            )


def users(repeats: int) -> None:
    """A line for each way to protect a person."""
    data = adult_or_stop()
    declared = ADULT_BOUNDS
    exact = data.X_train[list(declared)].mean().to_numpy()
    print(
        f"describe of {len(declared)} numbers of Adult, 10,000 persons of 1 to 5 rows, "
        f"epsilon 0.5, {repeats} deals"
    )
    part = gaussian_epsilon(gaussian_mu(0.5, DELTA) / MOST_ROWS, DELTA)
    found: dict[str, list[Any]] = {"first row": [], "mean": [], "five slots": []}
    for seed in range(repeats):
        rows = dealt(data, 10_000, alike=False, seed=seed)
        users = {"privacy_unit": "user", "groups": rows.ids}
        ways: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
            "first row": (rows.X.iloc[rows.firsts], {"epsilon": 0.5}),
            "mean": (rows.X, {"epsilon": 0.5, **users}),
            "five slots": (rows.X, {"epsilon": part}),
        }
        for way, (X, facts) in ways.items():
            told = describe(X[list(declared)], declared, delta=DELTA, **facts)
            mean = np.array([told.means[name].mean for name in declared])
            found[way].append(np.abs(mean - exact) / exact)
    for way, wrong in found.items():
        each = np.sqrt(np.mean(np.square(wrong), axis=0))
        cells = "  ".join(
            f"{name} {x:.2%}" for name, x in zip(declared, each, strict=True)
        )
        print(f"{way:<10} root mean square error of means: {cells}")


_PARTS = {
    "adult": adult,
    "auc": auc,
    "threshold": threshold,
    "users": users,
    "intervals": intervals,
}


def main() -> None:
    """Print one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    _PARTS[options.part](options.repeats)


if __name__ == "__main__":
    main()
