"""How sensitive the two constants of noisy_gd's defaults are.

Bundled data sets only, and seeds from 100 up: none of the reported figures uses them.
"""

from __future__ import annotations

import numpy as np

from benchmarks._accuracy import mean_and_error, scores
from benchmarks._commands import Commands
from benchmarks._data import load, split
from skdp.linear_model import DPLogisticRegression
from skdp.losses import SoftmaxLoss
from skdp.solvers import _descent

SEEDS = range(100, 108)


def add(commands: Commands) -> None:
    """Make it a command."""
    commands.add("defaults", "the constants behind the defaults", lambda options: run())


def run() -> None:
    """Print accuracy and log-loss for multiples of the constants."""
    print("| data | adjacency | epsilon | margin noise | clip | accuracy | log-loss |")
    print("|---|---|---|---|---|---|---|")
    margin, clip = _descent.MARGIN_NOISE, SoftmaxLoss.noisy_clip
    try:
        for data in ("breast_cancer", "digits"):
            X, y = load(data)
            clips = [0.25, 0.5, 1.0, 1.5] if data == "digits" else [clip]
            for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
                for tried in clips:
                    _descent.MARGIN_NOISE = factor * margin
                    SoftmaxLoss.noisy_clip = tried
                    _print_rows(data, X, y, factor * margin, tried)
    finally:
        _descent.MARGIN_NOISE, SoftmaxLoss.noisy_clip = margin, clip


def _print_rows(
    data: str, X: np.ndarray, y: np.ndarray, margin: float, clip: float
) -> None:
    for adjacency in ("replace_one", "zero_out"):
        for epsilon in (0.1, 1.0):
            model = DPLogisticRegression(
                epsilon, delta=1e-6, adjacency=adjacency, classes=np.unique(y)
            )
            results = [scores(model, split(X, y, seed)) for seed in SEEDS]
            accuracy, loss, _ = (
                mean_and_error(column) for column in zip(*results, strict=True)
            )
            print(
                f"| {data} | {adjacency} | {epsilon} | {margin:.2g} | {clip:.2g} "
                f"| {accuracy[0]:.3f} ± {accuracy[1]:.3f} "
                f"| {loss[0]:.3f} ± {loss[1]:.3f} |",
                flush=True,
            )
