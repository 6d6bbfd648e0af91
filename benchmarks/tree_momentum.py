"""Momentum from trees (Tran and Cutkosky), repaired, and plain STORM, on a9a.

``python -m benchmarks.tree_momentum`` prints the table of ``docs/replications.md``;
``--runs`` fewer runs. Data are read from SKDP_DATA_HOME. Settings are chosen as in
`benchmarks.nonconvex`: on a fifth of the training part; the test part is read once.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from benchmarks._commands import count
from benchmarks._papers._storm import Storm
from benchmarks.nonconvex import DELTA, Method, Settings, Table, a9a, every, spread
from benchmarks.nonconvex import measured as measured_model
from skdp.privacy import epsilon_of

ADJACENCIES = ("zero_out", "replace_one")
_VALIDATION_SEED = 1000
_TREES = {
    "n_leaves": (4, 16),
    "n_epochs": (10, 40),
    "step_length": (0.1, 0.3, 1.0),
}
METHODS = tuple(
    Method(name, "tree_momentum", tuple(every(**_TREES, by_differences=(by,))))
    for name, by in (
        ("Algorithm 1, repaired", False),
        ("Algorithm 2, repaired", True),
    )
)
STORM = tuple(
    every(n_steps=(3000,), batch_size=(100,), refresh=(0.01, 0.1), step_size=(2.0, 8.0))
)


def storm(part: Table, settings: Settings, seed: int) -> np.ndarray:
    """Weights without privacy, the constant's last."""
    return Storm(**settings).run(part.X, part.y, seed)


def measured(weights: np.ndarray, table: Table) -> tuple[float, float]:
    """Logarithmic loss and error on the test part."""
    chances = expit(table.X_test @ weights[:-1] + weights[-1])
    error = np.mean((chances > 0.5) != table.y_test)
    return log_loss(table.y_test, chances), float(error)


def best_storm(grid: tuple[Settings, ...], table: Table) -> Settings:
    """The settings of least logarithmic loss on the validation part."""
    part = table.validation()
    return min(grid, key=lambda s: measured(storm(part, s, _VALIDATION_SEED), part)[0])


def line(place: str, found: list[tuple[float, float]], settings: Settings) -> str:
    """One row of the table."""
    losses, errors = (list(column) for column in zip(*found, strict=True))
    shown = ", ".join(f"{key}={value:g}" for key, value in settings.items())
    return f"| {place} | {spread(losses)} | {spread(errors)} | {shown} |"


def from_trees(
    method: Method, table: Table, adjacency: str, epsilon: float, runs: int
) -> str:
    """One row, of a method within one budget."""
    facts = {"adjacency": adjacency, "epsilon": epsilon}
    best = method.best(table, **facts)
    found = [
        measured_model(method.fitted(table, best, random_state=run, **facts), table)
        for run in range(runs)
    ]
    # A fit with a seed claims nothing: the event is that of one without.
    event = method.fitted(table, best, **facts).privacy_.event
    place = f"{adjacency} | {method.name} | {epsilon} | {epsilon_of(event, DELTA):.4f}"
    shown = {key: value for key, value in best.items() if key != "by_differences"}
    return line(place, found, shown)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=count, default=5)
    runs, table = parser.parse_args().runs, a9a()
    print(
        "| adjacency | method | epsilon | true epsilon | log-loss | error | settings |"
    )
    print("|---|---|---|---|---|---|---|")
    for epsilon, adjacency, method in product((0.2, 0.5), ADJACENCIES, METHODS):
        print(from_trees(method, table, adjacency, epsilon, runs), flush=True)
    best = best_storm(STORM, table)
    found = [measured(storm(table, best, run), table) for run in range(runs)]
    print(line("none | STORM, not private | |", found, best))


if __name__ == "__main__":
    main()
