"""A table in three parts, as of three hospitals: models in turn, and one fit to all.

Each part is fitted with the whole budget, which its records alone pay for. Losses are
log-loss, or 1 - R^2, of the test part; they are not private, and fits are seeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from benchmarks._models import Facts, quietly_fitted
from benchmarks._runner import Line, at_hand, benchmark, line, mean_and_error
from benchmarks._tables import parts, table, taken
from benchmarks.default import ADJACENCIES, OTHERS, SETTLED, _losses, declared
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu

N_PARTS, _TARGET = 3, 0.005
METRICS = (
    "first part",
    "second in turn",
    "third in turn",
    "mean of three",
    "all rows, noise of three",
    "one fit to all",
    "constant",
)
FAMILIES = {
    "linear": lambda facts, **more: facts.dense(columns=facts.columns, **more),
    "boosted": lambda facts, **more: facts.boosted(columns=facts.columns, **more),
    "network": lambda facts, **more: facts.network(columns=facts.columns, **more),
}


class MeanOfModels:
    """The mean of the raw predictions of models that were fitted apart."""

    def __init__(self, models: list[Any]) -> None:
        self._models = models

    def predict(self, X: Any) -> np.ndarray:
        """Means of predictions of numbers."""
        return np.mean([model.predict(X) for model in self._models], axis=0)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the mean log-odds."""
        raw = np.mean([model.decision_function(X) for model in self._models], axis=0)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return np.asarray(softmax(raw, axis=1))


@benchmark("continued", runs=5, judged=True)
def lines(model: str = "linear", epsilon: float = 1.0) -> Iterator[Line]:
    """Three parts in turn (`init`) beside one fit to all, by a model of `FAMILIES`."""
    for name in at_hand((*SETTLED, *OTHERS), table):
        for adjacency in ADJACENCIES:
            yield line(
                {"data": name, "epsilon": epsilon, "adjacency": adjacency},
                model,
                partial(_measured, name, model, epsilon, adjacency),
                METRICS,
                private=True,
                judge=_over,
            )


def _over(values: np.ndarray, _: Any) -> str:
    """The last model in turn over the one fit to all."""
    mean, error = mean_and_error(values[:, 2] - values[:, 5])
    return f"{mean:+.4f} ± {error:.4f}{' MISSED' if mean > _TARGET else ''}"


def _measured(
    name: str, family: str, epsilon: float, adjacency: str, seed: int
) -> list[float]:
    known, cut = declared(name), parts(name, seed, "report")
    places = np.array_split(np.arange(len(cut.y_train)), N_PARTS)
    # Delta is the same for all, small beside one over the number of records of a part.
    facts = Facts(known, epsilon, 1 / len(places[0]) ** 2, adjacency)
    # One fit to all rows with the noise of the mean of three releases.
    mu = gaussian_mu(epsilon, facts.delta) / math.sqrt(N_PARTS)
    as_noisy = replace(facts, epsilon=gaussian_epsilon(mu, facts.delta))

    def fitted(facts: Facts, number: int, rows: Any, **more: Any) -> Any:
        seeded = replace(facts, seed=10 * seed + number)
        model = FAMILIES[family](seeded, **more)
        return quietly_fitted(model, taken(cut.X_train, rows), cut.y_train[rows])

    in_turn = [fitted(facts, 0, places[0])]
    apart = list(in_turn)
    for number, rows in enumerate(places[1:], start=1):
        in_turn.append(fitted(facts, number, rows, init=in_turn[-1]))
        apart.append(fitted(facts, number, rows))
    every = np.arange(len(cut.y_train))
    others = [MeanOfModels(apart), fitted(as_noisy, 8, every), fitted(facts, 9, every)]
    found = [
        _losses(each, cut.X, cut.y_train, cut.y, known) for each in (*in_turn, *others)
    ]
    return [*(losses[0] for losses in found), found[0][1]]
