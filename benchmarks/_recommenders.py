"""Held-out error against processor time, of our factorisers and other libraries.

Everything runs on one thread, in one process, one after the other, and times are given
as multiples of the first peer's besides: what the machine does at the same time slows
all of them.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._commands import Commands, add_validation
from benchmarks._recommender_peers import Predict, peer
from benchmarks._user_recommenders import validation
from skdp._configured import given_params
from skdp.datasets import FilmRatings, load_movielens
from skdp.decomposition._factorize import Factorizer
from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._ratings import Pattern, Ratings, Task, Threads

_CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class _Parts:
    """Training and test ratings as codes of the ids of both."""

    train: Ratings
    test: Ratings
    bounds: tuple[float, float]

    @classmethod
    def of(cls, films: FilmRatings, bounds: tuple[float, float]) -> _Parts:
        n_train = len(films.y_train)
        X = np.concatenate([films.X_train, films.X_test])
        y = np.concatenate([films.y_train, films.y_test]).astype(np.float32)
        users, items = (np.unique(X[:, j], return_inverse=True) for j in (0, 1))
        n_users, n_items = len(users[0]), len(items[0])
        codes = users[1].astype(np.int32), items[1].astype(np.int32)
        train, test = (
            Ratings(Pattern(codes[0][part], codes[1][part], n_users, n_items), y[part])
            for part in (slice(n_train), slice(n_train, None))
        )
        return cls(train, test, bounds)

    def errors(self, predict: Predict) -> tuple[float, float]:
        """Training and test RMSE, predictions clipped to the bounds."""
        found = []
        for ratings in self.train, self.test:
            predicted = predict(ratings.pattern.users, ratings.pattern.items)
            away = np.clip(predicted, *self.bounds) - ratings.values
            found.append(float(np.sqrt(np.mean(away**2, dtype=np.float64))))
        return found[0], found[1]


@dataclass(frozen=True)
class _Point:
    """Errors after so many passes and processor seconds."""

    n_passes: int
    seconds: float
    train: float
    test: float


def _path(
    kind: type[Factorizer], params: dict[str, Any], task: Task, parts: _Parts
) -> Iterator[_Point]:
    """Errors after each pass; the time for them is not counted."""
    solver, seconds = kind.planned(given_params(kind, kind.key, params), task), 0.0
    with Threads() as threads:
        rng = np.random.RandomState(0)
        begin = time.process_time()
        # A copy, so that what is derived from the pattern is timed for every solver.
        ratings = replace(parts.train, pattern=replace(parts.train.pattern))
        passes = enumerate(solver.iterates(ratings, task, rng, threads))
        for n_passes, factors in passes:
            seconds += time.process_time() - begin
            yield _Point(n_passes, seconds, *parts.errors(factors.predictions))
            begin = time.process_time()


def _default_task(solver: type[Factorizer], ratings: Ratings) -> Task:
    """What the estimator asks of a solver with ``n_components=alpha=None``."""
    pattern = ratings.pattern
    task = Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=0,
        alpha=0.0,
        biases=True,
        pattern=pattern,
    )
    task = replace(task, n_components=solver.components)
    return replace(task, alpha=solver.default_alpha(task))


def add(commands: Commands) -> None:
    """Make both tables commands."""
    race = commands.add(
        "recommenders",
        "held-out error of factorisations",
        lambda options: run(options.size, options.solver, options.validation),
    )
    race.add_argument("--size", action="append", default=[], choices=["1m", "100k"])
    race.add_argument("--solver", action="append", default=[], help="only these")
    add_validation(race)
    rules = commands.add(
        "recommender_defaults",
        "the studies of their rules",
        lambda options: run_defaults(options.solver),
    )
    rules.add_argument("--solver", help="only this one's")


def run(
    sizes: Sequence[str] = (), solvers: Sequence[str] = (), on_validation: bool = False
) -> None:
    """Measure and print; no sizes or no solvers are all of them."""
    config = tomllib.loads((_CONFIGS / "recommenders" / "race.toml").read_text())
    print(f"# {config['title']}")
    for size in sizes or ("1m", "100k"):
        films = load_movielens(size)
        films = validation(films) if on_validation else films
        parts = _Parts.of(films, tuple(config["bounds"]))
        print(f"\n{films.name}{', validation part' if on_validation else ''}\n")
        _race(parts, size, solvers or tuple(FACTORIZERS), config)


def _race(
    parts: _Parts, size: str, solvers: Sequence[str], config: dict[str, Any]
) -> None:
    rows, unit = [], None
    for entry in config["peers"]:
        fit = peer(entry["method"], entry["params"]) if entry["size"] == size else None
        if fit is None:
            continue
        begin = time.process_time()
        predictor = fit(parts.train)
        seconds = time.process_time() - begin
        unit = seconds if unit is None else unit
        point = _Point(entry["params"]["n_passes"], seconds, *parts.errors(predictor()))
        rows.append([entry["method"], entry["params"]["k"], point, []])
    for key in solvers:
        kind = FACTORIZERS[key]
        task = _default_task(kind, parts.train)
        for _ in _path(kind, {"n_steps": 1}, task, parts):
            pass  # compiles
        points = list(_path(kind, {}, task, parts))
        rows.append([f"`{key}`", task.n_components, points[-1], points])
    marks = config["marks"] if unit else []
    head = ["solver", "k", "passes", "seconds", "times libmf", "training", "test"]
    print("|", " | ".join(head + [f"test at {mark:g}" for mark in marks]), "|")
    print("|---" * (len(head) + len(marks)) + "|")
    for name, k, last, points in rows:
        cells = [name, str(k), str(last.n_passes), f"{last.seconds:.2f}"]
        cells += [f"{last.seconds / unit:.2f}" if unit else ""]
        cells += [f"{last.train:.4f}", f"{last.test:.4f}"]
        for mark in marks:
            so_far = [p for p in points if p.seconds <= mark * unit]
            cells.append(f"{so_far[-1].test:.4f}" if so_far else "")
        print("|", " | ".join(cells), "|")


def run_defaults(solver: str | None = None) -> None:
    """Print errors on validation parts, by the studies behind the solvers' rules."""
    for path in sorted((_CONFIGS / "factorizers").glob("*.toml")):
        config = tomllib.loads(path.read_text())
        if solver not in (None, path.stem) or "studies" not in config:
            continue
        for study in config["studies"]:
            _study(FACTORIZERS[config["solver"]], config["solver"], study)


def _study(kind: type[Factorizer], key: str, study: dict[str, Any]) -> None:
    """One table: a row for each setting, a column for each set of ratings."""
    sets = [_validation_part(*data) for data in study["data"]]
    names = [f"{size}, {share:.0%} of it" for size, share in study["data"]]
    print(f"\n| {key} | k | alpha |", " | ".join(names), "|")
    print("|---" * (3 + len(names)) + "|")
    settings = product(
        study.get("params", [{}]),
        study.get("n_components", [None]),
        study.get("alpha", [None]),
    )
    for params, k, alpha in settings:
        cells = [str(params or "default"), _said(k), _said(alpha)]
        for parts in sets:
            task = _default_task(kind, parts.train)
            if k is not None:
                task = replace(task, n_components=k)
            if alpha is not None:
                task = replace(task, alpha=alpha)
            *_, last = _path(kind, params, task, parts)
            cells.append(f"{last.test:.4f}")
        print("|", " | ".join(cells), "|", flush=True)


def _said(value: float | None) -> str:
    return "rule" if value is None else f"{value:g}"


def _validation_part(size: str, share: float) -> _Parts:
    films = load_movielens(size)
    kept = np.random.default_rng(1).random(len(films.y_train)) < share
    films = replace(films, X_train=films.X_train[kept], y_train=films.y_train[kept])
    return _Parts.of(validation(films), (1.0, 5.0))
