"""Tables that are not held: a pass over every source, and what is installed."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark
from skdp.linear_model import DPLogisticRegression

_FEATURES = 20
# Bytes that may be kept in memory and on the disk, None for half of what is free.
_ROOMS = {
    "read anew": (0, 0),
    "kept on the disk": (0, None),
    "kept in memory": (1 << 30, 0),
}


@benchmark("sources", runs=3, keeps=False)
def sources(n: int = 1_000_000) -> Iterator[Line]:
    """A pass over every source: nanoseconds of the processor for one number.

    `noisy_gd` on 20 numbers in single precision, that read anew in each step or keep
    rows on their grid, in memory or in a temporary file; beside them Parquet that is
    decoded and dropped, and one pass of single records by `bolt_on` in a database.
    """
    for kind in ("Parquet", "DuckDB", "Dask", "memory"):
        for rows in _ROOMS:
            if kind == "memory" and rows == "kept on the disk":
                continue
            yield Line(
                place={"source": kind, "rows": rows},
                method="noisy_gd",
                measure=partial(_passes, kind, n, _ROOMS[rows]),
                metrics=("ns a number", "first pass", "peak MB"),
                statistic="median",
            )
    yield Line(
        place={"source": "Parquet", "rows": "decoded and dropped"},
        method="pyarrow",
        measure=partial(_decoded, n),
        metrics=("ns a number", "first pass", "peak MB"),
        statistic="median",
    )
    yield Line(
        place={"source": "DuckDB", "rows": "one by one"},
        method="bolt_on",
        measure=partial(_in_database, n),
        metrics=("ns a number", "first pass", "peak MB"),
        statistic="median",
    )


# Larger tables repeat so many rows.
_MOST_MADE_UP = 1_000_000


def write_made_up(path: Path, n: int) -> None:
    """Rows of norm at most 1 in Parquet, with labels that a line tells mostly right."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, size = np.random.default_rng(0), min(n, _MOST_MADE_UP)
    X = rng.uniform(-1, 1, (size, _FEATURES)).astype(np.float32) / math.sqrt(_FEATURES)
    y = X @ rng.uniform(-1, 1, _FEATURES) + 0.01 * rng.normal(size=size) > 0
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    table = pa.table({**columns, "y": y.astype(np.int8)})
    # Numbers by chance do not repeat: neither a dictionary nor compression pays.
    plain = {"use_dictionary": False, "compression": "none"}
    with parquet.ParquetWriter(path, table.schema, **plain) as file:
        for start in range(0, n, size):
            file.write_table(table[: n - start])


def _opened(
    kind: str, folder: Path, n: int, room: tuple[int, int | None] = (0, 0)
) -> tuple[Any, Any]:
    """A source, and what closes it."""
    from skdp import ParquetSource, SqlSource

    path = folder / "rows.parquet"
    memory, disk = room
    facts = {"target": "y", "n_samples": n, "memory": memory, "disk": disk}
    write_made_up(path, n)
    if kind == "Parquet":
        return ParquetSource(path, **facts), None
    if kind == "DuckDB":
        import duckdb

        link = duckdb.connect(config={"memory_limit": "256MB", "threads": 1})
        names = [f"x{i}" for i in range(_FEATURES)]
        link.execute(
            "CREATE TABLE records (id BIGINT PRIMARY KEY, "
            f"{' FLOAT, '.join(names)} FLOAT, y TINYINT)"
        )
        link.execute(
            f"INSERT INTO records SELECT row_number() OVER (), {', '.join(names)}, y "
            f"FROM read_parquet('{path}')"
        )
        return SqlSource(link, "records", features=names, record_id="id", **facts), link
    if kind == "Dask":
        from distributed import Client

        from skdp.io import DaskSource

        client = Client(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        )
        return DaskSource(str(path), client, **facts), client
    import pandas as pd

    frame = pd.read_parquet(path)
    return (frame.drop(columns="y"), frame["y"]), None


def _passes(
    kind: str, n: int, room: tuple[int, int | None], runs: Iterable[int]
) -> Iterator[list[float]]:
    """From fits of few and of many steps."""

    def fitted(source: Any, n_steps: int) -> float:
        model = DPLogisticRegression(
            1.0,
            delta=1e-9,
            solver="noisy_gd",
            solver_params={"n_steps": n_steps},
            classes=[0, 1],
        )
        args = source if isinstance(source, tuple) else (source,)
        start = time.process_time()
        quietly_fitted(model, *args)
        return time.process_time() - start

    few, many = 2, 12
    with tempfile.TemporaryDirectory() as folder:
        source, link = _opened(kind, Path(folder), n, room)
        fitted(source, 1)  # compiles
        for _ in runs:
            of_few, of_many = fitted(source, few), fitted(source, many)
            later = (of_many - of_few) / (many - few)
            first = of_few - (few - 1) * later
            numbers = 1e9 / n / _FEATURES
            yield [later * numbers, first * numbers, peak_megabytes()]
        if link is not None:
            link.close()


def _decoded(n: int, runs: Iterable[int]) -> Iterator[list[float]]:
    import pyarrow.dataset as ds

    with tempfile.TemporaryDirectory() as folder:
        write_made_up(Path(folder) / "rows.parquet", n)
        for _ in runs:
            start = time.process_time()
            for _ in ds.dataset(folder).to_batches(
                batch_size=1 << 16, use_threads=False
            ):
                pass
            spent = (time.process_time() - start) * 1e9 / n / _FEATURES
            yield [spent, spent, peak_megabytes()]


def _in_database(n: int, runs: Iterable[int]) -> Iterator[list[float]]:
    """Figure 2 of the bolt-on paper: one pass by single records, in random order."""
    with tempfile.TemporaryDirectory() as folder:
        source, link = _opened("DuckDB", Path(folder), n)
        model = DPLogisticRegression(
            0.1,
            delta=1 / n**2,
            C=1 / (1e-4 * n),
            fit_intercept=False,
            classes=[0, 1],
            solver="bolt_on",
            solver_params={
                "n_passes": 1,
                "batch_size": 1,
                "schedule": "strongly_convex",
            },
        )
        for _ in runs:
            start = time.process_time()
            quietly_fitted(model, source)
            spent = (time.process_time() - start) * 1e9 / n / _FEATURES
            yield [spent, spent, peak_megabytes()]
        link.close()


@benchmark("source_rows", runs=1, keeps=False)
def source_rows(n: str = "100_000 1_000_000 10_000_000") -> Iterator[Line]:
    """Fits over Parquet: time for a row, and memory.

    A default fit with `columns=`, and thirty passes of `noisy_gd` over plain numbers.
    Each fit has a process of its own. The peak is the largest memory of that process
    and counts pages of mapped files: those of the Parquet file and of the temporary
    file, which are given back after each block.
    """
    fits: dict[str, dict[str, Any]] = {
        "default fit, 20 columns": {"columns": (-1, 1)},
        "30 passes, 20 numbers": {
            "solver": "noisy_gd",
            "solver_params": {"n_steps": 30},
        },
    }
    for size, method in product(map(int, n.split()), fits):
        for memory in (1 << 30, 1 << 26):
            yield Line(
                place={"rows": size, "memory=": memory},
                method=method,
                measure=partial(_alone, _of_size, size, memory, fits[method]),
                metrics=("CPU s", "us a row", "s", "peak MB"),
                statistic="median",
            )


def _alone(call: Any, *given: Any) -> Iterator[list[float]]:
    """What a call returns in a new process, whose peak starts from nothing."""
    *settings, runs = given
    for _ in runs:
        with get_context("spawn").Pool(1) as pool:
            yield pool.apply(call, settings)


def _of_size(n: int, memory: int, given: dict[str, Any]) -> list[float]:
    from skdp import ParquetSource

    with tempfile.TemporaryDirectory() as folder:
        write_made_up(Path(folder) / "rows.parquet", n)
        small = Path(folder) / "small.parquet"
        write_made_up(small, 1000)
        model = DPLogisticRegression(1.0, delta=1e-9, classes=[0, 1], **given)
        for path, size in ((small, 1000), (small.with_stem("rows"), n)):
            source = ParquetSource(path, target="y", n_samples=size, memory=memory)
            start, clock = time.process_time(), time.perf_counter()
            quietly_fitted(model, source)  # the small table loads what is compiled
        spent = time.process_time() - start
        return [spent, spent * 1e6 / n, time.perf_counter() - clock, peak_megabytes()]


@benchmark("source_readings", runs=1, keeps=False)
def source_readings(n: int = 10_000) -> Iterator[Line]:
    """How often a fit, and a search of ten candidates, read a Parquet file."""
    for rows, room in _ROOMS.items():
        for method in ("composition", "random_stopping"):
            yield Line(
                place={"rows": rows, "method=": method},
                method="DPGridSearchCV of 10 values of C",
                measure=partial(_readings, n, room, method),
                metrics=("readings of a fit", "readings of a search"),
                statistic="median",
            )


def _readings(
    n: int, room: tuple[int, int | None], method: Any, runs: Iterable[int]
) -> Iterator[list[float]]:
    from skdp import DPGridSearchCV

    model = DPLogisticRegression(1.0, classes=[0, 1], columns=(-1, 1))
    grid = {"C": np.logspace(-3, 3, 10).tolist()}
    search = DPGridSearchCV(model, grid, epsilon=1.0, delta=1e-9, method=method)
    with tempfile.TemporaryDirectory() as folder:
        source, _ = _opened("Parquet", Path(folder), n, room)
        scan, found = source._scan, list[Any]()

        def counted(names: tuple[str, ...]) -> Any:
            found.append(names)
            return scan(names)

        source._scan = counted  # copies of a source take its attributes along
        for _ in runs:
            counts = []
            for estimator in (model, search):
                found.clear()
                quietly_fitted(estimator, source)
                counts.append(float(len(found)))
            yield counts


def peak_megabytes() -> float:
    """What this process has had at most; NaN where that cannot be seen."""
    status = Path("/proc/self/status")
    if not status.exists():
        return math.nan
    # Not that of resource, which starts from what the parent had.
    (line,) = [one for one in status.read_text().splitlines() if "VmHWM" in one]
    return int(line.split()[1]) / 1024


@benchmark("installed_size", keeps=False)
def installed() -> Iterator[Line]:
    """Megabytes (10**6 bytes) of each distribution, largest first.

    Run it with the Python of an environment that holds nothing but skdp. The second
    number leaves out what Python makes when it imports.
    """
    for name, (whole, compiled) in sizes(sys.path).items():
        yield Line(
            place={"distribution": name},
            method="on disk",
            measure=lambda runs, a=whole, b=compiled: [[a, a - b] for _ in runs],
            metrics=("MB", "not compiled MB"),
        )


def sizes(where: list[str]) -> dict[str, tuple[float, float]]:
    """Megabytes of each distribution in some folders, and of its compiled Python."""
    from importlib.metadata import distributions

    found = {}
    for each in distributions(path=where):
        paths = [Path(str(file.locate())) for file in each.files or []]
        there = [path for path in paths if path.is_file()]
        whole, compiled = (
            sum(path.stat().st_size for path in chosen) / 1e6
            for chosen in (there, [path for path in there if path.suffix == ".pyc"])
        )
        if each.metadata["Name"] not in ("pip", "setuptools", "wheel"):
            found[each.metadata["Name"]] = whole, compiled
    return dict(sorted(found.items(), key=lambda row: -row[1][0]))
