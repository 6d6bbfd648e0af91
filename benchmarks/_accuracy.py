"""Accuracy and log-loss over seeds, from a TOML configuration."""

from __future__ import annotations

import time
import tomllib
import warnings
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks._commands import Commands, count
from benchmarks._data import MissingData, load, split
from skdp.linear_model import DPLogisticRegression, DPSparseLogisticRegression

# By the configuration's `estimator`.
ESTIMATORS = {
    "logistic": DPLogisticRegression,
    "sparse_logistic": DPSparseLogisticRegression,
}
CONFIGS = Path(__file__).parent / "configs"


def scores(model: Any, parts: tuple[np.ndarray, ...]) -> tuple[float, float, float]:
    """Test accuracy, test log-loss and fit seconds of one model on one split."""
    X_train, y_train, X_test, y_test = parts
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    loss = log_loss(y_test, model.predict_proba(X_test), labels=model.classes_)
    return model.score(X_test, y_test), loss, seconds


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard error (nan for a single value)."""
    array = np.asarray(list(values))
    if len(array) == 1:
        return float(array[0]), float("nan")
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array)))


def add(commands: Commands) -> None:
    """Make each configuration a command that is none yet."""
    for path in sorted(CONFIGS.glob("*.toml")):
        if path.stem not in commands:
            table = commands.add(
                path.stem,
                "a table of scores",
                lambda options: run(options.what, options.seeds),
            )
            table.add_argument("--seeds", type=count, help="fewer seeds than stated")


def run(name: str, n_seeds: int | None = None) -> None:
    """Print the table of one configuration, a line as soon as it is measured."""
    config = tomllib.loads((CONFIGS / f"{name}.toml").read_text())
    first = config.get("first_seed", 0)
    seeds = range(first, first + (n_seeds or config["seeds"]))
    estimator = ESTIMATORS[config.get("estimator", "logistic")]
    print(f"# {config['title']}: mean and standard error of {len(seeds)} seeds")
    print("| data | adjacency | epsilon | delta | accuracy | log-loss | fit s |")
    print("|---|---|---|---|---|---|---|")
    for table in config["tables"]:
        try:
            X, y = load(table["dataset"])
        except MissingData as error:
            print(f"| {table['dataset']} | refused: {error} | | | | | |")
            continue
        n_train = len(y) - len(y) // 5
        baseline = LogisticRegression(C=100.0, max_iter=200)
        few = seeds[: table.get("baseline_seeds", len(seeds))]
        results = [scores(baseline, split(X, y, seed)) for seed in few]
        _print_row(table["dataset"], "not private", "inf", "", results)
        for adjacency, epsilon, solver in product(
            table["adjacency"],
            table["epsilon"],
            table.get("solvers", [config["solver"]]),
        ):
            delta = 1 / n_train**2
            results = [
                scores(
                    estimator(
                        epsilon,
                        delta=delta,
                        adjacency=adjacency,
                        solver=solver,
                        classes=np.unique(y),
                    ),
                    split(X, y, seed),
                )
                for seed in seeds
            ]
            name = table["dataset"]
            if "solvers" in table:
                name += f", {solver}"
            _print_row(name, adjacency, epsilon, f"{delta:.2g}", results)


def _print_row(
    data: str, adjacency: str, epsilon: Any, delta: str, results: list[Any]
) -> None:
    accuracy, loss, seconds = (
        mean_and_error(column) for column in zip(*results, strict=True)
    )
    print(
        f"| {data} | {adjacency} | {epsilon} | {delta} "
        f"| {accuracy[0]:.4f} ± {accuracy[1]:.4f} | {loss[0]:.4f} ± {loss[1]:.4f} "
        f"| {seconds[0]:.2f} |",
        flush=True,
    )
