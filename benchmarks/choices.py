"""Searches, calibration, class weights, and losses of counts, amounts and quantiles.

Scores are computed from raw data: the output is not private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from sklearn.metrics import (
    balanced_accuracy_score,
    d2_pinball_score,
    d2_tweedie_score,
    log_loss,
    roc_auc_score,
)

from benchmarks._models import Facts, of_rows, plain_logistic, quietly_fitted, scored
from benchmarks._runner import (
    Line,
    at_hand,
    benchmark,
    line,
    pair,
)
from benchmarks._tables import adult, rows, split
from skdp import (
    BoundedScaler,
    DPCalibratedClassifier,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPPoissonRegressor,
    DPQuantileRegressor,
    TableEncoder,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES
from skdp.model_selection import DPGridSearchCV

# ------------------------------------------------------------------------------ search

_PLAIN, _UNTUNED, _RIVAL = "not private", "default, untuned", "algorithm 3"
# Method and its parameters; the first is the private tuning of the bolt-on paper.
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    _RIVAL: ("disjoint_splits", {"mechanism": "exponential"}),
    "disjoint_splits": ("disjoint_splits", {}),
    "composition": ("composition", {}),
    "random_stopping": ("random_stopping", {}),
}
_STRENGTHS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]
# Epsilons, strengths and runs by table.
_TABLES: dict[str, tuple[tuple[float, ...], list[float], int]] = {
    "adult": ((0.1, 0.3, 1.0, 2.0), _STRENGTHS, 10),
    "covertype": ((0.1, 0.3, 1.0, 2.0), _STRENGTHS, 5),
    "mnist": ((1.0, 0.3), [0.001, 0.01, 0.1, 1.0, 10.0, 100.0], 2),
}


@benchmark("search", runs=10, judged=True)
def searches() -> Iterator[Line]:
    """Private searches at one total epsilon, replace_one, delta = 1 / n_train^2.

    Excess error is that over the model that is not private, of the same splits.
    """
    metrics = ("log-loss", "accuracy", "AUC", "s")
    for name in at_hand(_TABLES, _loaded):
        epsilons, strengths, runs = _TABLES[name]
        for epsilon, method in product(epsilons, (_PLAIN, _UNTUNED, *SEARCHES)):
            yield line(
                {"data": name, "epsilon": epsilon},
                method,
                partial(_searched, name, method, epsilon, strengths),
                metrics,
                private=True,
                most_runs=runs,
                judge=lambda values, plain: (
                    ""
                    if plain is None
                    else f"excess error {pair((plain - values)[:, 1])}"
                ),
                rival=_PLAIN,
            )


@lru_cache(maxsize=1)
def _loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    return rows(name)


def _searched(
    name: str, method: str, epsilon: float, strengths: list[float], seed: int
) -> list[float]:
    X, y = _loaded(name)
    part, known = split(X, y, seed), of_rows(y)
    facts = Facts(known, epsilon, 1 / len(part[1]) ** 2, "replace_one")
    model: Any = plain_logistic()
    if method == _UNTUNED:
        model = facts.dense()
    elif method != _PLAIN:
        kind, params = SEARCHES[method]
        model = DPGridSearchCV(
            DPLogisticRegression(classes=known.classes),
            {"C": strengths},
            method=kind,
            method_params=params,
            epsilon=epsilon,
            delta=facts.delta,
            adjacency=facts.adjacency,
        )
    return scored(model, part, known)


# --------------------------------------------------------------------------- calibrati


class Bold(DPLogisticRegression):
    """Far too sure: log-odds are thrice what it was fitted to give."""

    def predict_proba(self, X: Any) -> np.ndarray:
        p = super().predict_proba(X)[:, 1]
        sure = expit(3 * logit(np.clip(p, 1e-9, 1 - 1e-9)))
        return np.column_stack([1 - sure, sure])


def calibration_error(y: np.ndarray, p: np.ndarray, n_bins: int = 20) -> float:
    """Mean distance of predicted and found shares in intervals of equal width."""
    place = np.minimum((p * n_bins).astype(int), n_bins - 1)
    apart = np.bincount(place, p - y, minlength=n_bins)
    return float(np.abs(apart).sum() / len(y))


@benchmark("calibration", runs=10, judged=True)
def calibrations() -> Iterator[Line]:
    """Probabilities before and after a private calibration by a fifth of the records.

    On Adult, and on made-up tables of 10,000 records with one in 20 positive.
    """
    models: tuple[tuple[str, type[Any]], ...] = (
        ("linear", DPLogisticRegression),
        ("bold", Bold),
        ("boosted", DPGradientBoostingClassifier),
    )
    for data, epsilon, (name, kind) in product(("adult", "rare"), (0.3, 1.0), models):
        if data == "rare" and name == "boosted":
            continue
        for way in ("as it is", "of four fifths", "sigmoid", "isotonic"):
            yield line(
                {"data": data, "epsilon": epsilon, "model": name},
                way,
                partial(_calibrated, data, kind, epsilon, way),
                ("log-loss", "calibration error"),
                private=True,
                judge=lambda values, _: f"worst log-loss {values[:, 0].max():.4f}",
            )


def _calibrated(
    data: str, kind: type[Any], epsilon: float, way: str, seed: int
) -> tuple[float, float]:
    if data == "adult":
        table = adult()
        train, test = (table.X_train, table.y_train), (table.X_test, table.y_test)
        model = kind(columns=ADULT_BOUNDS | ADULT_CATEGORIES, classes=[0, 1])
    else:
        X, y = make_classification(
            30_000, 10, n_informative=5, weights=[0.95], random_state=seed
        )
        X /= np.sqrt(10.0)
        train, test = (X[:10_000], y[:10_000]), (X[10_000:], y[10_000:])
        model = kind(classes=[0, 1], data_norm=2.0)
    if way == "as it is":
        model = quietly_fitted(model.set_params(epsilon=epsilon), *train)
    else:
        method = "sigmoid" if way == "of four fifths" else way
        model = DPCalibratedClassifier(model, method=method, epsilon=epsilon)
        quietly_fitted(model, *train)
        model = model.estimator_ if way == "of four fifths" else model
    p = model.predict_proba(test[0])[:, 1]
    return log_loss(test[1], p), calibration_error(test[1], p)


# ------------------------------------------------------------------------- class weigh

_WEIGHTS = {0: 1, 1: 40}
_TRAINED = 8_250
WEIGHTED: dict[str, type[Any]] = {
    "DPLogisticRegression": DPLogisticRegression,
    "DPLinearSVC": DPLinearSVC,
    "DPMLPClassifier": DPMLPClassifier,
    "DPGradientBoostingClassifier": DPGradientBoostingClassifier,
}


def rare_labels(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """11,000 records; 2.4 % of the labels are 1.

    So made up that scikit-learn with balanced weights has a balanced accuracy of 0.78.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (11_000, 5))
    raw = (X - 0.5) @ rng.choice([-1, 1], 5)
    chance = 1 / (1 + np.exp(4.8 - 2.6 * raw))
    return X, (rng.random(len(X)) < chance).astype(int)


@benchmark("class_weights", runs=20)
def class_weights() -> Iterator[Line]:
    """Rare labels, one in forty, with declared weights and without."""
    for name, epsilon, is_weighted in (
        ("scikit-learn", np.inf, True),
        *product(WEIGHTED, (0.5, 1.0, 4.0), (True, False)),
    ):
        yield line(
            {"epsilon": epsilon, "weights": "1:40" if is_weighted else "none"},
            str(name),
            partial(_weighted, name, epsilon, is_weighted),
            ("balanced accuracy", "AUC", "mean probability over share"),
            private=name in WEIGHTED,
        )


def _weighted(
    name: str, epsilon: float, is_weighted: bool, seed: int
) -> tuple[float, ...]:
    X, y = rare_labels(seed)
    model: Any = LogisticRegression(class_weight="balanced", C=100)
    facts: dict[str, Any] = {"class_weight": _WEIGHTS if is_weighted else None}
    if name in WEIGHTED:
        model = WEIGHTED[name](epsilon, classes=[0, 1], **facts)
    if name == "DPGradientBoostingClassifier":
        model.set_params(columns=(0, 1))
    else:
        X = np.asarray(BoundedScaler(bounds=(0, 1)).fit_transform(X))
    quietly_fitted(model, X[:_TRAINED], y[:_TRAINED])
    X, y = X[_TRAINED:], y[_TRAINED:]
    ratio = np.nan
    if hasattr(model, "predict_proba"):
        ratio = model.predict_proba(X)[:, 1].mean() / y.mean()
    balanced = balanced_accuracy_score(y, model.predict(X))
    return balanced, roc_auc_score(y, model.decision_function(X)), ratio


# --------------------------------------------------------- counts, amounts and quantil

_HELD_OUT = 5_000
_HIRES: dict[str, Any] = {
    "hour": (0, 24),
    "weekday": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
    "temperature": (-10, 40),
    "humidity": (0, 100),
    "wind": (0, 60),
}


@dataclass(frozen=True)
class Loss:
    """A model with what it is told, its twin without privacy, targets and a score."""

    kind: Callable[..., Any]
    bounds: tuple[float, float]
    plain: Callable[[], Any]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    score: Callable[[np.ndarray, np.ndarray], float]
    most: int | None = None  # records that the twin is fitted to, for its time


def _counts(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Counts that vary more than Poisson's."""
    return rng.poisson(mean * rng.gamma(3.0, 1 / 3, len(mean))).astype(float)


def _amounts(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    return np.maximum(rng.gamma(2.0, mean / 2), 0.1)


def _of_counts(top: float) -> Loss:
    return Loss(
        DPPoissonRegressor,
        (0, top),
        lambda: PoissonRegressor(alpha=1e-6, max_iter=1000),
        _counts,
        partial(d2_tweedie_score, power=1),
    )


def _of_quantile(level: float) -> Loss:
    return Loss(
        partial(DPQuantileRegressor, quantile=level),
        (0, 240.0),
        lambda: QuantileRegressor(quantile=level, alpha=0.0),
        _amounts,
        partial(d2_pinball_score, alpha=level),
        most=2_000,
    )


LOSSES = {
    "DPPoissonRegressor, at most 60": _of_counts(60.0),
    "DPPoissonRegressor, at most 240": _of_counts(240.0),
    "DPGammaRegressor, 0.1 to 240": Loss(
        DPGammaRegressor,
        (0.1, 240),
        lambda: GammaRegressor(alpha=1e-6, max_iter=1000),
        _amounts,
        partial(d2_tweedie_score, power=2),
    ),
    "DPQuantileRegressor, 0.5, at most 240": _of_quantile(0.5),
    "DPQuantileRegressor, 0.9, at most 240": _of_quantile(0.9),
}


@benchmark("target_losses", runs=10)
def target_losses() -> Iterator[Line]:
    """D2 on 5,000 held-out records of a made-up table of hires by the hour."""
    for (name, loss), n, epsilon in product(
        LOSSES.items(), (2_000, 10_000), (0.5, 1.0, 4.0, np.inf)
    ):
        yield line(
            {"n": n, "epsilon": epsilon},
            name,
            partial(_explained, loss, n, epsilon),
            ("D2",),
            private=bool(np.isfinite(epsilon)),
            note="" if np.isfinite(epsilon) else "scikit-learn",
        )


def hires(loss: Loss, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Records to train on, and held-out ones; about twelve hires an hour."""
    rng = np.random.default_rng(seed)
    size = n + _HELD_OUT
    frame = pd.DataFrame(
        {
            "hour": rng.integers(0, 24, size),
            "weekday": rng.choice(_HIRES["weekday"], size),
            "temperature": rng.normal(14, 8, size).clip(-10, 40),
            "humidity": rng.uniform(20, 100, size),
            "wind": rng.gamma(2.0, 7.0, size).clip(0, 60),
        }
    )
    daily = 1.2 * np.sin((frame["hour"] - 9) / 24 * 2 * np.pi)
    weekend = 0.4 * frame["weekday"].isin(["sat", "sun"])
    weather = 0.04 * (frame["temperature"] - 14) - 0.01 * (frame["humidity"] - 60)
    mean = np.exp(2.0 + daily + weekend + weather - 0.01 * frame["wind"])
    return frame, loss.draw(rng, mean.to_numpy())


def _explained(loss: Loss, n: int, epsilon: float, seed: int) -> float:
    frame, y = hires(loss, n, seed)
    new = frame[n:]
    if np.isfinite(epsilon):
        model = loss.kind(epsilon, columns=_HIRES, target_bounds=loss.bounds)
        quietly_fitted(model, frame[:n], y[:n])
    else:
        encoder = TableEncoder(_HIRES).fit(frame[:n])
        few = encoder.transform(frame[:n])[: loss.most]
        model, new = loss.plain().fit(few, y[:n][: loss.most]), encoder.transform(new)
    return float(loss.score(y[n:], model.predict(new)))
