"""Constants of the default settled on all tables but one, and reported on that one.

Run ``python -m benchmarks.default_left_out`` at the root of a checkout. Six constants
are moved one at a time to about half and twice their value, on the tables that settled
them (`benchmarks.default_solver`). For each table in turn every constant takes the
value that is best on the others, all of them together are tried on the table, and the
loss is compared with that of the constants as they are shipped. Losses are over that of
the constant model, on held-out rows of the training part, averaged over cells.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.default_solver import ADJACENCIES, EPSILONS, NAMES, Cell, fitted
from skdp.solvers import _centred_rows as gate
from skdp.solvers import _default_rules as rules

# Module, name, and the values that are tried; the second one is shipped.
CONSTANTS: dict[str, tuple[Any, tuple[float, float, float]]] = {
    "LEAST_SIGNAL_TO_NOISE": (rules, (25.0, 50.0, 100.0)),
    "_NOISE": (rules, (0.5, 1.0, 2.0)),
    "_NOISE_OF_NUMBERS": (rules, (0.2, 0.4, 0.8)),
    "_ROWS": (rules, (0.25, 0.5, 1.0)),
    "_RELAXATIONS": (rules, (5, 7, 10)),
    "_EVERYTHING": (gate, (1.25, 1.5, 2.0)),
}
SIZES = (2_000, 10_000)
Values = tuple[tuple[str, float], ...]


def loss_of(name: str, values: Values, seeds: int) -> float:
    """Over that of the constant model, on average over the cells of a table."""
    found = []
    with ExitStack() as changed:
        for constant, value in values:
            module, _ = CONSTANTS[constant]
            changed.enter_context(patch.object(module, constant, value))
        for cell in product((name,), SIZES, EPSILONS, ADJACENCIES):
            for seed in range(seeds):
                told = fitted(Cell(*cell), seed)
                found.append(told.loss / told.constant)
    return float(np.mean(found))


def moves() -> Iterator[Values]:
    """One constant at another value."""
    for constant, (_, values) in CONSTANTS.items():
        for value in (values[0], values[2]):
            yield ((constant, value),)


def settled(losses: dict[tuple[str, Values], float], left_out: str) -> Values:
    """What the other tables would choose, one constant at a time."""
    others = [name for name in NAMES if name != left_out]

    def on_others(values: Values) -> float:
        return float(np.mean([losses[name, values] for name in others]))

    chosen: list[tuple[str, float]] = []
    for constant in CONSTANTS:
        tried = [(), *(move for move in moves() if move[0][0] == constant)]
        chosen += min(tried, key=on_others)
    return tuple(chosen)


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    losses = {
        (name, values): loss_of(name, values, given.seeds)
        for name, values in product(NAMES, ((), *moves()))
    }
    print("| constant | value | " + " | ".join(NAMES) + " |")
    print("|---" * (len(NAMES) + 2) + "|")
    for values in ((), *moves()):
        constant, value = values[0] if values else ("as shipped", "")
        told = (f"{losses[name, values]:.4f}" for name in NAMES)
        print(f"| {constant} | {value} | {' | '.join(told)} |", flush=True)
    print("\n| left out | chosen by the others | as shipped | chosen |")
    print("|---" * 4 + "|")
    for name in NAMES:
        chosen, shipped = settled(losses, name), losses[name, ()]
        told = ", ".join(f"{constant} {value:g}" for constant, value in chosen)
        now = loss_of(name, chosen, given.seeds) if chosen else shipped
        print(f"| {name} | {told or 'all as shipped'} | {shipped:.4f} | {now:.4f} |")


if __name__ == "__main__":
    main()
