"""Several owners: the time of rounds, many parties, boosting, and accuracy on Adult.

On a busy machine times say little.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from socket import create_server
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks._models import quietly_fitted
from benchmarks._papers.owners import owned
from benchmarks._runner import Benchmark, Line, each
from benchmarks._tables import adult
from skdp import BudgetLedger, DPGradientBoostingClassifier, DPLogisticRegression
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES

_D, _ROUNDS, _PARTIES = 104, 100, 3


def made_up(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1, and labels of a plane."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] > 0).astype(np.int64)


def descent(n_steps: int, epsilon: float = 1.0) -> DPLogisticRegression:
    """A fit of so many rounds, without an intercept."""
    return DPLogisticRegression(
        epsilon,
        classes=[0, 1],
        fit_intercept=False,
        solver="noisy_gd",
        solver_params={"n_steps": n_steps},
    )


def simulated(tables: Iterable[Any]) -> Any:
    """Parties in this process."""
    from skdp.federated import Federation

    return Federation.simulated(list(tables))


def times(n: int = 10_000) -> Iterator[Line]:
    """Rounds among processes, and fits of more and more simulated parties.

    Parameters
    ----------
    n : int
        Rows of a party.
    """
    yield Line(
        place={"parties": _PARTIES},
        method=f"a round of {_D} columns among processes",
        measure=partial(_rounds, n),
        metrics=("s", "CPU s of a pooled fit", "bytes of a party"),
        most_runs=1,
    )
    for m in (2, 3, 5, 10, 20, 50):
        yield Line(
            place={"parties": m},
            method="a fit of 30 rounds and 20 columns, simulated",
            measure=each(partial(_fits, n, m)),
            metrics=("s", "CPU s of a pooled fit", "bytes of a party"),
            statistic="median",
        )


def _fits(n: int, m: int, run: int) -> list[float]:
    tables = [made_up(n, 20, seed) for seed in range(m)]
    federation, model = simulated(tables), descent(30)
    pooled = tuple(np.concatenate(part) for part in zip(*tables, strict=True))
    spent = []
    for given in ((federation,), pooled):
        # Of the processor, which says something on a busy machine too.
        start = time.process_time()
        quietly_fitted(model, *given)
        spent.append(time.process_time() - start)
    return [*spent, federation.traffic.n_bytes]


def _rounds(n: int, runs: Iterable[int]) -> Iterator[list[float]]:
    """Three processes on the loopback address, and a coordinator."""
    from skdp.federated import FederationPlan, Key, PlanParty, _remote, coordinate
    from skdp.federated._wire import OVERHEAD

    names = [f"x{i}" for i in range(_D)]
    added = _remote.Hub.added
    for _ in runs:
        keys, hub = [Key.new() for _ in range(_PARTIES)], Key.new()
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for i, key in enumerate(keys):
                X, y = made_up(n, _D, i)
                frame = pd.DataFrame(X, columns=names).assign(y=y)
                frame.to_parquet(folder / f"{i}.pq")
                BudgetLedger(folder / f"{i}.db", epsilon=2.0, delta=1e-3)
                key.save(folder / f"{i}.key")
            with create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            plan = FederationPlan.of(
                descent(_ROUNDS),
                features={**dict.fromkeys(names, "double"), "y": "int64"},
                target="y",
                parties=[PlanParty(f"p{i}", n, k.public) for i, k in enumerate(keys)],
                coordinator_key=hub.public,
                address=("127.0.0.1", port),
            )
            plan.save(folder / "plan.json")
            words = "serve --data {0}.pq --ledger {0}.db --key {0}.key"
            parties = [
                subprocess.Popen(
                    [sys.executable, "-m", "skdp.federated"]
                    + f"{words.format(i)} --approve plan.json".split(),
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                )
                for i in range(_PARTIES)
            ]
            ends: list[float] = []

            def timed(self: Any, statement: bytes, ends: Any = ends) -> np.ndarray:
                total = added(self, statement)
                ends.append(time.perf_counter())
                return total

            with mock.patch.object(_remote.Hub, "added", timed):
                coordinate(plan, hub, patience=300.0)
            codes = [one.wait() for one in parties]
        assert codes == [0] * _PARTIES, "a party failed"
        yield [float(np.median(np.diff(ends))), np.nan, 8 * _D + OVERHEAD]


def accuracy() -> Iterator[Line]:
    """Adult as in Wang's thesis: 60 rounds at epsilon 0.5, delta 1e-3, lambda 1e-3.

    Beside it default boosting at epsilon 1, pooled and among five parties.
    """
    metrics = ("loss above the least", "accuracy")
    for m in (0, 2, 3, 5, 100):
        yield Line(
            place={"parties": m or "pooled"},
            method="noisy_gd",
            measure=each(partial(_of_thesis, m)),
            metrics=metrics,
            private=True,
        )
    for m in (0, 5):
        yield Line(
            place={"parties": m or "pooled"},
            method="boosting",
            measure=each(partial(_boosted, m)),
            metrics=metrics,
            private=True,
            most_runs=5,
        )


@lru_cache(maxsize=4)
def _fit_of(m: int) -> Callable[[], np.ndarray]:
    from benchmarks._papers.owners import private_fit

    return private_fit(owned("adult", 1e-3), 60, max(m, 1), max(m, 1) - 1)


def _of_thesis(m: int, run: int) -> tuple[float, float]:
    return owned("adult", 1e-3).measured(_fit_of(m)())


def _boosted(m: int, run: int) -> tuple[float, float]:
    data = adult()
    X, y = data.X_train, data.y_train
    columns = {**ADULT_BOUNDS, **ADULT_CATEGORIES}
    model = DPGradientBoostingClassifier(1.0, columns=columns, classes=[0, 1])
    given: tuple[Any, ...] = (X, y)
    if m:
        parts = np.array_split(np.random.default_rng(0).permutation(len(y)), m)
        given = (simulated((X.iloc[rows], y[rows]) for rows in parts),)
    quietly_fitted(model, *given)
    return np.nan, float(model.score(data.X_test, data.y_test))


BENCHMARKS = (
    Benchmark(
        name="federation_time",
        summary="time and bytes of several owners",
        lines=times,
        runs=5,
        keeps=False,
    ),
    Benchmark(
        name="federation",
        summary="accuracy of several owners on Adult, linear and boosted",
        lines=accuracy,
        runs=10,
    ),
)
