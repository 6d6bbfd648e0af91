"""Models side by side: declared tables, every solver on rows of norm 1, regressions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks._models import (
    CLASSIFIED,
    MODELS,
    REFERENCES,
    Facts,
    by_solver,
    of_rows,
    plain_logistic,
    scored,
)
from benchmarks._runner import (
    Line,
    at_hand,
    benchmark,
    each,
    line,
)
from benchmarks._tables import DECLARED, Declared, declared, parts, rows, split, table
from skdp.solvers import SOLVERS

ADJACENCIES = ("zero_out", "replace_one")
EPSILONS = (0.1, 0.3, 1.0, 4.0)


# R2 stands in the first column of tables whose targets are numbers.
METRICS = ("log-loss or R2", *CLASSIFIED[1:])


@benchmark("declared", runs=3)
def tables(
    part: str = "settle", n_train: int = 0, delta: float = -1.0
) -> Iterator[Line]:
    """Models of thirteen declared tables, beside constants and trees."""
    for name in at_hand(DECLARED, table):
        place: dict[str, Any] = {"data": name, "adjacency": "", "epsilon": np.inf}
        for method, make in REFERENCES.items():
            measure = each(partial(_of_reference, name, part, n_train, make))
            yield Line(place=place, method=method, measure=measure, metrics=METRICS)
        for adjacency, epsilon in product(ADJACENCIES, EPSILONS):
            place = place | {"adjacency": adjacency, "epsilon": epsilon}
            for method in MODELS:
                facts = (name, part, n_train, delta, method, adjacency, epsilon)
                yield line(
                    place, method, partial(_of_model, *facts), METRICS, private=True
                )


def _of_reference(name: str, part: str, n_train: int, make: Any, seed: int) -> Any:
    known = declared(name)
    split_of = parts(name, seed, part, n_train)
    return aligned(scored(make(known), split_of, known), known)


def _of_model(
    name: str,
    part: str,
    n_train: int,
    delta: float,
    method: str,
    adjacency: str,
    epsilon: float,
    seed: int,
) -> list[float]:
    known, split_of = declared(name), parts(name, seed, part, n_train)
    n = len(split_of.y_train)
    facts = Facts(known, epsilon, 1 / n**2 if delta < 0 else delta, adjacency, seed)
    return aligned(scored(MODELS[method](facts), split_of, known), known)


def aligned(found: list[float], known: Declared) -> list[float]:
    """One row for all kinds of targets: the first score, accuracy, AUC and seconds."""
    if known.classes is not None:
        return found
    return [found[0], np.nan, np.nan, found[1]]


# Tables of the dense solvers, of those that select features, and their budgets.
_DENSE, _SPARSE = ("adult", "breast_cancer", "digits"), ("w8a", "breast_cancer")


@lru_cache(maxsize=1)
def _loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    return rows(name)


@benchmark("solvers", runs=10)
def solvers(only: str = "") -> Iterator[Line]:
    """Every solver with every default on rows of norm 1, delta = 1 / n_train^2."""
    for name in at_hand(dict.fromkeys((*_DENSE, *_SPARSE, "mnist")), _loaded):
        place: dict[str, Any] = {"data": name, "adjacency": "", "epsilon": np.inf}
        yield line(
            place,
            "scikit-learn, not private",
            partial(_plain, name),
            CLASSIFIED,
            most_runs=1 if name == "mnist" else None,
        )
        for adjacency, epsilon in product(ADJACENCIES, (0.1, 1.0)):
            place = {"data": name, "adjacency": adjacency, "epsilon": epsilon}
            for key in ("auto", *SOLVERS) if not only else (only,):
                if name in _tables_of(key):
                    yield line(
                        place,
                        key,
                        partial(_by, name, key, adjacency, epsilon),
                        CLASSIFIED,
                        private=True,
                    )


def _tables_of(key: str) -> tuple[str, ...]:
    if key in SOLVERS and SOLVERS[key].is_sparse:
        return _SPARSE
    return (*_DENSE, "mnist") if key in ("auto", "noisy_gd") else _DENSE


def _plain(name: str, seed: int) -> list[float]:
    X, y = _loaded(name)
    return scored(plain_logistic(), split(X, y, seed), of_rows(y))


def _by(name: str, key: str, adjacency: str, epsilon: float, seed: int) -> list[float]:
    X, y = _loaded(name)
    part = split(X, y, seed)
    facts = Facts(of_rows(y), epsilon, 1 / len(part[1]) ** 2, adjacency)
    return scored(by_solver(facts, key), part, facts.known)
