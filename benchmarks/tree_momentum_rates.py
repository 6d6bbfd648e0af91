"""Rates of Tran and Cutkosky (2022) by simulation, with noise that keeps its epsilon.

``python -m benchmarks.tree_momentum_rates`` prints the table of
``docs/replications.md`` and writes it as text: the norm of the gradient where each
method ends, against the number of records, and the slope of its logarithm. The paper
has no experiment; its theorems promise slopes of -1/2 for Algorithm 1 and -2/3 for
Algorithm 2 and for differences of full gradients.

A made-up problem that is not convex: rows of norm 1 along directions of unequal weight,
labels of which 5 % are flipped, the sigmoid loss and a ridge of 1e-3. Settings are
chosen by the same norm on other noise, at no cost; what is reported is an optimiser's
error on its own problem, so that there is no test part.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import count
from benchmarks._line import FIRST_TUNING_RUN, RESULTS
from benchmarks._provenance import provenance
from benchmarks.nonconvex import Settings, every
from skdp import DPRobustClassifier

EPSILON, DELTA, ADJACENCY = 1.0, 1e-6, "zero_out"
RIDGE = 1e-3
COLUMNS = 20
SIZES = (2048, 16384, 65536)
TUNING_RUNS = 2


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of norm 1, and labels of 0 and 1."""

    X: np.ndarray
    y: np.ndarray


Fit = Callable[[Task, Settings, int], np.ndarray]


@cache
def problem(n: int, n_columns: int = COLUMNS) -> Task:
    """A data set of this size."""
    rng = np.random.default_rng([0, n, n_columns])
    X = rng.standard_normal((n, n_columns)) / np.sqrt(np.arange(1, n_columns + 1))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = rng.standard_normal(n_columns)
    raw = X @ (3 * truth / np.linalg.norm(truth)) + 0.3 * rng.standard_normal(n)
    is_flipped = rng.random(n) < 0.05
    return Task(X, ((raw > 0) != is_flipped).astype(float))


def steepness(task: Task, weights: np.ndarray) -> float:
    """Norm of the gradient of all records and the ridge; reads the data."""
    raw = task.X @ weights
    residual = (1 - 2 * task.y) * expit(raw) * expit(-raw)
    slope = task.X.T @ residual / len(task.y) + RIDGE * weights
    return float(np.linalg.norm(slope))


def model_of(solver: str, task: Task, settings: Settings, run: int) -> Any:
    """An unfitted estimator, with a seed."""
    return DPRobustClassifier(
        loss="sigmoid",
        epsilon=EPSILON,
        delta=DELTA,
        adjacency=ADJACENCY,
        C=1 / (RIDGE * len(task.y)),
        fit_intercept=False,
        classes=[0, 1],
        solver=solver,
        solver_params=settings,
        random_state=run,
    )


def by_solver(solver: str, task: Task, settings: Settings, run: int) -> np.ndarray:
    """Weights of a fit."""
    model = model_of(solver, task, settings, run)
    return np.asarray(model.fit(task.X, task.y.astype(int)).coef_[0])


def by_tree(task: Task, settings: Settings, run: int) -> np.ndarray:
    """Weights of `tree_momentum`; a step is the way of an epoch over its leaves."""
    facts = dict(settings)
    facts["step_length"] = facts.pop("way") / facts["n_leaves"]
    return by_solver("tree_momentum", task, facts, run)


@dataclass(frozen=True)
class Method:
    """A way to descend.

    Parameters
    ----------
    name : str
    fit : callable
    grid : tuple of dict
    """

    name: str
    fit: Fit
    grid: tuple[Settings, ...]

    def found(self, task: Task, settings: Settings, runs: range) -> list[float]:
        """The norm of the gradient where each run ends."""
        return [steepness(task, self.fit(task, settings, run)) for run in runs]

    def best(self, task: Task) -> Settings:
        """The settings of least mean norm on runs that are not reported."""
        runs = range(FIRST_TUNING_RUN, FIRST_TUNING_RUN + TUNING_RUNS)
        return min(
            self.grid, key=lambda one: float(np.mean(self.found(task, one, runs)))
        )


_WAYS = (0.1, 0.3, 1.0, 3.0)
METHODS = (
    Method(
        "DP-GD, `noisy_gd`",
        partial(by_solver, "noisy_gd"),
        tuple(
            every(
                n_steps=(20, 50, 100, 200),
                step_size=(10.0, 30.0, 100.0, 300.0),
                momentum=(0.0,),
                tail=(0.5,),
            )
        ),
    ),
    Method(
        "DIFF-GD, `diff_gd`",
        partial(by_solver, "diff_gd"),
        tuple(every(n_steps=(20, 50, 100, 200), step_size=(10.0, 30.0, 100.0))),
    ),
    Method(
        "Algorithm 1, repaired",
        by_tree,
        tuple(
            every(
                n_leaves=(4, 16),
                n_epochs=(10, 20, 50, 100),
                way=_WAYS,
            )
        ),
    ),
    Method(
        "Algorithm 2, repaired",
        by_tree,
        tuple(
            every(
                n_leaves=(4,),
                n_epochs=(20, 50, 100, 200),
                way=_WAYS,
                refresh=(0.2, 0.5),
                by_differences=(True,),
            )
        ),
    ),
)


def rows(runs: int, sizes: tuple[int, ...] = SIZES) -> pd.DataFrame:
    """A row for each method and number of records, with what was chosen."""
    found = []
    for n in sizes:
        task = problem(n)
        for method in METHODS:
            best = method.best(task)
            mean, error = mean_and_error(method.found(task, best, range(runs)))
            place = {"method": method.name, "n": n}
            chosen = ", ".join(f"{key}={value:g}" for key, value in best.items())
            found.append(
                place | {"mean": mean, "standard error": error, "settings": chosen}
            )
            print(f"| {' | '.join(map(str, found[-1].values()))} |", flush=True)
    return pd.DataFrame(found)


def slopes(table: pd.DataFrame) -> dict[str, float]:
    """Of the logarithm of the norm against that of the number of records."""
    return {
        str(name): float(np.polyfit(np.log(part["n"]), np.log(part["mean"]), 1)[0])
        for name, part in table.groupby("method", sort=False)
    }


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=count, default=16)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    print(f"epsilon {EPSILON:g}, delta {DELTA:g}, {ADJACENCY}")
    table = rows(options.runs)
    for name, slope in slopes(table).items():
        print(f"{name}: slope {slope:.2f}")
    options.results.mkdir(parents=True, exist_ok=True)
    made = provenance("python -m benchmarks.tree_momentum_rates", options.runs)
    file = options.results / "tree_momentum_rates.csv"
    file.write_text(f"{made}\n{table.to_csv(index=False)}")


if __name__ == "__main__":
    main()
