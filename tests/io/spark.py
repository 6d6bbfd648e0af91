"""A session of Spark in this process, with two threads, on the loopback address only.

Without pyspark or Java the tests that ask for it are skipped, by name.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import sys
import tempfile

import pyarrow as pa
import pytest
from pyarrow import parquet

from skdp.io import SqlSource
from tests.io.places import FEATURES

_PLACES = itertools.count()
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.adaptive.enabled": "false",  # which takes long for small tables
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session():
    """The session of this process; skips where there cannot be one."""
    pytest.importorskip("pyspark", reason="needs pyspark")
    if not has_java():
        pytest.skip("needs Java: none on PATH or in JAVA_HOME")
    return _started()


def has_java():
    """Whether there is a Java that Spark would find."""
    home = os.environ.get("JAVA_HOME")
    return bool(shutil.which(os.path.join(home, "bin", "java") if home else "java"))


@functools.cache
def home():
    """A folder for files, which ends with the process."""
    folder = tempfile.mkdtemp(prefix="skdp-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _started():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    builder = builder.config("spark.sql.warehouse.dir", f"{home()}/tables")
    builder = builder.config("spark.local.dir", f"{home()}/local")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    atexit.register(found.stop)
    return found


def stored(frame, n_parts=3):
    """The session, in a database of its own with the table `records` of Parquet."""
    spark, name = session(), f"place_{next(_PLACES)}"
    path = f"{home()}/given_{name}"
    os.mkdir(path)
    # NaN stays a number.
    table = pa.table({column: pa.array(frame[column].to_numpy()) for column in frame})
    size = -(-len(frame) // n_parts)
    for i in range(n_parts):
        parquet.write_table(table.slice(i * size, size), f"{path}/{i}.parquet")
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    spark.sql(f"CREATE TABLE records USING parquet AS SELECT * FROM parquet.`{path}`")
    return spark


def in_spark(frame, **facts):
    """A source of a table of its own."""
    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    return SqlSource(stored(frame), "records", **facts)
