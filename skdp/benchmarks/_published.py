"""Published tables and figures measured again, from a TOML configuration each.

An experiment is a function of `skdp.benchmarks._papers` that yields lines; the loop
here measures, keeps and prints them. Methods of the papers have the papers' own noise,
drawn by NumPy: never a private release, whatever epsilon they are given.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.benchmarks._accuracy import CONFIGS, mean_and_error
from skdp.benchmarks._data import MissingData
from skdp.benchmarks._results import Results

PUBLISHED = CONFIGS / "published"
RESULTS = Path("bench-results")

Experiment = Callable[..., Iterable["Line"]]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One method at one place of a table or figure.

    Parameters
    ----------
    place : dict
        Columns that say where, for example ``{"T": 100}``.
    method : str
    claimed, true : float
        Epsilon that the source states, and that of what is released; inf without noise.
    measure : callable or None
        Values of the metric for some runs, given their numbers; a run depends on its
        number only.
    delta : float, default=0
        The delta that both hold at.
    adjacency : str, default="replace_one"
    private : bool, default=False
        Whether it is a private release: of the library, with its own noise.
    note : str, default=""
    refusal : str, default=""
        Why the method cannot do it; `measure` is None then.
    """

    place: dict[str, str | float]
    method: str
    claimed: float
    true: float
    measure: Callable[[Sequence[int]], Sequence[float]] | None
    delta: float = 0.0
    adjacency: str = "replace_one"
    private: bool = False
    note: str = ""
    refusal: str = ""


def names() -> list[str]:
    """Configurations that can be run."""
    return sorted(path.stem for path in PUBLISHED.glob("*.toml"))


def run(
    name: str,
    *,
    runs: int | None = None,
    folder: Path = RESULTS,
    configs: Path = PUBLISHED,
) -> None:
    """Measure, print, and write a Parquet file and a plot.

    Parameters
    ----------
    name : str
        Configuration.
    runs : int or None
        At most so many runs per line.
    folder : Path
        Where values are kept, line by line, and taken up again.
    configs : Path
    """
    _require("matplotlib", "pyarrow")
    config = tomllib.loads((configs / f"{name}.toml").read_text())
    wanted = min(config["runs"], runs or config["runs"])
    print(f"# {config['title']}: mean and standard error of up to {wanted} runs")
    try:
        rows = list(_rows(name, config, wanted, Results(folder / f"{name}.json")))
    except MissingData as error:
        print(f"refused: {error}")
        return
    frame = pd.DataFrame(rows)
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / f"{name}.parquet", index=False)
    _plot(frame, config, folder / f"{name}.png")
    print(f"\nwritten: {folder / name}.parquet and .png")


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise SystemExit(
            f"This needs {' and '.join(missing)}, which the 'bench' extra has: "
            "pip install -e '.[bench]', in the folder of skdp's sources."
        )


def _experiments() -> dict[str, Experiment]:
    # Imported here, because the experiments are made of lines.
    from skdp.benchmarks._papers import EXPERIMENTS

    return EXPERIMENTS


def _stamp(experiment: Experiment, parameters: dict[str, Any]) -> str:
    """Fingerprint of what the values depend on; others are measured again."""
    folder = Path(inspect.getfile(experiment)).parent
    source = "".join(path.read_text() for path in sorted(folder.glob("*.py")))
    text = source + json.dumps(parameters, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _rows(
    name: str, config: dict[str, Any], wanted: int, kept: Results
) -> Iterator[dict[str, Any]]:
    experiment = _experiments()[config["experiment"]]
    stamp = _stamp(experiment, config["parameters"])
    for number, line in enumerate(experiment(**config["parameters"])):
        start = time.perf_counter()
        values = _values(line, wanted, kept, stamp)
        seconds = time.perf_counter() - start
        progress = f"{name}: line {number + 1}, {line.method}, {seconds:.1f} s"
        print(progress, file=sys.stderr, flush=True)
        row = _row(line, values)
        if number == 0:
            print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
        print(f"| {' | '.join(_cell(value) for value in row.values())} |", flush=True)
        yield row


def _values(line: Line, wanted: int, kept: Results, stamp: str) -> list[float]:
    if line.measure is None:
        return []
    where = f"{json.dumps(line.place)} epsilon={line.claimed:g} {line.adjacency}"
    scores = kept.entry(where, line.method, stamp)["scores"]
    missing = [run for run in range(wanted) if str(run) not in scores]
    if missing:
        measured = line.measure(missing)
        for run, value in zip(missing, measured, strict=True):
            scores[str(run)] = [float(value)]
        kept.save()
    return [scores[str(run)][0] for run in range(wanted)]


def _row(line: Line, values: list[float]) -> dict[str, Any]:
    mean, error = mean_and_error(values) if values else (math.nan, math.nan)
    return line.place | {
        "method": line.method,
        "claimed epsilon": line.claimed,
        "true epsilon": line.true,
        "delta": line.delta,
        "adjacency": line.adjacency,
        "private": "yes" if line.private else "not private",
        "mean": mean,
        "standard error": error,
        "runs": len(values),
        "note": f"refused: {line.refusal}" if line.refusal else line.note,
    }


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3g}"
    return str(value)


def _plot(frame: pd.DataFrame, config: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    axis, panel = config["plot"]["x"], config["plot"].get("panel")
    measured = frame[frame["runs"] > 0]
    panels = list(measured.groupby(panel, sort=False)) if panel else [("", measured)]
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(5.5 * columns, 4.5 * rows), layout="constrained")
    for number, (title, part) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        for method, points in part.groupby("method", sort=False):
            _draw(axes, method, points, axis)
        axes.set_title(f"{panel}: {title}" if panel else config["title"], fontsize=9)
        axes.set_xlabel(axis)
        axes.set_ylabel(config["plot"]["y"])
        axes.set_xscale(config["plot"].get("x_scale", "linear"))
        axes.set_yscale(config["plot"].get("y_scale", "linear"))
        axes.legend(fontsize=6)
    figure.savefig(path, dpi=120)


def _draw(axes: Any, method: str, points: pd.DataFrame, axis: str) -> None:
    if (points[axis] == math.inf).all():  # without noise: the same everywhere
        level = points["mean"].iloc[0]
        axes.axhline(level, color="grey", linestyle="--", label=method)
        return
    errors = points["standard error"].fillna(0)
    axes.errorbar(points[axis], points["mean"], errors, marker="o", label=method)
