"""An epoch of clipped gradients beside plain epochs in NumPy, in turn.

Run ``python -m benchmarks.network_time``. An epoch is as many records as there are, of
random rows through 784-128-10 units. Ours are exact sums of clipped gradients, without
noise: of all records at once, whose rows are kept on their grid after the first time,
and of Poisson samples. The plain ones neither clip nor round, in double and in single
precision, by batches of 1,024.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks._commands import count
from skdp.losses import SoftmaxLoss
from skdp.losses._objective import NetworkObjective
from skdp.sums._network import ClippedNetworkGradient
from skdp.tables._memory import MemorySource

_BATCH = 1024
_SIZES = (784, 128, 10)


def plain_epoch(
    X: np.ndarray, labels: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]
) -> list[np.ndarray]:
    """Sums of gradients as anybody would write them, tanh and softmax."""
    sums = [np.zeros_like(weights) for weights, _ in layers]
    for start in range(0, len(X), _BATCH):
        run = slice(start, start + _BATCH)
        inputs = [X[run]]
        for weights, bias in layers[:-1]:
            inputs.append(np.tanh(inputs[-1] @ weights + bias))
        weights, bias = layers[-1]
        raw = inputs[-1] @ weights + bias
        delta = np.exp(raw - raw.max(axis=1, keepdims=True))
        delta /= delta.sum(axis=1, keepdims=True)
        delta[np.arange(len(delta)), labels[run]] -= 1
        for i in reversed(range(len(layers))):
            sums[i] += inputs[i].T @ delta
            if i:
                delta = (delta @ layers[i][0].T) * (1 - inputs[i] ** 2)
    return sums


def _exact_epoch(
    query: Any, reader: Any, samples: list[np.ndarray | None]
) -> list[np.ndarray]:
    return [query.total(reader, rows) for rows in samples]


def epochs(n: int, batch_size: int) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    rng = np.random.default_rng(0)
    X = rng.random((n, _SIZES[0])).astype(np.float32)
    labels = rng.integers(0, _SIZES[-1], n)
    norm = float(np.linalg.norm(X, axis=1).max())
    objective = NetworkObjective(
        loss=SoftmaxLoss(_SIZES[-1]),
        n_samples=n,
        n_features=_SIZES[0],
        hidden=_SIZES[1:-1],
        activation="tanh",
        data_norm=norm,
        input_factor=6 / norm,
        input_norm=6.0,
        adjacency="zero_out",
    )
    weights = rng.normal(size=objective.n_weights) / math.sqrt(_SIZES[0])
    query = ClippedNetworkGradient(objective, 1.0).at(weights)
    source = MemorySource(X, labels.astype(np.float64))
    times = -(-n // batch_size)
    samples = [np.flatnonzero(rng.random(n) < batch_size / n) for _ in range(times)]
    found: dict[str, Callable[[], object]] = {
        "all records": partial(_exact_epoch, query, query.open(source), [None]),
        f"samples of {batch_size}": partial(
            _exact_epoch, query, query.open(source), samples
        ),
    }
    for name, kind in (("double", np.float64), ("single", np.float32)):
        layers = [
            (rng.normal(size=shape).astype(kind), np.zeros(shape[1], kind))
            for shape in pairwise(_SIZES)
        ]
        found[f"plain, {name}"] = partial(plain_epoch, X.astype(kind), labels, layers)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the median seconds of each, and over those of the plain ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=count, default=60_000)
    parser.add_argument("--batch-size", type=count, default=4096)
    parser.add_argument("--rounds", type=count, default=5)
    options = parser.parse_args(arguments)
    timed = epochs(options.rows, options.batch_size)
    for epoch in timed.values():  # rows on their grid, pages of memory
        epoch()
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(options.rounds):
        for name, epoch in timed.items():
            start = time.perf_counter()
            epoch()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    print("| epoch | s | over plain, double | over plain, single |\n|---|---|---|---|")
    for name, own in medians.items():
        over = [own / medians[f"plain, {kind}"] for kind in ("double", "single")]
        print(f"| {name} | {own:.3f} | {over[0]:.2f} | {over[1]:.2f} |")


if __name__ == "__main__":
    main()
