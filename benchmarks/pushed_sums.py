"""Time of one gradient sum: added up by DuckDB, fetched from it, from Parquet, held.

Run ``python -m benchmarks.pushed_sums --rows 1000000`` at the root of a checkout. All
are run in turn in one process, and their sums are compared bit for bit. Prints the
table of ``docs/large_data.md``, part "What a pass takes".
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from skdp.data import MemorySource, Source
from skdp.io import ParquetSource, SqlSource
from skdp.io._rows import StreamRows
from skdp.io._targets import Labels
from skdp.losses import LogisticLoss
from skdp.objectives import LinearObjective
from skdp.queries import _exact_gradient
from skdp.queries._exact_gradient import ExactGradientSum
from skdp.queries._grid import on_grid

_FEATURES, _RUNS = 20, 3


def table(n: int) -> pa.Table:
    """Made-up rows in single precision, and labels."""
    rng = np.random.default_rng(0)
    X = 0.25 * rng.normal(size=(_FEATURES, n)).astype(np.float32)
    y = (rng.random(n) < 0.4).astype(np.int8)
    return pa.table({**{f"x{j}": own for j, own in enumerate(X)}, "y": y})


def stream(source: Any) -> Any:
    """What solvers see of a source."""
    rows = StreamRows(
        source,
        source.reading(),
        lambda found: found,
        _FEATURES,
        np.dtype(np.float32),
        is_as_read=True,
    )
    return rows.with_targets(Labels(np.array([0, 1])))


class Fetched:
    """A source that leaves nothing to its engine."""

    def __init__(self, source: Any) -> None:
        self._source, self.blocks = source, source.blocks
        self.n_samples, self.n_features = source.n_samples, source.n_features
        self.largest_block, self.is_row_major = source.largest_block, True
        self.is_stable = False


def median_time(call: Callable[[], Any]) -> float:
    """Seconds."""
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def plain_read(path: Path) -> None:
    """Every batch of a file, decoded and dropped."""
    for _ in ds.dataset(path).to_batches(batch_size=1 << 16):
        pass


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n = parser.parse_args().rows
    _exact_gradient._MOST_KEPT = 0  # nothing is kept, however small
    made, objective = (
        table(n),
        LinearObjective(
            loss=LogisticLoss(),
            n_samples=n,
            n_features=_FEATURES,
            data_norm=1.0,
            adjacency="replace_one",
        ),
    )
    weights = on_grid(np.random.default_rng(1).normal(size=(_FEATURES + 1, 1)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(made, path, row_group_size=1 << 17)
        study = duckdb.connect(str(Path(folder) / "study.db"))
        study.execute(f"CREATE TABLE records AS SELECT * FROM '{path}'")
        X = np.column_stack([made.column(f"x{j}") for j in range(_FEATURES)])
        held = MemorySource(X, made.column("y").to_numpy().astype(float))
        parquet = ParquetSource(str(path), target="y", n_samples=n)
        sql = SqlSource(study, "records", target="y", n_samples=n)
        jobs: dict[str, tuple[Any, Source]] = {
            "in memory": (None, held),
            "Parquet": (parquet, stream(parquet)),
            "DuckDB, fetched": (sql, Fetched(stream(sql))),
            "DuckDB, added up there": (sql, stream(sql)),
        }
        times, sums = {}, []
        for name, (source, records) in jobs.items():
            reader = ExactGradientSum(records, objective, 0.5)

            def one_pass(source: Any = source, reader: Any = reader) -> Any:
                if source is None:
                    return reader(weights)
                return source.during(lambda: reader(weights))

            sums.append(one_pass())
            times[name] = median_time(one_pass)
        times["Parquet, read only"] = median_time(lambda: plain_read(path))
    assert all(np.array_equal(one, sums[0]) for one in sums)
    print("| a pass | seconds | over in memory |\n|---|---|---|")
    for name, seconds in times.items():
        ratio = seconds / times["in memory"]
        print(f"| {name} | {seconds:.3f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
