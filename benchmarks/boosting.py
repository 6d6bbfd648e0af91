"""Boosted trees on Adult: bands of shape functions, and what parameters cost.

Scores on all declared tables, beside constants and scikit-learn's histogram boosting,
are in ``python -m benchmarks declared --only boost``; times are in ``speed``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks._models import Facts, quietly_fitted
from benchmarks._runner import Line, benchmark, line, pair
from benchmarks._tables import declared, parts
from skdp import DPGradientBoostingClassifier
from skdp.ensemble._boosting import NewtonBoosting

_TABLE = "adult"
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@contextmanager
def same_trees() -> Iterator[None]:
    """Trees of the first fit serve all; what its noise says of codes is in them."""
    draw, kept = NewtonBoosting.trees, []

    def trees(*args: Any) -> Any:
        if not kept:
            kept.append(draw(*args))
        return kept[0]

    with patch.object(NewtonBoosting, "trees", trees):
        yield


def entries(shapes: Any) -> dict[str, np.ndarray]:
    """Values and noise of all curves, and of all tables: (2, n_entries) each."""
    found = {}
    for name, size in (("curves", 1), ("tables", 2)):
        own = [each for each in shapes if len(each.columns) == size]
        if own:
            both = ([each.values.ravel(), each.noise.ravel()] for each in own)
            found[name] = np.concatenate([np.array(part) for part in both], axis=1)
    return found


def compared(fits: Sequence[np.ndarray]) -> tuple[np.ndarray, list[float]]:
    """Deviations seen over stated, and shares within one and two stated ones."""
    values, noise = np.stack(fits, axis=1)
    stated = np.sqrt(np.mean(noise**2, axis=0))
    kept = stated > 0
    seen = np.std(values, axis=0, ddof=1)[kept]
    # Of one fit from the mean of all, itself among them.
    shrunk = np.sqrt(1 - 1 / len(fits))
    away = np.abs(values - values.mean(axis=0)) / shrunk
    within = [float(np.mean((away <= k * noise)[noise > 0])) for k in (1, 2)]
    return seen / stated[kept], within


@benchmark("boosting_bands")
def bands(
    fits: int = 20, n_train: int = 0, max_interaction: int = 2, draw_trees: bool = False
) -> Iterator[Line]:
    """Bands of shape functions of Adult: deviations that are seen over stated ones.

    All fits have the same trees and other noise; with `draw_trees` trees are others
    each time, as they are for who fits twice. A line is a kind of entry, of all fits.
    """
    for epsilon, init in ((0.3, "linear"), (1.0, "linear"), (1.0, "constant")):
        given = {"max_interaction": max_interaction, "init": init}
        for kind in ("curves", "tables")[:max_interaction]:
            asked = (epsilon, fits, n_train, draw_trees, tuple(given.items()))
            yield line(
                {"epsilon": epsilon, "init": init},
                kind,
                partial(_bands_of, kind, *asked),
                ("size", "stated", *(f"{q:g}" for q in _QUANTILES), "within 1", "2"),
                private=True,
                most_runs=1,
            )


def _bands_of(kind: str, *asked: Any) -> list[float]:
    *facts, _ = asked  # the run's number: fits have seeds of their own
    found = _fits(*facts).get(kind, [])
    if not found:
        return [math.nan] * (len(_QUANTILES) + 4)
    ratios, within = compared(found)
    quantiles = np.full(len(_QUANTILES), np.nan)
    if len(ratios):  # no entry has noise if no tree was worth keeping in any fit
        quantiles = np.quantile(ratios, _QUANTILES)
    size, noise = np.sqrt(np.mean(np.square(found), axis=(0, 2)))
    return [size, noise, *quantiles, *within]


def _fits(
    epsilon: float, n_fits: int, n_train: int, draws: bool, given: Iterable[Any]
) -> dict[str, list[np.ndarray]]:
    """Entries of each fit, by kind."""
    known, split_of = declared(_TABLE), parts(_TABLE, 0, "report", n_train)
    found: dict[str, list[np.ndarray]] = {}
    with nullcontext() if draws else same_trees():
        for seed in range(n_fits):
            model = DPGradientBoostingClassifier(
                epsilon,
                columns=known.columns,
                classes=known.classes,
                random_state=seed,
                **dict(given),
            )
            quietly_fitted(model, split_of.X_train, split_of.y_train)
            for kind, values in entries(model.shape_functions_).items():
                found.setdefault(kind, []).append(values)
    return found


_RISING = {"education-num": 1, "hours-per-week": 1}
# What is asked for beyond the defaults.
CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "max_interaction=1": {"max_interaction": 1},
    "max_interaction=2": {"max_interaction": 2},
    "max_interaction=None": {"max_interaction": None},
    "init='constant'": {"init": "constant"},
    "constant, max_interaction=1": {"init": "constant", "max_interaction": 1},
    "constant, max_interaction=2": {"init": "constant", "max_interaction": 2},
    "constant, max_interaction=None": {"init": "constant", "max_interaction": None},
    "years of school and hours rise": {"monotonic_cst": _RISING},
    "capital gains rise": {"monotonic_cst": {"capital-gain": 1}},
}


@benchmark("boosting_costs", runs=5, judged=True)
def costs(adjacency: str = "replace_one", epsilon: float = 1.0) -> Iterator[Line]:
    """What parameters of boosting cost or gain on Adult, against every default.

    Kept is the share of what trees add that was worth most, 0 where there are none.
    """
    for name, change in CHANGES.items():
        yield line(
            {"epsilon": epsilon, "adjacency": adjacency},
            name,
            partial(_changed, change, epsilon, adjacency),
            ("AUC", "log-loss", "kept"),
            private=True,
            judge=_beyond,
            rival="default",
        )


def _changed(
    change: dict[str, Any], epsilon: float, adjacency: str, seed: int
) -> list[float]:
    known, split_of = declared(_TABLE), parts(_TABLE, seed)
    facts = Facts(known, epsilon, 1 / len(split_of.y_train) ** 2, adjacency, seed)
    model = facts.boosted(columns=known.columns, **change)
    quietly_fitted(model, split_of.X_train, split_of.y_train)
    p = model.predict_proba(split_of.X)[:, 1]
    kept = float(getattr(model, "shrinkage_", 0.0))
    return [roc_auc_score(split_of.y, p), log_loss(split_of.y, p), kept]


def _beyond(values: np.ndarray, first: np.ndarray | None) -> str:
    """Of fits to the same records with the same seeds."""
    if first is None:
        return ""
    beyond = (values - first)[:, :2].T
    return " and ".join(pair(of, "+.4f") for of in beyond)
