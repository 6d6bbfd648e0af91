"""Default fits of this checkout and of another, timed in turn.

Run ``python -m benchmarks.fit_time OTHER`` at the root of a checkout.

Each round fits in a fresh process of either checkout; ratios are taken round by round,
so that a machine whose speed drifts does not decide.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

_FIT = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from skdp import DPLogisticRegression
n, d, times = (int(x) for x in sys.argv[1:4])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, d)) / np.sqrt(d)
y = (X[:, :10].sum(axis=1) > 0).astype(int)
if times > 1:
    DPLogisticRegression(classes=[0, 1]).fit(X, y)
start = time.process_time()
for _ in range(times):
    DPLogisticRegression(classes=[0, 1]).fit(X, y)
print((time.process_time() - start) / times)
"""
# Rows, columns, fits in a process: the shape of Adult, and a large table.
TABLES = {"36,177 x 104": (36_177, 104, 10), "1,000,000 x 50": (1_000_000, 50, 1)}


def seconds(checkout: Path, table: tuple[int, int, int]) -> float:
    """Processor time of one default fit in a fresh process."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", _FIT, *map(str, table)]
    done = subprocess.run(
        arguments,
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> None:
    """Print the ratio of this checkout to the other for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    here = Path(__file__).parents[1]
    for name, table in TABLES.items():
        pairs = [
            (seconds(here, table), seconds(options.other, table))
            for _ in range(options.rounds)
        ]
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        print(
            f"{name}: {statistics.median(x for x, _ in pairs):.3f} s here, "
            f"{statistics.median(x for _, x in pairs):.3f} s there, ratio "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )


if __name__ == "__main__":
    main()
