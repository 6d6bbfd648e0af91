"""What exact sums cost: ``python benchmarks/exact_sums.py``.

Prints the time of a pass over all records for the gradient sums of integers beside that
of floating sums, of tables of several kinds: the first pass, which also clips rows or
puts them on their grid, and later ones. Passes of both take turns, so that a busy
machine slows both. Takes a minute and 2 GB; set OMP_NUM_THREADS=1 for one thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, random_array

from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective
from skdp.sums._exact import on_grid
from skdp.sums._floating import GradientSum
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource

COLD, WARM = 3, 9


def tables() -> Iterator[tuple[str, Any, Loss]]:
    """Names, rows and losses."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 50))
    yield "1,000,000 x 50, float64", X, LogisticLoss()
    X = X.astype(np.float32)
    yield "1,000,000 x 50, float32", X, LogisticLoss()
    X = rng.random((60_000, 784))
    yield "60,000 x 784, 10 classes, float64", X, SoftmaxLoss(10)
    X = X.astype(np.float32)
    yield "60,000 x 784, 10 classes, float32", X, SoftmaxLoss(10)
    n, d = 60_000, 26_460
    X = csr_array(random_array((n, d), density=55 / d, rng=rng, format="csr"))
    X.sort_indices()
    yield "CSR 60,000 x 26,460, 55 entries a row", X, LogisticLoss()


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def readers_of(source: MemorySource, objective: LinearObjective) -> tuple[Any, Any]:
    """The floating sum and the exact one."""
    return GradientSum(source, objective), ClippedGradient(objective).reader(source)


def passes(
    X: Any, y: Any, objective: LinearObjective
) -> tuple[list[list[float]], list[list[float]]]:
    """Times of first and of later passes: floating ones, exact ones."""
    source = MemorySource(X, y)
    weights = np.random.default_rng(1).normal(size=objective.shape) / 20
    weights = on_grid(weights)
    cold: list[list[float]] = [[], []]
    warm: list[list[float]] = [[], []]
    for _ in range(COLD):
        for times, reader in zip(cold, readers_of(source, objective), strict=True):
            times.append(seconds(lambda reader=reader: reader(weights)))
    readers = readers_of(source, objective)
    for reader in readers:
        reader(weights)
    for _ in range(WARM):
        for times, reader in zip(warm, readers, strict=True):
            times.append(seconds(lambda reader=reader: reader(weights)))
    return cold, warm


def main() -> None:
    """Print a table."""
    print(f"{'milliseconds a pass':40}  {'floating':>8}  {'exact':>8}  ratio")
    for name, X, loss in tables():
        n, d = X.shape
        y = np.random.default_rng(2).integers(0, max(2, loss.n_outputs), n)
        objective = LinearObjective(
            loss=loss,
            n_samples=n,
            n_features=d,
            data_norm=float(np.median(np.sqrt((X[:1000] ** 2).sum(axis=1)))),
            adjacency="replace_one",
        )
        found = passes(X, y.astype(np.float64), objective)
        for which, times in zip(("first", "later"), found, strict=True):
            old, new = (1e3 * statistics.median(each) for each in times)
            ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
            print(f"{name:40}  {old:8.1f}  {new:8.1f}  {ratio:5.2f}  {which}")


if __name__ == "__main__":
    main()
