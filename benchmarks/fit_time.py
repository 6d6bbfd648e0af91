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
import pandas as pd
from skdp import DPGradientBoostingClassifier, DPLogisticRegression, DPMLPClassifier
from skdp.columns import Categories, Range
kind, n, d, times = sys.argv[1], *(int(x) for x in sys.argv[2:])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, d)) / np.sqrt(d)
y = (X[:, :10].sum(axis=1) > 0).astype(int)
model = {
    "logistic": DPLogisticRegression,
    "columns": DPLogisticRegression,
    "boosting": DPGradientBoostingClassifier,
    "network": DPMLPClassifier,
}[kind](classes=[0, 1])
if kind != "logistic":
    X = pd.DataFrame(X, columns=[f"x{i}" for i in range(d)])
    X["place"] = pd.Series(rng.choice(["a", "b", "c"], n), dtype=object)
    declared = {name: Range(-1.0, 1.0) for name in X.columns[:-1]}
    declared["place"] = Categories(["a", "b", "c"])
    model.set_params(columns=declared)
if times > 1:
    model.fit(X, y)
start = time.process_time()
for _ in range(times):
    model.fit(X, y)
print((time.process_time() - start) / times)
"""
# Kind, rows, columns, fits in a process: Adult's shape, a large table, mixed columns.
TABLES = {
    "logistic regression, 36,177 x 104": ("logistic", 36_177, 104, 10),
    "logistic regression, 1,000,000 x 50": ("logistic", 1_000_000, 50, 1),
    "the same with columns, 36,177 x 14": ("columns", 36_177, 13, 10),
    "boosting, 36,177 x 14": ("boosting", 36_177, 13, 3),
    "network, 5,000 x 14": ("network", 5000, 13, 1),
}


def seconds(checkout: Path, table: tuple[str, int, int, int]) -> float:
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
