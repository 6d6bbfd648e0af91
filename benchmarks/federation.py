"""Several owners: time and bytes of rounds, numbers of parties, Adult as in a thesis.

Run ``python -m benchmarks.federation --section rounds`` (or ``parties``, ``size``,
``adult``, ``boosting``) at the root of a checkout, with ``SKDP_DATA_HOME`` for Adult.
Prints the tables of ``docs/federated.md``. On a busy machine times say little.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from socket import create_server

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from benchmarks._data import data_folder
from skdp import BudgetLedger, DPGradientBoostingClassifier, DPLogisticRegression
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult
from skdp.federated import Federation, FederationPlan, Key, PlanParty, coordinate
from skdp.federated._wire import OVERHEAD

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


def rounds(n_rows: int) -> None:
    """Three processes on the loopback address, and a coordinator."""
    names = [f"x{i}" for i in range(_D)]
    keys, hub = [Key.new() for _ in range(_PARTIES)], Key.new()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for i, key in enumerate(keys):
            X, y = made_up(n_rows, _D, i)
            pd.DataFrame(X, columns=names).assign(y=y).to_parquet(folder / f"{i}.pq")
            BudgetLedger(folder / f"{i}.db", epsilon=2.0, delta=1e-3)
            key.save(folder / f"{i}.key")
        with create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        plan = FederationPlan.of(
            descent(_ROUNDS),
            features={**dict.fromkeys(names, "double"), "y": "int64"},
            target="y",
            parties=[PlanParty(f"p{i}", n_rows, k.public) for i, k in enumerate(keys)],
            coordinator_key=hub.public,
            address=("127.0.0.1", port),
        )
        plan.save(folder / "plan.json")
        words = "serve --data {0}.pq --ledger {0}.db --key {0}.key --approve plan.json"
        parties = [
            subprocess.Popen(
                [sys.executable, "-m", "skdp.federated", *words.format(i).split()],
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )
            for i in range(_PARTIES)
        ]
        times: list[float] = []
        _note_rounds(times)
        coordinate(plan, hub, patience=300.0)
        codes = [one.wait() for one in parties]
    assert codes == [0] * _PARTIES
    took = np.diff(times)
    print(f"{_PARTIES} processes of {n_rows:,} rows, {_D} columns, {_ROUNDS} rounds:")
    print(
        f"  rounds 2 to {_ROUNDS}: {took.sum():.2f} s, median {np.median(took):.4f} s"
    )
    print(f"  bytes of a party and a round: {8 * _D + OVERHEAD} sent, as many received")
    print(f"  of which numbers: {8 * _D}; in all rounds {sum(plan.sizes) * 8:,}")


def _note_rounds(times: list[float]) -> None:
    """When each round of the coordinator ends."""
    from skdp.federated import _remote

    added = _remote.Hub.added

    def timed(self: _remote.Hub, statement: bytes) -> np.ndarray:
        total = added(self, statement)
        times.append(time.perf_counter())
        return total

    _remote.Hub.added = timed  # type: ignore[method-assign]  # a clock around it


def parties(n_rows: int) -> None:
    """Tables of one size of more and more simulated parties."""
    model, found = descent(30), []
    print(f"parties of {n_rows:,} rows, 20 columns, 30 rounds:")
    for m in (2, 5, 10, 20, 50):
        tables = [made_up(n_rows, 20, seed) for seed in range(m)]
        federation = Federation.simulated(tables)
        # Of the processor, which says something on a busy machine too.
        took = _least(model, federation, clock=time.process_time)
        found.append((m, took))
        n_bytes = federation.traffic.n_bytes
        assert n_bytes == 30 * 20 * 8  # as in theory, whatever the number of parties
        print(
            f"  {m:2} parties: {took:.3f} CPU s, {1000 * took / m:.2f} ms a party; "
            f"{n_bytes:,} bytes of numbers from each"
        )
    m, took = np.transpose(found)
    slope, first = np.polyfit(m, took, 1)
    off = np.abs(first + slope * m - took).max()
    print(f"  {1000 * first:.0f} ms and {1000 * slope:.1f} ms a party; {off:.3f} s off")


def size(n_rows: int) -> None:
    """Three simulated parties of many rows, and one fit of the pooled table."""
    model = descent(30)
    tables = [made_up(n_rows, 20, seed) for seed in range(_PARTIES)]
    X, y = (np.concatenate(part) for part in zip(*tables, strict=True))
    federation = Federation.simulated(tables)
    print(f"{_PARTIES} parties of {n_rows:,} rows, 20 columns, 30 rounds:")
    # The second says something on a busy machine too.
    for clock, what in (
        (time.perf_counter, "seconds"),
        (time.process_time, "CPU seconds"),
    ):
        pooled = _least(model, X, y, runs=3, clock=clock)
        took = _least(model, federation, runs=3, clock=clock)
        print(
            f"  {took:.2f} {what}; pooled {pooled:.2f}, "
            f"{took / pooled:.2f} times as long"
        )


def boosting(n_runs: int) -> None:
    """Adult, default boosting at epsilon 1: pooled, and among five parties."""
    data_folder("adult")  # refused here: load_adult would let other data stand in
    data = load_adult()
    X, y = data.X_train, data.y_train
    columns = {**ADULT_BOUNDS, **ADULT_CATEGORIES}
    model = DPGradientBoostingClassifier(1.0, columns=columns, classes=[0, 1])
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), 5)
    federation = Federation.simulated([(X.iloc[rows], y[rows]) for rows in parts])
    print(f"boosting, Adult: {len(y):,} + {len(data.y_test):,} records")
    for who, given in (("pooled", (X, y)), ("5 parties", (federation,))):
        start = time.perf_counter()
        found = [
            model.fit(*given).score(data.X_test, data.y_test) for _ in range(n_runs)
        ]
        took = (time.perf_counter() - start) / n_runs
        error = np.std(found, ddof=1) / np.sqrt(n_runs)
        print(
            f"  {who:9} accuracy {np.mean(found):.4f} ± {error:.4f}, {took:.1f} s a fit"
        )
    print(
        f"  {federation.traffic.n_rounds} rounds, "
        f"{federation.traffic.n_bytes:,} bytes of numbers from each party"
    )


def _least(
    model: DPLogisticRegression,
    *given: object,
    runs: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    times = []
    for _ in range(runs):
        start = clock()
        model.fit(*given)
        times.append(clock() - start)
    return min(times)


def adult() -> tuple[np.ndarray, np.ndarray]:
    """Complete records in 104 columns, of norm 1; ranges taken as public."""
    names = (
        "age workclass fnlwgt education education-num marital-status occupation "
        "relationship race sex capital-gain capital-loss hours country income"
    ).split()
    folder = data_folder("adult")
    frame = pd.concat(
        pd.read_csv(
            folder / file,
            header=None,
            names=names,
            skipinitialspace=True,
            skiprows=skipped,
            na_values="?",
        )
        for file, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1))
    ).dropna()
    y = frame.pop("income").str.startswith(">50K").to_numpy().astype(np.int64)
    numbers = frame.select_dtypes("number").to_numpy(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    words = pd.get_dummies(frame.select_dtypes(exclude="number")).to_numpy(float)
    X = np.hstack([(numbers - low) / (high - low), words])
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def thesis(n_runs: int, sizes: list[int]) -> None:
    """Gap and accuracy at epsilon 0.5 and delta 1e-3, lambda 1e-3, in 60 rounds."""
    X, y = adult()
    order = np.random.default_rng(9000).permutation(len(y))
    test = order[: len(y) // 5]
    X_test, y_test = X[test], y[test]
    X, y = np.delete(X, test, axis=0), np.delete(y, test)
    alpha = 1e-3
    loss = _objective(X, 2 * y - 1, alpha)
    best = minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", tol=1e-14)
    right = np.mean((X_test @ best.x > 0) == y_test)
    print(f"Adult: {len(y):,} + {len(y_test):,} records, {X.shape[1]} columns")
    print(f"  optimum: loss {best.fun:.5f}, accuracy {right:.4f}")
    model = descent(60, 0.5).set_params(delta=1e-3, C=1 / (alpha * len(y)))
    for m in sizes:
        found = []
        for _ in range(n_runs):
            fitted = model.fit(*_divided(X, y, m))
            w = fitted.coef_.ravel()
            found.append((loss(w)[0] - best.fun, fitted.score(X_test, y_test)))
        gap, accuracy = np.mean(found, axis=0)
        error = np.std(found, axis=0, ddof=1) / np.sqrt(n_runs)
        who = f"{m} parties" if m else "pooled"
        print(
            f"  {who:12} gap {gap:.2e} ± {error[0]:.0e}, "
            f"accuracy {accuracy:.4f} ± {error[1]:.4f}"
        )


def _divided(X: np.ndarray, y: np.ndarray, m: int) -> tuple[object, ...]:
    if not m:
        return X, y
    split = zip(np.array_split(X, m), np.array_split(y, m), strict=True)
    return (Federation.simulated(list(split)),)


def _objective(
    X: np.ndarray, signs: np.ndarray, alpha: float
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (X @ w)
        value = np.logaddexp(0.0, -margins).mean() + alpha / 2 * float(w @ w)
        slope = -signs / (1 + np.exp(margins))
        return float(value), X.T @ slope / len(X) + alpha * w

    return loss


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--section", choices=["rounds", "parties", "size", "adult", "boosting"]
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--among", type=int, nargs="*", default=[0, 2, 3, 5, 100])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.section == "rounds":
        rounds(given.rows)
    elif given.section == "parties":
        parties(given.rows)
    elif given.section == "size":
        size(given.rows)
    elif given.section == "boosting":
        boosting(given.runs)
    else:
        thesis(given.runs, given.among)


if __name__ == "__main__":
    main()
