"""How often conformal intervals and sets of a private histogram hold the truth.

The model of a target is known; targets are its predictions and errors of a law: normal,
heavy (t with three degrees of freedom), uniform, or rounded (a Poisson number of which
the model knows the mean, so that residuals have few values). Their 95 % quantile is
about a tenth of the declared width. The model of four labels knows their probabilities;
the one of sure labels knows three times their log-odds. Of groups, the second has a
fifth of the records and errors twice as large; the coverage is that of the second. Of
users, each has one to three records, and errors of a size of the user's own; `n` is the
number of users.

One record is protected, without a ledger (mostly Laplace noise) or in one (Gaussian).
Every run has new records, one release, and 4,000 other records that are held or not.
`wider` is the mean half width over that without privacy; for labels, the mean number of
labels over that without privacy. `all` is the share of releases in which noise leaves
nothing but the whole range.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression

from benchmarks._runner import Line, benchmark, line
from skdp import BudgetLedger, DPConformalClassifier, DPConformalRegressor
from skdp.model_selection import _conformal
from skdp.privacy.accounting._relations import relation_for

_SIZES, _EPSILONS, _LAWS = (500, 5_000, 50_000), (0.3, 1.0, 4.0), ("none", "ledger")
_BOUNDS, _LEVEL, _TOLERANCE = (-10.0, 10.0), 0.95, 0.015
_N_TEST, _N_WITHOUT = 4_000, 200_000
_RUNS = {500: 1_000, 5_000: 300, 50_000: 100}
_ERRORS = {
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "heavy": lambda rng, n: rng.standard_t(3, n) / 1.6,
    "uniform": lambda rng, n: rng.uniform(-2, 2, n),
}
_CASES = (*_ERRORS, "rounded", "groups", "users", "labels", "sure labels")


class OfLogOdds(ClassifierMixin, BaseEstimator):
    """Predicts labels by log-odds that stand in the columns, times a factor."""

    classes_ = np.arange(4)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def fit(self, X: np.ndarray, y: np.ndarray) -> OfLogOdds:
        """Look at nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Softmax of the columns."""
        return np.asarray(softmax(self.factor * X, axis=1))


def records(
    case: str, n_samples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, targets and ids of users; `n_samples` is the number of users."""
    ids = np.arange(n_samples)
    if case.endswith("labels"):
        X = rng.normal(0, 2, (n_samples, 4))
        below = softmax(X, axis=1).cumsum(axis=1) < rng.random((n_samples, 1))
        return X, below.sum(axis=1), ids
    if case == "users":
        ids = np.repeat(ids, rng.integers(1, 4, n_samples))
    means = rng.uniform(-4, 4, len(ids))
    second = (rng.random(len(ids)) < 0.2).astype(float)
    if case == "rounded":
        y = rng.poisson(1.0, n_samples) + np.round(means)
        return np.column_stack([np.round(means) + 1, second]), y, ids
    errors = _ERRORS.get(case, _ERRORS["normal"])(rng, len(ids))
    if case == "groups":
        errors *= 1 + second
    if case == "users":
        errors *= rng.uniform(0.2, 1.4, n_samples)[ids]
    return np.column_stack([means, second]), means + errors, ids


@cache
def model(case: str) -> Any:
    """What is known of the targets."""
    if case.endswith("labels"):
        return OfLogOdds(1.0 if case == "labels" else 3.0)
    return LinearRegression().fit([[0, 0], [1, 0], [0, 1]], [0, 1, 0])


def sizes(case: str, found: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Share of the records that are held, and the mean size of a region."""
    if case.endswith("labels"):
        sets = found.predict_set(X)
        return sets[np.arange(len(y)), y].mean(), sets.sum(axis=1).mean()
    low, high = found.predict_interval(X).T
    return float(np.mean((low <= y) & (y <= high))), float(np.mean(high - low))


def conformal(case: str, epsilon: float, **facts: Any) -> Any:
    """The estimator of a case."""
    facts |= {"confidence_level": _LEVEL, "epsilon": epsilon}
    if case.endswith("labels"):
        return DPConformalClassifier(model(case), **facts)
    if case == "groups":
        facts["split_by"] = {1: [0.0, 1.0]}
    return DPConformalRegressor(model(case), target_bounds=_BOUNDS, **facts)


def tested(case: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """New records; of groups those of the second, of users one each."""
    X, y, ids = records(case, _N_TEST, rng)
    X, y = (X[_firsts(ids)], y[_firsts(ids)]) if case == "users" else (X, y)
    is_tested = X[:, 1] == 1 if case == "groups" else slice(None)
    return X[is_tested], y[is_tested]


def _firsts(ids: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.diff(ids, prepend=-1))


@cache
def without(case: str) -> float:
    """The mean size of a region without privacy."""
    rng = np.random.default_rng(10**6)
    X, y, ids = records(case, _N_WITHOUT, rng)
    rows = _firsts(ids)
    found = conformal(case, math.inf).fit(X[rows], y[rows])
    return sizes(case, found, *tested(case, rng))[1]


def released(
    case: str,
    n_samples: int,
    epsilon: float,
    law: str,
    adjacency: str,
    intervals: int,
    seed: int,
) -> list[float]:
    """Coverage, relative size, and whether all is within."""
    rng = np.random.default_rng(seed)
    X, y, ids = records(case, n_samples, rng)
    facts: dict[str, Any] = {"adjacency": adjacency}
    given = {"groups": ids} if case == "users" else {}
    if given:
        facts["privacy_unit"] = "user"
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        ExitStack() as stack,
    ):
        warnings.simplefilter("ignore")
        if intervals:
            stack.enter_context(patch.object(_conformal, "_INTERVALS", {intervals: 0}))
        if law == "ledger":
            books: dict[str, Any] = {"epsilon": 1e4, "delta": 1e-3}
            if given:
                relation = relation_for(adjacency, "user")
                books |= {"unit": "user", "adjacency": relation}
            facts["ledger"] = BudgetLedger(Path(folder) / "ledger.db", **books)
        found = conformal(case, epsilon, **facts).fit(X, y, **given)
    covered, size = sizes(case, found, *tested(case, rng))
    return [covered, size / without(case), np.isinf(found.quantile_.flat[-1])]


@benchmark("conformal", runs=max(_RUNS.values()), judged=True)
def lines(
    cases: str = "", adjacency: str = "replace_one", intervals: int = 0
) -> Iterator[Line]:
    """Coverage of conformal intervals and sets.

    `cases` are names with commas; `intervals` is the number of intervals of residuals,
    0 for that of the rule.
    """
    for case in cases.split(",") if cases else _CASES:
        for law, n_samples, epsilon in product(_LAWS, _SIZES, _EPSILONS):
            yield line(
                {"case": case, "n": n_samples, "epsilon": epsilon, "ledger": law},
                "95 %",
                partial(released, case, n_samples, epsilon, law, adjacency, intervals),
                ("coverage", "wider", "all"),
                private=True,
                most_runs=_RUNS[n_samples],
                judge=_summary,
            )


def _summary(values: np.ndarray, _: Any) -> str:
    """Whether the mean coverage is within the tolerance, and its spread."""
    covered = values[:, 0]
    away = covered.mean() - _LEVEL
    missed = "MISSED" if abs(away) > _TOLERANCE else "within"
    if values[:, 2].all():
        missed = "whole range"
    least = 100 * np.quantile(covered, 0.05)
    return f"{missed}: {100 * away:+.2f}, one in twenty below {least:.1f} %"
