"""Ours against the peers: one table, paired seeds, a verdict per row.

Every method of a cell sees the same splits, the same delta and, as its column says,
the same kind of neighbours. Peers are tuned by an oracle: on other splits, by test
accuracy, at no cost in privacy. Ours has every default.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._accuracy import CONFIGS, mean_and_error, scores
from benchmarks._commands import Commands, add_results_file
from benchmarks._data import MissingData, load, split
from benchmarks._peers import OURS, PEERS, Cell, Contestant, Job
from benchmarks._results import Entry, Results

RESULTS = Path("bench-results/peers.json")

_HEADER = (
    "| data | adjacency | epsilon | delta | method | accuracy | log-loss "
    "| ours better by, accuracy | verdict | ours better by, log-loss | verdict |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What of the table is measured; the rest is taken from the results file.

    Parameters
    ----------
    datasets : tuple of str
        Empty for all.
    ours, peers : bool
        Whether this side may be measured.
    results : Path
    config : Path
    """

    datasets: tuple[str, ...] = ()
    ours: bool = True
    peers: bool = True
    results: Path = RESULTS
    config: Path = CONFIGS / "peers.toml"


def datasets(config: Path = Choice.config) -> list[str]:
    """The data sets of a configuration, in its order."""
    cells = tomllib.loads(config.read_text())["cells"]
    return list(dict.fromkeys(cell["dataset"] for cell in cells))


def cells(config: Mapping[str, Any]) -> Iterator[tuple[Cell, float | None]]:
    """Every cell of a configuration, and its fixed target if it has one.

    Adjacency, epsilon and `pure` may be lists; all combinations are then meant.
    """
    for row in config["cells"]:
        choices = (
            entry if isinstance(entry, list) else [entry]
            for entry in (row["adjacency"], row.get("pure", False), row["epsilon"])
        )
        for adjacency, pure, epsilon in itertools.product(*choices):
            yield (
                Cell(
                    dataset=row["dataset"],
                    adjacency=adjacency,
                    epsilon=epsilon,
                    pure=pure,
                ),
                row.get("target"),
            )


def verdict(gains: Iterable[float]) -> str:
    """Won, lost or even, from paired gains of ours over a peer.

    A cell is lost if the mean is below -max(0.002, 3 standard errors).
    """
    mean, error = mean_and_error(gains)
    if math.isnan(error):
        return "one seed only"
    bar = max(0.002, 3 * error)
    return "lost" if mean < -bar else "won" if mean > bar else "even"


def add(commands: Commands) -> None:
    """Make it a command."""
    parser = commands.add("peers", "ours against peers and references", _asked)
    parser.add_argument(
        "--dataset",
        action="append",
        default=[],
        choices=datasets(),
        help="only this data set; may be repeated",
    )
    side = parser.add_mutually_exclusive_group()
    side.add_argument(
        "--ours-only",
        action="store_true",
        help="measure ours; take the peers from the results file, installed or not",
    )
    side.add_argument(
        "--peers-only",
        action="store_true",
        help="measure the peers; take ours from the results file",
    )
    side.add_argument(
        "--stored",
        action="store_true",
        help="measure nothing; print what the results file has",
    )
    add_results_file(parser, RESULTS)


def _asked(options: argparse.Namespace) -> None:
    run(
        Choice(
            datasets=tuple(options.dataset),
            ours=not (options.peers_only or options.stored),
            peers=not (options.ours_only or options.stored),
            results=options.results,
        )
    )


def run(choice: Choice) -> None:
    """Print the table, a line as soon as it is measured, and write it to a file."""
    config = tomllib.loads(choice.config.read_text())
    table = _Table(choice, config)
    table.say(_HEADER)
    for cell, target in cells(config):
        if choice.datasets and cell.dataset not in choice.datasets:
            continue
        try:
            _measure_cell(table, cell, target)
        except MissingData as error:
            table.say(f"| {cell.dataset} | refused: {error} |" + " |" * 9)
    table.say(f"\nVerdicts: {table.tally()}")
    written = choice.results.with_suffix(".md")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text("\n".join(table.lines) + "\n")


class Verdict(NamedTuple):
    """How ours did against one rival in one cell."""

    result: str
    cell: str
    metric: str
    rival: str
    gain: float


@dataclass
class _Table:
    """The lines so far, and where scores are kept."""

    choice: Choice
    config: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = Results(self.choice.results)

    def own(self, dataset: str) -> dict[str, Any]:
        """What the configuration says about one data set, or about its like."""
        own = self.config["datasets"].get(dataset, {})
        return self.config["datasets"].get(own.get("like"), {}) | own

    def say(self, line: str) -> None:
        print(line, flush=True)
        self.lines.append(line)

    def tally(self) -> str:
        """How many verdicts of each kind, and all that are lost."""
        counts = Counter(verdict.result for verdict in self.verdicts)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        lost = [
            f"{verdict.cell}, {verdict.metric}, against {verdict.rival}"
            for verdict in self.verdicts
            if verdict.result == "lost"
        ]
        return "\n- ".join(
            [kinds or "none", *self._pooled(), *(f"lost: {cell}" for cell in lost)]
        )

    def _pooled(self) -> Iterator[str]:
        """Mean gain over all cells against each rival."""
        gains: dict[tuple[str, str], list[float]] = {}
        for verdict in self.verdicts:
            gains.setdefault((verdict.rival, verdict.metric), []).append(verdict.gain)
        for (rival, metric), values in sorted(gains.items()):
            mean = float(np.mean(values))
            yield f"{metric}, against {rival}: {mean:+.4f} over {len(values)} cells"


@lru_cache(maxsize=1)  # the cells of one data set follow each other
def _loaded(name: str, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    return load(name, rows)


@lru_cache(maxsize=2)
def _parts(name: str, rows: int | None, seed: int) -> tuple[np.ndarray, ...]:
    return split(*_loaded(name, rows), seed)


def _measure_cell(table: _Table, cell: Cell, target: float | None) -> None:
    rows = table.own(cell.dataset).get("rows")
    y = _loaded(cell.dataset, rows)[1]
    classes = tuple(int(label) for label in np.unique(y))
    job = Job(cell=cell, n_train=len(y) - len(y) // 5, classes=classes, rows=rows)
    ours, note = _scores(table, OURS, job, measure=table.choice.ours)
    columns = [note, *[""] * 5] if note else [*_means(ours), *[""] * 4]
    _row(table, job, OURS.name, columns)
    if target is not None:
        gains = [score[0] - target for score in ours["scores"].values()]
        judged = _judge(table, job, "accuracy", "the fixed target", gains)
        _row(table, job, "fixed target", [f"{target:.4f}", "", *judged, "", ""])
    for peer in PEERS:
        asked = peer.asked_as(cell, len(classes))
        if asked is None:
            continue
        asked_job = replace(job, cell=asked)
        theirs, note = _scores(table, peer, asked_job, measure=table.choice.peers)
        name = peer.name
        if theirs["settings"]:
            name += ": " + ", ".join(
                f"{k}={v:g}" for k, v in theirs["settings"].items()
            )
        if note:
            _row(table, job, name, [note, *[""] * 5])
        else:
            columns = _compare(table, job, peer, ours, theirs)
            _row(table, job, name, [*_means(theirs), *columns])


def _scores(
    table: _Table, method: Contestant, job: Job, *, measure: bool
) -> tuple[Entry, str]:
    """What is measured or stored, and, if there is nothing, why."""
    cell, stamp = job.cell, method.stamp()
    own = table.own(cell.dataset)
    if stamp is not None and job.rows is not None:
        stamp += f", {job.rows} rows"  # another limit is measured again
    entry = table.results.entry(cell.key, method.name, stamp if measure else None)
    if not measure or stamp is None:
        why = "not installed" if stamp is None else "not measured"
        return entry, "" if entry["scores"] else why
    n_seeds = own.get("seeds", {}).get(method.name, table.config["seeds"])
    try:
        if method.grid is not None:
            _tune(table, method, job, entry)
        for seed in range(n_seeds):
            if str(seed) not in entry["scores"]:
                measured = _one(method, job, entry["settings"], seed)
                entry["scores"][str(seed)] = measured
                table.results.save()
    except Exception as error:  # a peer may fail in any way; the table goes on
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        nothing = Entry(stamp=stamp, settings={}, tuning={}, scores={})
        return nothing, f"refused: {kind}{' '.join(str(error).split())}"
    return entry, ""


def _one(
    method: Contestant, job: Job, settings: Mapping[str, Any], seed: int
) -> list[float]:
    model = method.build(replace(job, seed=seed), settings)
    parts = _parts(job.cell.dataset, job.rows, seed)
    return [float(score) for score in scores(model, parts)]


def _tune(table: _Table, method: Contestant, job: Job, entry: Entry) -> None:
    """Choose the settings with the best mean test accuracy on the tuning seeds."""
    own = table.own(job.cell.dataset)
    grid = own.get("grids", {}).get(method.grid, table.config["grids"][method.grid])
    first = table.config["first_tuning_seed"]
    seeds = range(first, first + own.get("tuning_seeds", table.config["tuning_seeds"]))
    reached: dict[str, float] = {}
    for values in itertools.product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        name = json.dumps(settings, sort_keys=True)
        accuracies = entry["tuning"].setdefault(name, {})
        for seed in seeds:
            if str(seed) not in accuracies:
                accuracies[str(seed)] = _tried(method, job, settings, seed)
                table.results.save()
        reached[name] = float(np.mean([accuracies[str(seed)] for seed in seeds]))
    best = json.loads(max(reached, key=reached.__getitem__))
    if best != entry["settings"]:
        entry["settings"], entry["scores"] = best, {}


def _tried(
    method: Contestant, job: Job, settings: Mapping[str, Any], seed: int
) -> float:
    """Accuracy, or 0 where a method has no private fit with these settings."""
    try:
        return _one(method, job, settings, seed)[0]
    except ValueError:
        return 0.0


def _means(entry: Entry) -> list[str]:
    accuracy, loss, _ = zip(*entry["scores"].values(), strict=True)
    return [_pair(accuracy), _pair(loss)]


def _compare(
    table: _Table, job: Job, peer: Contestant, ours: Entry, theirs: Entry
) -> list[str]:
    """Paired gains of ours and their verdicts, first accuracy, then log-loss."""
    seeds = [seed for seed in theirs["scores"] if seed in ours["scores"]]
    columns = []
    for metric, column, sign in (("accuracy", 0, 1), ("log-loss", 1, -1)):
        gains = [
            sign * (ours["scores"][seed][column] - theirs["scores"][seed][column])
            for seed in seeds
        ]
        if gains and not peer.private:
            columns += [_pair(gains, "+.4f"), ""]  # a ceiling, not a rival
        else:
            columns += _judge(table, job, metric, peer.name, gains)
    return columns


def _judge(
    table: _Table, job: Job, metric: str, rival: str, gains: list[float]
) -> list[str]:
    if not gains:
        return ["", ""]
    result = verdict(gains)
    mean = float(np.mean(gains))
    table.verdicts.append(Verdict(result, job.cell.key, metric, rival, mean))
    return [_pair(gains, "+.4f"), result]


def _row(table: _Table, job: Job, name: str, columns: list[str]) -> None:
    cell = job.cell
    data = cell.dataset + (f" ({job.rows} records)" if job.rows else "")
    place = f"{data} | {cell.adjacency} | {cell.epsilon:g} | {job.delta:.2g}"
    table.say(f"| {place} | {name} | " + " | ".join(columns) + " |")


def _pair(values: Iterable[float], style: str = ".4f") -> str:
    mean, error = mean_and_error(values)
    spread = "one seed" if math.isnan(error) else f"± {error:.4f}"
    return f"{mean:{style}} {spread}"
