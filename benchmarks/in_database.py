"""bolt_on in databases: time and memory by the number of rows.

Figure 2 of the bolt-on paper: one pass by single records over a table of 50 columns.
Run at the root of a checkout

- ``python -m benchmarks.in_database --rows 100000 1000000``: in DuckDB, which may take
  256 MB;
- ``python -m benchmarks.in_database --rows 10000 --postgres postgresql://...``: in
  PostgreSQL, inside and by reading, in a table ``bolt_on_records`` that is made there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._in_database import (
    ALPHA,
    EPSILON,
    fill_postgres,
    make_table,
    opened,
    peak_of,
    run,
)
from skdp import DPLogisticRegression, SqlSource
from skdp.papers import TrainingSource

_KEY = "00000001"


def fitted(source: SqlSource) -> tuple[float, float]:
    """Seconds of a fit by one pass of single records, and those of the processor."""
    model = DPLogisticRegression(
        EPSILON,
        delta=1 / source.n_samples**2,
        C=1 / (ALPHA * source.n_samples),
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


def grows_in_duckdb(rows: list[int]) -> None:
    """Print the table of sizes."""
    print(
        "| rows | table MB | fit s | of the processor s | a row, us | read in order s "
        "| peak MB |\n|---|---|---|---|---|---|---|"
    )
    for n in rows:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/study.db"
            make_table(path, n)
            words = ["--rows", str(n), "--table", path]
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


def grows_in_postgres(rows: list[int], postgres: str) -> None:
    """Print the table of sizes."""
    from adbc_driver_postgresql import dbapi

    print("| rows | inside s | a row, us | by reading s | a row, us |")
    print("|---|---|---|---|---|")
    for n in rows:
        with dbapi.connect(postgres, autocommit=True) as link:
            fill_postgres(link, n)
            facts = {"target": "y", "n_samples": n, "record_id": "id"}
            name = "bolt_on_records"
            inside, _ = fitted(TrainingSource(link, name, **facts))
            source = SqlSource(link, name, **facts)
            fitted(source)  # compiles
            read, _ = fitted(source)
            run(link, "DROP TABLE bolt_on_records")
        print(
            f"| {n:,} | {inside:.2f} | {inside / n * 1e6:.1f} | {read:.2f} "
            f"| {read / n * 1e6:.1f} |",
            flush=True,
        )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--table", help="measure this file, in this process")
    parser.add_argument("--postgres", help="where to connect to")
    given = parser.parse_args()
    if given.table:
        print(json.dumps(grown(given.table, given.rows[0])))
    elif given.postgres:
        grows_in_postgres(given.rows, given.postgres)
    else:
        grows_in_duckdb(given.rows)


if __name__ == "__main__":
    main()
