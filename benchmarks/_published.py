"""Published tables and figures measured again, from a TOML configuration each.

An experiment is a function of `benchmarks._papers` that yields lines; the loop
here measures, keeps and prints them. Methods of the papers have the papers' own noise,
drawn by NumPy: never a private release, whatever epsilon they are given.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import math
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import _papers, _sparse_tables
from benchmarks._accuracy import CONFIGS, mean_and_error
from benchmarks._commands import Commands, count
from benchmarks._data import MissingData
from benchmarks._line import FIRST_TUNING_RUN, RESULTS, Experiment, Line
from benchmarks._peers import source_stamp
from benchmarks._provenance import provenance
from benchmarks._results import Entry, Results

PUBLISHED = CONFIGS / "published"
SPARSE = CONFIGS / "sparse"
EXPERIMENTS = _papers.EXPERIMENTS | _sparse_tables.EXPERIMENTS


def names(configs: Path = PUBLISHED) -> list[str]:
    """Configurations that can be run."""
    return sorted(path.stem for path in configs.glob("*.toml"))


def add(commands: Commands) -> None:
    """Make each table a command, and the sections on sparse models another."""
    for name in names():
        _add_options(commands.add(name, "a published table or figure", _asked))
    sparse = commands.add("sparse", "few features of many", _asked_sparse)
    sparse.add_argument(
        "--section",
        action="append",
        default=[],
        choices=names(SPARSE),
        help="only this section; may be repeated",
    )
    sparse.add_argument(
        "--quick", action="store_true", help="two runs per line, to see that it works"
    )
    _add_options(sparse)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=count, help="at most so many runs per line")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help="folder for values kept, Parquet file and plot (default: %(default)s)",
    )


def _asked(options: argparse.Namespace) -> None:
    run(options.what, runs=options.runs, folder=options.results)


def _asked_sparse(options: argparse.Namespace) -> None:
    for section in options.section or names(SPARSE):
        run(
            section,
            runs=2 if options.quick else options.runs,
            folder=options.results,
            configs=SPARSE,
        )


def run(
    name: str,
    *,
    runs: int | None = None,
    folder: Path = RESULTS,
    configs: Path = PUBLISHED,
) -> None:
    """Measure, print, and write a table, as Parquet and as text, and a plot.

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
    made = provenance(f"python -m benchmarks {name}", wanted)
    told = f"{made}\n{frame.to_csv(index=False)}"
    (folder / f"{name}.csv").write_text(told)
    _plot(frame, config, folder / f"{name}.png")
    if "table" in config:
        text = tables(frame, **config["table"])
        (folder / f"{name}.md").write_text(text + "\n")
        print(text)
    print(f"\nwritten: {folder / name}.parquet, .csv and .png")


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise SystemExit(
            f"This needs {' and '.join(missing)}, which the 'bench' extra has: "
            "pip install -e '.[bench]', in the folder of skdp's sources."
        )


def _stamp(experiment: Experiment, parameters: dict[str, Any]) -> str:
    """Fingerprint of what the values depend on; others are measured again."""
    folder = Path(inspect.getfile(experiment)).parent
    source = "".join(
        path.read_text()
        for path in sorted(folder.rglob("*.py"))
        if "tests" not in path.relative_to(folder).parts
    )
    text = source + json.dumps(parameters, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _rows(
    name: str, config: dict[str, Any], wanted: int, kept: Results
) -> Iterator[dict[str, Any]]:
    experiment = EXPERIMENTS[config["experiment"]]
    stamp = _stamp(experiment, config["parameters"])
    oracle = range(FIRST_TUNING_RUN, FIRST_TUNING_RUN + config.get("tuning_runs", 1))
    for number, line in enumerate(experiment(**config["parameters"])):
        start = time.perf_counter()
        line, values = _measured(line, range(wanted), oracle, kept, stamp)
        seconds = time.perf_counter() - start
        progress = f"{name}: line {number + 1}, {line.method}, {seconds:.1f} s"
        print(progress, file=sys.stderr, flush=True)
        row = _row(line, values)
        if number == 0:
            print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
        print(f"| {' | '.join(_cell(value) for value in row.values())} |", flush=True)
        yield row


def _measured(
    line: Line, runs: range, oracle: range, kept: Results, stamp: str
) -> tuple[Line, list[list[float]]]:
    """The line with what was chosen or refused, and the metrics of each run."""
    if line.measure is None:
        return line, []
    if line.private:
        stamp = f"{stamp}, {source_stamp()}"
    where = f"{json.dumps(line.place)} epsilon={line.claimed:g} {line.adjacency}"
    entry = kept.entry(where, line.method, stamp)
    runs = runs[: line.most_runs]
    try:
        if line.grid:
            entry["settings"] = _chosen(line, entry, oracle, kept)
            shown = ", ".join(f"{k}={v:g}" for k, v in entry["settings"].items())
            line = replace(line, note=f"{line.note}; {shown}".lstrip("; "))
        scores = entry["scores"]
        missing = [run for run in runs if str(run) not in scores]
        if missing and line.measure is not None:
            measured = line.measure(missing, **entry["settings"])
            for run, values in zip(missing, measured, strict=True):
                scores[str(run)] = np.atleast_1d(values).astype(float).tolist()
            kept.save()
    except ValueError as error:
        # A solver refuses before it reads; a paper's method has no such excuse.
        if not line.private:
            raise
        return replace(line, measure=None, refusal=" ".join(str(error).split())), []
    return line, [scores[str(run)] for run in runs]


def _chosen(line: Line, entry: Entry, oracle: range, kept: Results) -> dict[str, Any]:
    """The settings that are best on the oracle's runs."""
    assert line.measure is not None, "a line with a grid is measured"
    sign = 1 if line.better == "higher" else -1
    reached: dict[str, float] = {}
    refusals = []
    for settings in line.grid:
        name = json.dumps(settings, sort_keys=True)
        tried = entry["tuning"].setdefault(name, {})
        missing = [run for run in oracle if str(run) not in tried]
        try:
            measured = line.measure(missing, **settings) if missing else ()
            for run, values in zip(missing, measured, strict=True):
                tried[str(run)] = float(np.atleast_1d(values)[0])
        except ValueError as error:
            refusals.append(error)
            continue
        reached[name] = sign * float(np.mean([tried[str(run)] for run in oracle]))
    if not reached:
        raise refusals[0]
    kept.save()
    best = json.loads(max(reached, key=reached.__getitem__))
    if best != entry["settings"]:
        entry["scores"] = {}
    return best


def _row(line: Line, values: list[list[float]]) -> dict[str, Any]:
    columns: dict[str, float] = {}
    for number, metric in enumerate(line.metrics):
        mean, error = math.nan, math.nan
        if values:
            mean, error = mean_and_error([run[number] for run in values])
        columns |= {metric: mean, _error_name(metric): error}
    return line.place | {
        "method": line.method,
        "claimed epsilon": line.claimed,
        "true epsilon": line.true,
        "delta": line.delta,
        "adjacency": line.adjacency,
        "private": "yes" if line.private and not line.grid else "not private",
        **columns,
        "runs": len(values),
        "note": f"refused: {line.refusal}" if line.refusal else line.note,
    }


def _error_name(metric: str) -> str:
    return "standard error" if metric == "mean" else f"error of {metric}"


def tables(
    frame: pd.DataFrame, *, by: list[str], across: str, metrics: list[str]
) -> str:
    """One Markdown table for each metric.

    Parameters
    ----------
    frame : DataFrame
        The rows.
    by : list of str
        Columns that tell lines of the tables apart, beside the method.
    across : str
        Column whose values become columns; rows where it is inf have one value for
        all of them.
    metrics : list of str
    """
    places = [*by, "method"]
    values = sorted(value for value in frame[across].unique() if math.isfinite(value))
    lines = []
    for metric in metrics:
        titles = [*places, *(f"{across} {value:g}" for value in values)]
        lines += ["", f"**{metric}**", "", f"| {' | '.join(titles)} |"]
        lines += [f"|{'---|' * len(titles)}"]
        for key, part in frame.groupby(places, sort=False):
            shown = [_spread(part, across, value, metric) for value in values]
            lines += [f"| {' | '.join([*map(str, key), *shown])} |"]
    return "\n".join(lines)


def _spread(part: pd.DataFrame, across: str, value: float, metric: str) -> str:
    rows = part[(part[across] == value) | (part[across] == math.inf)]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    if row["runs"] == 0:
        return "refused"
    error = row[_error_name(metric)]
    spread = "" if math.isnan(error) else f" ± {error:.3f}"
    return f"{row[metric]:.3f}{spread}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3g}"
    return str(value)


def _plot(frame: pd.DataFrame, config: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    axis, panel = config["plot"]["x"], config["plot"].get("panel")
    metric = config["plot"].get("metric", "mean")
    measured = frame[frame["runs"] > 0]
    panels = list(measured.groupby(panel, sort=False)) if panel else [("", measured)]
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(5.5 * columns, 4.5 * rows), layout="constrained")
    for number, (title, part) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        for method, points in part.groupby("method", sort=False):
            _draw(axes, method, points, axis, metric)
        axes.set_title(f"{panel}: {title}" if panel else config["title"], fontsize=9)
        axes.set_xlabel(axis)
        axes.set_ylabel(config["plot"]["y"])
        axes.set_xscale(config["plot"].get("x_scale", "linear"))
        axes.set_yscale(config["plot"].get("y_scale", "linear"))
        axes.legend(fontsize=6)
    figure.savefig(path, dpi=120)


def _draw(axes: Any, method: str, points: pd.DataFrame, axis: str, metric: str) -> None:
    if (points[axis] == math.inf).all():  # without noise: the same everywhere
        level = points[metric].iloc[0]
        axes.axhline(level, color="grey", linestyle="--", label=method)
        return
    errors = points[_error_name(metric)].fillna(0)
    axes.errorbar(points[axis], points[metric], errors, marker="o", label=method)
