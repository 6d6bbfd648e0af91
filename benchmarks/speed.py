"""Time and memory as ratios, measured side by side in one run; nothing is asserted.

Calls take turns, so that a machine whose speed drifts slows all of them. A line shows
the medians of the seconds and of the peak memory of ours, of scikit-learn's model and
of another private library's, and of the ratio of the first two times. Peak memory is
what a call adds to the process, in megabytes (10**6 bytes), its result included.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import random_array
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
)
from sklearn.linear_model import (
    LogisticRegression,
    SGDClassifier,
)
from threadpoolctl import threadpool_limits

from benchmarks._families import FAMILIES, SHAPES
from benchmarks._models import quietly_fitted
from benchmarks._results import versions_of
from benchmarks._runner import Line, Measured, benchmark
from benchmarks.recommenders import PEERS
from benchmarks.sources import peak_megabytes
from skdp import (
    DPGradientBoostingClassifier,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPSparseLogisticRegression,
)
from skdp._fit import Progress, release
from skdp.columns import Range
from skdp.decomposition._ratings import Pattern, Ratings
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective, NetworkObjective
from skdp.papers._bolt_on import BoltOn
from skdp.privacy import (
    Budget,
    BudgetLedger,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    calibrate,
)
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import Door
from skdp.solvers._base import Solver
from skdp.sums._exact import on_grid
from skdp.sums._gradient import ClippedGradient
from skdp.sums._gradient_sum import ExactGradientSum
from skdp.sums._network import ClippedNetworkGradient
from skdp.tables._memory import MemorySource

BUDGET = Budget(1.0, 1e-6)
METRICS = ("s", "MB", "beside s", "beside MB", "ratio", "peer s", "peer MB")
Call = Callable[[], object]
Make = Callable[[], tuple[Call, ...]]


def measured(call: Call) -> tuple[float, float]:
    """Seconds of a call, and the megabytes that the process grows by at its peak."""
    before = _forgotten_peak()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start, _peak() - before


def _peak() -> float:
    return peak_megabytes() * 1.048576


def _forgotten_peak() -> float:
    """The memory of the process now, from which its peak starts anew (Linux)."""
    resets = Path("/proc/self/clear_refs")
    if not resets.exists():
        return math.nan
    # Freed memory that the allocator holds would hide what the call takes.
    ctypes.CDLL(None).malloc_trim(0)
    resets.write_text("5")
    return _peak()


def in_turn(make: Make, runs: Iterable[int]) -> Iterator[list[float]]:
    """The metrics of two or three calls in turn; each is called once before."""
    calls = make()
    for call in calls:
        call()  # compiles, or loads what was compiled
    for _ in runs:
        found = [measured(call) for call in calls]
        found += [(math.nan, math.nan)] * (3 - len(found))
        ours, beside, peer = found
        yield [*ours, *beside, ours[0] / beside[0], *peer]


def compared(
    what: str, table: str, beside: str, make: Make, note: str = "", **more: Any
) -> Line:
    """A line of calls in turn; what makes them is called when it is measured."""
    return Line(
        place={"what": what, "table": table, "beside": beside},
        method="skdp",
        measure=partial(in_turn, make),
        metrics=METRICS,
        statistic="median",
        note=note,
        **more,
    )


def alone(what: str, score: Callable[[], float]) -> Line:
    """A line with seconds of ours, and nothing beside them."""

    def measure(runs: Iterable[int]) -> Iterator[list[float]]:
        for _ in runs:
            yield [score(), *[math.nan] * (len(METRICS) - 1)]

    return Line(
        place={"what": what, "table": "", "beside": ""},
        method="skdp",
        measure=measure,
        metrics=METRICS,
        statistic="median",
        most_runs=3,
    )


def seconds(call: Call) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _shares(measured: list[Measured]) -> Iterator[str]:
    """The bandwidth that passes reach, beside the machine's."""
    for line, values in measured:
        if line.place["beside"] == _TRIAD and len(values):
            share = 1 / float(np.median(values[:, METRICS.index("ratio")]))
            yield (
                f"{line.place['what']}, {line.place['table']}: {share:.0%} of the "
                "memory bandwidth of the machine in the same run"
            )


@benchmark("speed", runs=7, keeps=False, closing=_shares)
def speed(large: bool = True, threads: int = 1) -> Iterator[Line]:
    """Time and memory of every family beside scikit-learn and private libraries."""
    scale = 1.0 if large else 0.01
    with _only(threads):
        yield from _sums(scale)
        yield from _families(scale)
        yield from _sparse(scale)
        yield from _boosting(scale)
        yield from _ratings(scale)
        yield from _networks(scale)
        yield from _steps(scale)
        yield from _imports()
        yield from _accounting()
        yield from _ledgers(1000 if large else 10)


@contextmanager
def _only(threads: int) -> Iterator[None]:
    """So many processors for this process, and threads for libraries."""
    # A process that may use one processor does not move between two, either.
    if not hasattr(os, "sched_setaffinity"):
        with threadpool_limits(threads):
            yield
        return
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_of_them)[:threads])
    try:
        with threadpool_limits(threads):
            yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def objective_of(n: int, d: int, loss: Loss | None = None, **more: Any) -> Any:
    """A linear model of rows of norm 1, of labels if nothing else is said."""
    return LinearObjective(
        loss=loss or LogisticLoss(),
        n_samples=n,
        n_features=d,
        adjacency="replace_one",
        **{"data_norm": 1.0, **more},
    )


_TRIAD = "a = b + 3 c of as many bytes"


def _sums(scale: float) -> Iterator[Line]:
    """Later passes for a gradient, beside what the memory can move."""
    for n, d in ((1_000_000, 50), (100_000, 500)):
        n = int(n * scale)
        for dtype in (np.float64, np.float32):
            yield compared(
                f"gradient pass, {np.dtype(dtype).name}",
                f"{n:,} x {d}",
                _TRIAD,
                partial(_pass_and_triad, n, d, dtype),
                note="of rows that are kept on their grid",
            )


def _pass_and_triad(n: int, d: int, dtype: type) -> tuple[Call, ...]:
    import numba

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    y = (rng.random(n) < 0.5).astype(float)
    objective = ClippedGradient(objective_of(n, d))
    gradient = ExactGradientSum(MemorySource(X, y), objective)
    weights = on_grid(0.1 * rng.standard_normal((d + 1, 1)))
    gradient(weights)  # puts rows on their grid, and keeps them
    moved = sum(block.X.n_bytes for block in gradient._blocks(None))

    @numba.njit(parallel=True, fastmath=True)
    def triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        for i in numba.prange(len(a)):
            a[i] = b[i] + 3.0 * c[i]

    if hasattr(os, "sched_getaffinity"):
        numba.set_num_threads(len(os.sched_getaffinity(0)))
    arrays = np.ones((3, moved // 24))  # three arrays of 8 bytes a number
    return lambda: gradient(weights), lambda: triad(*arrays)


# --------------------------------------------------------- every family of dense rows


def _families(scale: float) -> Iterator[Line]:
    """Default fits at epsilon 1."""
    for (what, family), shape in product(FAMILIES.items(), SHAPES):
        n, d = max(int(shape[0] * scale), 40), shape[1]
        beside = str(family.beside(n, d)).split("(")[0]
        makers, notes = [family.ours], []
        if shape in family.slow:
            notes.append(f"{beside} takes minutes")
        else:
            makers.append(family.beside)
        if family.peer is not None:
            package, maker = family.peer
            version = versions_of(package)
            if version is None:
                notes.append(f"{package} is not installed")
            elif shape in family.peer_slow:
                notes.append(f"{package} takes minutes")
            else:
                notes.append(version)
                makers.append(maker)
        yield compared(
            what,
            f"{n:,} x {d}",
            beside,
            partial(_of_family, family.target, makers, n, d),
            note="; ".join(notes),
            most_runs=7 if n * d < 500_000 else 3 if n * d < 10_000_000 else 1,
        )


def _of_family(
    target: str, makers: list[Callable[[int, int], Any]], n: int, d: int
) -> tuple[Call, ...]:
    # Small fits use compiled loops only if something else has loaded them.
    import_module("skdp.sums._gradient_kernel")
    X, labels = _labelled(n, d)
    given: tuple[np.ndarray, ...] = (X,)
    if target == "labels":
        given = X, labels
    elif target == "numbers":
        given = X, 2 * (labels - 0.5)
    elif target == "counts":
        counts = np.random.default_rng(0).poisson(1.0 + labels)
        given = X, np.minimum(counts, 10) + 0.5
    return tuple(partial(quietly_fitted, make(n, d), *given) for make in makers)


def _labelled(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0).astype(int)
    return X, y


# ------------------------------------------------------------- sparse rows, and ratings


def _of_words(n: int, d: int, density: float) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = random_array((n, d), density=density, rng=0, format="csr")
    return X, (X @ rng.standard_normal(d) > 0).astype(int)


def _sparse(scale: float) -> Iterator[Line]:
    """CSR rows: all features, and few of many."""
    n, few = int(100_000 * scale), int(25_000 * scale)
    of_all = DPLogisticRegression(delta=1e-9, classes=[0, 1])
    of_few = DPSparseLogisticRegression(delta=1e-9, solver="iht", classes=[0, 1])
    epochs = SGDClassifier(penalty="l1", max_iter=5, tol=None)
    plain = LogisticRegression(C=100, max_iter=1000)
    for model, beside, n_rows, d, density, other in (
        (of_all, plain, n, 1000, 0.01, "LogisticRegression"),
        (of_few, epochs, few, 26_460, 133 / 26_460, "SGDClassifier, 5 epochs"),
        (of_few, epochs, few, 1_000_000, 133e-6, "SGDClassifier, 5 epochs"),
    ):
        what = "few features of sparse rows" if model is of_few else "sparse logistic"
        yield compared(
            what,
            f"CSR {n_rows:,} x {d:,}",
            other,
            partial(_both, model, beside, partial(_of_words, n_rows, d, density)),
            most_runs=3,
        )


def _ratings(scale: float) -> Iterator[Line]:
    """Ratings that are factorised, beside libmf, which is not private."""
    for n in (100_000, 1_000_000):
        n = max(int(n * scale), 1000)
        version = versions_of("libmf")
        yield compared(
            "ratings",
            f"{n:,} ratings, {n // 100:,} users",
            "libmf, 20 passes",
            partial(_of_ratings, n, version is not None),
            note=version or "libmf is not installed",
            most_runs=3,
        )


def _of_ratings(n: int, has_libmf: bool) -> tuple[Call, ...]:
    rng = np.random.default_rng(0)
    n_users, n_items = n // 100, 2000
    pairs = np.unique(rng.integers(n_users * n_items, size=n))
    X = np.column_stack(np.divmod(pairs, n_items))
    y = np.clip(np.rint(rng.normal(3.5, 1.1, len(X))), 1, 5)
    model = DPMatrixFactorization(
        rating_bounds=(1.0, 5.0), n_users=n_users, item_ids=range(n_items)
    )
    calls: list[Call] = [partial(quietly_fitted, model, X, y)]
    if has_libmf:
        fit, _ = PEERS["libmf"]
        users, items = X.astype(np.int32).T
        ratings = Ratings(Pattern(users, items, n_users, n_items), y)
        calls.append(partial(fit, ratings, k=50, penalty=0.05, n_passes=20))
    return tuple(calls)


def _both(ours: Any, theirs: Any, table: Callable[[], Any]) -> tuple[Call, ...]:
    given = table()
    return (
        lambda: quietly_fitted(ours, *given),
        lambda: quietly_fitted(theirs, *given),
    )


def _boosting(scale: float) -> Iterator[Line]:
    """Many trees beside scikit-learn's with its own most leaves and with ours."""
    n, d, trees = int(1_000_000 * scale), 20, 300 if scale == 1 else 5
    depth = _trees(1).forecast(n, d).solver_params["max_depth"]
    for init in ("linear", "constant"):
        for leaves in (31, 2**depth):
            yield compared(
                f"boosting from {init}, {trees} trees of depth {depth}",
                f"{n:,} x {d}",
                f"HistGradientBoosting, {leaves} leaves",
                partial(_both_trees, n, d, trees, init, leaves),
                most_runs=5,
            )

    # Time against trees and rows, in the time of the fewest of both.
    few = int(100_000 * scale), 75 if scale == 1 else 5
    for n, trees in ((few[0], 4 * few[1]), (few[0], 8 * few[1]), (3 * few[0], few[1])):
        yield compared(
            f"boosting, {trees} trees of depth 8",
            f"{n:,} x {d}",
            f"{few[1]} trees, {few[0]:,} x {d}",
            partial(_more_trees, (n, trees), few, d),
            most_runs=3,
        )


def _trees(count: int, init: str = "linear", max_depth: int | None = None) -> Any:
    given: dict[str, Any] = {"columns": Range(-1, 1), "classes": [0, 1], "init": init}
    return DPGradientBoostingClassifier(
        1.0, n_estimators=count, max_depth=max_depth, **given
    )


def _more_trees(
    more: tuple[int, int], few: tuple[int, int], d: int
) -> tuple[Call, ...]:
    calls = []
    for n, trees in (more, few):
        X, y = _curved(n, d)
        model = _trees(trees, "constant", 8)
        calls.append(partial(quietly_fitted, model, X, y))
    return calls[0], calls[1]


def _curved(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Even columns in [-1, 1], and labels of a curve and an interaction."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    raw = 2 * np.sin(3 * X[:, 0]) + 3 * X[:, 1] * X[:, 2]
    return X, (rng.random(n) < 1 / (1 + np.exp(-raw))).astype(int)


def _both_trees(n: int, d: int, trees: int, init: str, leaves: int) -> tuple[Call, ...]:
    theirs = HistGradientBoostingClassifier(
        max_iter=trees, max_leaf_nodes=leaves, early_stopping=False
    )
    return _both(_trees(trees, init), theirs, partial(_curved, n, d))


_BATCH, _UNITS = 1024, (784, 128, 10)


def _networks(scale: float) -> Iterator[Line]:
    """An epoch of exact clipped gradients beside plain epochs in NumPy."""
    n = int(60_000 * scale)
    for samples in (1, -(-n // 4096)):
        for kind in (np.float64, np.float32):
            name = "all records" if samples == 1 else "samples of 4096"
            yield compared(
                f"epoch of a network, {name}",
                f"{n:,} x 784-128-10",
                f"plain, {np.dtype(kind).name}",
                partial(_epochs, n, samples, kind),
            )


def _epochs(n: int, n_samples: int, kind: type) -> tuple[Call, ...]:
    rng = np.random.default_rng(0)
    X = rng.random((n, _UNITS[0])).astype(np.float32)
    labels = rng.integers(0, _UNITS[-1], n)
    norm = float(np.linalg.norm(X, axis=1).max())
    objective = NetworkObjective(
        loss=SoftmaxLoss(_UNITS[-1]),
        n_samples=n,
        n_features=_UNITS[0],
        hidden=_UNITS[1:-1],
        activation="tanh",
        data_norm=norm,
        input_factor=6 / norm,
        input_norm=6.0,
        adjacency="zero_out",
    )
    weights = rng.normal(size=objective.n_weights) / math.sqrt(_UNITS[0])
    query = ClippedNetworkGradient(objective, 1.0).at(weights)
    reader = query.open(MemorySource(X, labels.astype(np.float64)))
    samples: list[Any] = [None]
    if n_samples > 1:
        chosen = rng.random((n_samples, n)) < 1 / n_samples
        samples = [np.flatnonzero(each) for each in chosen]
    layers = [
        (rng.normal(size=shape).astype(kind), np.zeros(shape[1], kind))
        for shape in pairwise(_UNITS)
    ]
    rows = X.astype(kind)
    return (
        lambda: [query.total(reader, sample) for sample in samples],
        lambda: plain_epoch(rows, labels, layers),
    )


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


def solve(solver: Solver, source: Any, objective: LinearObjective) -> None:
    """One release by a solver, of rows that are there already."""
    door = Door(BUDGET, adjacency=objective.adjacency, ledger=None, random_state=None)
    release(solver, source, objective, door, label="speed", progress=Progress())


def _steps(scale: float) -> Iterator[Line]:
    """Single records in random order."""
    n = int(1_000_000 * scale)
    yield compared(
        "bolt_on, one pass of single records",
        f"{n:,} x 50",
        "SGDClassifier",
        partial(_one_pass, n, 50),
    )


def _one_pass(n: int, d: int) -> tuple[Call, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y, objective = (rng.random(n) < 0.5).astype(float), objective_of(n, d)
    params = {"n_passes": 1, "batch_size": 1, "step_size": 1e-3, "law": "gaussian"}
    solver = BoltOn.planned(params, objective, BUDGET)
    theirs = SGDClassifier(loss="log_loss", max_iter=1, tol=None)
    return (
        lambda: solve(solver, MemorySource(X, y), objective),
        lambda: quietly_fitted(theirs, X, y),
    )


def _imports() -> Iterator[Line]:
    def start(module: str) -> Call:
        command = [sys.executable, "-c", f"import {module}"]
        return lambda: subprocess.run(command, check=True)

    plain = "sklearn.linear_model"
    for modules in ("skdp", "skdp.linear_model, skdp.preprocessing"):
        both = f"{plain}, {modules}"
        yield compared(
            f"import {both}",
            "",
            plain,
            lambda both=both: (start(both), start(plain)),
            most_runs=3,
        )


def _accounting() -> Iterator[Line]:
    def calibrations() -> None:
        for _ in range(100):
            calibrate(lambda z: GaussianEvent(z, 100), BUDGET)

    yield alone("100 calibrations of Gaussian steps", lambda: seconds(calibrations))
    for n_steps in (1, 1000, 100_000):
        event = partial(_sampled, n_steps)
        yield alone(
            f"calibration of {n_steps:,} Poisson-sampled steps",
            lambda event=event: seconds(lambda: calibrate(event, Budget(1.0, 1e-5))),
        )
    n, noise, generator = 500_000, NoiseSource(), np.random.default_rng()
    zeros = np.zeros(n)
    yield compared(
        f"{n:,} exact Gaussian draws",
        "",
        "NumPy's inexact ones",
        lambda: (
            lambda: noise.gaussian(zeros, sensitivity=1.0, noise_multiplier=10.0),
            lambda: generator.normal(size=n),
        ),
    )


def _sampled(n_steps: int, multiplier: float) -> PoissonGaussianEvent:
    return PoissonGaussianEvent(multiplier, 0.01, n_steps)


def _ledgers(n: int) -> Iterator[Line]:
    """What a ledger of mixed entries takes to commit, and to say its total."""
    tuned = ParallelEvent((GaussianEvent(50.0, 12), GaussianEvent(30.0)))
    kinds = [
        GaussianEvent(50.0, 3),
        PureEvent(0.001),
        ComposedEvent((tuned, GaussianEvent(60.0))),
        LaplaceEvent(900.0),
    ]

    def filled(is_spent: bool) -> float:
        with tempfile.TemporaryDirectory() as folder:
            ledger = BudgetLedger(Path(folder) / "ledger.db", epsilon=1e6, delta=1e-5)
            asked = {"adjacency": "replace_one", "budget": BUDGET, "label": ""}
            start = time.perf_counter()
            for i in range(n):
                ledger.commit(kinds[i % 4], **asked)
            if not is_spent:
                return (time.perf_counter() - start) / n
            return seconds(lambda: ledger.spent().epsilon)

    yield alone(f"a commit to a ledger, mean of {n}", partial(filled, False))
    yield alone(f"the total of {n} entries", partial(filled, True))
