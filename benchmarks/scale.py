"""What a pass takes in every place, and what ten billion rows take from that.

Run ``python -m benchmarks.scale`` at the root of a checkout (two minutes). Each rate is
the processor's time of one thread for one number of a table, in one run; a pass is one
gradient sum over all rows. The second table multiplies: it is arithmetic and no
measurement, and leaves out what a cluster adds. Prints the tables of ``docs/scale.md``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.dataset as ds

from benchmarks._made_up import write_made_up
from skdp import DPLogisticRegression, ParquetSource
from skdp.sums import _gradient_sum

_FEATURES = 20
_FEW, _MANY = 2, 12
# What is multiplied: rows, processors, bytes of a number in Parquet.
_ROWS, _PROCESSORS, _BYTES = 10**10, 256, 4


def _spent(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _a_pass(source: Any, most_kept: int) -> tuple[float, float]:
    """Seconds of the first pass and of a later one, from fits of few and many."""

    def fitted(n_steps: int) -> Any:
        return DPLogisticRegression(
            1.0,
            delta=1e-9,
            solver="noisy_gd",
            solver_params={"n_steps": n_steps},
            classes=[0, 1],
        ).fit(source)

    with mock.patch.object(_gradient_sum, "_MOST_KEPT", most_kept):
        fitted(1)  # compiles
        few, many = (_spent(lambda n=n: fitted(n)) for n in (_FEW, _MANY))
    later = (many - few) / (_MANY - _FEW)
    return few - (_FEW - 1) * later, later


def _decoded(folder: Path) -> None:
    for _ in ds.dataset(folder).to_batches(batch_size=1 << 16, use_threads=False):
        pass


def measured(n_rows: int) -> dict[str, float]:
    """Nanoseconds a number, by place."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_made_up(folder, n_rows, _FEATURES)
        files = ParquetSource(name, target="y", n_samples=n_rows)
        first, kept = _a_pass(files, 1 << 30)
        _, read = _a_pass(files, 0)
        plain = min(_spent(lambda: _decoded(folder)) for _ in range(3))
    each = 1e9 / n_rows / _FEATURES
    return {
        "Parquet, decoded and dropped": plain * each,
        "Parquet, first pass": first * each,
        "Parquet, read anew": read * each,
        "rows kept on their grid": kept * each,
    }


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rates = measured(parser.parse_args().rows)
    print("| a pass over | ns a number |\n|---|---|")
    for place, rate in rates.items():
        print(f"| {place} | {rate:.2f} |")
    print(f"\n{_ROWS:,} rows of {_FEATURES} numbers, {_PROCESSORS} processors:\n")
    numbers = _ROWS * _FEATURES
    print(f"a pass reads {numbers * _BYTES / 1e9:.0f} GB; on grids rows take as much")
    print("| passes | read anew, s | first read, then kept, s |\n|---|---|---|")
    for passes in (1, 30, 100, 300):
        anew = passes * rates["Parquet, read anew"] * numbers / 1e9 / _PROCESSORS
        later = (passes - 1) * rates["rows kept on their grid"]
        kept = rates["Parquet, first pass"] + later
        kept *= numbers / 1e9 / _PROCESSORS
        print(f"| {passes} | {anew:.0f} | {kept:.0f} |")


if __name__ == "__main__":
    main()
