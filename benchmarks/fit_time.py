"""Default fits of this checkout and of another, timed in turn.

Run ``python -m benchmarks.fit_time OTHER`` at the root of a checkout.

Each round fits in a fresh process of either checkout; ratios are taken round by round,
so that a machine whose speed drifts does not decide. Memory is the peak of the process,
the table included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

_FIT = """
import resource, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import pandas as pd
from scipy.sparse import random_array
from skdp import DPGradientBoostingClassifier, DPLogisticRegression, DPMLPClassifier
from skdp.columns import Categories, Range
from skdp.io import ParquetSource
kind, n, d, times, path = sys.argv[1], *(int(x) for x in sys.argv[2:5]), sys.argv[5]
rng = np.random.default_rng(0)
model = {
    "boosting": DPGradientBoostingClassifier,
    "network": DPMLPClassifier,
}.get(kind, DPLogisticRegression)(classes=[0, 1])
declared = {f"x{i}": Range(-1.0, 1.0) for i in range(d)}
if kind == "parquet":
    # A default fit reads so many rows anew at each of 200 steps.
    few = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}}
    model.set_params(columns=declared, **few)
    X = ParquetSource(path, target="y", n_samples=n)
    args = (X,)
elif kind == "csr":
    X = random_array((n, d), density=0.02, format="csr", rng=rng)
    args = X, (np.asarray(X[:, :10].sum(axis=1)).ravel() > 0.05).astype(int)
else:
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (X[:, :10].sum(axis=1) > 0).astype(int)
    if kind != "logistic":
        X = pd.DataFrame(X, columns=list(declared))
        X["place"] = pd.Series(rng.choice(["a", "b", "c"], n), dtype=object)
        declared["place"] = Categories(["a", "b", "c"])
        model.set_params(columns=declared)
    args = X, y
if times > 1:
    model.fit(*args)
start = time.process_time()
for _ in range(times):
    model.fit(*args)
seconds = (time.process_time() - start) / times
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
# Kind, rows, columns, fits in a process: Adult's shape, a large table, mixed columns.
TABLES = {
    "logistic regression, 36,177 x 104": ("logistic", 36_177, 104, 10),
    "logistic regression, 1,000,000 x 50": ("logistic", 1_000_000, 50, 1),
    "the same of sparse rows, 1,000,000 x 200": ("csr", 1_000_000, 200, 1),
    "the same with columns, 36,177 x 14": ("columns", 36_177, 13, 10),
    "three steps over Parquet, 10,000,000 x 4": ("parquet", 10_000_000, 4, 1),
    "boosting, 36,177 x 14": ("boosting", 36_177, 13, 3),
    "network, 5,000 x 14": ("network", 5000, 13, 1),
}


def cost(
    checkout: Path, table: tuple[str, int, int, int], path: str
) -> tuple[float, float]:
    """Processor time, and peak memory in GB, of a default fit in a fresh process."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", _FIT, *map(str, table), path]
    done = subprocess.run(
        arguments,
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, kilobytes = map(float, done.stdout.split())
    return seconds, kilobytes / 1e6


def write_parquet(path: Path, n_rows: int, n_columns: int) -> None:
    """Write a table of numbers in [-1, 1] with a target."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, n_columns))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(n_columns)])
    frame["y"] = (X.sum(axis=1) + rng.normal(size=n_rows) > 0).astype(np.int64)
    frame.to_parquet(path)


def _compared(name: str, pairs: list[tuple[float, float]], unit: str) -> str:
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    here, there = (statistics.median(values) for values in zip(*pairs, strict=True))
    return (
        f"{name}: {here:.3f} {unit} here, {there:.3f} {unit} there, ratio "
        f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
    )


def main() -> None:
    """Print the ratio of this checkout to the other for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="part of a table's name")
    options = parser.parse_args()
    here = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        for name, table in TABLES.items():
            if options.only not in name:
                continue
            path = Path(folder) / "table.parquet"
            if table[0] == "parquet":
                write_parquet(path, table[1], table[2])
            pairs = [
                (cost(here, table, str(path)), cost(options.other, table, str(path)))
                for _ in range(options.rounds)
            ]
            times = [(ours[0], theirs[0]) for ours, theirs in pairs]
            memory = [(ours[1], theirs[1]) for ours, theirs in pairs]
            print(_compared(name, times, "s"))
            print(_compared("  memory", memory, "GB"))


if __name__ == "__main__":
    main()
