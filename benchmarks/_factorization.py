"""HAMSI and its peers measured: table 3.1 and figures 3.3 to 3.7 of Kuru (2019).

Time is that of the method alone: partitioning, compilation and the evaluation of the
error are left out, as in the thesis. The error is the root mean square one over all
ratings, which are those trained on.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._accuracy import CONFIGS
from benchmarks._commands import Commands, count
from benchmarks._line import RESULTS
from benchmarks._rating_data import NAMES, ratings
from benchmarks._speed import side_by_side
from skdp._configured import given_params
from skdp.decomposition._factorize import Factorizer
from skdp.decomposition._ratings import Factors, Ratings, Task, Threads, width
from skdp.papers._hamsi import HAMSI, LBFGS, MinibatchGD, Run
from skdp.papers._hamsi_gradient import PARTITIONS, Objective, partition, random_start

_CONFIG = tomllib.loads((CONFIGS / "factorizers" / "hamsi.toml").read_text())
_METHODS: dict[str, type[Factorizer]] = {
    method.key: method for method in (HAMSI, LBFGS, MinibatchGD)
}
_ENDLESS = 10**6
_CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command may change.

    Parameters
    ----------
    data : str
        A set of `benchmarks._rating_data`.
    share : float
        Of a generated set.
    seconds : float or None
        Time of each run. None: that of the thesis.
    n_jobs : int
    seeds : int
        Runs with starts of their own.
    cpu : bool
        Whether time is processor time, for a busy machine.
    folder : Path
        Of tables and plots.
    """

    data: str
    share: float
    seconds: float | None
    n_jobs: int
    seeds: int
    cpu: bool
    folder: Path

    def clock(self) -> float:
        """Seconds."""
        return time.process_time() if self.cpu else time.perf_counter()

    @property
    def limit(self) -> float:
        """Seconds of a run."""
        if self.seconds is not None:
            return self.seconds
        return float(_CONFIG["seconds"].get(self.data.removesuffix("-like"), 25))


def add(commands: Commands) -> None:
    """Make it a command."""
    parser = commands.add("hamsi", "HAMSI and peers on ratings", _asked)
    parser.add_argument(
        "--section",
        action="append",
        default=[],
        choices=SECTIONS,
        help="only this section; may be repeated",
    )
    parser.add_argument("--data", default="1m", choices=NAMES, help="which ratings")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the users that are generated"
    )
    parser.add_argument("--seconds", type=float, help="of each run; else the thesis's")
    parser.add_argument("--n-jobs", type=count, default=2, help="threads")
    parser.add_argument("--seeds", type=count, default=3, help="starts")
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, for a busy machine"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)


def _asked(options: argparse.Namespace) -> None:
    for section in options.section or SECTIONS:
        run(
            section,
            Options(
                data=options.data,
                share=options.share,
                seconds=options.seconds,
                n_jobs=options.n_jobs,
                seeds=options.seeds,
                cpu=options.cpu,
                folder=options.results,
            ),
        )


def run(section: str, options: Options) -> None:
    """Measure one section, print its table and keep it."""
    began = time.strftime("%Y-%m-%d")
    found = ratings(options.data, options.share)
    print(
        f"{section}, {options.data}: {len(found)} ratings of {found.pattern.n_items} "
        f"items by {found.pattern.n_users} users, {options.n_jobs} threads, {began}",
        flush=True,
    )
    frame = pd.DataFrame(list(SECTIONS[section](found, options)))
    print(_markdown(frame), flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    stem = options.folder / f"hamsi_{section}_{options.data}"
    frame.to_csv(stem.with_suffix(".csv"), index=False)
    if section in _PLOTS and find_spec("matplotlib"):
        _plot(frame, *_PLOTS[section], stem.with_suffix(".png"))


def _markdown(frame: pd.DataFrame) -> str:
    lines = [list(frame.columns), ["---"] * len(frame.columns)]
    lines += [
        [f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.itertuples(index=False)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plot(frame: pd.DataFrame, x: str, y: str, by: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    for name, part in frame.groupby(by):
        axes.plot(part[x], part[y], label=str(name))
    axes.set(xlabel=x, ylabel=y)
    axes.legend(title=by)
    figure.savefig(path)
    pyplot.close(figure)


def _method(name: str, found: Ratings, **changes: Any) -> tuple[Factorizer, Task]:
    entry = _CONFIG["methods"][name]
    settings = {"n_steps": _ENDLESS, **entry["settings"], **changes}
    kind, task = _METHODS[entry["method"]], _task(found, entry["biases"])
    return kind.planned(given_params(kind, kind.key, settings), task), task


def _task(found: Ratings, biases: bool) -> Task:
    return Task(
        n_users=found.pattern.n_users,
        n_items=found.pattern.n_items,
        n_components=_CONFIG["n_components"],
        alpha=0.0,
        biases=biases,
        pattern=found.pattern,
    )


def rmse(found: Ratings, factors: Factors) -> float:
    """Root mean square error over all ratings."""
    total, pattern = 0.0, found.pattern
    for start in range(0, len(found), _CHUNK):
        part = slice(start, start + _CHUNK)
        p, q = factors.users[pattern.users[part]], factors.items[pattern.items[part]]
        errors = np.einsum("ij,ij->i", p, q) + factors.mean - found.values[part]
        total += float(np.square(errors, dtype=np.float64).sum())
    return float(np.sqrt(total / len(found)))


def _timed(
    method: Factorizer, task: Task, found: Ratings, seed: int, options: Options
) -> Iterator[tuple[float, int, Factors]]:
    """Seconds so far, passes and factors, until the time is over."""
    spent = 0.0
    with Threads(options.n_jobs) as threads:
        rng = np.random.RandomState(seed)
        path = method.iterates(found, task, rng, threads)
        factors = next(path)  # compiles, divides the ratings, and starts
        for n_passes in range(_ENDLESS):
            yield spent, n_passes, factors
            if spent >= options.limit:
                return
            before = options.clock()
            try:
                factors = next(path)
            except StopIteration:
                return
            spent += options.clock() - before


def _race(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """Training error against time, for our defaults and the thesis's settings."""
    for name in _CONFIG["methods"]:
        for seed in range(options.seeds):
            yield from _marks(name, found, seed, options)


def _marks(
    name: str, found: Ratings, seed: int, options: Options
) -> Iterator[dict[str, Any]]:
    method, task = _method(name, found)
    marks = [mark for mark in _CONFIG["marks"] if mark < options.limit]
    marks.append(options.limit)
    for seconds, n_passes, factors in _timed(method, task, found, seed, options):
        if marks and seconds >= marks[0]:
            mark = max(mark for mark in marks if mark <= seconds)
            marks = [later for later in marks if later > mark]
            yield {
                "method": name,
                "seed": seed,
                "seconds": mark,
                "passes": n_passes,
                "rmse": rmse(found, factors),
            }


def _table(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """Table 3.1: the error at the end of the time, mean over starts."""
    published = _CONFIG["published"].get(options.data.removesuffix("-like"), {})
    for name in ("minibatch_gd_thesis", "minibatch_gd_tuned", "hamsi_thesis"):
        for schedule in _CONFIG["schedules"]:
            for place, kind in enumerate(_CONFIG["partitions"]):
                scores = [
                    _final(name, schedule, kind, found, seed, options)
                    for seed in range(options.seeds)
                ]
                row = published.get(name, {}).get(schedule)
                yield {
                    "method": name,
                    "schedule": schedule,
                    "partition": kind,
                    "rmse": float(np.mean(scores)),
                    "deviation": float(np.std(scores)),
                    "published": row[place] if row else "",
                }


def _n_subsets(kind: str) -> int:
    is_grid = kind in ("strata", "strata_balanced")
    return int(_CONFIG["strata_subsets" if is_grid else "colour_subsets"])


def _final(
    name: str, schedule: str, kind: str, found: Ratings, seed: int, options: Options
) -> float:
    changes = {"schedule": schedule, "partition": kind, "n_subsets": _n_subsets(kind)}
    method, task = _method(name, found, **changes)
    for _, _, factors in _timed(method, task, found, seed, options):
        last = factors
    return rmse(found, last)


def _colors(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """Figure 3.3: sizes of the sets of ratings of one colour."""
    for name in ("color", "color_balanced"):
        parts = partition(name, found.pattern, 1, np.random.RandomState(0))
        for color, size in enumerate(np.bincount(parts.blocks)):
            yield {"partition": name, "color": color, "ratings": int(size)}


def _balance(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """Figure 3.4: blocks of each stratum, and how even every partition is."""
    for name in PARTITIONS:
        before = time.perf_counter()
        parts = partition(name, found.pattern, 4, np.random.RandomState(0))
        seconds = time.perf_counter() - before
        is_grid = name in ("strata", "strata_balanced")
        for k in range(4):
            blocks = parts.block_sizes(k)
            yield {
                "partition": name,
                "subset": k,
                "ratings": int(parts.sizes[k]),
                "blocks": len(blocks),
                "sizes": "/".join(map(str, blocks)) if is_grid else "",
                "seconds": seconds,
            }


def _threads(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """Figure 3.6: the error against time by number of threads, the same subsets."""
    for n_jobs in range(1, options.n_jobs + 1):
        changed = Options(**{**vars(options), "n_jobs": n_jobs})
        for row in _marks("hamsi_thesis", found, 0, changed):
            yield {"threads": n_jobs, **row}


class _TimedRun(Run):
    """A run that says how long it took over what."""

    def __init__(
        self,
        method: HAMSI | MinibatchGD,
        found: Ratings,
        task: Task,
        rng: np.random.RandomState,
        threads: Threads,
    ) -> None:
        self.seconds = {"gradient": 0.0, "update": 0.0, "upkeep": 0.0}
        super().__init__(method, found, task, rng, threads)

    def _look(self, subset: int) -> float:
        began = time.perf_counter()
        value = super()._look(subset)
        self.seconds["gradient"] += time.perf_counter() - began
        return value

    def _step(self, factor: float) -> None:
        began = time.perf_counter()
        super()._step(factor)
        self.seconds["update"] += time.perf_counter() - began

    def _finish(self) -> None:
        began, updated = time.perf_counter(), self.seconds["update"]
        super()._finish()
        steps = self.seconds["update"] - updated
        self.seconds["upkeep"] += time.perf_counter() - began - steps


def _phases(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """Figure 3.7: milliseconds of a cycle by what they were spent on."""
    for name in ("minibatch_gd_tuned", "hamsi_thesis"):
        for kind in _CONFIG["partitions"]:
            changes = {"partition": kind, "n_subsets": _n_subsets(kind)}
            method, task = _method(name, found, **changes)
            assert isinstance(method, HAMSI | MinibatchGD)
            with Threads(options.n_jobs) as threads:
                rng = np.random.RandomState(0)
                run = _TimedRun(method, found, task, rng, threads)
                n_cycles, before = 0, options.clock()
                run.seconds = dict.fromkeys(run.seconds, 0.0)
                while n_cycles < 8 or options.clock() - before < options.limit / 10:
                    run.advance(n_cycles)
                    n_cycles += 1
            spent = {part: 1e3 * s / n_cycles for part, s in run.seconds.items()}
            yield {"method": name, "partition": kind, "cycles": n_cycles, **spent}


def _gradient(found: Ratings, options: Options) -> Iterator[dict[str, Any]]:
    """A pass for the gradient beside a matrix product of as many operations."""
    for dtype in (np.float32, np.float64):
        copy = Ratings(found.pattern, found.values.astype(dtype))
        for n_jobs in range(1, options.n_jobs + 1):
            with Threads(n_jobs) as threads:
                yield {"threads": n_jobs, **_one_pass(copy, threads, options)}


def _one_pass(found: Ratings, threads: Threads, options: Options) -> dict[str, Any]:
    task, dtype = _task(found, biases=False), found.values.dtype
    factors = random_start(found, task, np.random.RandomState(0))
    gradient = np.empty_like(factors.flat)
    objective = Objective(found, task, factors.mean)
    # 6 k for each rating: the prediction and two multiples of rows.
    left, right = np.ones((4096, 512), dtype), np.ones((512, 512), dtype)
    scale = 6 * task.n_components * len(found) / (2 * left.size * len(right))

    def ours() -> None:
        objective.value_and_gradient(factors.flat, gradient, threads)

    ours()
    spent, product = side_by_side(ours, lambda: left @ right, options.clock)
    return {
        "dtype": dtype.name,
        "width": width(task),
        "ms": 1e3 * spent,
        "product_ms": 1e3 * product * scale,
        "ratio": spent / (product * scale),
    }


SECTIONS: dict[str, Callable[[Ratings, Options], Iterator[dict[str, Any]]]] = {
    "race": _race,
    "table_3_1": _table,
    "colors": _colors,
    "balance": _balance,
    "threads": _threads,
    "phases": _phases,
    "gradient": _gradient,
}
# Abscissa, ordinate and what tells the lines apart.
_PLOTS = {
    "race": ("seconds", "rmse", "method"),
    "colors": ("color", "ratings", "partition"),
    "threads": ("seconds", "rmse", "threads"),
}
