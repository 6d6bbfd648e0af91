"""Momentum from trees (Tran and Cutkosky), repaired, and plain STORM, on a9a.

``python -m benchmarks.tree_momentum`` prints the table of ``docs/replications.md``;
``--runs`` fewer runs. Data are read from SKDP_DATA_HOME. Settings are chosen as in
`benchmarks.nonconvex`: on a fifth of the training part; the test part is read once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from benchmarks._commands import count
from benchmarks._papers._storm import Storm
from benchmarks._papers._tree_momentum import Logistic, TreeMomentum
from benchmarks.nonconvex import DELTA, Settings, Table, a9a, every, spread
from skdp.privacy import Budget, GaussianEvent, calibrate, epsilon_of

Fit = Callable[[Table, Settings, int], np.ndarray]
Algorithm = Literal[1, 2]
Adjacency = Literal["zero_out", "replace_one"]
ALGORITHMS: tuple[Algorithm, ...] = (1, 2)
ADJACENCIES: tuple[Adjacency, ...] = ("zero_out", "replace_one")
_VALIDATION_SEED = 1000
TREES = tuple(every(n_leaves=(4, 16), n_epochs=(10, 40), step_size=(0.03, 0.1, 0.3)))
STORM = tuple(
    every(n_steps=(3000,), batch_size=(100,), refresh=(0.01, 0.1), step_size=(2.0, 8.0))
)


@dataclass(frozen=True)
class FromTrees:
    """One algorithm within one budget.

    Parameters
    ----------
    algorithm : {1, 2}
    adjacency : {"zero_out", "replace_one"}
    epsilon : float
    """

    algorithm: Algorithm
    adjacency: Adjacency
    epsilon: float

    def method(self, settings: Settings) -> TreeMomentum:
        """With alpha of one epoch, as both theorems have it."""
        facts = {name: v for name, v in settings.items() if name != "n_leaves"}
        return TreeMomentum(
            algorithm=self.algorithm,
            adjacency=self.adjacency,
            mu=1 / calibrate(GaussianEvent, Budget(self.epsilon, DELTA)),
            alpha=1 / settings["n_leaves"],
            **facts,
        )

    def fit(self, part: Table, settings: Settings, seed: int) -> np.ndarray:
        """Weights, the constant's last."""
        rng = np.random.default_rng(seed)
        task = Logistic(part.X, part.y, settings["n_leaves"])

        def hear(kind: str, value: np.ndarray, deviation: float) -> np.ndarray:
            return value + deviation * rng.normal(size=value.shape)

        return self.method(settings).run(task, hear)


def storm(part: Table, settings: Settings, seed: int) -> np.ndarray:
    """Weights without privacy."""
    return Storm(**settings).run(part.X, part.y, seed)


def measured(weights: np.ndarray, table: Table) -> tuple[float, float]:
    """Logarithmic loss and error on the test part."""
    chances = expit(table.X_test @ weights[:-1] + weights[-1])
    error = np.mean((chances > 0.5) != table.y_test)
    return log_loss(table.y_test, chances), float(error)


def best_of(fit: Fit, grid: tuple[Settings, ...], table: Table) -> Settings:
    """The settings of least logarithmic loss on the validation part."""
    part = table.validation()
    return min(grid, key=lambda s: measured(fit(part, s, _VALIDATION_SEED), part)[0])


def line(place: str, fit: Fit, best: Settings, table: Table, runs: int) -> str:
    """One row of the table."""
    found = [measured(fit(table, best, seed), table) for seed in range(runs)]
    losses, errors = zip(*found, strict=True)
    shown = ", ".join(f"{key}={value:g}" for key, value in best.items())
    return f"| {place} | {spread(list(losses))} | {spread(list(errors))} | {shown} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=count, default=5)
    runs, table = parser.parse_args().runs, a9a()
    print(
        "| adjacency | method | epsilon | true epsilon | log-loss | error | settings |"
    )
    print("|---|---|---|---|---|---|---|")
    for epsilon, adjacency, algorithm in product((0.2, 0.5), ADJACENCIES, ALGORITHMS):
        one = FromTrees(algorithm, adjacency, epsilon)
        best = best_of(one.fit, TREES, table)
        true = epsilon_of(one.method(best).event, DELTA)
        place = f"{adjacency} | Algorithm {algorithm}, repaired"
        place += f" | {epsilon} | {true:.4f}"
        print(line(place, one.fit, best, table, runs), flush=True)
    best = best_of(storm, STORM, table)
    print(line("none | STORM, not private | |", storm, best, table, runs))


if __name__ == "__main__":
    main()
