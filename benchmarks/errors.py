"""Descriptions, scores and thresholds: how far what is released is from what is true.

Every number is computed from raw data beside the released one: the output is not
private.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.metrics import roc_auc_score as roc_auc_of

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark, line
from benchmarks._tables import adult
from skdp import (
    BudgetLedger,
    DPLogisticRegression,
    DPTunedThresholdClassifier,
    describe,
    private_evaluation,
    propose_ranges,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES

_DECLARED = ADULT_BOUNDS | ADULT_CATEGORIES
_QUARTILES = (0.25, 0.5, 0.75)
_RMS = "root mean square "


@benchmark("describe", runs=50, judged=True)
def description() -> Iterator[Line]:
    """Relative errors of Adult's means, and of its quartiles over the range."""
    for epsilon in (0.1, 0.5, 1.0):
        yield line(
            {"epsilon": epsilon},
            "describe",
            partial(_described, epsilon),
            ("median of means", "median of quartiles", "largest quartile"),
            statistic="median",
            private=True,
        )


def _described(epsilon: float, run: int) -> list[float]:
    X = adult().X_train
    numbers = X[list(ADULT_BOUNDS)]
    widths = np.array([high - low for low, high in ADULT_BOUNDS.values()])
    means, quartiles = numbers.mean().to_numpy(), numbers.quantile(_QUARTILES)
    found = describe(X, _DECLARED, epsilon=epsilon)
    mean = np.array([found.means[name].mean for name in numbers])
    cuts = [[found.quantile(name, q) for q in _QUARTILES] for name in numbers]
    of_means = np.abs(mean - means) / np.abs(means)
    wrong = np.abs(np.array(cuts) - quartiles.to_numpy().T) / widths[:, None]
    return [np.median(of_means), np.median(wrong), wrong.max()]


@benchmark("ranges", runs=50)
def ranges() -> Iterator[Line]:
    """Ranges proposed for Adult's five columns of numbers, beside its values."""
    for n, epsilon in product((2_000, 32_561), (0.05, 0.1, 0.3, 1.0)):
        yield line(
            {"n": n, "epsilon": epsilon},
            "propose_ranges",
            partial(_proposed, n, epsilon),
            ("columns without", "mean outside", "largest outside", "mean width"),
            private=True,
        )


def _proposed(n: int, epsilon: float, run: int) -> list[float]:
    """Columns without a range; of others, values outside, and width over the least.

    The least width is that of the central 99 % of the values.
    """
    X = adult().X_train[list(ADULT_BOUNDS)].head(n)
    found = propose_ranges(X, epsilon=epsilon).ranges
    outside, widths = [], []
    for name, each in found.items():
        if each is not None:
            outside.append(float(np.mean((X[name] < each.low) | (X[name] > each.high))))
            low, high = X[name].quantile([0.005, 0.995])
            widths.append((each.high - each.low) / (high - low))
    if not outside:
        return [len(found), np.nan, np.nan, np.nan]
    absent = len(found) - len(outside)
    return [absent, np.mean(outside), max(outside), np.mean(widths)]


class Stated(ClassifierMixin, BaseEstimator):
    """Predicts the probability that stands in the only column."""

    classes_ = np.array([0, 1])

    def fit(self, X: np.ndarray, y: np.ndarray) -> Stated:
        """Look at nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The column, and what is left."""
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Whether the column is above a half."""
        return (X[:, 0] > 0.5).astype(int)


def area_errors(
    model: Any, X: Any, y: np.ndarray, **facts: Any
) -> tuple[float, float, float]:
    """Released less exact: ROC AUC, average precision, and ROC AUC of 8 intervals."""
    p = model.predict_proba(X)[:, 1]
    exact = roc_auc_of(y, p), average_precision_score(y, p)
    run = private_evaluation(model, X, y, **facts)
    narrow = np.sin(np.linspace(0, np.pi / 2, 9)) ** 2
    few = facts | {"thresholds": np.r_[0.0, narrow[1:-1], 1.0]}
    of_few = private_evaluation(model, X, y, **few).roc_auc
    return (run.roc_auc - exact[0], run.average_precision - exact[1], of_few - exact[0])


_AREAS = ("ROC AUC", "average precision", "ROC AUC of 8")


def _rms(values: np.ndarray, _: Any) -> str:
    near = np.mean(np.abs(values[:, 0]) <= 0.01)
    found = ", ".join(f"{x:.4f}" for x in np.sqrt(np.mean(values**2, axis=0)))
    return f"{_RMS}{found}; ROC AUC within 0.01: {near:.0%}"


@benchmark("areas", runs=200, judged=True)
def areas() -> Iterator[Line]:
    """`private_evaluation` of a private model on 10,000 test records of Adult."""
    for epsilon, adjacency, has_ledger in product(
        (0.1, 0.3, 1.0), ("replace_one", "zero_out"), (False, True)
    ):
        yield line(
            {"epsilon": epsilon, "adjacency": adjacency},
            "Gaussian, in a ledger" if has_ledger else "the least noise",
            partial(_of_adult, epsilon, adjacency, has_ledger),
            _AREAS,
            private=True,
            judge=_rms,
        )


@lru_cache(maxsize=1)
def _predicted() -> tuple[np.ndarray, np.ndarray]:
    """Predicted once: what is evaluated is the same in every run."""
    data = adult()
    model = DPLogisticRegression(1.0, columns=_DECLARED, classes=[0, 1])
    quietly_fitted(model, data.X_train, data.y_train)
    return model.predict_proba(data.X_test[:10_000])[:, 1:], data.y_test[:10_000]


def _of_adult(epsilon: float, adjacency: str, has_ledger: bool, run: int) -> Any:
    facts: dict[str, Any] = {"epsilon": epsilon, "adjacency": adjacency}
    with tempfile.TemporaryDirectory() as folder:
        if has_ledger:
            path = Path(folder) / "ledger.db"
            facts["ledger"] = BudgetLedger(
                path, epsilon=1e4, delta=1e-3, adjacency=adjacency
            )
        return area_errors(Stated(), *_predicted(), **facts)


@benchmark("thresholds", runs=20, judged=True)
def thresholds() -> Iterator[Line]:
    """Balanced accuracy of rare labels, one in 41, with and without a threshold."""
    for epsilon in (0.5, 1.0, 4.0):
        yield line(
            {"epsilon": epsilon},
            "made-up tables",
            partial(_balanced, epsilon),
            ("at 1/2", "tuned", "balanced weights, not private"),
            private=True,
            judge=lambda values, _: f"lowest {values.min(axis=0).round(3)}",
        )


def _balanced(epsilon: float, seed: int) -> list[float]:
    X, y = make_classification(
        22_000, 10, n_informative=6, weights=[40 / 41], flip_y=0.005, random_state=seed
    )
    X /= np.sqrt(10.0)
    model = DPLogisticRegression(classes=[0, 1], data_norm=2.0)
    models = (
        DPLogisticRegression(epsilon, classes=[0, 1], data_norm=2.0),
        DPTunedThresholdClassifier(model, epsilon=epsilon),
        LogisticRegression(class_weight="balanced"),
    )
    return [
        balanced_accuracy_score(
            y[1::2], quietly_fitted(one, X[::2], y[::2]).predict(X[1::2])
        )
        for one in models
    ]
