"""Private boosting beside scikit-learn's histogram boosting, timed in turn.

Run ``python -m benchmarks.boosting_time``. As many trees for both; those of
scikit-learn once with its own most leaves, and once with as many as ours have. Seconds
are those of a whole fit to a table of floats in memory; those of all processors
together are told beside them, which depend less on who else is there. Ours has as many
threads as there are processors at hand (``taskset``), that of scikit-learn
OMP_NUM_THREADS of them, or all.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks._commands import count
from skdp import DPGradientBoostingClassifier
from skdp._row_threads import n_threads_for
from skdp.columns import Range

_EPSILON = 1.0


def table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Even columns in [-1, 1], and labels of a curve and an interaction."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    raw = 2 * np.sin(3 * X[:, 0]) + 3 * X[:, 1] * X[:, 2]
    return X, (rng.random(n) < 1 / (1 + np.exp(-raw))).astype(int)


def ours(n_trees: int, init: str = "linear") -> Any:
    """Every default but the number of trees, and the start."""
    given: dict[str, Any] = {"columns": Range(-1, 1), "classes": [0, 1], "init": init}
    return DPGradientBoostingClassifier(_EPSILON, n_estimators=n_trees, **given)


def theirs(n_trees: int, max_leaf_nodes: int = 31) -> Any:
    """Every default but the number of trees, and of leaves."""
    return HistGradientBoostingClassifier(
        max_iter=n_trees, max_leaf_nodes=max_leaf_nodes, early_stopping=False
    )


def in_turn(fits: dict[str, Callable[[], object]], n_rounds: int) -> list[list[float]]:
    """Seconds of each, round by round, so that drift hits all."""
    return [[_seconds(*each) for each in fits.items()] for _ in range(n_rounds)]


def _seconds(name: str, fit: Callable[[], object]) -> float:
    start, of_all = time.perf_counter(), time.process_time()
    fit()
    seconds, of_all = time.perf_counter() - start, time.process_time() - of_all
    print(f"  {name}: {seconds:.3g} s, of all processors {of_all:.3g} s", flush=True)
    return seconds


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each, with the ratio of ours to it."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=count, default=1_000_000)
    parser.add_argument("--columns", type=count, default=20)
    parser.add_argument("--trees", type=count, default=300)
    parser.add_argument("--rounds", type=count, default=3)
    options = parser.parse_args(arguments)
    X, y = table(options.rows, options.columns)
    # Compiled before the clock runs, and the depth that the rules decide.
    for warm in (ours(2), ours(2, "constant"), theirs(2)):
        warm.fit(X[:1000], y[:1000])
    depth = ours(1).forecast(*X.shape).solver_params["max_depth"]
    models = {
        f"skdp, {2**depth} leaves, depth {depth}": ours(options.trees),
        "skdp, from a constant": ours(options.trees, "constant"),
        "HistGradientBoosting, 31 leaves": theirs(options.trees),
        f"HistGradientBoosting, {2**depth} leaves": theirs(options.trees, 2**depth),
    }
    fits = {name: partial(model.fit, X, y) for name, model in models.items()}
    threads = n_threads_for(len(X)), os.environ.get("OMP_NUM_THREADS", "all")
    shape = " x ".join(map(str, X.shape))
    print(f"{shape}, {options.trees} trees, threads: {threads}", flush=True)
    rounds = in_turn(fits, options.rounds)
    for name, seconds in zip(models, zip(*rounds, strict=True), strict=True):
        ratios = sorted(
            each[0] / one for each, one in zip(rounds, seconds, strict=True)
        )
        print(
            f"{name}: {statistics.median(seconds):.3g} s, ours over it "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
