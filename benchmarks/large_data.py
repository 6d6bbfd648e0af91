"""Fits of made-up tables in Parquet that are not held: time, and peak memory.

Run ``python -m benchmarks.large_data --rows 100000 1000000 --steps 30`` at the root of
a checkout; a hundred million rows take 8 GB of disk and some twenty minutes. Every size
is made and fitted in a process of its own, in full passes. Prints the table of
``docs/large_data.md``, part "Where the rows go".
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow.dataset as ds

from benchmarks._made_up import write_made_up
from skdp import DPLogisticRegression, ParquetSource

_FEATURES = 20


def read_alone(folder: str) -> float:
    """Seconds of reading and dropping all batches."""
    start = time.perf_counter()
    for _ in ds.dataset(folder).to_batches(batch_size=1 << 16, use_threads=False):
        pass
    return time.perf_counter() - start


def measured(n: int, steps: int) -> dict[str, float]:
    """Seconds and megabytes of one size."""
    model = DPLogisticRegression(
        1.0, solver="noisy_gd", solver_params={"n_steps": steps}, classes=[0, 1]
    )
    with tempfile.TemporaryDirectory() as folder:
        write_made_up(folder, n, _FEATURES, n_files=max(1, n // 10_000_000))
        source = ParquetSource(folder, target="y", n_samples=n)
        start = time.perf_counter()
        model.fit(source)
        fit = time.perf_counter() - start
        test = tempfile.mkdtemp(dir=folder)
        write_made_up(test, 100_000, _FEATURES, seed=1)
        score = model.score(ParquetSource(test, target="y", n_samples=100_000))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"fit": fit, "peak": peak, "read": read_alone(folder), "score": score}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--one", action="store_true", help="in this process")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.rows[0], given.steps)))
        return
    print("| rows | fit s | a pass and row, ns | a plain read s | peak MB | accuracy |")
    print("|---|---|---|---|---|---|")
    for n in given.rows:
        words = ["--one", "--rows", str(n), "--steps", str(given.steps)]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.large_data", *words],
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        each = np.format_float_positional(
            found["fit"] / n / given.steps * 1e9, precision=3, fractional=False
        )
        print(
            f"| {n:,} | {found['fit']:.1f} | {each} | {found['read']:.2f} | "
            f"{found['peak']:.0f} | {found['score']:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
