"""Models of declared tables side by side, at one budget each.

A split for settling constants never touches the test part: "settle" judges by a fifth
of the training part, another one for each seed; "report" trains on the training part
and judges by the test part. A variant is one line of `VARIANTS`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import Commands, count
from benchmarks._data import MissingData
from benchmarks._declared_tables import NAMES, Declared, declared, table
from benchmarks._random_features import Fourier, Pairs
from skdp import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPMLPClassifier,
    DPMLPRegressor,
    TableEncoder,
)
from skdp.columns import Range
from skdp.linear_model import DPLinearRegression, DPLogisticRegression

_SPLIT_SEED = 9100
_METRICS = ("log_loss", "accuracy", "auc", "r2", "seconds")
_HEADER = (
    "| data | n | adjacency | epsilon | model | log-loss | accuracy | AUC | R2 | s |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Fit:
    """What a variant may use: public facts and a budget."""

    known: Declared
    epsilon: float
    delta: float
    adjacency: str
    seed: int

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


def _lines(fit: Fit) -> TableEncoder:
    return TableEncoder(fit.columns, numeric="linear")


def _featured(fit: Fit, features: Any) -> Any:
    """A linear model of public features of lines of the columns."""
    return make_pipeline(_lines(fit), features, fit.dense(data_norm=math.sqrt(2)))


def _pairs(fit: Fit) -> Pairs:
    given = fit.columns.values() if fit.known.names else []
    numbers = [own for own in given if isinstance(own, Range)]
    return Pairs(list(range(len(numbers))))


VARIANTS: dict[str, Callable[[Fit], Any]] = {
    "default": lambda fit: fit.dense(columns=fit.columns),
    "as_encoded": lambda fit: fit.dense(columns=fit.columns, solver="noisy_gd"),
    "lines": lambda fit: fit.dense(columns=_lines(fit)),
    "linear": lambda fit: fit.dense(columns=_lines(fit), solver="noisy_gd"),
    "boosted": lambda fit: fit.boosted(columns=fit.columns),
    "from_constant": lambda fit: fit.boosted(columns=fit.columns, init="constant"),
    "bins": lambda fit: fit.dense(columns=TableEncoder(fit.columns, numeric="bins")),
    "network": lambda fit: fit.network(columns=fit.columns),
    "fourier": lambda fit: _featured(fit, Fourier()),
    "fine_fourier": lambda fit: _featured(fit, Fourier(deviation=8.0)),
    "pairs": lambda fit: _featured(fit, _pairs(fit)),
}


class _Constant:
    """Shares of the declared labels, or the mean, without noise and at no cost."""

    def __init__(self, classes: list[int] | None) -> None:
        self._classes = classes

    def fit(self, X: Any, y: np.ndarray) -> _Constant:
        labels = self._classes or []
        self._mean, self._shares = y.mean(), [np.mean(y == label) for label in labels]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self._shares, (len(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        if self._classes is None:
            return np.full(len(X), self._mean)
        return np.full(len(X), self._classes[int(np.argmax(self._shares))])


class Parts(NamedTuple):
    """Records to train on and records to judge by."""

    X_train: Any
    y_train: np.ndarray
    X: Any
    y: np.ndarray


def load(
    name: str, seed: int, part: str = "settle", n_train: int | None = None
) -> Parts:
    """A split of a table.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    seed : int
        Of the validation part and of which records are kept.
    part : {"settle", "report"}
        What to judge by: a fifth of the training part, or the test part.
    n_train : int or None
        At most so many records to train on.
    """
    whole = table(name)
    rng = np.random.default_rng(_SPLIT_SEED + seed)
    order = rng.permutation(np.flatnonzero(~whole.is_test))
    judged = np.flatnonzero(whole.is_test)
    if part == "settle":
        fifth = len(order) // 5
        judged, order = order[:fifth], order[fifth:]
    kept = order[:n_train]
    X_train, X = _rows(whole.X, kept), _rows(whole.X, judged)
    return Parts(X_train, whole.y[kept], X, whole.y[judged])


def _rows(X: Any, places: np.ndarray) -> Any:
    if isinstance(X, pd.DataFrame):
        return X.iloc[places].reset_index(drop=True)
    return X[places]


@dataclass(frozen=True)
class Job:
    """One fit. `epsilon` is None for the constant model; `delta` None is 1/n^2."""

    table: str
    adjacency: str
    epsilon: float | None
    variant: str
    seed: int
    part: str
    n_train: int | None = None
    delta: float | None = None


def measured(job: Job) -> dict[str, Any]:
    """The job's fields and its scores, or why the model refused."""
    parts = load(job.table, job.seed, job.part, job.n_train)
    known, n = declared(job.table), len(parts.y_train)
    delta = 1 / n**2 if job.delta is None else job.delta
    job = replace(job, n_train=n, delta=delta)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = _model(job, known).fit(parts.X_train, parts.y_train)
        except ValueError as error:
            return asdict(job) | {"refused": str(error)}
        seconds = time.perf_counter() - start
        return asdict(job) | scores(model, parts, known) | {"seconds": seconds}


def scores(model: Any, parts: Parts, known: Declared) -> dict[str, float]:
    """Log-loss, accuracy and AUC (of several classes one against the rest), or R2."""
    if known.target_bounds is not None:
        predicted = np.clip(model.predict(parts.X), *known.target_bounds)
        return {"r2": float(r2_score(parts.y, predicted))}
    shares, labels = model.predict_proba(parts.X), known.classes or []
    ranked = shares[:, 1] if len(labels) == 2 else shares
    return {
        "log_loss": float(log_loss(parts.y, shares, labels=labels)),
        "accuracy": float(accuracy_score(parts.y, model.predict(parts.X))),
        "auc": float(roc_auc_score(parts.y, ranked, multi_class="ovr", labels=labels)),
    }


def _model(job: Job, known: Declared) -> Any:
    if job.epsilon is None or job.delta is None:
        return _Constant(known.classes)
    fit = Fit(known, job.epsilon, job.delta, job.adjacency, job.seed)
    return VARIANTS[job.variant](fit)


def add(commands: Commands) -> None:
    """Make it a command."""
    parser = commands.add("declared", "models of declared tables side by side", run)
    chosen: list[tuple[str, Iterable[Any], Any]] = [
        ("table", NAMES, str),
        ("variant", VARIANTS, str),
        ("adjacency", ("zero_out", "replace_one"), str),
    ]
    for name, allowed, kind in chosen:
        parser.add_argument(
            f"--{name}", action="append", choices=list(allowed), type=kind
        )
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--seeds", type=count, default=3)
    parser.add_argument("--part", choices=["settle", "report"], default="settle")
    parser.add_argument("--n-train", type=count, help="at most so many records")
    parser.add_argument("--delta", type=float, help="default: 1 / n_train^2")
    parser.add_argument("--jobs", type=int, choices=[1, 2], default=1)
    parser.add_argument("--json", type=Path, help="file that each fit adds a line to")


def run(options: argparse.Namespace) -> None:
    """Print the table, a line as soon as it is measured."""
    print(f"# Declared tables, {options.part}: mean and standard error over seeds")
    print(_HEADER)
    jobs = [job for name in options.table or NAMES for job in _jobs(name, options)]
    results = _results(jobs, options.jobs)
    for _, group in groupby(results, key=_cell):
        lines = list(group)
        print(_row(lines), flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)


def _jobs(name: str, options: argparse.Namespace) -> Iterator[Job]:
    try:
        table(name)
    except MissingData as error:
        print(f"| {name} | refused: {error} |" + " |" * 8)
        return
    shared = {"part": options.part, "n_train": options.n_train, "delta": options.delta}
    seeds = range(options.seeds)
    for seed in seeds:
        yield Job(name, "", None, "constant", seed, **shared)
    cells = product(
        options.adjacency or ("zero_out", "replace_one"),
        options.epsilon or (0.1, 0.3, 1.0, 4.0),
        options.variant or VARIANTS,
    )
    for (adjacency, epsilon, variant), seed in product(cells, seeds):
        yield Job(name, adjacency, epsilon, variant, seed, **shared)


def _results(jobs: list[Job], n_processes: int) -> Iterator[dict[str, Any]]:
    if n_processes == 1:
        yield from map(measured, jobs)
        return
    with ProcessPoolExecutor(n_processes) as pool:
        yield from pool.map(measured, jobs)


def _cell(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[key] for key in ("table", "adjacency", "epsilon", "variant"))


def _row(lines: list[dict[str, Any]]) -> str:
    first = lines[0]
    names = (first["adjacency"], first["epsilon"] or "", first["variant"])
    start = f"| {first['table']} | {first['n_train']} | " + " | ".join(map(str, names))
    if "refused" in first:
        return f"{start} | refused: {first['refused']} | | | | |"
    return f"{start} | " + " | ".join(_score(lines, name) for name in _METRICS) + " |"


def _score(lines: list[dict[str, Any]], name: str) -> str:
    if name not in lines[0]:
        return ""
    mean, error = mean_and_error(line[name] for line in lines)
    return f"{mean:.1f}" if name == "seconds" else f"{mean:.4f} ± {error:.4f}"
