"""All models of declared tables and of rows, by name, and how they are scored."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from benchmarks._tables import Declared, Parts
from skdp import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPSparseLogisticRegression,
    TableEncoder,
)
from skdp.solvers import SOLVERS


@dataclass(frozen=True)
class Facts:
    """What a model may use: public facts of a table, and a budget."""

    known: Declared
    epsilon: float
    delta: float
    adjacency: str
    seed: int | None = None

    @property
    def columns(self) -> Any:
        """The declared columns."""
        return self.known.columns

    @property
    def dense(self) -> Callable[..., Any]:
        """The linear model of the task; what is left open is keyword arguments."""
        return self._one_of(DPLogisticRegression, DPLinearRegression)

    @property
    def boosted(self) -> Callable[..., Any]:
        """The boosted model of the task; what is left open is keyword arguments."""
        return self._one_of(DPGradientBoostingClassifier, DPGradientBoostingRegressor)

    @property
    def network(self) -> Callable[..., Any]:
        """The network of the task; what is left open is keyword arguments."""
        return self._one_of(DPMLPClassifier, DPMLPRegressor)

    def _one_of(self, classifier: Any, regressor: Any) -> Callable[..., Any]:
        budget: dict[str, Any] = {"delta": self.delta, "adjacency": self.adjacency}
        budget |= {"epsilon": self.epsilon, "random_state": self.seed}
        if self.known.classes is not None:
            return partial(classifier, classes=self.known.classes, **budget)
        return partial(regressor, target_bounds=self.known.target_bounds, **budget)


def _lines(facts: Facts) -> TableEncoder:
    return TableEncoder(facts.columns, numeric="linear")


Maker = Callable[[Facts], Any]
# Private models of declared columns.
MODELS: dict[str, Maker] = {
    "default": lambda f: f.dense(columns=f.columns),
    "as_encoded": lambda f: f.dense(columns=f.columns, solver="noisy_gd"),
    "lines": lambda f: f.dense(columns=_lines(f)),
    "linear": lambda f: f.dense(columns=_lines(f), solver="noisy_gd"),
    "bins": lambda f: f.dense(columns=TableEncoder(f.columns, numeric="bins")),
    "boosted": lambda f: f.boosted(columns=f.columns),
    "from_constant": lambda f: f.boosted(columns=f.columns, init="constant"),
    "network": lambda f: f.network(columns=f.columns),
}


class Constant:
    """Shares of the declared labels, or the mean, without noise and at no cost."""

    def __init__(self, known: Declared) -> None:
        self._classes = known.classes

    def fit(self, X: Any, y: np.ndarray) -> Constant:
        """Look at the targets only."""
        labels = self._classes or []
        self._mean, self._shares = y.mean(), [np.mean(y == label) for label in labels]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The same for every row."""
        return np.tile(self._shares, (len(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        """The most frequent label, or the mean."""
        if self._classes is None:
            return np.full(len(X), self._mean)
        return np.full(len(X), self._classes[int(np.argmax(self._shares))])


class Trees:
    """scikit-learn's histogram boosting of columns as it takes them: not private."""

    def __init__(self, known: Declared, **settings: Any) -> None:
        is_number = known.classes is None
        kind = (
            HistGradientBoostingRegressor
            if is_number
            else HistGradientBoostingClassifier
        )
        self._model = kind(
            categorical_features="from_dtype", random_state=0, **settings
        )
        self._words: dict[str, Any] = {}

    def fit(self, X: Any, y: np.ndarray) -> Trees:
        """Fit to all rows, words as categories."""
        if hasattr(X, "columns"):
            words = X.select_dtypes(exclude=["number", "bool"])
            self._words = {name: X[name].astype("category").dtype for name in words}
        self._model.fit(self._coded(X), y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels."""
        return np.asarray(self._model.predict_proba(self._coded(X)))

    def predict(self, X: Any) -> np.ndarray:
        """Labels or numbers."""
        return np.asarray(self._model.predict(self._coded(X)))

    def _coded(self, X: Any) -> Any:
        return X.astype(self._words) if self._words else X


# Models that are not private, of what is known of a table.
REFERENCES: dict[str, Callable[[Declared], Any]] = {
    "constant": Constant,
    "HistGradientBoosting": Trees,
}


def of_rows(y: np.ndarray) -> Declared:
    """What is known of rows of norm 1: their labels."""
    return Declared(None, np.unique(y).tolist(), None, {})


def by_solver(facts: Facts, solver: str) -> Any:
    """A classifier of rows of norm 1 by a named solver, with every default."""
    if solver in SOLVERS and SOLVERS[solver].is_sparse:
        return DPSparseLogisticRegression(
            facts.epsilon,
            delta=facts.delta,
            adjacency=facts.adjacency,
            classes=facts.known.classes,
            solver=solver,
        )
    return facts.dense(solver=solver)


def plain_logistic() -> LogisticRegression:
    """scikit-learn's logistic regression of rows of norm 1: not private."""
    return LogisticRegression(C=100.0, max_iter=200)


CLASSIFIED = ("log-loss", "accuracy", "AUC", "s")
NUMBERED = ("R2", "s")


def metrics_of(known: Declared) -> tuple[str, ...]:
    """The metrics of `scored`."""
    return NUMBERED if known.classes is None else CLASSIFIED


def quietly_fitted(model: Any, *args: Any, **kwargs: Any) -> Any:
    """A fit without warnings: that noise is strong is what is measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*args, **kwargs)


def scored(model: Any, parts: Parts | Iterable[Any], known: Declared) -> list[float]:
    """The metrics of one fit on one split; AUC of several classes: one against rest."""
    X_train, y_train, X, y = parts
    start = time.perf_counter()
    quietly_fitted(model, X_train, y_train)
    seconds = time.perf_counter() - start
    if known.classes is None:
        predicted = model.predict(X)
        if known.target_bounds is not None:
            predicted = np.clip(predicted, *known.target_bounds)
        return [float(r2_score(y, predicted)), seconds]
    shares, labels = model.predict_proba(X), known.classes
    ranked = shares[:, 1] if len(labels) == 2 else shares
    return [
        float(log_loss(y, shares, labels=labels)),
        float(accuracy_score(y, model.predict(X))),
        float(roc_auc_score(y, ranked, multi_class="ovr", labels=labels)),
        seconds,
    ]
