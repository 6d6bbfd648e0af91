"""Persons with several rows: what it costs to protect a person.

Adult's training rows are dealt to persons of 1 to 5 rows, at random or so that rows of
a person are alike (neighbours after sorting by what a person hardly changes). Ways to
protect a person, at the same epsilon and number of persons:

- *first row*: one row a person, which is record level;
- *mean*: all rows, ``privacy_unit="user"``;
- *five slots*: all rows as records, at a fifth of mu, which is what a sum of up to five
  rows a person costs (group privacy, exact for Gaussian noise);
- *sum, c*: ``solver="noisy_gd", solver_params={"user_clip": c}``, rows as they come.

Scores are those of the official test records, which are not private.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark, line, pair
from benchmarks._tables import adult
from skdp import (
    DPGradientBoostingClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSparseLogisticRegression,
)
from skdp._arrays import IntArray
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, Dataset
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu

MOST_ROWS, DELTA = 5, 1e-6
COLUMNS = ADULT_BOUNDS | ADULT_CATEGORIES
_OF_A_PERSON = ["sex", "race", "education-num", "occupation", "relationship", "age"]


@dataclass(frozen=True)
class Persons:
    """Rows of some persons."""

    X: pd.DataFrame
    y: np.ndarray
    ids: IntArray

    @property
    def firsts(self) -> IntArray:
        """The place of everybody's first row."""
        return np.unique(self.ids, return_index=True)[1]


def dealt(data: Dataset, n_persons: int, *, alike: bool, seed: int) -> Persons:
    """Persons of 1 to 5 training rows each."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.y_train))
    if alike:
        own = data.X_train.iloc[order][_OF_A_PERSON]
        order = order[np.lexsort([own[c].astype(str) for c in _OF_A_PERSON[::-1]])]
    sizes = rng.integers(1, MOST_ROWS + 1, len(order))
    ids = np.repeat(np.arange(len(order)), sizes)[: len(order)]
    # The last one may have fewer rows than were drawn.
    chosen = np.isin(ids, rng.permutation(ids[-1])[:n_persons])
    rows = order[chosen]
    return Persons(data.X_train.iloc[rows], data.y_train[rows], ids[chosen])


MODELS: dict[str, type[Any]] = {
    "logistic": DPLogisticRegression,
    "sparse": DPSparseLogisticRegression,
    "trees": DPGradientBoostingClassifier,
    "network": DPMLPClassifier,
}
_FIRST, _MEAN, _SLOTS = "first row", "mean", "five slots"
_SUMS = {"sum, 1/2": 0.5, "sum, 1": 1.0}


def fitted(way: str, rows: Persons, kind: type[Any], **budget: Any) -> Any:
    """A model that protects persons in one of the ways."""
    epsilon = budget.pop("epsilon")
    if way == _SLOTS:
        mu = gaussian_mu(epsilon, DELTA) / MOST_ROWS
        epsilon = gaussian_epsilon(mu, DELTA)
    X, y, unit = rows.X, rows.y, "user"
    groups: dict[str, Any] = {"groups": rows.ids}
    if way in (_FIRST, _SLOTS):
        unit, groups = "record", {}
        if way != _SLOTS:
            X, y = X.iloc[rows.firsts], y[rows.firsts]
    known = {"columns": COLUMNS, "classes": [0, 1]}
    budget |= {"epsilon": epsilon, "delta": DELTA, "privacy_unit": unit}
    if way in _SUMS:
        clip = {"user_clip": _SUMS[way]}
        known |= {"solver": "noisy_gd", "solver_params": clip}
    return quietly_fitted(kind(**known, **budget), X, y, **groups)


@benchmark("users", runs=8, judged=True)
def lines(model: str = "logistic", epsilon: float = 1.0) -> Iterator[Line]:
    """What it costs to protect persons with several rows, by a model of `MODELS`."""
    ways: tuple[str, ...] = (_FIRST, _MEAN, _SLOTS)
    if model == "logistic":
        ways += tuple(_SUMS)
    for alike, n, adjacency in product(
        (False, True), (1000, 3000, 10_000), ("replace_one", "zero_out")
    ):
        for way in ways:
            facts = (MODELS[model], way, alike, n, adjacency, epsilon)
            yield line(
                {
                    "rows": "alike" if alike else "at random",
                    "persons": n,
                    "adjacency": adjacency,
                },
                way,
                partial(_scores, *facts),
                ("accuracy", "log-loss"),
                private=True,
                judge=_beyond,
                rival=_MEAN,
            )


def _scores(
    kind: type[Any],
    way: str,
    alike: bool,
    n: int,
    adjacency: str,
    epsilon: float,
    seed: int,
) -> list[float]:
    data = adult()
    rows = dealt(data, n, alike=alike, seed=seed)
    model = fitted(way, rows, kind, epsilon=epsilon, adjacency=adjacency)
    loss = log_loss(data.y_test, model.predict_proba(data.X_test))
    return [float(model.score(data.X_test, data.y_test)), float(loss)]


def _beyond(values: np.ndarray, mean: np.ndarray | None) -> str:
    """By how much a way is above the mean, of the same persons."""
    if mean is None or not len(mean):
        return ""
    n = min(len(values), len(mean))
    return " and ".join(pair(of, "+.4f") for of in (values[:n] - mean[:n]).T)
