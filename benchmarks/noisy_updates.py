"""Noise in every update against noise once: Figure 5 of the bolt-on paper.

Run ``python -m benchmarks.noisy_updates`` at the root of a checkout, with
``--postgres postgresql://...`` for aggregates in a server too. Prints times of descents
with noise in every update over those of `bolt_on`, and what all of them cost in truth.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import _noisy_transitions as noisy
from benchmarks._in_database import (
    ALPHA,
    EPSILON,
    FEATURES,
    fill_postgres,
    make_table,
    opened,
    processor_seconds,
    run,
)
from benchmarks._papers import _bolt_on as paper
from benchmarks._papers._privacy import (
    classical_multiplier,
    gaussian_epsilon,
    sampled_gaussian_epsilon,
)
from skdp.io._reading import Labels
from skdp.io._rows import StreamRows
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._bolt_on import State, Updates
from skdp.papers._bolt_on_postgres import PlainDescent
from skdp.privacy.noise._noise import NoiseSource
from skdp.tables._memory import MemorySource, in_order
from skdp.tables._source import Source

_RUNS, _KEY = 4, "00000001"
# Epochs and batch sizes of the figure, and rows (those of MNIST).
_SETTINGS, _ROWS = ((1, 1), (20, 10), (20, 500)), 60_000


@dataclass(frozen=True)
class Method:
    """A way to train, and what it says and costs."""

    name: str
    kind: int
    scale: float
    steps: Callable[[int], float]
    claimed: float
    honest: float


def methods(m: int, passes: int, batch: int) -> list[Method]:
    """All of Figure 5 that add noise, one binary model; delta = 1 / m^2."""
    delta = 1 / m**2
    ours = paper.psgd_strongly_convex(passes, batch, ALPHA)
    exact = paper.exact_sensitivity(m, ours, beta=1 + ALPHA)
    printed = paper.printed_sensitivity(m, batch, ALPHA)
    deviation = printed * classical_multiplier(EPSILON, delta)
    published = gaussian_epsilon(np.array([deviation]), exact, delta)
    scs13 = 2 * passes / EPSILON
    bst14 = paper.bst14_deviation(m, passes, batch, EPSILON, delta)
    seen = gaussian_epsilon(np.full(passes, bst14), 2.0, delta)
    decreasing = paper.bst14_strongly_convex(passes, batch, bst14, ALPHA).step
    root = paper.scs13(passes, batch, EPSILON, ALPHA).step
    return [
        Method("bolt-on", noisy.NONE, 0.0, ours.step, EPSILON, EPSILON),
        Method("published bolt-on", noisy.NONE, 0.0, ours.step, EPSILON, published),
        Method("SCS13", noisy.SPHERICAL, scs13, root, EPSILON, EPSILON),
        Method("BST14", noisy.GAUSSIAN, bst14, decreasing, EPSILON, seen),
    ]


def drawn_bst14(m: int, passes: int, batch: int) -> float:
    """Upper bound on what BST14 costs where its batches are drawn."""
    delta = 1 / m**2
    deviation = paper.bst14_deviation(m, passes, batch, EPSILON, delta)
    count = passes * m // batch
    return sampled_gaussian_epsilon(deviation / 2, batch / m, count, delta)


def steps_of(method: Method, n: int, passes: int, batch: int) -> np.ndarray:
    """Of shape (n_passes, updates_per_pass)."""
    per_pass = -(-n // batch)
    steps = [method.steps(t + 1) for t in range(passes * per_pass)]
    return np.array(steps).reshape(passes, per_pass)


def objective_of(n: int) -> LinearObjective:
    """Of the paper's regularised model."""
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=FEATURES,
        data_norm=1.0,
        adjacency="replace_one",
        alpha=ALPHA,
        fit_intercept=False,
    )


def last_of(steps: np.ndarray) -> np.ndarray:
    """Shares of the last iterate alone."""
    shares = np.zeros(steps.shape)
    shares[-1, -1] = 1.0
    return shares


def train(source: Source, orders: list[Any], method: Method, batch: int) -> None:
    """All passes over a source, by compiled transitions."""
    n, passes = source.n_samples, len(orders)
    steps = steps_of(method, n, passes, batch)
    radius = 1 / ALPHA
    updates = Updates(steps, last_of(steps), batch, radius)
    state, weights = State(objective_of(n), updates), np.zeros((1, FEATURES))
    gradient = np.zeros_like(weights)
    for j, order in enumerate(orders):
        start = 0
        for block, rows in in_order(source, order):
            if method.kind == noisy.NONE:
                state.transition(block, rows)
                continue
            noisy.noisy_pass(
                np.ascontiguousarray(block.X), block.y, rows, (start, n), 1.0,
                steps[j], batch, ALPHA, radius, method.kind, method.scale, weights,
                gradient,
            )  # fmt: skip
            start += len(rows)


def times_of(calls: list[Callable[[], Any]]) -> list[float]:
    """Median seconds of the processor for each call; they take turns.

    The first turn, which compiles, is left out.
    """
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(_RUNS + 1):
        for call, own in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if turn:
                own.append(time.process_time() - start)
    return [statistics.median(own) for own in times]


_RECORDS = (
    "SELECT id, "
    + ", ".join(f"CAST(x{j} AS double precision) AS x{j}" for j in range(FEATURES))
    + ", CAST(y AS double precision) AS y FROM bolt_on_records"
)


def asked_of(n: int, passes: int, batch: int, method: Method | None = None) -> Any:
    """What the aggregate is asked."""
    chosen = methods(n, passes, batch)[0] if method is None else method
    steps = steps_of(chosen, n, passes, batch)
    return PlainDescent(
        steps, last_of(steps), (_KEY,) * passes, batch, n, FEATURES, ALPHA,
        1 / ALPHA, 1.0, None, LogisticLoss().form, (0.0, 0.0),
    )  # fmt: skip


def in_postgres(
    postgres: str, texts: dict[str, noisy.NoisyText], runs: int = 3
) -> list[float]:
    """Median seconds of the server's processor for each text; of this machine."""
    from adbc_driver_postgresql import dbapi

    n, found = next(iter(texts.values())).asked.n_samples, []
    with dbapi.connect(postgres) as link:
        fill_postgres(link, n, "TEMP")
        (server,) = run(link, "SELECT pg_backend_pid()")
        for text in texts.values():
            run(link, "SAVEPOINT before")
            for statement in text.statements:
                run(link, statement)
            times = []
            for _ in range(runs):
                start = processor_seconds(server)
                run(link, text.call)
                times.append(processor_seconds(server) - start)
            run(link, "ROLLBACK TO SAVEPOINT before")
            found.append(statistics.median(times))
    return found


def noise(n: int, postgres: str | None, postgres_rows: int) -> None:
    """Print both tables of Figure 5."""
    rng = np.random.default_rng(0)
    X = ((rng.random((n, FEATURES)) - 0.5) * 0.49).astype(np.float32)
    memory = MemorySource(X, (X[:, 0] > 0).astype(float))
    order = rng.permutation(n)
    each = exact_noise()
    print(f"One vector of skdp's own noise: {each * 1e6:.0f} us")
    print("| where | epochs, b | bolt-on s | SCS13 / bolt-on | BST14 / bolt-on |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/study.db"
        make_table(path, n)
        source = opened(path, n, folder)
        rows = StreamRows(
            source,
            source.reading(),
            lambda found: found,
            FEATURES,
            np.dtype(np.float32),
        )
        stream = rows.with_targets(Labels(np.array([0, 1])))
        for passes, batch in _SETTINGS:
            ways = [one for one in methods(n, passes, batch) if "pub" not in one.name]
            held = times_of(
                [partial(train, memory, [order] * passes, way, batch) for way in ways]
            )
            updates = passes * -(-n // batch)
            safe = 1 + updates * each / held[0]
            print(_ratios("memory", passes, batch, held), flush=True)
            print(
                f"| memory, with skdp's own noise (computed) | {passes}, {batch} | "
                f"{held[0]:.3f} | | {safe:.0f} |"
            )
            reading = [
                partial(train, stream, [_KEY] * passes, way, batch) for way in ways
            ]
            read = times_of([partial(source.during, one) for one in reading])
            print(_ratios("DuckDB", passes, batch, read), flush=True)
            if postgres is None:
                continue
            texts = {
                way.name: noisy.NoisyText(
                    asked_of(postgres_rows, passes, batch, way),
                    _RECORDS,
                    way.kind,
                    way.scale,
                )
                for way in ways
            }
            times = in_postgres(postgres, texts)
            place = f"PostgreSQL, {postgres_rows:,} rows"
            print(_ratios(place, passes, batch, times), flush=True)
    print(f"\nEpsilons at delta = 1/m^2, m = {n:,}, lambda = {ALPHA:g}\n")
    print("| epochs, b | method | published | honest |\n|---|---|---|---|")
    for passes, batch in _SETTINGS:
        for way in methods(n, passes, batch):
            print(
                f"| {passes}, {batch} | {way.name} | {way.claimed:g} "
                f"| {way.honest:.3g} |"
            )
        drawn = drawn_bst14(n, passes, batch)
        print(
            f"| {passes}, {batch} | BST14, drawn batches | {EPSILON:g} | {drawn:.3g} |"
        )


def exact_noise() -> float:
    """Seconds of one vector of skdp's own noise, which hides something."""
    source, zeros = NoiseSource(), np.zeros(FEATURES)

    def draw() -> None:
        for _ in range(100):
            source.gaussian(zeros, sensitivity=1.0, noise_multiplier=1.0)

    return times_of([draw])[0] / 100


def _ratios(place: str, passes: int, batch: int, times: list[float]) -> str:
    ours, scs13, bst14 = times
    return (
        f"| {place} | {passes}, {batch} | {ours:.3f} | {scs13 / ours:.2f} "
        f"| {bst14 / ours:.2f} |"
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--postgres", help="where to connect to")
    parser.add_argument("--postgres-rows", type=int, default=5000)
    given = parser.parse_args()
    noise(given.rows, given.postgres, given.postgres_rows)


if __name__ == "__main__":
    main()
