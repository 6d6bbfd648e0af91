"""Private searches side by side: total epsilon is the same in every row of a cell.

"algorithm 3" is the private tuning of the bolt-on paper: equal disjoint parts and the
exponential mechanism. Excess error is that over the non-private model of the same
split; the last column divides it by algorithm 3's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import skdp
from benchmarks._accuracy import CONFIGS, mean_and_error, scores
from benchmarks._commands import Commands, add_results_file
from benchmarks._data import MissingData, load, split
from benchmarks._results import Results
from skdp.linear_model import DPLogisticRegression
from skdp.model_selection import DPGridSearchCV

RESULTS = Path("bench-results/search.json")
_RIVAL = "algorithm 3"

# Method and its parameters, by the name in the table.
_SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    _RIVAL: ("disjoint_splits", {"mechanism": "exponential"}),
    "disjoint_splits": ("disjoint_splits", {}),
    "composition": ("composition", {}),
    "random_stopping": ("random_stopping", {}),
}
_HEADER = (
    "| data | epsilon | method | accuracy | log-loss | fit s | excess error "
    "| of algorithm 3's |\n|---|---|---|---|---|---|---|---|"
)


def add(commands: Commands) -> None:
    """Make it a command."""
    parser = commands.add(
        "search",
        "private searches side by side",
        lambda options: run(tuple(options.dataset), options.results),
    )
    parser.add_argument(
        "--dataset", action="append", default=[], help="only this data set"
    )
    add_results_file(parser, RESULTS)


def run(datasets: tuple[str, ...] = (), results: Path = RESULTS) -> None:
    """Print the table, a line as soon as it is measured; scores are kept in a file."""
    config = tomllib.loads((CONFIGS / "search.toml").read_text())
    kept = Results(results)
    print(f"# {config['title']}: {config['adjacency']}, grid {config['grid']}")
    print(_HEADER)
    for table in config["tables"]:
        if datasets and table["dataset"] not in datasets:
            continue
        try:
            data = load(table["dataset"])
        except MissingData as error:
            print(f"| {table['dataset']} | refused: {error} |" + " |" * 6)
            continue
        table = config | table
        seeds = range(table["seeds"])
        for epsilon in table["epsilon"]:
            _measure_cell(table["dataset"], data, epsilon, seeds, table, kept)


def _measure_cell(
    name: str,
    data: tuple[np.ndarray, np.ndarray],
    epsilon: float,
    seeds: range,
    config: dict[str, Any],
    kept: Results,
) -> None:
    measured = {}
    for method, make in _contestants(data[1], epsilon, config).items():
        cell = f"{name}, {config['adjacency']}, epsilon {epsilon:g}"
        if method == "not private":
            cell = f"{name}, not private"
        entry = kept.entry(cell, method, skdp.__version__)
        for seed in seeds:
            if str(seed) not in entry["scores"]:
                result = scores(make(), split(*data, seed))
                entry["scores"][str(seed)] = [float(score) for score in result]
                kept.save()
        measured[method] = np.array([entry["scores"][str(seed)] for seed in seeds])
    ceiling = measured.pop("not private")[:, 0]
    rival = float(np.mean(ceiling - measured[_RIVAL][:, 0]))
    for method, values in measured.items():
        excess = ceiling - values[:, 0]
        columns = [_pair(column) for column in (*values.T[:2], values[:, 2], excess)]
        share = f"{float(np.mean(excess)) / rival:.2f}"
        print(f"| {name} | {epsilon:g} | {method} | {' | '.join(columns)} | {share} |")


def _contestants(
    y: np.ndarray, epsilon: float, config: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """What makes each model of a cell."""
    labels = np.unique(y).tolist()
    budget = {
        "epsilon": epsilon,
        "delta": 1 / (len(y) - len(y) // 5) ** 2,
        "adjacency": config["adjacency"],
    }

    def search(method: str, params: dict[str, Any]) -> DPGridSearchCV:
        return DPGridSearchCV(
            DPLogisticRegression(classes=labels),
            config["grid"],
            method=method,
            method_params=params,
            **budget,
        )

    makers: dict[str, Callable[[], Any]] = {
        "not private": lambda: LogisticRegression(C=100.0, max_iter=200),
        "default, untuned": lambda: DPLogisticRegression(classes=labels, **budget),
    }
    for name, (method, params) in _SEARCHES.items():
        makers[name] = lambda method=method, params=params: search(method, params)
    return makers


def _pair(values: np.ndarray) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.4f} ± {error:.4f}"
