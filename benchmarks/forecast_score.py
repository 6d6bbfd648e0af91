"""How far `Forecast.epsilon_for` is from the epsilon at which a score is reached.

Run ``python -m benchmarks.forecast_score`` at the root of a checkout: the tables on
which the formula was settled; with ``--others`` those on which nothing was settled, and
with ``--numbers`` rows of norm 1 without declared columns. A score is the share of what
the same model without privacy gains over the constant in log-loss, or in 1 - R^2, on
held-out rows of the training part, from means over seeds. Prints measured scores beside
forecast ones, and then how often `epsilon_for` is within a factor of the epsilon at
which a score was reached, which is interpolated between epsilons; of cells with
something to gain. Scores are not private, and fits are seeded.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain, pairwise

import numpy as np

from benchmarks import default_rows, default_solver
from benchmarks._declared_tables import declared
from benchmarks.default_solver import ADJACENCIES, EPSILONS, NAMES, OTHERS, Cell
from skdp import forecast
from skdp.linear_model import Forecast
from skdp.losses import SoftmaxLoss

# Rows of numbers: adult and covertype were settled on, with their columns.
NUMBERS = ("adult", "covertype", "a9a", "w8a", "kddcup99", "digits", "mnist", "imdb")
TARGETS = (0.5, 0.75, 0.9)
FACTORS = (2, 3, 5)
# Of the constant's loss; where there is less to gain the signal is weak.
_MUCH = 0.1


@dataclass(frozen=True)
class Score:
    """The measured score of a cell, and what is forecast for it."""

    cell: Cell
    measured: float
    told: Forecast
    # Part of the constant's loss that a model without privacy takes off.
    gain: float

    @property
    def expected(self) -> float:
        """By the formula of `Forecast.epsilon_for`."""
        told = self.told
        if told.noise_dominates or told.half_at is None:
            return 0.0
        return 1 / (1 + told.noise_to_signal / told.half_at)


def score_of(cell: Cell, seeds: int, *, are_numbers: bool = False) -> Score:
    """The score of the default in one cell."""
    exactly = replace(cell, epsilon=math.inf, adjacency=ADJACENCIES[0])
    loss, constant, n = _means(cell, seeds, are_numbers)
    exact, _, _ = _means(exactly, seeds, are_numbers)
    n_labels = _n_labels(cell.name, are_numbers)
    # The formula asks for the numbers of records and of labels, not of columns.
    told = forecast(
        n,
        1,
        cell.epsilon,
        delta=1 / n**2,
        adjacency=cell.adjacency,
        loss=SoftmaxLoss(n_labels) if n_labels > 2 else None,
    )
    gain = 1 - exact / constant
    return Score(cell, (1 - loss / constant) / gain, told, gain)


@cache
def _means(cell: Cell, seeds: int, are_numbers: bool) -> tuple[float, float, int]:
    """Losses of the model and of the constant, and the number of records."""
    n = cell.n_samples
    if are_numbers:
        rows = _rows(cell.name)
        n = min(n or len(rows.y), int(len(rows.y) * 0.8))
        facts = (rows, n, cell.epsilon, cell.adjacency)
        of_rows = [default_rows.fitted(*facts, seed) for seed in range(seeds)]
        pairs = [(each.loss, each.constant) for each in of_rows]
    else:
        found = [default_solver.fitted(cell, seed) for seed in range(seeds)]
        n = found[0].n_samples
        pairs = [(each.loss, each.constant) for each in found]
    loss, constant = map(statistics.mean, zip(*pairs, strict=True))
    return loss, constant, n


@lru_cache(maxsize=1)
def _rows(name: str) -> default_rows.Rows:
    return default_rows.table(name)


def _n_labels(name: str, are_numbers: bool) -> int:
    if are_numbers:
        return len(np.unique(_rows(name).y))
    return len(declared(name).classes or (0, 1))


def factor(scores: Sequence[Score], target: float) -> float | None:
    """`epsilon_for` over the epsilon at which a score was reached.

    `scores` are of one table, by rising epsilon. None: the score is reached below the
    first of them, or beyond the last.
    """
    for low, high in pairwise(scores):
        if low.measured < target <= high.measured:
            part = (target - low.measured) / (high.measured - low.measured)
            least, most = low.cell.epsilon, high.cell.epsilon
            return low.told.epsilon_for(target) / (least * (most / least) ** part)
        if low.measured >= target:
            return None
    return None


def summary(scores: Sequence[Score], least_gain: float) -> list[str]:
    """How large the errors are, in words, where there is more than that to gain."""
    scores = [score for score in scores if score.gain > least_gain]
    if not scores:
        return []
    errors = [abs(min(max(s.measured, 0), 1) - s.expected) for s in scores]
    lines = [
        f"gain above {least_gain:g} of the constant's loss: {len(scores)} cells; mean "
        f"error of a score {np.mean(errors):.3f}"
    ]
    groups: dict[Cell, list[Score]] = {}
    for each in sorted(scores, key=lambda score: score.cell.epsilon):
        groups.setdefault(replace(each.cell, epsilon=0.0), []).append(each)
    found = {
        target: [factor(group, target) for group in groups.values()]
        for target in TARGETS
    }
    for target, factors in (*found.items(), ("all", [*chain(*found.values())])):
        logs = np.log([each for each in factors if each is not None])
        if not len(logs):
            continue
        within = [(np.mean(abs(logs) <= math.log(each)), each) for each in FACTORS]
        lines.append(
            f"score {target}: {len(logs)} reached between epsilons, "
            f"{len(factors) - len(logs)} not; epsilon_for is "
            f"{math.exp(np.median(logs)):.2f} times as much (median), "
            + ", ".join(f"{share:.0%} within {each}" for share, each in within)
        )
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Print the table and the summary."""
    parser = default_solver.parser_of(__doc__, {*NAMES, *OTHERS, *NUMBERS})
    parser.add_argument("--others", action="store_true", help="tables not settled on")
    parser.add_argument("--numbers", action="store_true", help="no declared columns")
    args = parser.parse_args(arguments)
    if args.numbers:
        cells = [
            Cell(name, n, epsilon, adjacency)
            for name in args.table or NUMBERS
            for n in args.n or ((0,) if name == "digits" else (2_000, 10_000))
            for epsilon in args.epsilon or EPSILONS
            for adjacency in args.adjacency or ADJACENCIES
        ]
    else:
        cells = list(default_solver.cells(args))
    print("| table | n | epsilon | adjacency | measured | forecast |")
    print("|---|---|---|---|---|---|")
    scores = []
    for cell in cells:
        score = score_of(cell, args.seeds, are_numbers=args.numbers)
        scores.append(score)
        print(
            f"| {cell.name} | {score.told.n_records} | {cell.epsilon:g} "
            f"| {cell.adjacency} | {score.measured:.2f} | {score.expected:.2f} |",
            flush=True,
        )
    print(*summary(scores, 0.0), *summary(scores, _MUCH), sep="\n")


if __name__ == "__main__":
    main()
