"""Speed and memory as ratios, measured side by side in one run; nothing is asserted.

Two calls take turns, so that a machine whose speed drifts slows both. A line shows the
medians of the seconds of ours and of the other's, and of their ratio. Set
OMP_NUM_THREADS=1 for one thread.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import random_array
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark
from benchmarks._tables import imdb, rows
from skdp import DPGradientBoostingClassifier
from skdp._fit import Progress, release
from skdp.columns import Range
from skdp.linear_model import (
    DPLinearRegression,
    DPLogisticRegression,
    DPSparseLogisticRegression,
)
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
Call = Callable[[], object]
Pair = tuple[Call, Call]


def in_turn(make: Callable[[], Pair], runs: Iterable[int]) -> Iterator[list[float]]:
    """Seconds of two calls in turn, and their ratio; both are called once before."""
    calls = make()
    for call in calls:
        call()  # compiles, or loads what was compiled
    for _ in runs:
        spent = []
        for call in calls:
            start = time.perf_counter()
            call()
            spent.append(time.perf_counter() - start)
        yield [*spent, spent[0] / spent[1]]


def compared(
    what: str, other: str, make: Callable[[], Pair], note: str = "", **more: Any
) -> Line:
    """A line of two calls; what makes them is called when it is measured."""
    return Line(
        place={"what": what, "other": other},
        method="skdp",
        measure=partial(in_turn, make),
        metrics=("s", "other s", "ratio"),
        statistic="median",
        note=note,
        **more,
    )


def alone(what: str, score: Callable[[], float], unit: str = "s") -> Line:
    """A line with a number of ours in place of the seconds, and nothing beside it."""

    def measure(runs: Iterable[int]) -> Iterator[list[float]]:
        for _ in runs:
            yield [score(), math.nan, math.nan]

    return Line(
        place={"what": what, "other": ""},
        method="skdp",
        measure=measure,
        metrics=("s", "other s", "ratio"),
        statistic="median",
        most_runs=3,
        note="" if unit == "s" else f"the first column is in {unit}",
    )


def seconds(call: Call) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@benchmark("speed", runs=7, keeps=False)
def speed(large: bool = True) -> Iterator[Line]:
    """Time and memory beside scikit-learn and NumPy: what should not be slower."""
    scale = 1.0 if large else 0.01
    yield from _imports()
    yield from _accounting()
    yield from _sums(scale)
    yield from _default_fits(scale)
    yield from _fits(scale)
    yield from _steps(scale)
    yield from _boosting(scale)
    yield from _networks(scale)
    yield from _ledgers(1000 if large else 10)


def _imports() -> Iterator[Line]:
    def start(module: str) -> Call:
        command = [sys.executable, "-c", f"import {module}"]
        return lambda: subprocess.run(command, check=True)

    plain = "sklearn.linear_model"
    for modules in ("skdp", "skdp.linear_model, skdp.preprocessing"):
        both = f"{plain}, {modules}"
        yield compared(
            f"import {both}",
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
        "NumPy's inexact ones",
        lambda: (
            lambda: noise.gaussian(zeros, sensitivity=1.0, noise_multiplier=10.0),
            lambda: generator.normal(size=n),
        ),
    )


def _sampled(n_steps: int, multiplier: float) -> PoissonGaussianEvent:
    return PoissonGaussianEvent(multiplier, 0.01, n_steps)


def objective_of(n: int, d: int, loss: Loss | None = None, **more: Any) -> Any:
    """A linear model of rows of norm 1, of labels if nothing else is said."""
    return LinearObjective(
        loss=loss or LogisticLoss(),
        n_samples=n,
        n_features=d,
        adjacency="replace_one",
        **{"data_norm": 1.0, **more},
    )


def _sums(scale: float) -> Iterator[Line]:
    """A pass for a gradient beside reading alone."""
    for n, d in ((1_000_000, 50), (100_000, 500)):
        n = int(n * scale)
        for dtype in (np.float64, np.float32):
            yield compared(
                f"gradient pass, {n:,} x {d}, {np.dtype(dtype).name}",
                "reading the same memory",
                partial(_pass_and_reading, n, d, dtype),
            )


def _pass_and_reading(n: int, d: int, dtype: type) -> Pair:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    y = (rng.random(n) < 0.5).astype(float)
    objective = ClippedGradient(objective_of(n, d))
    gradient = ExactGradientSum(MemorySource(X, y), objective)
    weights, flat = on_grid(0.1 * rng.standard_normal((d + 1, 1))), X.ravel()
    return lambda: gradient(weights), lambda: flat @ flat


def _labelled(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0).astype(int)
    return X, y


def _of_words(n: int, d: int, density: float) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = random_array((n, d), density=density, rng=0, format="csr")
    return X, (X @ rng.standard_normal(d) > 0).astype(int)


def _default_fits(scale: float) -> Iterator[Line]:
    """Default fits of small and of wide tables at epsilon 1."""
    pairs = {
        "logistic": (
            DPLogisticRegression(classes=[0, 1]),
            LogisticRegression(C=100, max_iter=1000),
        ),
        "linear": (DPLinearRegression(target_bounds=(-1, 1)), Ridge()),
    }
    for kind, models in pairs.items():
        for n, d in ((1000, 50), (10_000, 50), (100_000, 50), (20_000, 1000)):
            n = max(int(n * scale), 20)
            yield compared(
                f"default {kind} fit, {n:,} x {d}",
                str(models[1]),
                partial(_default_pair, *models, n, d),
            )


def _default_pair(ours: Any, theirs: Any, n: int, d: int) -> Pair:
    # Small fits use compiled loops only if something else has loaded them.
    import_module("skdp.sums._gradient_kernel")
    X, labels = _labelled(n, d)
    y = labels if hasattr(ours, "classes") else 2 * (labels - 0.5)
    return _both(ours, theirs, (X, y))


def _fits(scale: float) -> Iterator[Line]:
    """Default fits against scikit-learn's, and the memory that sparse ones take."""

    def dense(table: Callable[[], Any]) -> Pair:
        ours = DPLogisticRegression(delta=1e-9, classes=[0, 1])
        return _both(ours, LogisticRegression(max_iter=1000), table())

    shapes = [(int(n * scale), 50) for n in (10_000, 200_000, 1_000_000)]
    tables = {f"{n:,} x {d}": partial(_labelled, n, d) for n, d in shapes}
    n = int(100_000 * scale)
    tables[f"CSR {n:,} x 1000"] = partial(_of_words, n, 1000, 0.01)
    tables["Adult"] = partial(rows, "adult")
    for name, table in tables.items():
        yield compared(f"fit, {name}", "scikit-learn", partial(dense, table))
    n, few = (
        int(25_000 * scale),
        DPSparseLogisticRegression(delta=1e-9, classes=[0, 1], solver="iht"),
    )
    words = {
        f"CSR of {d:,} features": partial(_of_words, n, d, 133 / d)
        for d in (26_460, 1_000_000)
    }
    words["IMDB"] = _reviews
    epochs = SGDClassifier(penalty="l1", max_iter=5, tol=None)
    for name, table in words.items():
        for dtype in (np.float32, np.float64):
            kind = np.dtype(dtype).name

            def made(table: Any = table, dtype: type = dtype) -> Any:
                X, y = table()
                return X.astype(dtype), y

            yield compared(
                f"sparse fit, {name}, {kind}",
                "SGDClassifier of five epochs",
                lambda made=made: _both(few, epochs, made()),
            )
            yield alone(
                f"peak memory of it, {name}, {kind}",
                partial(_peak_of, few, made),
                "times the data",
            )


def _reviews() -> Any:
    reviews = imdb("sentiment", "tfidf")
    return reviews.X_train, reviews.y_train


def _both(ours: Any, theirs: Any, table: Any) -> Pair:
    return (
        lambda: quietly_fitted(ours, *table),
        lambda: quietly_fitted(theirs, *table),
    )


def _peak_of(model: Any, made: Callable[[], Any]) -> float:
    X, y = made()
    tracemalloc.start()
    quietly_fitted(model, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    return float(1 + peak / held)


def solve(solver: Solver, source: Any, objective: LinearObjective) -> None:
    """One release by a solver, of rows that are there already."""
    door = Door(BUDGET, adjacency=objective.adjacency, ledger=None, random_state=None)
    release(solver, source, objective, door, label="speed", progress=Progress())


def _steps(scale: float) -> Iterator[Line]:
    """Single records in random order."""
    n = int(1_000_000 * scale)
    yield compared(
        f"bolt_on, one pass of single records, {n:,} x 50",
        "SGDClassifier",
        partial(_one_pass, n, 50),
    )


def _one_pass(n: int, d: int) -> Pair:
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


def _boosting(scale: float) -> Iterator[Line]:
    """As many trees as scikit-learn's, with its own most leaves and with ours."""
    n, d, trees = int(1_000_000 * scale), 20, 300 if scale == 1 else 5
    depth = _trees(1).forecast(n, d).solver_params["max_depth"]
    for init in ("linear", "constant"):
        for leaves in (31, 2**depth):
            yield compared(
                f"boosting from {init}, {trees} trees of depth {depth}, {n:,} x {d}",
                f"HistGradientBoosting, {leaves} leaves",
                partial(_both_trees, n, d, trees, init, leaves),
                note=f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'all')}",
                most_runs=3,
            )

    # Time against trees and rows, in the time of the fewest of both.
    few = int(100_000 * scale), 75 if scale == 1 else 5
    for n, trees in ((few[0], 4 * few[1]), (few[0], 8 * few[1]), (3 * few[0], few[1])):
        yield compared(
            f"boosting, {trees} trees of depth 8, {n:,} x {d}",
            f"{few[1]} trees, {few[0]:,} x {d}",
            partial(_more_trees, (n, trees), few, d),
            most_runs=3,
        )


def _trees(count: int, init: str = "linear", max_depth: int | None = None) -> Any:
    given: dict[str, Any] = {"columns": Range(-1, 1), "classes": [0, 1], "init": init}
    return DPGradientBoostingClassifier(
        1.0, n_estimators=count, max_depth=max_depth, **given
    )


def _more_trees(more: tuple[int, int], few: tuple[int, int], d: int) -> Pair:
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


def _both_trees(n: int, d: int, trees: int, init: str, leaves: int) -> Pair:
    theirs = HistGradientBoostingClassifier(
        max_iter=trees, max_leaf_nodes=leaves, early_stopping=False
    )
    return _both(_trees(trees, init), theirs, _curved(n, d))


_BATCH, _UNITS = 1024, (784, 128, 10)


def _networks(scale: float) -> Iterator[Line]:
    """An epoch of exact clipped gradients beside plain epochs in NumPy."""
    n = int(60_000 * scale)
    for samples in (1, -(-n // 4096)):
        for kind in (np.float64, np.float32):
            name = "all records" if samples == 1 else "samples of 4096"
            yield compared(
                f"epoch of a network, {n:,} x 784-128-10, {name}",
                f"plain, {np.dtype(kind).name}",
                partial(_epochs, n, samples, kind),
            )


def _epochs(n: int, n_samples: int, kind: type) -> Pair:
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
