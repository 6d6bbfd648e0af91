"""Naive Bayes on declared tables, beside diffprivlib's and a linear model.

All fits have the same training and test part; runs differ in noise. diffprivlib's
relation is replace_one, and its delta is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks._models import scored
from benchmarks._results import versions_of
from benchmarks._runner import Line, at_hand, benchmark, line
from benchmarks._tables import Declared, declared, parts, table
from skdp import DPCategoricalNB, DPLogisticRegression, TableEncoder

_METRICS = ("log-loss", "accuracy", "AUC", "seconds")
# The smoothing of `DPCategoricalNB` was settled on others.
_TABLES = ("covertype", "covertype_types", "kddcup99", "digits_odd")


class GaussianNB:
    """diffprivlib's, of numbers in their ranges and of a 0 or 1 for each category."""

    def __init__(self, known: Declared, epsilon: float) -> None:
        self._known, self._epsilon = known, epsilon
        self._encoder = TableEncoder(known.columns, numeric="linear")

    def fit(self, X: Any, y: np.ndarray) -> GaussianNB:
        """Nothing but declarations is known of the columns."""
        from diffprivlib.models import GaussianNB as Private

        rows = self._encoder.fit(X).transform(X) / self._encoder.entry_bound_
        # diffprivlib takes the labels from y.
        self._model = Private(epsilon=self._epsilon, bounds=(-1, 1)).fit(rows, y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, which may not be far from 0 and 1."""
        rows = self._encoder.transform(X) / self._encoder.entry_bound_
        found = np.nan_to_num(self._model.predict_proba(rows), nan=0.5)
        return np.clip(found, 1e-6, 1) / np.clip(found, 1e-6, 1).sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most likely labels."""
        return np.asarray(self._model.classes_[self.predict_proba(X).argmax(axis=1)])


def _bayes(epsilon: float, delta: float) -> Callable[[Declared], Any]:
    return lambda known: DPCategoricalNB(
        epsilon, columns=known.columns, classes=known.classes, delta=delta
    )


def _linear(epsilon: float) -> Callable[[Declared], Any]:
    return lambda known: DPLogisticRegression(
        epsilon, columns=known.columns, classes=known.classes
    )


def _of_table(name: str, build: Callable[[Declared], Any], run: int) -> list[float]:
    known = declared(name)
    return scored(build(known), parts(name, 0, "report"), known)


@benchmark("naive_bayes", runs=5)
def naive_bayes() -> Iterator[Line]:
    """Naive Bayes of declared tables, of skdp and diffprivlib, and a linear model."""
    for name in at_hand(_TABLES, table):
        for epsilon in (0.1, 0.3, 1.0, 4.0):
            methods: dict[str, Callable[[Declared], Any]] = {
                "DPCategoricalNB": _bayes(epsilon, 1e-6),
                "DPCategoricalNB, delta 0": _bayes(epsilon, 0.0),
                "DPLogisticRegression": _linear(epsilon),
            }
            place = {"table": name, "epsilon": epsilon}
            for method, build in methods.items():
                score = partial(_of_table, name, build)
                yield line(place, method, score, _METRICS, private=True)
            rival = partial(_of_table, name, partial(GaussianNB, epsilon=epsilon))
            stamp = versions_of("diffprivlib", "scikit-learn")
            method = "diffprivlib GaussianNB, delta 0"
            yield line(place, method, rival, _METRICS, stamp=stamp)
        exact = partial(_of_table, name, _bayes(math.inf, 0.0))
        place = {"table": name, "epsilon": math.inf}
        yield line(place, "DPCategoricalNB", exact, _METRICS, most_runs=1)
