"""The default for declared columns on thirteen tables, at several strengths.

Run ``python -m benchmarks.default_solver`` at the root of a checkout; another checkout
is compared by running the same file there. Prints the table of
``docs/default_solver.md``: log-loss, or 1 - R^2, of held-out rows of the training part,
with the constant's and the standard error over seeds. With ``--permuted`` targets are
in random order, so that nothing can be learned. Scores are not private, and fits are
seeded.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks._declared_tables import Table, declared, table
from skdp import DPLinearRegression, DPLogisticRegression

# On which the constants were settled.
NAMES = ("adult", "covertype", "kddcup99", "ccpp", "protein_casp", "wine_quality_white")
# On which nothing was settled.
OTHERS = (
    "breast_cancer",
    "covertype_types",
    "digits",
    "digits_odd",
    "noisy",
    "rare",
    "three_of_26",
)
SIZES = (2_000, 10_000, 40_000)
EPSILONS = (0.1, 0.3, 1.0, 4.0)
ADJACENCIES = ("zero_out", "replace_one")
_SEED, _HELD_OUT = 9300, 0.2


@dataclass(frozen=True)
class Cell:
    """Public facts of a fit; `n_samples` of 0 are all rows of the training part."""

    name: str
    n_samples: int
    epsilon: float
    adjacency: str


@dataclass(frozen=True)
class Found:
    """Losses of one fit: its own, of the exact constant, and of one that is free."""

    loss: float
    constant: float
    free: float
    n_samples: int


def fitted(
    cell: Cell,
    seed: int,
    *,
    is_permuted: bool = False,
    changes: dict[str, Any] | None = None,
) -> Found:
    """One fit and its loss on rows of the training part that it did not see.

    `changes` are parameters of the model that are not those of the cell.
    """
    known, X, y = declared(cell.name), *_training_part(table(cell.name))
    if is_permuted:
        y = np.random.default_rng(_SEED + seed).permutation(y)
    fit, held = train_test_split(
        np.arange(len(y)), test_size=_HELD_OUT, random_state=_SEED + seed
    )
    fit = fit[: cell.n_samples or None]
    facts: dict[str, Any] = {
        "columns": known.columns,
        "delta": 1 / max(len(fit), 20) ** 2,  # one record has a delta below 1 too
        "adjacency": cell.adjacency,
        "random_state": seed,
        **(changes or {}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if known.classes is None:
            facts["target_bounds"] = known.target_bounds
            model = DPLinearRegression(cell.epsilon, **facts).fit(X[fit], y[fit])
            return _of_numbers(model.predict(X[held]), y[fit], y[held], known)
        model = DPLogisticRegression(cell.epsilon, classes=known.classes, **facts)
        model.fit(X[fit], y[fit])
    shares = np.array([np.mean(y[fit] == label) for label in known.classes])
    constant = np.tile(np.maximum(shares, 1e-9), (len(held), 1))
    losses = [
        log_loss(y[held], np.clip(p, 1e-9, 1), labels=known.classes)
        for p in (
            model.predict_proba(X[held]),
            constant,
            np.full_like(constant, 1 / len(shares)),
        )
    ]
    return Found(*losses, len(fit))


class _Rows:
    """Rows of a frame or an array by position."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __getitem__(self, at: np.ndarray) -> Any:
        return self._rows.iloc[at] if hasattr(self._rows, "iloc") else self._rows[at]


def _training_part(data: Table) -> tuple[_Rows, np.ndarray]:
    kept = np.flatnonzero(~data.is_test)
    return _Rows(_Rows(data.X)[kept]), data.y[kept]


def _of_numbers(
    predicted: np.ndarray, y: np.ndarray, held: np.ndarray, known: Any
) -> Found:
    predicted = np.clip(predicted, *known.target_bounds)
    variance, middle = np.var(held), np.mean(known.target_bounds)
    losses = [
        float(np.mean((held - made) ** 2) / variance)
        for made in (predicted, y.mean(), middle)
    ]
    return Found(*losses, len(y))


def cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Those that are asked for; sizes beyond a table are all of its rows, once."""
    for name in args.table or (OTHERS if args.others else NAMES):
        rows = int(np.sum(~table(name).is_test) * (1 - _HELD_OUT))
        sizes = dict.fromkeys(0 if n >= rows else n for n in args.n or SIZES)
        for n in sizes:
            for epsilon in args.epsilon or EPSILONS:
                for adjacency in args.adjacency or ADJACENCIES:
                    yield Cell(name, n, epsilon, adjacency)


def line(cell: Cell, found: list[Found]) -> str:
    """A row of the table."""
    losses = [each.loss for each in found]
    error = statistics.stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
    constant = statistics.mean(each.constant for each in found)
    return (
        f"| {cell.name} | {found[0].n_samples} | {cell.epsilon:g} | {cell.adjacency} "
        f"| {constant:.4f} | {statistics.mean(losses):.4f} | {error:.4f} |"
    )


def parser_of(description: str | None, names: Iterable[str]) -> argparse.ArgumentParser:
    """For cells of these tables."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--table", action="append", choices=tuple(names))
    parser.add_argument("--n", action="append", type=int)
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--adjacency", action="append", choices=ADJACENCIES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--permuted", action="store_true")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__, (*NAMES, *OTHERS))
    parser.add_argument("--others", action="store_true", help="tables not settled on")
    args = parser.parse_args(arguments)
    print("| table | n | epsilon | adjacency | constant | loss | error |")
    print("|---|---|---|---|---|---|---|")
    for cell in cells(args):
        found = [
            fitted(cell, seed, is_permuted=args.permuted) for seed in range(args.seeds)
        ]
        print(line(cell, found), flush=True)


if __name__ == "__main__":
    main()
