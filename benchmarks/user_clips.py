"""Which way to bound a user: means, or sums that are clipped, by public facts.

Run ``python -m benchmarks.user_clips`` at the root of a checkout, and with ``--report``
for the tables that nothing was settled on. Prints tables of ``docs/users.md``.

Rows of declared tables are dealt to made-up persons: one each, or 1 to 5, at random or
in the order of the first column, so that rows of a person are alike. Ways:

- *mean*: the default, means of centred rows;
- *sum, c*: ``solver="noisy_gd", solver_params={"user_clip": c}``, rows as they come.

Each is fitted to the same persons. What is printed is by how much a sum is above the
mean, in points of accuracy, and how much its log-loss is lower, in hundredths; with
the standard error of both. The strength of a cell is what public facts say: persons
times mu, and half of that under replace_one. Scores are those of rows held out of the
training part, or with ``--report`` of the test part; they are not private, and fits
are seeded.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss

from benchmarks._declared_tables import Table, declared, table
from skdp import DPLogisticRegression
from skdp._arrays import IntArray
from skdp.privacy import Budget
from skdp.solvers._default_rules import signal_to_noise_of

DELTA = 1e-6
ADJACENCIES = ("replace_one", "zero_out")
# Krummholz, 3.5 % of the rows of covertype.
_RARE_TYPE = "covertype, type 7"
SETTLED = ("covertype", _RARE_TYPE, "noisy", "rare")
REPORTED = ("adult", "kddcup99")
_SEED, _MOST_HELD_OUT = 9200, 4_000


class Shape(NamedTuple):
    """How many rows persons have, from 1 on, and whether a person's are alike."""

    most_rows: int
    alike: bool


SHAPES = {
    "1": Shape(1, False),
    "1 to 5": Shape(5, False),
    "1 to 5, alike": Shape(5, True),
}


class Size(NamedTuple):
    """Public facts of a fit."""

    n_persons: int
    epsilon: float


SIZES = (Size(1_000, 0.3), Size(1_000, 1.0), Size(1_000, 4.0), Size(3_000, 1.0))


def _summed(clip: float) -> dict[str, Any]:
    return {"solver": "noisy_gd", "solver_params": {"user_clip": clip}}


# The first one is what others are compared with.
WAYS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum, 1/2": _summed(0.5),
    "sum, 1": _summed(1.0),
}


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to deal and rows to judge by, of one table."""

    columns: Any
    X: Any
    y: np.ndarray
    X_judged: Any
    y_judged: np.ndarray


@dataclass(frozen=True)
class Cell:
    """What the ways are compared at."""

    name: str
    shape: str
    size: Size
    adjacency: str

    @property
    def strength(self) -> float:
        """Persons times mu, in units of persons that are left out."""
        n_persons, epsilon = self.size
        return signal_to_noise_of(n_persons, Budget(epsilon, DELTA), self.adjacency)


@lru_cache(maxsize=2)
def loaded(name: str) -> tuple[Any, Table]:
    """Declared columns and the table, with two labels."""
    own = "covertype_types" if name == _RARE_TYPE else name
    found = table(own)
    if name == _RARE_TYPE:
        found = replace(found, y=(found.y == 7).astype(int))
    return declared(own).columns, found


def task(name: str, seed: int, *, is_report: bool) -> Task:
    """The training and test part, or two parts of the training part."""
    columns, all_rows = loaded(name)
    is_train = ~all_rows.is_test
    own, judged = np.flatnonzero(is_train), np.flatnonzero(all_rows.is_test)
    if not is_report:
        order = np.random.default_rng([_SEED, seed]).permutation(own)
        judged, own = np.split(order, [len(order) // 5])
        judged = judged[:_MOST_HELD_OUT]
    X, y = all_rows.X, all_rows.y
    return Task(columns, X.iloc[own], y[own], X.iloc[judged], y[judged])


def dealt(own: Task, shape: Shape, n_persons: int, seed: int) -> Any:
    """Places of rows, and whose they are; None if there are too few rows."""
    rng = np.random.default_rng([_SEED + 1, seed])
    order: IntArray = rng.permutation(len(own.y))
    if shape.alike:
        first = own.X.iloc[order, 0].to_numpy()
        order = order[np.argsort(first, kind="stable")]
    sizes = rng.integers(1, shape.most_rows + 1, len(order))
    ids = np.repeat(np.arange(len(order)), sizes)[: len(order)]
    if ids[-1] < n_persons:
        return None
    chosen = np.isin(ids, rng.permutation(ids[-1])[:n_persons])
    return order[chosen], ids[chosen]


def scores(own: Task, cell: Cell, seed: int) -> list[tuple[float, float]]:
    """Accuracy and log-loss of each way; none of too few rows."""
    rows = dealt(own, SHAPES[cell.shape], cell.size.n_persons, seed)
    if rows is None:
        return []
    places, ids = rows
    found = []
    for given in WAYS.values():
        model = DPLogisticRegression(
            cell.size.epsilon, delta=DELTA, adjacency=cell.adjacency,
            privacy_unit="user", columns=own.columns, classes=[0, 1],
            random_state=seed, **given,
        )  # fmt: skip
        model.fit(own.X.iloc[places], own.y[places], groups=ids)
        chances = model.predict_proba(own.X_judged)
        accuracy = np.mean((chances[:, 1] > 0.5) == own.y_judged)
        found.append((float(accuracy), float(log_loss(own.y_judged, chances))))
    return found


def _with_error(values: Iterable[float]) -> str:
    """Their mean with its standard error, in hundredths."""
    found = [100 * value for value in values]
    error = statistics.stdev(found) / len(found) ** 0.5
    return f"{statistics.mean(found):+.1f} ± {error:.1f}"


def line(cell: Cell, repeats: list[list[tuple[float, float]]]) -> str:
    """A cell: the mean's scores, and how much better each sum's are."""
    means = [own[0] for own in repeats]
    accuracy, loss = map(statistics.mean, zip(*means, strict=True))
    parts = [f"{accuracy:.4f}, {loss:.4f}"]
    for way in range(1, len(WAYS)):
        gains = [own[way][0] - own[0][0] for own in repeats]
        losses = [own[0][1] - own[way][1] for own in repeats]
        parts.append(f"{_with_error(gains)}, {_with_error(losses)}")
    n_persons, epsilon = cell.size
    facts = [cell.name, cell.shape, f"{n_persons:,}", f"{epsilon:g}", cell.adjacency]
    return "| " + " | ".join([*facts, f"{cell.strength:.0f}", *parts]) + " |"


def lines(
    names: Iterable[str], sizes: Iterable[Size], repeats: int, *, is_report: bool
) -> Iterator[str]:
    """The table, line by line; of cells for which there are enough rows."""
    for name in names:
        tasks = [task(name, seed, is_report=is_report) for seed in range(repeats)]
        for shape in SHAPES:
            for size in sizes:
                for adjacency in ADJACENCIES:
                    cell = Cell(name, shape, size, adjacency)
                    found = [scores(own, cell, i) for i, own in enumerate(tasks)]
                    if all(found):
                        yield line(cell, found)


def main() -> None:
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--tables", nargs="+", default=None)
    parser.add_argument("--persons", type=int, nargs="+", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    head = ["table", "rows", "persons", "epsilon", "adjacency", "strength", *WAYS]
    print("| " + " | ".join(head) + " |", "|---" * len(head) + "|", sep="\n")
    names = options.tables or (REPORTED if options.report else SETTLED)
    chosen = options.persons or {size.n_persons for size in SIZES}
    sizes = [size for size in SIZES if size.n_persons in chosen]
    for own in lines(names, sizes, options.repeats, is_report=options.report):
        print(own, flush=True)


if __name__ == "__main__":
    main()
