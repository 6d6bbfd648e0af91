"""Users of sources: what their passes take, and that the bits are those of memory.

Run ``python -m benchmarks.users_of_sources`` at the root of a checkout. Prints the
table of ``docs/users.md``: seconds of one fit of `noisy_gd`, of made-up rows, the
shortest of some, and whether its coefficients are those of the same rows in memory, bit
for bit. With ``--declared`` numbers are declared, and the steps are those of the rules.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skdp import DPLogisticRegression
from skdp.io import ParquetSource, SqlSource

N_FEATURES, N_STEPS = 10, 30
FEATURES = [f"x{j}" for j in range(N_FEATURES)]


def rows_of(n_users: int, n_rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows of users in no order, at least one of each."""
    rng = np.random.default_rng(seed)
    others = rng.integers(0, n_users, n_rows - n_users)
    ids = rng.permutation(np.concatenate([np.arange(n_users), others]))
    frame = pd.DataFrame(rng.normal(size=(n_rows, N_FEATURES)) / 4, columns=FEATURES)
    frame["y"] = (frame["x0"] > 0).astype(np.int64)
    return frame.assign(number=ids, text=[f"patient {i}" for i in ids])


def models(is_declared: bool) -> Callable[..., DPLogisticRegression]:
    """The one that is fitted, by what is protected."""

    def model(unit: str = "user") -> DPLogisticRegression:
        known = {"columns": dict.fromkeys(FEATURES, (-1, 1))}
        steps = {"solver": "noisy_gd", "solver_params": {"n_steps": N_STEPS}}
        return DPLogisticRegression(
            epsilon=1.0,
            classes=[0, 1],
            privacy_unit=unit,
            random_state=0,
            **(known if is_declared else steps),
        )

    return model


def timed(fit: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Seconds of the shortest of some calls, and what came of the last one."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = fit()
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def places(frame: pd.DataFrame, folder: Path) -> dict[str, Callable[..., Any]]:
    """Sources of a table, by where they are."""
    import duckdb

    frame.to_parquet(folder / "rows.parquet", index=False)
    connection = duckdb.connect(str(folder / "rows.duckdb"))
    connection.register("given", frame)
    connection.execute("CREATE TABLE visits AS SELECT * FROM given")
    return {
        "Parquet": lambda **facts: ParquetSource(folder / "rows.parquet", **facts),
        "DuckDB": lambda **facts: SqlSource(connection, "visits", **facts),
    }


def main() -> None:
    """Print a line for each place and kind of id."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=50_000)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--declared", action="store_true", help="columns=")
    given = parser.parse_args()
    model = models(given.declared)
    warnings.simplefilter("ignore")
    frame = rows_of(given.users, given.rows)
    facts = {"target": "y", "features": FEATURES}
    print("| ids | memory, s | place | fit, s | of rows as records, s | same bits |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        sources = places(frame, Path(folder))
        for ids in ("number", "text"):
            seconds, here = timed(
                lambda ids=ids: model().fit(
                    frame[FEATURES], frame["y"], groups=frame[ids]
                ),
                given.repeats,
            )
            for name, source in sources.items():
                own = source(groups=ids, n_samples=given.users, **facts)
                there_seconds, there = timed(
                    lambda own=own: model().fit(own), given.repeats
                )
                rows = source(n_samples=given.rows, **facts)
                plain, _ = timed(
                    lambda rows=rows: model("record").fit(rows), given.repeats
                )
                is_same = here.coef_.tobytes() == there.coef_.tobytes()
                print(
                    f"| {ids} | {seconds:.2f} | {name} | {there_seconds:.2f} "
                    f"| {plain:.2f} | {'yes' if is_same else 'NO'} |"
                )


if __name__ == "__main__":
    main()
