"""Time of one gradient sum over a table in PostgreSQL: added up there, and fetched.

Run ``python -m benchmarks.pushed_sums_postgres --uri postgresql://localhost/postgres``
at the root of a checkout; it makes a schema, and drops it. Beside both stand plain sums
of as many expressions in the same transaction: of the columns, and of the gradient as
one would write it by hand in doubles, which is not the same for every order of rows.
All take turns, and the sums are compared bit for bit. Prints the table of
``docs/large_data.md``, part "PostgreSQL".
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from benchmarks.pushed_sums import Fetched, stream, table
from skdp.data import MemorySource
from skdp.io import SqlSource
from skdp.losses import LogisticLoss
from skdp.objectives import LinearObjective
from skdp.queries import _exact_gradient
from skdp.queries._exact_gradient import ExactGradientSum
from skdp.queries._grid import on_grid

_FEATURES, _CLIP = 20, 0.5
_SCHEMA = "skdp_benchmark"


@contextmanager
def stored(uri: str, made: pa.Table) -> Iterator[None]:
    """The table in a schema of its own."""
    with dbapi.connect(uri, autocommit=True) as link, link.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {_SCHEMA}")
        try:
            cursor.adbc_ingest("records", made, db_schema_name=_SCHEMA)
            cursor.execute(f"VACUUM ANALYZE {_SCHEMA}.records")
            yield
        finally:
            cursor.execute(f"DROP SCHEMA {_SCHEMA} CASCADE")


def by_hand(weights: np.ndarray) -> str:
    """The clipped gradient of a logistic loss, as one writes it."""
    own = [f"CAST(x{j} AS double precision)" for j in range(_FEATURES)]
    norm = "sqrt(" + " + ".join(f"{x} * {x}" for x in own) + ")"
    products = [
        f"{w!r} * {x}" for w, x in zip(weights.ravel().tolist(), own, strict=False)
    ]
    raw = f"({' + '.join(products)}) * s + {float(weights[-1, 0])!r}"
    residual = f"least(greatest(1 / (1 + exp(-({raw}))) - y, {-_CLIP}), {_CLIP})"
    rows = f"SELECT *, least(1, 1 / {norm}) AS s FROM {_SCHEMA}.records OFFSET '0'"
    units = f"SELECT *, {residual} AS r FROM ({rows}) AS a OFFSET '0'"
    sums = ", ".join(f"SUM(r * s * x{j})" for j in range(_FEATURES))
    return f"SELECT SUM(r), {sums} FROM ({units}) AS b"


def of_columns() -> str:
    """Plain sums of as many columns."""
    sums = [f"SUM(CAST(x{j} AS double precision))" for j in range(_FEATURES)]
    return f"SELECT SUM(y), {', '.join(sums)} FROM {_SCHEMA}.records"


def times(jobs: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Seconds of each, the median of turns; the first turn is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(turns + 1):
        for name, call in jobs.items():
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(found[1:]) for name, found in taken.items()}


def measured(
    uri: str, n: int, turns: int, n_workers: int, held: np.ndarray
) -> dict[str, float]:
    """Seconds of a pass in each way, within one transaction."""
    option = quote(f"-c max_parallel_workers_per_gather={n_workers}")
    mark = "&" if "?" in uri else "?"
    weights = some_weights()
    with dbapi.connect(f"{uri}{mark}options={option}", autocommit=True) as link:
        source = SqlSource(link, f"{_SCHEMA}.records", target="y", n_samples=n)
        pushed = ExactGradientSum(stream(source), objective(n), _CLIP)
        fetched = ExactGradientSum(Fetched(stream(source)), objective(n), _CLIP)
        both = SqlSource(
            link, f"{_SCHEMA}.records", target="y", n_samples=n, n_readers=2
        )
        by_two = ExactGradientSum(Fetched(stream(both)), objective(n), _CLIP)
        row = source._engine.row

        def compared() -> dict[str, float]:
            assert np.array_equal(pushed(weights), held)
            assert np.array_equal(fetched(weights), held)
            assert np.array_equal(by_two(weights), held)
            return times(
                {
                    "sums of the columns": lambda: row(of_columns()),
                    "gradient by hand": lambda: row(by_hand(weights)),
                    "added up there": lambda: pushed(weights),
                    "fetched": lambda: fetched(weights),
                    "fetched by two readers": lambda: by_two(weights),
                },
                turns,
            )

        found: dict[str, float] = source.during(lambda: both.during(compared))
        return found


def some_weights() -> np.ndarray:
    """Of every feature and of the intercept."""
    return on_grid(np.random.default_rng(1).normal(size=(_FEATURES + 1, 1)))


def objective(n: int) -> LinearObjective:
    """A logistic loss of rows of norm 1, which half of them are longer than."""
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=_FEATURES,
        data_norm=1.0,
        adjacency="replace_one",
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", default="postgresql://localhost/postgres")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    n, turns = given.rows, given.turns
    _exact_gradient._MOST_KEPT = 0  # nothing is kept, however small
    made = table(n)
    X = np.column_stack([made.column(f"x{j}") for j in range(_FEATURES)])
    memory = MemorySource(X, made.column("y").to_numpy().astype(float))
    held = ExactGradientSum(memory, objective(n), _CLIP)(some_weights())
    with stored(given.uri, made):
        found = {k: measured(given.uri, n, turns, k, held) for k in (0, 2)}
    print("| a pass | seconds | with two workers |\n|---|---|---|")
    for name in found[0]:
        print(f"| {name} | {found[0][name]:.2f} | {found[2][name]:.2f} |")
    for name in ("gradient by hand", "sums of the columns"):
        ratios = [found[k]["added up there"] / found[k][name] for k in (0, 2)]
        print(f"added up there, over {name}: {ratios[0]:.2f}, {ratios[1]:.2f}")


if __name__ == "__main__":
    main()
