"""Time of one gradient sum: Dask with two workers, and the block reader with threads.

Run ``python -m benchmarks.dask_sums --rows 3000000`` at the root of a checkout. The
block reader decodes Parquet on two threads; each of two workers of Dask, which are
processes of this machine, does so on one. Both are run in turn, reading at every pass
and with rows kept on their grid, and their sums are compared bit for bit. On a busy
machine the least times say more than the medians, and what all processes computed
together more than either. Prints the table of ``docs/large_data.md``, part "Dask".
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skdp.io import DaskSource, ParquetSource
from skdp.io._reading import Labels
from skdp.io._rows import StreamRows
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._answers import exact_answer
from skdp.sums import _gradient_sum
from skdp.sums._gradient import ClippedGradient

_FEATURES, _WORKERS, _RUNS = 20, 2, 11


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


def keep(n_bytes: int) -> None:
    """How much may be kept of rows, in this process."""
    _gradient_sum._MOST_KEPT = n_bytes


def passes(source: Any, query: Any) -> Callable[[], Any]:
    """One sum of a source in its session; the first call opens what later ones use."""
    records, readers = stream(source), []

    def opened(query: Any) -> Any:
        if not readers:
            readers.append(query.open(records))
        return readers[0]

    return lambda: exact_answer(query, records, opened, None)


def cpu() -> float:
    """Seconds that this process has computed, on all its threads."""
    return time.process_time()


def seconds(call: Callable[[], Any], client: Any) -> tuple[float, float]:
    """Of one call, and what all processes computed meanwhile."""
    before = cpu() + sum(client.run(cpu).values())
    start = time.perf_counter()
    call()
    passed = time.perf_counter() - start
    return passed, cpu() + sum(client.run(cpu).values()) - before


def compared(one: Any, other: Any, query: Any, client: Any) -> np.ndarray:
    """Times of both in turn, (n_runs, 2, 2); their sums must be the same."""
    first, second = passes(one, query), passes(other, query)

    def both() -> np.ndarray:
        assert np.array_equal(first(), second())
        calls = (first, second)
        return np.array([[seconds(f, client) for f in calls] for _ in range(_RUNS)])

    times: np.ndarray = one.during(lambda: other.during(both))
    return times


def main() -> None:
    """Print the table."""
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    n = parser.parse_args().rows
    pa.set_cpu_count(2)
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=_FEATURES,
        data_norm=1.0,
        adjacency="replace_one",
    )
    weights = np.random.default_rng(1).normal(size=(_FEATURES + 1, 1))
    query = ClippedGradient(objective, 0.5).at(weights)
    given = {
        "n_workers": _WORKERS,
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(**given) as cluster,
        Client(cluster) as client,
    ):
        path = str(Path(folder) / "rows.parquet")
        pq.write_table(table(n), path, row_group_size=1 << 17)
        facts: dict[str, Any] = {"target": "y", "n_samples": n}
        reader = ParquetSource(path, **facts)
        workers = DaskSource(path, client, **facts)
        print("| a pass | block reader, 2 threads | Dask, 2 workers | ratio |")
        print("|---|---|---|---|")
        for name, n_bytes in {"reads": 0, "of kept rows": 2**30}.items():
            keep(n_bytes)
            client.run(keep, n_bytes)
            times = compared(reader, workers, query, client)
            for kind, of in {"median": np.median, "least": np.min}.items():
                wall, computed = of(times, axis=0).T
                for what, (one, other) in {"": wall, " computed": computed}.items():
                    told = f"{one:.3f} s | {other:.3f} s | {other / one:.2f}"
                    print(f"| {name}, {kind}{what} | {told} |")


if __name__ == "__main__":
    main()
