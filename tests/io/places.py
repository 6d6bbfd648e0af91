"""One table in several places: memory, Parquet, DuckDB, PostgreSQL and Dask."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import pickle

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from skdp.io import ParquetSource, SqlSource
from skdp.io._external import TableSource
from tests.io import postgres_cluster

N = 900
FEATURES = ["a", "b", "c"]
COLUMNS = {"a": (-2, 2), "b": (-2, 2), "c": (-2, 2)}


def numbers(n=N, seed=0):
    """Rows of three numbers, a label, a target in [0, 1], a word and a key."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) / 3, columns=FEATURES)
    raw = frame["a"] - 2 * frame["b"]
    frame["y"] = (raw > 0).astype(np.int64)
    frame["t"] = 1 / (1 + np.exp(-raw))
    frame["word"] = np.where(frame["c"] > 0, "up", "down")
    frame["key"] = np.arange(n)
    return frame


def with_holes(n=N):
    """The same with rows that cannot be read as numbers; and which those are."""
    frame = numbers(n)
    bad = np.zeros(n, dtype=bool)
    for i, value in enumerate([np.nan, np.inf, -np.inf, np.nan]):
        frame.loc[i * 7, FEATURES[i % 3]] = value
        bad[i * 7] = True
    return frame, bad


def write(frame, folder, n_files=1, group=200):
    """Files with equal parts of a table."""
    folder.mkdir(exist_ok=True)
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        parquet.write_table(table, folder / f"{i:03d}.parquet", row_group_size=group)
    return folder


def database(frame, threads=1):
    """A connection to a database with the table `records`."""
    connection = duckdb.connect(config={"threads": threads})
    connection.register("given", frame)
    connection.execute("CREATE TABLE records AS SELECT * FROM given")
    connection.unregister("given")
    return connection


# Settings of a session in which whatever may be done by workers is.
PARALLEL = {
    "max_parallel_workers_per_gather": 2,
    "min_parallel_table_scan_size": 0,
    "parallel_setup_cost": 0,
    "parallel_tuple_cost": 0,
}
_SCHEMAS = itertools.count()
_CONNECTIONS = []  # of PostgreSQL, which warns of what is left open


def postgres(frame, **settings):
    """A connection to a schema of its own with the table `records`."""
    schema = f"place_{next(_SCHEMAS)}"
    given = {name: _array(frame[name]) for name in frame}
    with _owner().cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        cursor.adbc_ingest("records", pa.table(given), db_schema_name=schema)
        cursor.execute(f"ANALYZE {schema}.records")
    uri = postgres_cluster.uri(search_path=schema, **settings)
    _CONNECTIONS.append(_connected(uri))
    return _CONNECTIONS[-1]


def _connected(uri):
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(uri, autocommit=True)


@functools.cache
def _owner():
    """Whose tables they are, of this process: connecting takes longer than a table."""
    own = _connected(postgres_cluster.uri())
    atexit.register(own.close)  # before the server ends, which was started before
    return own


def _array(column):
    """NaN stays a number; of other types what is missing is NULL."""
    is_float = column.dtype.kind == "f"
    return pa.array(column.to_numpy() if is_float else column, from_pandas=not is_float)


def end_connections():
    while _CONNECTIONS:
        _CONNECTIONS.pop().close()


@contextlib.contextmanager
def kept():
    """What makes a place once for all who ask for the same, and change nothing there.

    Connections stay open for as long as the context.
    """
    found, connections = {}, []

    def once(make, *given, **facts):
        key = make, pickle.dumps((given, facts))
        if key not in found:
            n_others = len(_CONNECTIONS)
            found[key] = make(*given, **facts)
            connections.extend(_CONNECTIONS[n_others:])
            del _CONNECTIONS[n_others:]
        return found[key]

    yield once
    for connection in connections:
        connection.close()


def keeps(monkeypatch, n_bytes, disk=0):
    """All sources keep rows of at most this memory and `disk`, whatever they say."""
    for name, limit in (("memory", n_bytes), ("disk", disk)):
        fixed = property(lambda source, limit=limit: limit, lambda source, given: None)
        monkeypatch.setattr(TableSource, name, fixed, raising=False)


def in_files(frame, folder, *, n_files=1, batch_size=1 << 14, **facts):
    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    write(frame, folder, n_files)
    return ParquetSource(folder, batch_size=batch_size, **facts)


def in_database(frame, *, threads=1, batch_size=1 << 14, **facts):
    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    connection = database(frame, threads)
    return SqlSource(connection, "records", batch_size=batch_size, **facts)


def in_postgres(frame, *, settings=(), batch_size=1 << 14, **facts):
    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    connection = postgres(frame, **dict(settings))
    return SqlSource(connection, "records", batch_size=batch_size, **facts)


# Databases that have a table as `records`, by name: a connection to each.
DATABASES = {
    "DuckDB": database,
    "two threads": lambda frame: database(frame, threads=2),
    "PostgreSQL": postgres,
    "parallel workers": lambda frame: postgres(frame, **PARALLEL),
}


def on_workers(frame, folder, *, n_files=4, batch_size=1 << 14, **facts):
    """In files that two workers read."""
    from skdp.io import DaskSource
    from tests.io.cluster import client

    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    write(frame, folder, n_files)
    return DaskSource(str(folder), client(), batch_size=batch_size, **facts)


def in_partitions(frame, *, npartitions=5, **facts):
    """In a data frame of two workers."""
    from dask import dataframe

    from skdp.io import DaskSource
    from tests.io.cluster import client

    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    frame = dataframe.from_pandas(frame, npartitions=npartitions)
    return DaskSource(frame, client(), **facts)


# How a table may lie, by name.
LAYOUTS = {
    "one file": lambda frame, path, **facts: in_files(frame, path / "one", **facts),
    "many files": lambda frame, path, **facts: in_files(
        frame, path / "many", n_files=7, **facts
    ),
    "small batches": lambda frame, path, **facts: in_files(
        frame, path / "small", n_files=2, batch_size=64, **facts
    ),
    "database": lambda frame, path, **facts: in_database(frame, **facts),
    "two threads": lambda frame, path, **facts: in_database(
        frame, threads=2, batch_size=100, **facts
    ),
    "PostgreSQL": lambda frame, path, **facts: in_postgres(frame, **facts),
    "parallel workers": lambda frame, path, **facts: in_postgres(
        frame, settings=PARALLEL, batch_size=100, **facts
    ),
    "two readers": lambda frame, path, **facts: in_postgres(
        frame, n_readers=2, batch_size=100, **facts
    ),
    "workers": lambda frame, path, **facts: on_workers(
        frame, path / "workers", **facts
    ),
}
# And where rows are read as they come.
ROW_LAYOUTS = {
    **LAYOUTS,
    "partitions": lambda frame, path, **facts: in_partitions(frame, **facts),
}


def read(source, reading=None, also=("y", "key")):
    """One pass: rows, which are present, and other columns, in the order of keys."""
    reading = source.reading() if reading is None else reading

    def one_pass():
        found = list(source.rows(reading, also))
        rows = [np.asarray(part, dtype=object) for part, _, _ in found]
        others = pa.Table.from_batches(
            [part.select(list(also)) for _, _, part in found]
        )
        present = np.concatenate([part for _, part, _ in found])
        return np.concatenate(rows), present, others.to_pandas()

    rows, present, others = source.during(one_pass)
    order = np.argsort(others["key"].to_numpy())
    return rows[order], present[order], others.iloc[order]
