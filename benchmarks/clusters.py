"""One table in every place: time of a pass, what moves, and what many workers would do.

A pass is one step of `noisy_gd` over 20 numbers in single precision; the first pass
includes the plan and the check of the table. "s" is the clock's. "worker s" is the time
of the processor of the busiest worker, and "client s" that of this process, in which
Dask's scheduler runs too: on a machine with a processor for each worker, a pass takes
about both together. Bytes are those of the messages of one later pass, as pickles or
record batches.

A simulation below the table takes the measured costs to a billion rows, and assumes the
latency and the bandwidth of a network.
"""

from __future__ import annotations

import atexit
import math
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, Measured, benchmark
from skdp import DaskSource, ParquetSource, SqlSource
from skdp.io._external import TableSource
from skdp.linear_model import DPLogisticRegression
from skdp.tables._source import MEMORY

_FEATURES = [f"x{i}" for i in range(20)]
# Rows of a file: as many as a piece that Dask moves has at most.
_FILE = 1 << 17
_FEW, _MANY = 2, 12
_KEPT, _ANEW = "kept", "read anew"
_ONE, _TWO = "Dask, 1 process", "Dask, 2 processes"
# Rows of a part in a measurement of messages: next to nothing to add up.
_ROWS_OF_A_MESSAGE = 100
METRICS = (
    "first pass s", "later pass s", "worker s", "client s", "messages", "out kB",
    "back kB",
)  # fmt: skip


@dataclass
class Moved:
    """What a pass has moved so far."""

    messages: int = 0
    out: int = 0
    back: int = 0


@benchmark("clusters", runs=3, keeps=False, closing=lambda lines: simulated(lines))
def clusters(n: int = 1_000_000, databases: int = 1_000_000, postgres: str = "") -> Any:
    """A pass over a table in every place, what moves, and 100 workers simulated.

    `postgres` is the address of a server on which a table may be made.
    """
    for rows in (_KEPT, _ANEW):
        memory = MEMORY if rows == _KEPT else 0
        for k in (1, 2, 4):
            name = f"Dask, {k} process" + "es" * (k > 1)
            yield _line(name, rows, n, partial(_on_files, k, n, memory))
        yield _line("Parquet", rows, n, partial(_in_parquet, n, memory))
        few = min(n, databases)
        for n_readers in (1, 2):
            name = f"PostgreSQL, {n_readers} connection" + "s" * (n_readers > 1)
            opened = partial(_in_postgres, postgres, n_readers, few, memory)
            refusal = "" if postgres else "no server: --set postgres=ADDRESS"
            yield _line(name, rows, few, opened, refusal)
        yield _line("Spark local[2]", rows, few, partial(_in_spark, few, memory))
    yield _line("memory", _KEPT, n, partial(_in_memory, n))
    for n_parts in (4, 40, 200):
        opened = partial(_in_small_parts, n_parts)
        yield _line(_TWO, f"{n_parts} parts", n_parts * _ROWS_OF_A_MESSAGE, opened)


def _line(
    place: str, rows: str, n: int, opened: Callable[..., Any], refusal: str = ""
) -> Line:
    return Line(
        place={"place": place, "rows": rows, "n": n},
        method="noisy_gd",
        measure=None if refusal else partial(_passes, opened),
        metrics=METRICS,
        statistic="median",
        refusal=refusal,
        # Each takes minutes.
        most_runs=1 if rows == _ANEW else None,
    )


def _passes(
    opened: Callable[[ExitStack], Any], runs: Iterable[int]
) -> Iterator[list[float]]:
    """From fits of few and of many steps; several runs share what is opened."""

    def fitted(n_steps: int) -> np.ndarray:
        """Seconds, of the busiest worker, of this process; what has moved."""
        model = DPLogisticRegression(
            delta=1e-9,
            solver="noisy_gd",
            solver_params={"n_steps": n_steps},
            classes=[0, 1],
            random_state=0,
        )
        moved.messages = moved.out = moved.back = 0
        workers, own, start = _busy(source), time.process_time(), time.perf_counter()
        quietly_fitted(model, *source)
        spent = time.perf_counter() - start, time.process_time() - own
        busiest = max(
            (now - workers.get(name, 0.0) for name, now in _busy(source).items()),
            default=math.nan,
        )
        sizes = moved.messages, moved.out / 1000, moved.back / 1000
        return np.array([spent[0], busiest, spent[1], *sizes])

    with ExitStack() as stack:
        source = opened(stack)
        moved = counted(source[0])
        fitted(1)  # compiles, here and on the workers
        for _ in runs:
            of_few, of_many = fitted(_FEW), fitted(_MANY)
            later = (of_many - of_few) / (_MANY - _FEW)
            yield [of_few[0] - (_FEW - 1) * later[0], *later]


def _busy(source: tuple[Any, ...]) -> dict[str, float]:
    """The processor's time of each worker."""
    if not isinstance(source[0], DaskSource):
        return {}
    found: dict[str, float] = source[0]._parts._client.run(time.process_time)
    return found


def counted(source: Any) -> Moved:
    """Count what a source moves from now on."""
    moved = Moved()
    if isinstance(source, DaskSource):
        parts = source._parts
        asked, gathered = parts._asked, parts._gathered

        def asking(numbers: Any, requests: Any, sent: bytes) -> Any:
            moved.messages += len(numbers)
            # A large message goes to each worker once, and a small one to each part.
            is_large = len(sent) >= 1 << 16
            copies = parts.n_workers if is_large else len(numbers)
            moved.out += len(sent) * copies
            moved.out += sum(len(pickle.dumps(request)) for request in requests)
            return asked(numbers, requests, sent)

        def gathering(futures: Any) -> Any:
            answers = gathered(futures)
            moved.back += sum(len(pickle.dumps(answer)) for answer in answers)
            return answers

        parts._asked, parts._gathered = asking, gathering
    elif isinstance(source, TableSource):
        scan = source._scan

        def scanning(names: tuple[str, ...]) -> Iterator[Any]:
            for batch, is_record in scan(names):
                moved.messages += 1
                moved.back += batch.nbytes
                yield batch, is_record

        # mypy forbids to replace a method; a source hands its attributes to its copies.
        source._scan = scanning  # type: ignore[method-assign]
    return moved


# ---------------------------------------------------------------- the table everywhere


@lru_cache(maxsize=1)
def files(n: int) -> Path:
    """A folder of Parquet files, which ends with the process."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = Path(tempfile.mkdtemp(prefix="skdp-clusters-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    slopes, width = rng.uniform(-1, 1, len(_FEATURES)), math.sqrt(len(_FEATURES))
    for number, first in enumerate(range(0, n, _FILE)):
        size = min(_FILE, n - first)
        X = rng.uniform(-1, 1, (size, len(slopes))).astype(np.float32) / width
        y = X @ slopes + 0.01 * rng.normal(size=size) > 0
        columns = dict(zip(_FEATURES, X.T, strict=True))
        table = pa.table({**columns, "y": y.astype(np.int16)})
        # Numbers by chance do not repeat: neither a dictionary nor compression pays.
        path = folder / f"{number:05d}.parquet"
        parquet.write_table(table, path, use_dictionary=False, compression="none")
    return folder


def _in_memory(n: int, stack: ExitStack) -> Any:
    import pandas as pd

    frame = pd.read_parquet(files(n))
    return frame[_FEATURES].to_numpy(), frame["y"].to_numpy()


def _in_parquet(n: int, memory: int, stack: ExitStack) -> Any:
    return (ParquetSource(files(n), target="y", n_samples=n, memory=memory),)


def _client(n_workers: int, stack: ExitStack) -> Any:
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )
    return stack.enter_context(Client(stack.enter_context(cluster)))


def _on_files(n_workers: int, n: int, memory: int, stack: ExitStack) -> Any:
    client = _client(n_workers, stack)
    pattern = str(files(n) / "*.parquet")
    return (DaskSource(pattern, client, target="y", n_samples=n, memory=memory),)


def _in_small_parts(n_parts: int, stack: ExitStack) -> Any:
    """Next to no rows, so that a pass is its messages."""
    import pandas as pd
    from dask import dataframe

    client, n = _client(2, stack), n_parts * _ROWS_OF_A_MESSAGE
    frame = pd.read_parquet(files(max(n, 1000))).iloc[:n]
    parts = dataframe.from_pandas(frame, npartitions=n_parts)
    return (DaskSource(parts, client, target="y", n_samples=n),)


def _in_postgres(
    address: str, n_readers: int, n: int, memory: int, stack: ExitStack
) -> Any:
    from adbc_driver_postgresql import dbapi
    from pyarrow import dataset

    link = stack.enter_context(dbapi.connect(address))
    with link.cursor() as cursor:
        rows = dataset.dataset(files(n)).scanner().to_reader()
        cursor.adbc_ingest("skdp_benchmark", rows, mode="replace")
        link.commit()
        stack.callback(_dropped, address)
    return (
        SqlSource(
            link, "skdp_benchmark", features=_FEATURES, target="y", n_samples=n,
            memory=memory, n_readers=n_readers,
        ),
    )  # fmt: skip


def _dropped(address: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as link, link.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS skdp_benchmark")
        link.commit()


def _in_spark(n: int, memory: int, stack: ExitStack) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    home = stack.enter_context(tempfile.TemporaryDirectory())
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.local.dir": home,
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": f"{home}/tables",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    stack.callback(session.stop)
    session.sql(
        f"CREATE TABLE records USING parquet AS SELECT * FROM parquet.`{files(n)}`"
    )
    return (
        SqlSource(
            session, "records", features=_FEATURES, target="y", n_samples=n,
            memory=memory,
        ),
    )  # fmt: skip


# ------------------------------------------------------------------------ many workers

# Partial sums that one process adds up in a tree.
_FAN = 16


@dataclass(frozen=True)
class Costs:
    """Measured costs of a pass, and an assumed network.

    Parameters
    ----------
    row : float
        Seconds of a worker for a row.
    fixed, message : float
        Seconds of the client and the scheduler for a pass, and for each part.
    sent : float
        Bytes of a part's message and answer.
    latency : float
        Seconds of the network, one way.
    bandwidth : float
        Bytes per second into the client.
    """

    row: float
    fixed: float
    message: float
    sent: float
    latency: float = 5e-4
    bandwidth: float = 1.25e9

    def rows(self, n: float, workers: int) -> float:
        """Seconds in which workers add up their rows."""
        return n / workers * self.row

    def flat(self, parts: int) -> float:
        """Seconds in which one client asks all parts and adds up their sums."""
        network = 2 * self.latency + parts * self.sent / self.bandwidth
        return self.fixed + parts * self.message + network

    def tree(self, parts: int) -> float:
        """Seconds of the same if every process adds up the sums of a few."""
        if parts <= 1:
            return self.flat(parts)
        levels = math.ceil(math.log(parts, _FAN))
        network = 2 * self.latency + _FAN * self.sent / self.bandwidth
        return self.fixed + levels * (_FAN * self.message + network)


def costs_of(lines: list[Measured], rows: str) -> Costs | None:
    """The costs that lines have measured, if all that is needed was measured."""
    found = {
        (line.place["place"], line.place["rows"]): (
            dict(zip(METRICS, np.median(values, axis=0), strict=True)),
            line.place["n"],
        )
        for line, values in lines
        if len(values)
    }
    by_parts = sorted(
        (int(what.split()[0]), values)
        for (_, what), (values, _) in found.items()
        if what.endswith("parts")
    )
    if (_ONE, rows) not in found or len(by_parts) < 2:
        return None
    parts = np.array([count for count, _ in by_parts])
    spent = np.array([values["client s"] for _, values in by_parts])
    message, fixed = np.polyfit(parts, spent, 1)
    last = by_parts[-1][1]
    moved = 1000 * (last["out kB"] + last["back kB"]) / parts[-1]
    one, n = found[_ONE, rows]
    row = one["worker s"] / n
    return Costs(row, max(float(fixed), 0.0), float(message), float(moved))


def simulated(lines: list[Measured], n: float = 1e9) -> Iterator[str]:
    """A pass over a billion rows, by workers, from measured costs."""
    for rows in (_KEPT, _ANEW):
        costs = costs_of(lines, rows)
        if costs is None:
            continue
        yield (
            f"Simulated: a pass over {n:.0e} rows of 20 numbers, {rows}; "
            f"{costs.row * 1e9:.1f} ns a row, {costs.fixed * 1e3:.1f} ms a pass and "
            f"{costs.message * 1e3:.2f} ms and {costs.sent:,.0f} bytes a part were "
            f"measured; {costs.latency * 1e3:g} ms and {costs.bandwidth / 1e9:g} GB/s "
            "of the network are assumed. Two parts a worker."
        )
        yield "| workers | rows, s | flat, s | a pass, s | efficiency | in a tree, s |"
        yield "|---|---|---|---|---|---|"
        for workers in (1, 4, 16, 100, 400, 1600):
            parts = 2 * workers
            own, flat = costs.rows(n, workers), costs.flat(parts)
            efficiency = costs.rows(n, 1) / workers / (own + flat)
            tree = own + costs.tree(parts)
            cells = f"{own:.3g} | {flat:.3g} | {own + flat:.3g} | {efficiency:.0%}"
            yield f"| {workers} | {cells} | {tree:.3g} |"
        best = math.sqrt(n * costs.row / (2 * costs.message))
        yield f"A pass is fastest with {best:,.0f} workers, if sums are added flat."
        yield ""
