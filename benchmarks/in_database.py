"""bolt_on in databases: Figures 2 and 5 of the bolt-on paper.

Run at the root of a checkout

- ``python -m benchmarks.in_database growth --rows 100000 1000000``: seconds and peak
  memory of one pass by single records over a table of 50 columns in DuckDB, which may
  take 256 MB; with ``--postgres`` seconds of the aggregate in PostgreSQL too;
- ``python -m benchmarks.in_database noise``: seconds of descents with noise in every
  update over those of `bolt_on`, and what all of them cost in truth.

``--postgres`` is the text that connects to a server in which tables may be made.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks import _noisy_updates as noisy
from benchmarks._papers import _bolt_on as paper
from benchmarks._papers._privacy import (
    classical_multiplier,
    gaussian_epsilon,
    sampled_gaussian_epsilon,
)
from skdp import DPLogisticRegression, SqlSource
from skdp.data import MemorySource, Source, in_order
from skdp.io._postgres_descent import DescentText
from skdp.io._rows import StreamRows
from skdp.io._targets import Labels
from skdp.losses import LogisticLoss
from skdp.objectives import LinearObjective
from skdp.queries._plain_descent import PlainDescent
from skdp.solvers._permutation_sensitivity import Updates
from skdp.solvers._permuted_descent import State

_FEATURES, _RUNS, _KEY = 50, 4, "00000001"
# Of the paper: epsilon and the regularisation of Figures 2 and 5.
_EPSILON, _ALPHA = 0.1, 1e-4
# Epochs and batch sizes of Figure 5, and rows (those of MNIST).
_SETTINGS, _ROWS = ((1, 1), (20, 10), (20, 500)), 60_000
_COLUMNS = ", ".join(f"x{j}" for j in range(_FEATURES))


def make_table(path: str, n: int) -> None:
    """Made-up rows of norm near 1 in single precision, in a file of DuckDB."""
    numbers = ", ".join(
        f"((random() - 0.5) * 0.49)::FLOAT AS x{j}" for j in range(_FEATURES)
    )
    with duckdb.connect(path) as study:
        study.execute("SET threads = 1; SELECT setseed(0.5)")
        study.execute(
            f"CREATE TABLE records (id BIGINT PRIMARY KEY, y TINYINT, "
            f"{_COLUMNS.replace(',', ' FLOAT,')} FLOAT)"
        )
        study.execute(
            f"INSERT INTO records SELECT id, (x0 > 0)::TINYINT, {_COLUMNS} "
            f"FROM (SELECT i AS id, {numbers} FROM range({n}) AS t(i))"
        )


def opened(path: str, n: int, folder: str) -> SqlSource:
    """The table, in a database that may take 256 MB and writes the rest to disk."""
    config = {"memory_limit": "256MB", "threads": 1, "temp_directory": folder}
    study = duckdb.connect(path, read_only=True, config=config)
    return SqlSource(study, "records", target="y", n_samples=n, record_id="id")


def fitted(source: SqlSource) -> tuple[float, float]:
    """Seconds of a fit by one pass of single records, and those of the processor."""
    model = DPLogisticRegression(
        _EPSILON,
        delta=1 / source.n_samples**2,
        C=1 / (_ALPHA * source.n_samples),
        fit_intercept=False,
        classes=[0, 1],
        solver="bolt_on",
        solver_params={
            "n_passes": 1,
            "batch_size": 1,
            "schedule": "strongly_convex",
        },
    )
    start, own = time.perf_counter(), time.process_time()
    model.fit(source)
    return time.perf_counter() - start, time.process_time() - own


def read_in_order(source: SqlSource) -> float:
    """Seconds of one reading in the order of the ids' digests."""
    there = source.permuted(_KEY)

    def one_pass() -> None:
        for _ in there.rows(there.reading()):
            pass

    start = time.perf_counter()
    source.during(one_pass)
    return time.perf_counter() - start


def peak_of(process: int | str) -> float:
    """Megabytes that a process has had at most; NaN where that cannot be seen."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return float("nan")
    # Not that of resource, which starts from what the parent had.
    (line,) = [one for one in status.read_text().splitlines() if "VmHWM" in one]
    return int(line.split()[1]) / 1024


def grown(path: str, n: int) -> dict[str, float]:
    """Seconds and megabytes for one size; of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        small = f"{folder}/small.db"
        make_table(small, 1000)
        fitted(opened(small, 1000, folder))  # compiles
        before = peak_of("self")
        source = opened(path, n, folder)
        fit, own = fitted(source)
        after = peak_of("self")
        return {
            "fit": fit,
            "own": own,
            "before": before,
            "after": after,
            "read": read_in_order(source),
        }


def growth(rows: list[int], postgres: str | None) -> None:
    """Print the table of sizes."""
    print(
        "| rows | table MB | fit s | of the processor s | a row, us | read in order s "
        "| peak MB |\n|---|---|---|---|---|---|---|"
    )
    for n in rows:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/study.db"
            make_table(path, n)
            words = ["growth", "--rows", str(n), "--table", path]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.in_database", *words],
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout)
            size = Path(path).stat().st_size / 2**20
        print(
            f"| {n:,} | {size:.0f} | {found['fit']:.1f} | {found['own']:.1f} "
            f"| {found['own'] / n * 1e6:.2f} | {found['read']:.1f} "
            f"| {found['after']:.0f} ({found['before']:.0f} before) |",
            flush=True,
        )
    if postgres is None:
        return
    print("\n| rows | aggregate in PostgreSQL s | a row, us | server's process MB |")
    print("|---|---|---|---|")
    for n in rows:
        asked = asked_of(n, 1, 1)
        seconds, megabytes = in_postgres(postgres, {"": DescentText(asked, _RECORDS)})[
            ""
        ]
        print(f"| {n:,} | {seconds:.1f} | {seconds / n * 1e6:.1f} | {megabytes:.0f} |")


# Noise in every update -----------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A way to train, and what it says and costs."""

    name: str
    kind: int
    scale: float
    steps: Callable[[int], float]
    claimed: float
    honest: float


def methods(m: int, passes: int, batch: int) -> list[Method]:
    """All of Figure 5 that add noise, one binary model; delta = 1 / m^2."""
    delta = 1 / m**2
    ours = paper.psgd_strongly_convex(passes, batch, _ALPHA)
    exact = paper.exact_sensitivity(m, ours, beta=1 + _ALPHA)
    printed = paper.printed_sensitivity(m, batch, _ALPHA)
    deviation = printed * classical_multiplier(_EPSILON, delta)
    published = gaussian_epsilon(np.array([deviation]), exact, delta)
    scs13 = 2 * passes / _EPSILON
    bst14 = paper.bst14_deviation(m, passes, batch, _EPSILON, delta)
    seen = gaussian_epsilon(np.full(passes, bst14), 2.0, delta)
    decreasing = paper.bst14_strongly_convex(passes, batch, bst14, _ALPHA).step
    root = paper.scs13(passes, batch, _EPSILON, _ALPHA).step
    return [
        Method("bolt-on", noisy.NONE, 0.0, ours.step, _EPSILON, _EPSILON),
        Method("published bolt-on", noisy.NONE, 0.0, ours.step, _EPSILON, published),
        Method("SCS13", noisy.SPHERICAL, scs13, root, _EPSILON, _EPSILON),
        Method("BST14", noisy.GAUSSIAN, bst14, decreasing, _EPSILON, seen),
    ]


def drawn_bst14(m: int, passes: int, batch: int) -> float:
    """Upper bound on what BST14 costs where its batches are drawn."""
    delta = 1 / m**2
    deviation = paper.bst14_deviation(m, passes, batch, _EPSILON, delta)
    count = passes * m // batch
    return sampled_gaussian_epsilon(deviation / 2, batch / m, count, delta)


def steps_of(method: Method, n: int, passes: int, batch: int) -> np.ndarray:
    """Of shape (n_passes, updates_per_pass)."""
    per_pass = -(-n // batch)
    steps = [method.steps(t + 1) for t in range(passes * per_pass)]
    return np.array(steps).reshape(passes, per_pass)


def objective_of(n: int) -> LinearObjective:
    """Of the paper's regularised model."""
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=_FEATURES,
        data_norm=1.0,
        adjacency="replace_one",
        alpha=_ALPHA,
        fit_intercept=False,
    )


def last_of(steps: np.ndarray) -> np.ndarray:
    """Shares of the last iterate alone."""
    shares = np.zeros(steps.shape)
    shares[-1, -1] = 1.0
    return shares


def train(source: Source, orders: list[Any], method: Method, batch: int) -> None:
    """All passes over a source, by compiled transitions."""
    n, passes = source.n_samples, len(orders)
    steps = steps_of(method, n, passes, batch)
    radius = 1 / _ALPHA
    updates = Updates(steps, last_of(steps), batch, radius)
    state, weights = State(objective_of(n), updates), np.zeros((1, _FEATURES))
    gradient = np.zeros_like(weights)
    for j, order in enumerate(orders):
        start = 0
        for block, rows in in_order(source, order):
            if method.kind == noisy.NONE:
                state.transition(block, rows)
                continue
            noisy.noisy_pass(
                np.ascontiguousarray(block.X), block.y, rows, (start, n), 1.0,
                steps[j], batch, _ALPHA, radius, method.kind, method.scale, weights,
                gradient,
            )  # fmt: skip
            start += len(rows)


def times_of(calls: list[Callable[[], Any]]) -> list[float]:
    """Median seconds of the processor for each call; they take turns.

    The first turn, which compiles, is left out.
    """
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(_RUNS + 1):
        for call, own in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if turn:
                own.append(time.process_time() - start)
    return [statistics.median(own) for own in times]


_RECORDS = (
    "SELECT id, "
    + ", ".join(f"CAST(x{j} AS double precision) AS x{j}" for j in range(_FEATURES))
    + ", CAST(y AS double precision) AS y FROM bolt_on_records"
)


def asked_of(n: int, passes: int, batch: int, method: Method | None = None) -> Any:
    """What the aggregate is asked."""
    chosen = methods(n, passes, batch)[0] if method is None else method
    steps = steps_of(chosen, n, passes, batch)
    return PlainDescent(
        steps, last_of(steps), (_KEY,) * passes, batch, n, _FEATURES, _ALPHA,
        1 / _ALPHA, 1.0, None, LogisticLoss().form, (0.0, 0.0),
    )  # fmt: skip


def in_postgres(
    postgres: str, texts: dict[str, DescentText], runs: int = 1
) -> dict[str, tuple[float, float]]:
    """Least seconds of each text, and the peak of the server's process in MB."""
    import psycopg

    n, found = next(iter(texts.values())).asked.n_samples, {}
    with psycopg.connect(postgres) as link:
        columns = _COLUMNS.replace(",", " real,")
        link.execute(
            f"CREATE TEMP TABLE bolt_on_records (id bigint PRIMARY KEY, y int, "
            f"{columns} real)"
        )
        numbers = ", ".join(["((random() - 0.5) * 0.49)::real"] * _FEATURES)
        link.execute(
            "INSERT INTO bolt_on_records SELECT i, (i % 2)::int, "
            f"{numbers} FROM generate_series(1, {n}) AS t(i)"
        )
        link.execute("ANALYZE bolt_on_records")
        for name, text in texts.items():
            link.execute("SAVEPOINT before")
            for statement in text.statements:
                link.execute(statement)
            times = []
            for _ in range(runs):
                start = time.perf_counter()
                link.execute(text.call, text.given).fetchall()
                times.append(time.perf_counter() - start)
            link.execute("ROLLBACK TO before")
            found[name] = min(times), peak_of(link.info.backend_pid)
        link.rollback()
    return found


def noise(n: int, postgres: str | None, postgres_rows: int) -> None:
    """Print both tables of Figure 5."""
    rng = np.random.default_rng(0)
    X = ((rng.random((n, _FEATURES)) - 0.5) * 0.49).astype(np.float32)
    memory = MemorySource(X, (X[:, 0] > 0).astype(float))
    order = rng.permutation(n)
    print("| where | epochs, b | bolt-on s | SCS13 / bolt-on | BST14 / bolt-on |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/study.db"
        make_table(path, n)
        source = opened(path, n, folder)
        rows = StreamRows(
            source,
            source.reading(),
            lambda found: found,
            _FEATURES,
            np.dtype(np.float32),
        )
        stream = rows.with_targets(Labels(np.array([0, 1])))
        for passes, batch in _SETTINGS:
            ways = [one for one in methods(n, passes, batch) if "pub" not in one.name]
            held = times_of(
                [partial(train, memory, [order] * passes, way, batch) for way in ways]
            )
            print(_ratios("memory", passes, batch, held), flush=True)
            reading = [
                partial(train, stream, [_KEY] * passes, way, batch) for way in ways
            ]
            read = times_of([partial(source.during, one) for one in reading])
            print(_ratios("DuckDB", passes, batch, read), flush=True)
            if postgres is None:
                continue
            texts = {
                way.name: noisy.NoisyText(
                    asked_of(postgres_rows, passes, batch, way),
                    _RECORDS,
                    way.kind,
                    way.scale,
                )
                for way in ways
            }
            inside = in_postgres(postgres, dict(texts), runs=3)
            times = [seconds for seconds, _ in inside.values()]
            place = f"PostgreSQL, {postgres_rows:,} rows"
            print(_ratios(place, passes, batch, times), flush=True)
    print(f"\nEpsilons at delta = 1/m^2, m = {n:,}, lambda = {_ALPHA:g}\n")
    print("| epochs, b | method | published | honest |\n|---|---|---|---|")
    for passes, batch in _SETTINGS:
        for way in methods(n, passes, batch):
            print(
                f"| {passes}, {batch} | {way.name} | {way.claimed:g} "
                f"| {way.honest:.3g} |"
            )
        drawn = drawn_bst14(n, passes, batch)
        print(
            f"| {passes}, {batch} | BST14, drawn batches | {_EPSILON:g} | {drawn:.3g} |"
        )


def _ratios(place: str, passes: int, batch: int, times: list[float]) -> str:
    ours, scs13, bst14 = times
    return (
        f"| {place} | {passes}, {batch} | {ours:.3f} | {scs13 / ours:.2f} "
        f"| {bst14 / ours:.2f} |"
    )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["growth", "noise"])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--table", help="measure this file, in this process")
    parser.add_argument("--postgres", help="text that connects to a server")
    parser.add_argument("--postgres-rows", type=int, default=5000)
    given = parser.parse_args()
    if given.table:
        print(json.dumps(grown(given.table, given.rows[0])))
    elif given.what == "growth":
        growth(given.rows or [100_000, 1_000_000], given.postgres)
    else:
        (n,) = given.rows or [_ROWS]
        noise(n, given.postgres, given.postgres_rows)


if __name__ == "__main__":
    main()
