"""R2 of linear regression over seeds, from a TOML configuration."""

from __future__ import annotations

import gzip
import os
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from benchmarks._accuracy import CONFIGS, mean_and_error
from benchmarks._commands import Commands
from benchmarks._data import MissingData, split
from skdp.linear_model import DPLinearRegression

NAMES = ("adassp", "regression")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1 and targets in [-1, 1].

    Columns and targets are scaled by their range over the whole file, which the
    protocol takes as public; this is a protocol for comparing methods, not for private
    work.
    """
    X, y = _LOADERS[name]()
    return _to_unit_range(X) / np.sqrt(X.shape[1]), _to_unit_range(y[:, None])[:, 0]


def scores(make: Callable[[], Any], data: tuple[Any, ...], seeds: range) -> list[float]:
    """Test R2 on one split for each seed."""
    results = []
    for seed in seeds:
        X_train, y_train, X_test, y_test = split(*data, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(X_train, y_train)
        results.append(model.score(X_test, y_test))
    return results


def add(commands: Commands) -> None:
    """Make each table a command."""
    for name in NAMES:
        commands.add(name, "a table of scores", lambda options: run(options.what))


def run(name: str) -> None:
    """Print the table of one configuration, a line as soon as it is measured."""
    config = tomllib.loads((CONFIGS / f"{name}.toml").read_text())
    seeds = range(config["seeds"])
    print(f"# {config['title']}: mean and standard error of {len(seeds)} seeds")
    print("| data | adjacency | epsilon | delta | R2 |")
    print("|---|---|---|---|---|")
    for dataset in config["datasets"]:
        try:
            data = load(dataset)
        except MissingData as error:
            print(f"| {dataset} | refused: {error} | | | |")
            continue
        _print_row(dataset, "not private", "", scores(LinearRegression, data, seeds))
        n_train = len(data[1]) - len(data[1]) // 5
        for delta in [1 / n_train**2] + [0.0] * config["pure"]:
            for adjacency in config["adjacency"]:
                for epsilon in config["epsilon"]:
                    facts = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
                    results = scores(_maker(config["solver"], facts), data, seeds)
                    _print_row(dataset, adjacency, f"{epsilon} | {delta:.2g}", results)


def _maker(solver: str, facts: dict[str, Any]) -> Callable[[], DPLinearRegression]:
    return lambda: DPLinearRegression(target_bounds=(-1, 1), solver=solver, **facts)


def _print_row(data: str, adjacency: str, budget: str, results: list[float]) -> None:
    mean, error = mean_and_error(results)
    budget = budget or "inf | "
    print(f"| {data} | {adjacency} | {budget} | {mean:.4f} ± {error:.4f} |", flush=True)


def _to_unit_range(columns: np.ndarray) -> np.ndarray:
    low, high = columns.min(axis=0), columns.max(axis=0)
    return 2 * (columns - low) / np.where(high > low, high - low, 1) - 1


def read_numbers(file: str, delimiter: str | None = None) -> np.ndarray:
    """A file of numbers packed by gzip, by its path in SKDP_DATA_HOME."""
    home = os.environ.get("SKDP_DATA_HOME")
    path = Path(home or ".") / file
    if not path.is_file():
        raise MissingData(f"no file {file!r} in SKDP_DATA_HOME (see docs/data.md)")
    with gzip.open(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=delimiter)


def _last_column(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return table[:, :-1], table[:, -1]


def _wine_quality() -> tuple[np.ndarray, np.ndarray]:
    files = [f"wine_quality/winequality-{kind}.csv.gz" for kind in ("red", "white")]
    return _last_column(np.concatenate([read_numbers(file, ",") for file in files]))


def _synthetic() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (10_000, 10))
    return X, X @ rng.standard_normal(10) + 0.5 * rng.standard_normal(10_000)


_LOADERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "california": lambda: _last_column(
        read_numbers("california_housing/cal_housing.data.gz", ",")
    ),
    "ccpp": lambda: _last_column(read_numbers("ccpp/ccpp.txt.gz")),
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "protein_casp": lambda: _last_column(read_numbers("protein_casp/casp.txt.gz")),
    "synthetic": _synthetic,
    "wine_quality": _wine_quality,
}
