"""Speed as ratios measured side by side in one run; nothing here is asserted."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, random_array
from sklearn.linear_model import LogisticRegression, SGDClassifier

from benchmarks._commands import Commands
from benchmarks._data import MissingData, load
from benchmarks._sparse_data import imdb
from skdp._fit import Progress, release
from skdp.linear_model import DPLogisticRegression, DPSparseLogisticRegression
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.model_selection import DPGridSearchCV
from skdp.papers._bolt_on import BoltOn
from skdp.papers._frank_wolfe import FrankWolfe
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
    epsilon_of,
)
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import Door
from skdp.solvers._base import Solver
from skdp.sums._exact import on_grid
from skdp.sums._gradient import ClippedGradient
from skdp.sums._gradient_sum import ExactGradientSum
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped

ROUNDS = 7


BUDGET = Budget(1.0, 1e-6)


def side_by_side(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Median seconds of two calls, made in turn so that drift hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, spent in zip((ours, theirs), times, strict=True):
            start = clock()
            call()
            spent.append(clock() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def add(commands: Commands) -> None:
    """Make it a command."""
    commands.add("speed", "speed side by side", lambda options: run())


def run() -> None:
    """Print one line per measurement."""
    _imports()
    _calibration()
    _sampled_calibration()
    _noise()
    for n, d in ((1_000_000, 50), (100_000, 500)):
        _gradient(np.float64, n, d)
        _gradient(np.float32, n, d)
    _one_pass()
    _vertices()
    _fits()
    _search()
    _sparse()
    _books()


def _report(what: str, ours: float, theirs: float, reference: str) -> None:
    print(
        f"{what}: {ours:.4g} s, {reference} {theirs:.4g} s, ratio {ours / theirs:.2f}",
        flush=True,
    )


def _imports() -> None:
    def start(module: str) -> Callable[[], object]:
        command = [sys.executable, "-c", f"import {module}"]
        return lambda: subprocess.run(command, check=True)

    both = "sklearn.linear_model, skdp"
    ours, theirs = side_by_side(start(both), start("sklearn.linear_model"))
    print(f"import skdp after sklearn.linear_model: {ours - theirs:+.3f} s")
    used = "sklearn.linear_model, skdp.linear_model, skdp.preprocessing"
    ours, theirs = side_by_side(start(used), start("sklearn.linear_model"))
    print(f"the same with the estimators loaded: {ours - theirs:+.3f} s", flush=True)


def _calibration() -> None:
    budget = Budget(1.0, 1e-6)
    start = time.perf_counter()
    for _ in range(100):
        calibrate(lambda z: GaussianEvent(z, 100), budget)
    print(f"calibration: {(time.perf_counter() - start) * 10:.3f} ms")


def _sampled_calibration() -> None:
    """The first line includes importing dp-accounting."""
    for n_steps in (1, 1000, 100_000):
        start = time.process_time()
        multiplier = calibrate(
            lambda z, count=n_steps: PoissonGaussianEvent(z, 0.01, count),
            Budget(1.0, 1e-5),
        )
        seconds = time.process_time() - start
        print(
            f"calibration of {n_steps} Poisson-sampled steps: {seconds:.2f} s CPU, "
            f"multiplier {multiplier:.4f}",
            flush=True,
        )


def _noise() -> None:
    n = 500_000
    noise, zeros = NoiseSource(), np.zeros(n)
    generator = np.random.default_rng()
    ours, theirs = side_by_side(
        lambda: noise.gaussian(zeros, sensitivity=1.0, noise_multiplier=10.0),
        lambda: generator.normal(size=n),
    )
    print(
        f"noise: {n / ours / 1e6:.1f} million exact Gaussian draws per second, ", end=""
    )
    print(f"NumPy's inexact ones {n / theirs / 1e6:.1f} million", flush=True)


def _logistic(n: int, d: int) -> LinearObjective:
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=d,
        data_norm=1.0,
        adjacency="replace_one",
    )


def _solve(solver: Solver, source: MemorySource, objective: LinearObjective) -> None:
    door = Door(BUDGET, adjacency=objective.adjacency, ledger=None, random_state=None)
    release(solver, source, objective, door, label="speed", progress=Progress())


def _gradient(dtype: type, n: int, d: int) -> None:
    """One pass over the rows against reading the same memory once."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    y = (rng.random(n) < 0.5).astype(float)
    gradient = ExactGradientSum(MemorySource(X, y), ClippedGradient(_logistic(n, d)))
    weights = on_grid(0.1 * rng.standard_normal((d + 1, 1)))
    gradient(weights)  # the first pass also puts the rows on their grid
    flat = X.ravel()
    ours, theirs = side_by_side(lambda: gradient(weights), lambda: flat @ flat)
    print(
        f"gradient pass, n={n} d={d} {np.dtype(dtype).name}: "
        f"{X.nbytes / ours / 1e9:.1f} GB/s, reading alone "
        f"{X.nbytes / theirs / 1e9:.1f} GB/s, share {theirs / ours:.2f}",
        flush=True,
    )


def _one_pass() -> None:
    """Descent by single records in random order: the passes that SGD makes."""
    n, d = 1_000_000, 50
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    y = (rng.random(n) < 0.5).astype(float)
    objective = _logistic(n, d)
    params = {"n_passes": 1, "batch_size": 1, "step_size": 1e-3, "law": "gaussian"}
    solver = BoltOn.planned(params, objective, BUDGET)
    theirs = SGDClassifier(loss="log_loss", max_iter=1, tol=None)

    def ours() -> None:
        _solve(solver, MemorySource(X, y), objective)

    ours()  # compiles, or loads what was compiled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = side_by_side(ours, lambda: theirs.fit(X, y))
    _report(f"bolt_on, one pass of single records, n={n} d={d}", a, b, "SGDClassifier")


def _vertices() -> None:
    for d in (10_000, 1_000_000):
        _vertices_among(d)


def _vertices_among(d: int) -> None:
    """Steps of frank_wolfe, with enough signal that they are alike for every d.

    Twenty of the hundred entries of a row are of a hundred common features, on which
    the label depends; the others are of any.
    """
    n, each, common = 20_000, 100, 100
    rng = np.random.default_rng(0)
    columns = rng.integers(0, d, (n, each))
    columns[:, : each // 5] = rng.integers(0, common, (n, each // 5))
    entries = rng.uniform(0.0, 0.2, (n, each))
    starts = np.arange(0, n * each + 1, each)
    parts = (entries.ravel(), columns.ravel().astype(np.int32), starts)
    X = csr_array(parts, shape=(n, d))
    X.sum_duplicates()
    y = X[:, : common // 2].sum(axis=1) > X[:, common // 2 : common].sum(axis=1)
    objective = replace(_logistic(n, d), feature_bound=0.2, n_nonzero=100)
    source = MemorySource(X, y.astype(float))

    def run(n_steps: int) -> None:
        params = {"n_steps": n_steps, "l1_radius": 50.0}
        solver = FrankWolfe.planned(params, objective, BUDGET)
        _solve(solver, EntriesClipped(source, 0.2), objective)

    def seconds(n_steps: int) -> float:
        start = time.process_time()
        run(n_steps)
        return time.process_time() - start

    run(1)  # compiles, or loads what was compiled
    few, many = (
        statistics.median(seconds(n_steps) for _ in range(3)) for n_steps in (10, 210)
    )
    tracemalloc.start()
    run(10)
    held = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    peak = 1 + tracemalloc.get_traced_memory()[1] / held
    tracemalloc.stop()
    print(
        f"frank_wolfe, n={n} d={d}, {each} entries in a row: "
        f"{(many - few) / 200 * 1000:.2f} ms of processor time a step, "
        f"{few:.2f} s for the first 10, "
        f"peak memory {peak:.1f} times the data",
        flush=True,
    )


def _fits() -> None:
    rng = np.random.default_rng(0)
    for n, d in ((10_000, 50), (200_000, 50), (1_000_000, 50)):
        X = rng.standard_normal((n, d)) / np.sqrt(d)
        y = (X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0).astype(int)
        _one_fit(f"fit n={n} d={d}", X, y)
    S = random_array((100_000, 1000), density=0.01, rng=0, format="csr")
    y = (S @ rng.standard_normal(1000) > 0).astype(int)
    _one_fit("fit CSR n=100000 d=1000 density 1 %", S, y)
    try:
        _one_fit("fit Adult", *load("adult"))
    except MissingData as error:
        print(f"fit Adult: refused: {error}")


def _one_fit(what: str, X: object, y: np.ndarray) -> None:
    ours = DPLogisticRegression(delta=1e-9, classes=[0, 1])
    theirs = LogisticRegression(max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = side_by_side(lambda: ours.fit(X, y), lambda: theirs.fit(X, y))
    _report(what, a, b, "scikit-learn")


def _sparse() -> None:
    """Sparse fits against SGD with an L1 penalty, and the memory that they take."""
    try:
        reviews = imdb("sentiment", "tfidf")
        _one_sparse_fit("IMDB", reviews.X_train, reviews.y_train)
    except MissingData as error:
        print(f"sparse fit, IMDB: refused: {error}")
    rng = np.random.default_rng(0)
    for d in (26_460, 1_000_000):
        S = random_array((25_000, d), density=133 / d, rng=0, format="csr")
        y = (S @ rng.standard_normal(d) > 0).astype(int)
        _one_sparse_fit(f"random CSR of {d} features", S, y)


def _one_sparse_fit(name: str, X: Any, y: np.ndarray) -> None:
    ours = DPSparseLogisticRegression(delta=1e-9, classes=[0, 1], solver="iht")
    theirs = SGDClassifier(penalty="l1", max_iter=5, tol=None)
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a, b = side_by_side(
                lambda rows=rows: ours.fit(rows, y),
                lambda rows=rows: theirs.fit(rows, y),
            )
            tracemalloc.start()
            ours.fit(rows, y)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        what = f"sparse fit, {name} {np.dtype(dtype).name}"
        _report(what, a, b, "SGDClassifier of five epochs")
        held = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes + y.nbytes
        print(f"{what}: peak memory {1 + peak / held:.2f} times the data", flush=True)


def _search() -> None:
    """A search by composition against the same fits one by one."""
    try:
        X, y = load("adult")
    except MissingData as error:
        print(f"search on Adult: refused: {error}")
        return
    grid = {"C": np.geomspace(1e-3, 1e2, 12).tolist()}
    search = DPGridSearchCV(
        DPLogisticRegression(classes=[0, 1]), grid, delta=1e-9, method="composition"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
        fits = [row["noise_multiplier"] for row in _gaussian_parts(search)]
        # In the order of the event: a candidate's fit, the scores, the final fit.
        tuning, final = (_epsilon_at(z) for z in (fits[0], fits[2]))
        rows = round(0.7 * len(y))

        def bare() -> None:
            for C in grid["C"]:
                _bare_fit(tuning, C).fit(X[:rows], y[:rows])
            _bare_fit(final, search.best_params_["C"]).fit(X, y)

        ours, theirs = side_by_side(lambda: search.fit(X, y), bare)
    _report("search of 12 candidates on Adult", ours, theirs, "the same 13 fits bare")


def _gaussian_parts(search: DPGridSearchCV) -> list[dict[str, float]]:
    tuning, final = search.privacy_.to_dict()["event"]["parts"]
    return [*tuning["parts"], final]


def _epsilon_at(noise_multiplier: float) -> float:
    return epsilon_of(GaussianEvent(noise_multiplier), 1e-9)


def _bare_fit(epsilon: float, C: float) -> DPLogisticRegression:
    return DPLogisticRegression(
        epsilon, delta=1e-9, classes=[0, 1], C=C, solver="noisy_gd"
    )


def _books() -> None:
    """What a ledger of 1000 mixed entries takes to say its total."""
    tuned = ParallelEvent((GaussianEvent(50.0, 12), GaussianEvent(30.0)))
    kinds = [
        GaussianEvent(50.0, 3),
        PureEvent(0.001),
        ComposedEvent((tuned, GaussianEvent(60.0))),
        LaplaceEvent(900.0),
    ]
    with tempfile.TemporaryDirectory() as folder:
        ledger = BudgetLedger(Path(folder) / "books.db", epsilon=1e6, delta=1e-5)
        asked = Budget(1.0, 1e-6)
        start = time.perf_counter()
        for i in range(1000):
            ledger.commit(kinds[i % 4], adjacency="replace_one", budget=asked, label="")
        each = (time.perf_counter() - start) / 1000
        start = time.perf_counter()
        total = ledger.spent().epsilon
        seconds = time.perf_counter() - start
    print(
        f"ledger: 1000 entries compose to epsilon {total:.3f} in {seconds:.2f} s, "
        f"{each * 1000:.0f} ms for a commit",
        flush=True,
    )
