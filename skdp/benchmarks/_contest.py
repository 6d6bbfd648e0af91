"""Ours against the peers: one table, paired seeds, a verdict per row.

Every method of a cell sees the same splits, the same delta and, as its column says,
the same kind of neighbours. Peers are tuned by an oracle: on other splits, by test
accuracy, at no cost in privacy. Ours has every default.
"""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from skdp.benchmarks._accuracy import CONFIGS, mean_and_error, scores
from skdp.benchmarks._data import MissingData, load, split
from skdp.benchmarks._peers import OURS, PEERS, Cell, Contestant, Job
from skdp.benchmarks._results import Entry, Results

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


def verdict(gains: Iterable[float]) -> str:
    """Won, lost or even, from paired gains of ours over a peer.

    A cell is lost if the mean is below -max(0.002, 3 standard errors).
    """
    mean, error = mean_and_error(gains)
    if math.isnan(error):
        return "one seed only"
    bar = max(0.002, 3 * error)
    return "lost" if mean < -bar else "won" if mean > bar else "even"


def run(choice: Choice) -> None:
    """Print the table, a line as soon as it is measured, and write it to a file."""
    config = tomllib.loads(choice.config.read_text())
    table = _Table(choice, config)
    table.say(_HEADER)
    for row in config["cells"]:
        if choice.datasets and row["dataset"] not in choice.datasets:
            continue
        cell = Cell(
            dataset=row["dataset"],
            adjacency=row["adjacency"],
            epsilon=row["epsilon"],
            pure=row.get("pure", False),
        )
        try:
            _measure_cell(table, cell, row.get("target"))
        except MissingData as error:
            table.say(f"| {cell.dataset} | refused: {error} |" + " |" * 9)
    lost = "; ".join(table.lost) or "none"
    table.say(f"\nLost cells: {lost}")
    written = choice.results.with_suffix(".md")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text("\n".join(table.lines) + "\n")


@dataclass
class _Table:
    """The lines so far, and where scores are kept."""

    choice: Choice
    config: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = Results(self.choice.results)

    def say(self, line: str) -> None:
        print(line, flush=True)
        self.lines.append(line)

    def of_dataset(self, cell: Cell) -> dict[str, Any]:
        """The data set's own section of the configuration."""
        return self.config["datasets"].get(cell.dataset, {})


@lru_cache(maxsize=1)  # the cells of one data set follow each other
def _loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    return load(name)


@lru_cache(maxsize=4)
def _parts(name: str, seed: int) -> tuple[np.ndarray, ...]:
    return split(*_loaded(name), seed)


def _measure_cell(table: _Table, cell: Cell, target: float | None) -> None:
    y = _loaded(cell.dataset)[1]
    classes = tuple(int(label) for label in np.unique(y))
    job = Job(cell=cell, n_train=len(y) - len(y) // 5, classes=classes, seed=0)
    ours, note = _scores(table, OURS, job, measure=table.choice.ours)
    _row(table, job, OURS.name, ours, note)
    if target is not None:
        _target_row(table, job, target, ours)
    for peer in PEERS:
        asked = peer.asked_as(cell, len(classes))
        if asked is None:
            continue
        asked_job = Job(cell=asked, n_train=job.n_train, classes=classes, seed=0)
        theirs, note = _scores(table, peer, asked_job, measure=table.choice.peers)
        _row(table, job, peer.name, theirs, note, against=ours)


def _scores(
    table: _Table, method: Contestant, job: Job, *, measure: bool
) -> tuple[dict[str, list[float]], str]:
    """Scores by seed, and why there are none or what to know about them."""
    cell = job.cell
    own = table.of_dataset(cell)
    left_out = own.get("left_out", {}).get(method.name)
    if left_out is not None:
        return {}, f"left out: {left_out}"
    stamp = method.stamp()
    entry = table.results.entry(cell.key, method.name, stamp if measure else None)
    installed = stamp is not None
    if not measure or not installed:
        why = "not measured" if installed else "not installed"
        return entry["scores"], "" if entry["scores"] else why
    n_seeds = own.get("seeds", {}).get(method.name, table.config["seeds"])
    try:
        _tune(table, method, job, entry)
        for seed in range(n_seeds):
            if str(seed) not in entry["scores"]:
                measured = _one(method, job, entry["settings"], seed)
                entry["scores"][str(seed)] = measured
                table.results.save()
    except Exception as error:  # a peer may fail in any way; the table goes on
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return {}, f"refused: {kind}{' '.join(str(error).split())}"
    return entry["scores"], ""


def _one(
    method: Contestant, job: Job, settings: Mapping[str, Any], seed: int
) -> list[float]:
    asked = Job(cell=job.cell, n_train=job.n_train, classes=job.classes, seed=seed)
    model = method.build(asked, settings)
    return [float(score) for score in scores(model, _parts(job.cell.dataset, seed))]


def _tune(table: _Table, method: Contestant, job: Job, entry: Entry) -> None:
    """Choose the settings with the best mean test accuracy on the tuning seeds."""
    if method.grid is None:
        return
    own = table.of_dataset(job.cell)
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


def _row(
    table: _Table,
    job: Job,
    name: str,
    measured: dict[str, list[float]],
    note: str,
    *,
    against: dict[str, list[float]] | None = None,
) -> None:
    """Print one method's line; `against` holds the scores of ours."""
    if note or not measured:
        columns = [note or "not measured", "", "", "", "", ""]
    else:
        accuracy, loss, _ = zip(*measured.values(), strict=True)
        columns = [
            _pair(accuracy),
            _pair(loss),
            *_judge(table, job, name, measured, against),
        ]
    table.say(f"{_place(job)} | {name} | " + " | ".join(columns) + " |")


def _judge(
    table: _Table,
    job: Job,
    name: str,
    theirs: dict[str, list[float]],
    ours: dict[str, list[float]] | None,
) -> list[str]:
    """Paired gains of ours and their verdicts, first accuracy, then log-loss."""
    seeds = sorted(set(theirs) & set(ours or {}))
    if ours is None or not seeds:
        return ["", "", "", ""]
    gains = {
        "accuracy": [ours[seed][0] - theirs[seed][0] for seed in seeds],
        "log-loss": [theirs[seed][1] - ours[seed][1] for seed in seeds],
    }
    columns = []
    for metric, gain in gains.items():
        result = verdict(gain)
        if "not private" in name:
            result = "ceiling"
        if result == "lost":
            table.lost.append(f"{job.cell.key}, {metric}, against {name}")
        columns += [_pair(gain, "+.4f"), result]
    return columns


def _target_row(
    table: _Table, job: Job, target: float, ours: dict[str, list[float]]
) -> None:
    gains = [score[0] - target for score in ours.values()]
    columns = [f"{target:.4f}", "", "", "", "", ""]
    if gains:
        result = verdict(gains)
        if result == "lost":
            table.lost.append(f"{job.cell.key}, accuracy, against the fixed target")
        columns[2:4] = [_pair(gains, "+.4f"), result]
    table.say(f"{_place(job)} | fixed target | " + " | ".join(columns) + " |")


def _place(job: Job) -> str:
    cell, delta = job.cell, job.delta
    return f"| {cell.dataset} | {cell.adjacency} | {cell.epsilon:g} | {delta:.2g}"


def _pair(values: Iterable[float], style: str = ".4f") -> str:
    mean, error = mean_and_error(values)
    spread = "one seed" if math.isnan(error) else f"± {error:.4f}"
    return f"{mean:{style}} {spread}"
