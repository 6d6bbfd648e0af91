"""The runner: it measures the lines of a benchmark, keeps their values, prints a table.

A benchmark is a function that yields lines. A line is one method at one place of a
table; it is measured when it is printed, and an interrupted table resumes at the first
line that is missing.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import Entry, Results, provenance, source_stamp

RESULTS = Path("bench-results")
# Settings are tuned on runs from here on, which are not reported.
FIRST_TUNING_RUN = 1000

Judge = Callable[[np.ndarray, "np.ndarray | None"], str]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One method at one place of a table or figure.

    Parameters
    ----------
    place : dict
        Columns that say where, for example ``{"T": 100}``.
    method : str
    measure : callable or None
        Values of the metrics for some runs, given their numbers; a run depends on its
        number only, but for the noise of a private release.
    metrics : tuple of str, default=("mean",)
        What `measure` gives of each run. With one metric it may give plain numbers.
        Metrics that begin with an underscore are for the judge alone.
    claimed : float, default=inf
        The epsilon that the source states; inf without noise.
    true : float or None, default=None
        The epsilon of what is released. None: the claimed one.
    delta : float, default=0
        The delta that both hold at.
    adjacency : str, default="replace_one"
    private : bool, default=False
        Whether it is a private release of the library, with noise of its own. A grid
        makes it none.
    note : str, default=""
    refusal : str, default=""
        Why the method cannot do it; `measure` is None then.
    most_runs : int or None, default=None
        More runs would only repeat these, or take too long.
    grid : tuple of dict, default=()
        Settings for an oracle to choose from: the best first metric on runs that are
        not reported. `measure` then takes one as keyword arguments.
    better : {"lower", "higher"}, default="lower"
        Which values of the first metric are.
    tuning_runs : int or None, default=None
        Runs of the oracle. None: those of the benchmark.
    stamp : str or None, default=""
        Versions that the values depend on; values of another stamp are measured again.
        "" is the code of this checkout. None: it cannot be measured here, and stored
        values are shown.
    statistic : {"mean", "median"}, default="mean"
    judge : callable or None, default=None
        What is said of all values, of shape (runs, metrics), and of those of `rival`.
    rival : str, default=""
        Another method at the same place.
    """

    place: dict[str, Any]
    method: str
    measure: Callable[..., Iterable[Any]] | None
    metrics: tuple[str, ...] = ("mean",)
    claimed: float = math.inf
    true: float | None = None
    delta: float = 0.0
    adjacency: str = "replace_one"
    private: bool = False
    note: str = ""
    refusal: str = ""
    most_runs: int | None = None
    grid: tuple[dict[str, Any], ...] = ()
    better: str = "lower"
    tuning_runs: int | None = None
    stamp: str | None = ""
    statistic: str = "mean"
    judge: Judge | None = None
    rival: str = ""

    @property
    def key(self) -> str:
        """The name of the place in the results file."""
        return f"{json.dumps(self.place)} epsilon={self.claimed:g} {self.adjacency}"


Experiment = Callable[..., Iterable[Line]]
Measured = tuple[Line, np.ndarray]


@dataclass(frozen=True)
class Benchmark:
    """A table that can be asked for by name.

    Parameters
    ----------
    name, summary : str
    lines : callable
        Yields lines. Its keyword arguments can be set from the command line.
    runs : int, default=1
    tuning_runs : int, default=1
        Runs of an oracle.
    claims : bool, default=False
        Whether the table shows claimed and true epsilons, delta and the relation.
    keeps : bool, default=True
        Whether values are kept in a file; times are not.
    judged : bool, default=False
        Whether the table has a column for what lines' judges say.
    closing : callable or None, default=None
        Given the measured lines, what is printed below the table.
    """

    name: str
    summary: str
    lines: Experiment
    runs: int = 1
    tuning_runs: int = 1
    claims: bool = False
    keeps: bool = True
    judged: bool = False
    closing: Callable[[list[Measured]], Iterable[str]] | None = None

    @property
    def module(self) -> str:
        """Where its lines are declared."""
        return str(getattr(self.lines, "func", self.lines).__module__)


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(
    name: str, summary: str = "", **how: Any
) -> Callable[[Experiment], Experiment]:
    """Register an experiment; the first line of its docstring is the summary."""

    def registered(lines: Experiment) -> Experiment:
        said = summary or (lines.__doc__ or "").splitlines()[0]
        BENCHMARKS[name] = Benchmark(name, said, lines, **how)
        return lines

    return registered


class MissingData(Exception):
    """The data set is not in the folder SKDP_DATA_HOME (docs/notebook/data.md)."""


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard error (nan for a single value)."""
    array = np.asarray(list(values), float)
    if len(array) == 1:
        return float(array[0]), math.nan
    return float(array.mean()), float(array.std(ddof=1) / math.sqrt(len(array)))


def pair(values: Iterable[float], style: str = ".4f") -> str:
    """Mean and standard error as text."""
    mean, error = mean_and_error(values)
    spread = "" if math.isnan(error) else f" ± {error:{style.lstrip('+')}}"
    return f"{mean:{style}}{spread}"


def run(
    benchmark: Benchmark,
    *,
    runs: int | None = None,
    only: str = "",
    folder: Path = RESULTS,
    given: Mapping[str, Any] | None = None,
) -> list[Measured]:
    """Measure and print a table, and write it as CSV.

    Parameters
    ----------
    benchmark : Benchmark
    runs : int or None
        At most so many runs of a line.
    only : str
        A part of the text of the lines that are wanted.
    folder : Path
        Where values are kept, line by line, and taken up again.
    given : dict or None
        Keyword arguments of the experiment.
    """
    given = dict(given or {})
    wanted = min(benchmark.runs, runs or benchmark.runs)
    settings = "".join(f" --set {key}={value}" for key, value in given.items())
    made = provenance(f"python -m benchmarks {benchmark.name}{settings}", wanted)
    print(f"# {benchmark.summary}\n{made}\n")
    kept = Results(folder / f"{benchmark.name}.json" if benchmark.keeps else None)
    table = _Table(benchmark, wanted, kept, str(sorted(given.items())))
    try:
        for line in benchmark.lines(**given):
            table.add(line, is_shown=only in _text(line))
    except MissingData as error:
        print(f"refused: {error}")
        return table.measured
    if benchmark.closing is not None and table.measured:
        print("", *benchmark.closing(table.measured), sep="\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{benchmark.name}.csv").write_text(table.csv(made))
    return table.measured


def _text(line: Line) -> str:
    place = ", ".join(f"{key} {_shown(value)}" for key, value in line.place.items())
    return f"{place}, {line.method}"


@dataclass
class _Table:
    """The lines so far."""

    benchmark: Benchmark
    runs: int
    kept: Results
    given: str
    measured: list[Measured] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    _seen: dict[tuple[str, str], Line] = field(default_factory=dict)

    def add(self, line: Line, *, is_shown: bool) -> None:
        """Measure and print a line, or remember that it can be measured."""
        self._seen[str(line.place), line.method] = line
        if not is_shown:
            return
        start = time.perf_counter()
        line, values = self._values(line)
        seconds = time.perf_counter() - start
        progress = f"{self.benchmark.name}: {_text(line)}, {seconds:.1f} s"
        print(progress, file=sys.stderr, flush=True)
        cells = self._cells(line, values)
        shown = _with_errors(cells)
        if not self.rows:
            print(f"| {' | '.join(shown)} |\n|{'---|' * len(shown)}")
        print(f"| {' | '.join(shown.values())} |", flush=True)
        self.measured.append((line, values))
        self.rows.append(cells)

    def csv(self, made: str) -> str:
        """The table, with how it was made."""
        import pandas as pd

        return f"{made}\n{pd.DataFrame(self.rows).to_csv(index=False)}"

    def _values(self, line: Line) -> Measured:
        """The line with what was chosen or refused, and its values."""
        none = np.empty((0, len(line.metrics)))
        measure = line.measure
        if measure is None:
            return line, none
        stamp = line.stamp
        if stamp == "":
            stamp = f"{source_stamp(is_private=line.private)} {self.given}"
        entry = self.kept.entry(line.key, line.method, stamp)
        runs = range(min(self.runs, line.most_runs or self.runs))
        if stamp is None:
            stored = [entry["scores"][run] for run in sorted(entry["scores"], key=int)]
            if not stored:
                return replace(line, measure=None, refusal="not installed"), none
            return _with_settings(line, entry), np.array(stored)
        try:
            if line.grid:
                self._choose(line, entry)
                line = _with_settings(line, entry)
            scores = entry["scores"]
            # All that are missing at once: some runs share their work.
            missing = [run for run in runs if str(run) not in scores]
            measured = measure(missing, **entry["settings"]) if missing else ()
            for run, found in zip(missing, measured, strict=True):
                scores[str(run)] = np.atleast_1d(found).astype(float).tolist()
                self.kept.save()
        except (ValueError, MissingData, ModuleNotFoundError) as error:
            # A solver refuses before it reads; a method that is written here has no
            # such excuse.
            is_here = isinstance(error, ValueError)
            if is_here and not (line.private or line.stamp):
                raise
            refusal = " ".join(str(error).split())
            return replace(line, measure=None, refusal=refusal), none
        values = [scores[str(run)] for run in runs]
        return line, np.array(values).reshape(len(values), -1)

    def _choose(self, line: Line, entry: Entry) -> None:
        """The settings that are best on the oracle's runs."""
        assert line.measure is not None, "a line with a grid is measured"
        sign = 1 if line.better == "higher" else -1
        count = line.tuning_runs or self.benchmark.tuning_runs
        oracle = range(FIRST_TUNING_RUN, FIRST_TUNING_RUN + count)
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
            self.kept.save()
            reached[name] = sign * float(np.mean([tried[str(run)] for run in oracle]))
        if not reached:
            raise refusals[0]
        best = json.loads(max(reached, key=reached.__getitem__))
        if best != entry["settings"]:
            entry["settings"], entry["scores"] = best, {}

    def _cells(self, line: Line, values: np.ndarray) -> dict[str, Any]:
        cells: dict[str, Any] = line.place | {"method": line.method}
        if self.benchmark.claims:
            cells |= {
                "claimed epsilon": line.claimed,
                "true epsilon": line.claimed if line.true is None else line.true,
                "delta": line.delta,
                "adjacency": line.adjacency,
                "private": "yes" if line.private and not line.grid else "no",
            }
        for number, metric in enumerate(line.metrics):
            if metric.startswith("_"):
                continue
            column = values[:, number] if len(values) else [math.nan]
            mean, error = mean_and_error(column)
            if line.statistic == "median":
                mean = float(np.median(column))
            cells |= {metric: mean, _error_of(metric): error}
        cells |= {"runs": len(values)}
        if self.benchmark.judged:
            cells["verdict"] = self._judged(line, values)
        return cells | {
            "note": f"refused: {line.refusal}" * bool(line.refusal) or line.note
        }

    def _judged(self, line: Line, values: np.ndarray) -> str:
        if line.judge is None or not len(values):
            return ""
        if not line.rival:
            return line.judge(values, None)
        rival = self._seen.get((str(line.place), line.rival))
        return line.judge(values, None if rival is None else self._values(rival)[1])


def _with_settings(line: Line, entry: Entry) -> Line:
    shown = ", ".join(f"{k}={_shown(v)}" for k, v in entry["settings"].items())
    return replace(line, note=f"{line.note}; {shown}".strip("; "))


def _error_of(metric: str) -> str:
    return "standard error" if metric == "mean" else f"error of {metric}"


def _with_errors(cells: dict[str, Any]) -> dict[str, str]:
    """As text, with standard errors beside what they are of."""
    found = {}
    errors = {_error_of(metric) for metric in cells} & set(cells)
    for key, value in cells.items():
        if key not in errors:
            error = cells.get(_error_of(key), math.nan)
            spread = "" if math.isnan(error) else f" ± {error:.2g}"
            found[key] = _shown(value) + spread
    return found


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def line(
    place: dict[str, Any],
    method: str,
    score: Callable[..., Any],
    metrics: tuple[str, ...] = ("mean",),
    **more: Any,
) -> Line:
    """A line from what measures one run; the rest is as in `Line`."""
    measure = each(score)
    return Line(place=place, method=method, measure=measure, metrics=metrics, **more)


def at_hand(names: Iterable[str], load: Callable[[str], Any]) -> Iterator[str]:
    """Names of tables that can be loaded; others are said to be refused."""
    for name in names:
        try:
            load(name)
        except MissingData as error:
            print(f"refused: {name}: {error}", file=sys.stderr, flush=True)
        else:
            yield name


def each(score: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """What measures several runs, from what measures one."""

    def measure(runs: Iterable[int], **settings: Any) -> Iterator[Any]:
        for run in runs:
            yield score(run, **settings)

    return measure
