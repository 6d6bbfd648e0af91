"""Made-up tables in databases, and what the bolt-on paper fits to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb

from skdp import SqlSource

FEATURES = 50
# Of the paper's Figures 2 and 5: epsilon and regularisation.
EPSILON, ALPHA = 0.1, 1e-4
COLUMNS = ", ".join(f"x{j}" for j in range(FEATURES))


def make_table(path: str, n: int) -> None:
    """Made-up rows of norm near 1 in single precision, in a file of DuckDB."""
    numbers = ", ".join(
        f"((random() - 0.5) * 0.49)::FLOAT AS x{j}" for j in range(FEATURES)
    )
    with duckdb.connect(path) as study:
        study.execute("SET threads = 1; SELECT setseed(0.5)")
        study.execute(
            f"CREATE TABLE records (id BIGINT PRIMARY KEY, y TINYINT, "
            f"{COLUMNS.replace(',', ' FLOAT,')} FLOAT)"
        )
        study.execute(
            f"INSERT INTO records SELECT id, (x0 > 0)::TINYINT, {COLUMNS} "
            f"FROM (SELECT i AS id, {numbers} FROM range({n}) AS t(i))"
        )


def opened(path: str, n: int, folder: str) -> SqlSource:
    """The table, in a database that may take 256 MB and writes the rest to disk."""
    config = {"memory_limit": "256MB", "threads": 1, "temp_directory": folder}
    study = duckdb.connect(path, read_only=True, config=config)
    return SqlSource(study, "records", target="y", n_samples=n, record_id="id")


def fill_postgres(link: Any, n: int, kind: str = "") -> None:
    """A table `bolt_on_records` of such rows.

    Parameters
    ----------
    link : Connection of adbc_driver_postgresql.dbapi
    n : int
    kind : str
        "TEMP", or nothing.
    """
    columns = COLUMNS.replace(",", " real,")
    numbers = ", ".join(["((random() - 0.5) * 0.49)::real"] * FEATURES)
    run(link, "DROP TABLE IF EXISTS bolt_on_records")
    run(
        link,
        f"CREATE {kind} TABLE bolt_on_records "
        f"(id bigint PRIMARY KEY, y int, {columns} real)",
    )
    run(
        link,
        "INSERT INTO bolt_on_records SELECT i, (i % 2)::int, "
        f"{numbers} FROM generate_series(1, {n}) AS t(i)",
    )
    run(link, "ANALYZE bolt_on_records")


def run(link: Any, query: str) -> Any:
    """The first row of an answer, if there is one."""
    with link.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone() if cursor.description else None


def peak_of(process: int | str) -> float:
    """Megabytes that a process has had at most; NaN where that cannot be seen."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return float("nan")
    # Not that of resource, which starts from what the parent had.
    (line,) = [one for one in status.read_text().splitlines() if "VmHWM" in one]
    return int(line.split()[1]) / 1024


def processor_seconds(process: int) -> float:
    """What a process of this machine has taken of the processor so far."""
    *_, after = Path(f"/proc/{process}/stat").read_text().rpartition(")")
    user, system = after.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
