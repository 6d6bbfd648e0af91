"""Tables that are not held: a pass over every source, and what is installed."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark
from skdp.linear_model import DPLogisticRegression

_FEATURES, _KEPT = 20, "kept on its grid"


@benchmark("sources", runs=3, keeps=False)
def sources(n: int = 1_000_000) -> Iterator[Line]:
    """A pass over every source: nanoseconds of the processor for one number.

    `noisy_gd` on 20 numbers in single precision, that read anew in each step or keep
    rows on their grid; beside them Parquet that is decoded and dropped, and one pass of
    single records by `bolt_on` in a database.
    """
    for kind in ("Parquet", "DuckDB", "Dask", "memory"):
        for keeps in (False, True):
            yield Line(
                place={"source": kind, "rows": _KEPT if keeps else "read anew"},
                method="noisy_gd",
                measure=partial(_passes, kind, n, keeps),
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


def write_made_up(path: Path, n: int) -> None:
    """Rows of norm at most 1 in Parquet, with labels that a line tells mostly right."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, _FEATURES)).astype(np.float32) / math.sqrt(_FEATURES)
    y = X @ rng.uniform(-1, 1, _FEATURES) + 0.01 * rng.normal(size=n) > 0
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    table = pa.table({**columns, "y": y.astype(np.int8)})
    # Numbers by chance do not repeat: neither a dictionary nor compression pays.
    parquet.write_table(table, path, use_dictionary=False, compression="none")


def _opened(kind: str, folder: Path, n: int, memory: int = 0) -> tuple[Any, Any]:
    """A source, and what closes it."""
    from skdp import ParquetSource, SqlSource

    path = folder / "rows.parquet"
    facts = {"target": "y", "n_samples": n, "memory": memory}
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
    kind: str, n: int, keeps: bool, runs: Iterable[int]
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
    most = 1 << 30 if keeps else 0
    with tempfile.TemporaryDirectory() as folder:
        source, link = _opened(kind, Path(folder), n, most)
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
