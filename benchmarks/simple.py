"""Naive Bayes and k-means on declared tables, beside diffprivlib's models.

All fits have the same training and test part; runs differ in noise. diffprivlib's
relation is replace_one, and its delta is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from benchmarks._models import scored
from benchmarks._results import versions_of
from benchmarks._runner import Line, at_hand, benchmark, line
from benchmarks._tables import Declared, declared, parts, table
from skdp import DPCategoricalNB, DPKMeans, DPLogisticRegression, TableEncoder
from skdp.columns import Range

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


# ------------------------------------------------------------------------- k-means


# The constants of `DPKMeans` were settled on others.
_NUMBERS = ("covertype", "protein_casp", "three_of_26", "wine_quality_white")
_CLUSTERS = 8


@lru_cache(maxsize=1)
def _units(name: str) -> np.ndarray:
    """The columns of numbers in their declared ranges, as -1 to 1."""
    known = declared(name).columns
    names = [key for key, each in known.items() if isinstance(each, Range)]
    ends = np.array([(known[key].low, known[key].high) for key in names], dtype=float)
    X = parts(name, 0, "report").X_train[names].to_numpy(dtype=float)
    return np.asarray(np.clip((X - ends.mean(1)) / np.diff(ends).ravel() * 2, -1, 1))


def _loss(X: np.ndarray, centers: np.ndarray) -> float:
    """Mean squared distance to the nearest centre."""
    products = X @ centers.T
    apart = (X**2).sum(1)[:, None] - 2 * products + (centers**2).sum(1)
    return float(apart.min(axis=1).mean())


@lru_cache(maxsize=1)
def _least(name: str) -> float:
    X = _units(name)
    exact = KMeans(_CLUSTERS, n_init=3, random_state=0).fit(X)
    return _loss(X, exact.cluster_centers_)


def _clustered(name: str, build: Callable[[], Any], run: int) -> float:
    """The loss over that of scikit-learn's k-means without privacy."""
    X = _units(name)
    return _loss(X, build().fit(X).cluster_centers_) / _least(name)


class _OneCentre:
    def fit(self, X: np.ndarray) -> _OneCentre:
        self.cluster_centers_ = X.mean(axis=0)[None]
        return self


def _ours(epsilon: float, delta: float) -> Any:
    return DPKMeans(n_clusters=_CLUSTERS, epsilon=epsilon, bounds=(-1, 1), delta=delta)


def _theirs(epsilon: float) -> Any:
    from diffprivlib.models import KMeans as Private

    return Private(n_clusters=_CLUSTERS, epsilon=epsilon, bounds=(-1, 1))


@benchmark("k_means", runs=10)
def k_means() -> Iterator[Line]:
    """Loss of eight centres over scikit-learn's, of skdp and diffprivlib."""
    for name in at_hand(_NUMBERS, table):
        one = partial(_clustered, name, _OneCentre)
        place = {"table": name, "epsilon": math.inf}
        yield line(place, "one centre", one, most_runs=1)
        exact = partial(_clustered, name, partial(_ours, math.inf, 0.0))
        yield line(place, "DPKMeans", exact, most_runs=1)
        for epsilon in (0.1, 0.3, 1.0, 4.0):
            place = {"table": name, "epsilon": epsilon}
            for method, delta in (("DPKMeans", 1e-6), ("DPKMeans, delta 0", 0.0)):
                own = partial(_clustered, name, partial(_ours, epsilon, delta))
                yield line(place, method, own, private=True)
            rival = partial(_clustered, name, partial(_theirs, epsilon))
            stamp = versions_of("diffprivlib", "scikit-learn")
            yield line(place, "diffprivlib KMeans, delta 0", rival, stamp=stamp)
