"""What is learned in the tables of sparse models, and by what it is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import Lasso
from sklearn.metrics import f1_score, log_loss, r2_score

from benchmarks import _sparse_data as texts
from benchmarks._line import FIRST_TUNING_RUN
from benchmarks._papers._sparse import Table, dp_ight
from benchmarks._references import l1_logistic
from benchmarks._sparse_design import (
    Design,
    Sample,
    relative_error,
    support_f1,
)


class Task(ABC):
    """A task of some name, with labels or with targets.

    Attributes
    ----------
    name : str
    labels : bool
    metrics : tuple of str
    better : {"lower", "higher"}
        Which values of the first metric are.
    s : int or None
        Number of features asked for; None for the estimators' own rule.
    data_norm, feature_bound : float
        Declared.
    target_bounds : tuple of float or None
        Declared; None for labels.
    has_intercept : bool
        Whether ours fits one. The thesis's methods never do.
    reference : str
        Name of what `not_private` measures.
    """

    name: str
    labels: bool
    metrics: tuple[str, ...]
    better: str
    s: int | None
    data_norm: float
    feature_bound: float | None
    target_bounds: tuple[float, float] | None
    has_intercept: bool
    reference: str

    @abstractmethod
    def table(self, run: int) -> Table:
        """The training set of a run."""

    @abstractmethod
    def of_weights(self, weights: np.ndarray, run: int) -> tuple[float, ...]:
        """The metrics of weights without an intercept."""

    @abstractmethod
    def of_model(self, model: Any, run: int) -> tuple[float, ...]:
        """The metrics of a fitted linear model."""

    @abstractmethod
    def of_constant(self, run: int) -> tuple[float, ...]:
        """The metrics of the same prediction for all."""

    @abstractmethod
    def not_private(self, run: int) -> tuple[float, ...]:
        """The metrics of a sparse model without privacy."""


@dataclass(frozen=True)
class SyntheticTask(Task):
    """Weights to be found; without an intercept, as there is none.

    Parameters
    ----------
    design : Design
    target_deviations : float
        Half the width of the target bounds, in deviations of the targets.
    """

    design: Design
    target_deviations: float = 3.0

    metrics = ("relative error", "support F1")
    better = "lower"
    has_intercept = False
    reference = "IGHT"

    @property
    def name(self) -> str:
        d = self.design
        return f"{d.kind}, n={d.n}, d={d.d}, s={d.s}"

    @property
    def labels(self) -> bool:
        return self.design.labels

    @property
    def s(self) -> int:
        return self.design.s

    @property
    def data_norm(self) -> float:
        return self.design.data_norm

    @property
    def feature_bound(self) -> float:
        return self.design.feature_bound

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        if self.labels:
            return None
        bound = self.target_deviations * self.design.deviation
        return -bound, bound

    def table(self, run: int) -> Table:
        sample = _sample(self.design, run)
        return Table(
            X=sample.X,
            y=sample.y,
            labels=self.labels,
            s=self.s,
            data_norm=self.data_norm,
            feature_bound=self.feature_bound,
            entry_variance=self.design.entry_variance,
            curvature=self.design.entry_variance,
            residual=0.5 if self.labels else self.design.deviation,
        )

    def of_weights(self, weights: np.ndarray, run: int) -> tuple[float, ...]:
        true = _sample(self.design, run).weights
        return relative_error(weights, true), support_f1(weights, true)

    def of_model(self, model: Any, run: int) -> tuple[float, ...]:
        return self.of_weights(np.asarray(model.coef_, float).ravel(), run)

    def of_constant(self, run: int) -> tuple[float, ...]:
        return self.of_weights(np.zeros(self.design.d), run)

    def not_private(self, run: int) -> tuple[float, ...]:
        found = dp_ight(self.table(run), n_steps=50, step=0.6, deviation=0.0)
        return self.of_weights(found, run)


# A design of 5000 x 5000 takes 100 MB and a quarter of a second.
@lru_cache(maxsize=1)
def _sample(design: Design, run: int) -> Sample:
    return design.sample(run)


@dataclass(frozen=True)
class TextTask(Task):
    """Many words, fixed training and test parts; a run has noise of its own only.

    Parameters
    ----------
    data : str
        A name that `load` knows.
    labels : bool
    s : int or None
    data_norm : float
    feature_bound : float or None
    target_bounds : tuple of float or None
    n_features, n_train, n_test : int or None
        Random parts of what there is.
    file_features : int or None
        Declared width of the files of published data.
    """

    data: str
    labels: bool
    s: int | None
    data_norm: float
    feature_bound: float | None
    target_bounds: tuple[float, float] | None = None
    n_features: int | None = None
    n_train: int | None = None
    n_test: int | None = None
    file_features: int | None = None

    better = "higher"
    has_intercept = True

    @property
    def name(self) -> str:
        return self.data

    @property
    def metrics(self) -> tuple[str, ...]:
        if self.labels:
            return "accuracy", "log-loss", "F1", "error"
        return "R2", "half MSE"

    @property
    def reference(self) -> str:
        return "L1 logistic regression" if self.labels else "Lasso"

    def parts(self, run: int) -> texts.Parts:
        """Training and test part; of the training part alone where an oracle tunes."""
        data = _parts(self)
        if run < FIRST_TUNING_RUN:
            return data
        held = np.arange(len(data.y_train)) % 5 == 4
        X, y = data.X_train, data.y_train
        return texts.Parts(X[~held], y[~held], X[held], y[held])

    def table(self, run: int) -> Table:
        data = self.parts(run)
        X, bounds = data.X_train, self.target_bounds
        return Table(
            X=X,
            y=data.y_train,
            labels=self.labels,
            s=self.s or 1,
            data_norm=self.data_norm,
            feature_bound=self.feature_bound or self.data_norm,
            entry_variance=self.data_norm**2 / X.shape[1],
            curvature=self.data_norm**2,
            residual=max(map(abs, bounds)) if bounds else 0.5,
        )

    def of_raw(self, raw: np.ndarray, run: int) -> tuple[float, ...]:
        """The metrics of raw predictions for the test part."""
        y = self.parts(run).y_test
        if not self.labels:
            return r2_score(y, raw), float(np.mean((raw - y) ** 2) / 2)
        positive = raw > 0
        right = float(np.mean(positive == y))
        loss = log_loss(y, expit(raw), labels=[0, 1])
        return right, loss, f1_score(y, positive, zero_division=0), 1 - right

    def of_weights(self, weights: np.ndarray, run: int) -> tuple[float, ...]:
        return self.of_raw(self.parts(run).X_test @ weights, run)

    def of_model(self, model: Any, run: int) -> tuple[float, ...]:
        predict = model.decision_function if self.labels else model.predict
        return self.of_raw(predict(self.parts(run).X_test), run)

    def of_constant(self, run: int) -> tuple[float, ...]:
        data = self.parts(run)
        mean = float(data.y_train.mean())
        raw = logit(mean) if self.labels else mean
        return self.of_raw(np.full(len(data.y_test), raw), run)

    def not_private(self, run: int) -> tuple[float, ...]:
        """With an L1 penalty, its strength chosen on every fifth training row."""
        # In single precision scikit-learn's Lasso does not converge on sparse rows.
        X, y = self.parts(run).X_train.astype(float), self.parts(run).y_train
        held = np.arange(len(y)) % 5 == 4
        models: list[Any] = [l1_logistic(C, tol=1e-2) for C in (1.0, 3.0, 10.0)]
        if not self.labels:
            spread = float(y.std() * np.sqrt(X.multiply(X).mean()))
            models = [
                Lasso(alpha=share * spread, max_iter=100, tol=1e-2)
                for share in (0.03, 0.01, 0.005)
            ]
        reached = [
            model.fit(X[~held], y[~held]).score(X[held], y[held]) for model in models
        ]
        best = models[int(np.argmax(reached))].fit(X, y)
        return self.of_model(best, run)


@lru_cache(maxsize=1)
def _parts(task: TextTask) -> texts.Parts:
    name = task.data
    if name.startswith("imdb"):
        _, target, form = name.split()
        data = texts.imdb(target, form)
    elif name == "reuters":
        data = texts.reuters()
    else:
        data = texts.PUBLISHED[name](task.file_features)
    return texts.sampled(
        data, n_features=task.n_features, n_train=task.n_train, n_test=task.n_test
    )
