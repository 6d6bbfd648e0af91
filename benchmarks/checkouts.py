"""Fits and sums of this checkout and of another, timed in turn.

Each run works in a fresh process of either checkout; ratios are taken run by run, so
that a machine whose speed drifts does not decide. Memory is the peak of the process,
the table included. Beside a sum is how far it is from that of the other checkout, over
the noise of one Gaussian answer of multiplier 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._runner import Line, benchmark

_HERE = Path(__file__).parents[1]

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


def in_process(checkout: Path, script: str, *words: str) -> str:
    """What a script prints in a fresh process of a checkout, on one thread."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def write_parquet(path: Path, n_rows: int, n_columns: int) -> None:
    """Write a table of numbers in [-1, 1] with a target."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, n_columns))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(n_columns)])
    frame["y"] = (X.sum(axis=1) + rng.normal(size=n_rows) > 0).astype(np.int64)
    frame.to_parquet(path)


@benchmark("fit_time", runs=7, keeps=False)
def fits(other: str = str(_HERE)) -> Iterator[Line]:
    """Processor time and peak memory of default fits; `other` is a checkout."""
    for name, table in TABLES.items():
        yield Line(
            place={"fit": name},
            method="here",
            measure=partial(_fits, Path(other), table),
            metrics=("s", "other s", "ratio", "GB", "other GB"),
            statistic="median",
        )


def _fits(
    other: Path, table: tuple[str, int, int, int], runs: Iterable[int]
) -> Iterator[list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        if table[0] == "parquet":
            write_parquet(path, table[1], table[2])
        for _ in runs:
            words = [*map(str, table), str(path)]
            (s, kb), (other_s, other_kb) = (
                map(float, in_process(checkout, _FIT, *words).split())
                for checkout in (_HERE, other)
            )
            yield [s, other_s, s / other_s, kb / 1e6, other_kb / 1e6]
