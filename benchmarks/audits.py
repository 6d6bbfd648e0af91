"""What audits find: of skdp, of planted bugs, and of diffprivlib where it is installed.

Run ``python -m benchmarks.audits [NAME]`` at the root of a checkout, NAME one of
transcripts, models, planted, users and peers; without a name all of them, in some five
minutes. diffprivlib needs an older scikit-learn: `make bench` says how it gets an
environment of its own.

Data are made up: 1,000 rows of norm 1 in 20 dimensions, of which the last is not used;
labels by a random direction. The budget is (1, 1e-5).
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
    DPSparseLogisticRegression,
)
from skdp.audit import AuditResult, audit_estimator
from skdp.privacy.accounting._relations import OF_USERS
from tests.planted import records, users

N, D, DELTA = 1000, 20, 1e-5
FIRST_SEED = 0
Table = tuple[np.ndarray, np.ndarray]


def table(n: int = N, d: int = D) -> Table:
    """Rows on the sphere that do not use the last direction, and labels."""
    rng = np.random.default_rng(FIRST_SEED)
    X = rng.normal(size=(n, d))
    X[:, -1] = 0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X @ rng.normal(size=d) > 0).astype(int)


def classifier(kind: type[Any], solver: str, **given: Any) -> Any:
    """A model of two classes."""
    return kind(1.0, delta=DELTA, classes=[0, 1], solver=solver, **given)


def full_batch(adjacency: str) -> Iterator[tuple[str, Any]]:
    """Every recommended solver that releases Gaussian sums over all records."""
    own = {"adjacency": adjacency}
    for solver in ("noisy_gd", "nesterov", "noisy_sgd"):
        yield solver, classifier(DPLogisticRegression, solver, **own)
    facts = {"target_bounds": (0, 1), "delta": DELTA}
    yield "adassp", DPLinearRegression(1.0, solver="adassp", **facts, **own)
    yield "graduated_gd", classifier(DPRobustClassifier, "graduated_gd", **own)
    few = {"feature_bound": 1.0, **own}
    for solver in ("iht", "peeling"):
        yield solver, classifier(DPSparseLogisticRegression, solver, **few)


def timed(audit: Callable[[], AuditResult]) -> tuple[AuditResult, float]:
    """A result, and how many seconds it took."""
    started = time.perf_counter()
    return audit(), time.perf_counter() - started


class WeightsOf(BaseEstimator):
    """Only the weights of a model are looked at.

    Parameters
    ----------
    model : estimator
    random_state : int or None, default=None
    """

    def __init__(self, model: Any, random_state: int | None = None) -> None:
        self.model = model
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a copy, and keep its weights."""
        model = clone(self.model).set_params(random_state=self.random_state)
        self.coef_ = model.fit(X, y).coef_
        return self


def transcripts() -> None:
    """White box: epsilon that the best pair tried is told apart by, of a claimed 1."""
    X, y = table()
    print("| solver | adjacency | epsilon at least | on all transcripts | seconds |")
    print("|---|---|---|---|---|")
    for adjacency in ("replace_one", "zero_out"):
        for name, model in full_batch(adjacency):
            run = timed(lambda m=model: audit_estimator(m, X, y, access="transcript"))
            result, took = run
            same = "the same" if not result.bounds[0].assumption else "the least of 3"
            print(
                f"| {name} | {adjacency} | {result.epsilon_lower_bound:.3f} | {same} | "
                f"{took:.1f} |"
            )


def models(times: int, only: str = "") -> None:
    """Black box: 600 fits each, several audits, of cases with `only` in their name."""
    X, y = table()
    cases = {
        "output_perturbation, SVC": classifier(
            DPLinearSVC, "output_perturbation", fit_intercept=False
        ),
        "output_perturbation, SVC, intercept": classifier(
            DPLinearSVC, "output_perturbation"
        ),
        "output_perturbation, logistic": classifier(
            DPLogisticRegression, "output_perturbation", fit_intercept=False
        ),
        "objective_perturbation, SVC": classifier(
            DPLinearSVC, "objective_perturbation", fit_intercept=False
        ),
    }
    print("| case | epsilon at least: median (least, most) | passed | seconds |")
    print("|---|---|---|---|")
    for name, model in cases.items():
        if only not in name:
            continue
        runs = [timed(lambda m=model: audit_estimator(m, X, y)) for _ in range(times)]
        _row(name, runs)


def _row(name: str, runs: list[tuple[AuditResult, float]]) -> None:
    bounds = [result.epsilon_lower_bound for result, _ in runs]
    passed = sum(result.passed for result, _ in runs)
    print(
        f"| {name} | {np.median(bounds):.3f} ({min(bounds):.3f}, {max(bounds):.3f}) | "
        f"{passed} of {len(runs)} | {np.mean([took for _, took in runs]):.1f} |",
        flush=True,
    )


def bugs(times: int) -> None:
    """Planted bugs, and what has none: default settings."""
    X, y = table(200, 5)
    print("| planted | epsilon at least: median (least, most) | passed | seconds |")
    print("|---|---|---|---|")
    for name in records.__all__:
        model = getattr(records, name)()
        targets = 3 * X[:, 0] if hasattr(model, "target_bounds") else y
        runs = [
            timed(
                lambda m=model, t=targets: audit_estimator(
                    m, X, t, epsilon=1.0, delta=DELTA
                )
            )
            for _ in range(times)
        ]
        _row(name, runs)


def bugs_of_users(times: int) -> None:
    """The same of estimators of users; `OneRowMore` with one row and with two."""
    X, y = table(200, 5)
    # From 2^24 on, single precision has no odd numbers.
    ids = 2**24 + np.arange(200) % 100
    cases = [(name, {}) for name in users.__all__]
    cases.append(("OneRowMore", {"most_rows": 1}))
    print("| planted | relation | epsilon at least | passed | seconds |")
    print("|---|---|---|---|---|")
    for name, given in cases:
        for relation in OF_USERS:
            model = getattr(users, name)(adjacency=relation, **given)
            facts = {"epsilon": 1.0, "delta": DELTA, "adjacency": relation}
            runs = [
                timed(
                    lambda m=model, f=facts: audit_estimator(m, X, y, groups=ids, **f)
                )
                for _ in range(times)
            ]
            told = ", ".join([name, *(f"{k}={v}" for k, v in given.items())])
            _row(f"{told} | {relation}", runs)


def peers(times: int) -> None:
    """diffprivlib, on pairs that its code suggests; every claim is (1, 0)."""
    if importlib.util.find_spec("diffprivlib") is None:
        print("diffprivlib is not installed here.")
        return
    print("| diffprivlib | epsilon at least: median (least, most) | passed | seconds |")
    print("|---|---|---|---|")
    for name, (model, first, second, n_runs) in _peer_cases().items():
        given = {"epsilon": 1.0, "neighbour": second, "n_runs": n_runs}
        runs = [
            timed(lambda m=model, f=first, g=given: audit_estimator(m, *f, **g))
            for _ in range(times)
        ]
        _row(f"{name}, {n_runs} fits", runs)


def _peer_cases() -> dict[str, tuple[Any, Table, Table, int]]:
    from diffprivlib.models import LinearRegression, LogisticRegression

    # A table with next to nothing in it, and one more row of full length.
    X, y = np.full((20, 1), 1e-3), np.full(20, 0.5)
    Z = X.copy()
    Z[0] = 1.0
    bounds = {"bounds_X": ([0.0], [1.0]), "bounds_y": (0.0, 1.0)}
    linear = LinearRegression(epsilon=1.0, fit_intercept=False, **bounds)
    cases: dict[str, tuple[Any, Table, Table, int]] = {
        "LinearRegression": (linear, (Z, y), (X, y), 600)
    }
    # Its weight is near 0 more often if the row is long.
    y = np.array([1, 0])
    for norm in (1.0, 100.0):
        pair = (np.array([[norm], [0.0]]), y), (np.zeros((2, 1)), y)
        facts = {"fit_intercept": False, "tol": 1e-9, "max_iter": 500}
        model = LogisticRegression(epsilon=1.0, data_norm=norm, **facts)
        weights = WeightsOf(model)
        cases[f"weights of LogisticRegression({norm:g})"] = (weights, *pair, 12_000)
    cases["LogisticRegression(1), n_iter_ too"] = (
        LogisticRegression(epsilon=1.0, data_norm=1.0, **facts),
        (np.array([[1.0], [0.0]]), y),
        (np.zeros((2, 1)), y),
        600,
    )
    return cases


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="all")
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--only", default="", help="of models, a part of a name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    parts = {
        "transcripts": transcripts,
        "models": lambda: models(options.times, options.only),
        "planted": lambda: bugs(options.times),
        "users": lambda: bugs_of_users(options.times),
        "peers": lambda: peers(options.times),
    }
    for name, part in parts.items():
        if options.what in ("all", name):
            print(f"\n{name}\n")
            part()


if __name__ == "__main__":
    main()
