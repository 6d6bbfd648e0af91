"""How many fits a ledger's cap takes, and how long its books take to open.

Run ``python -m benchmarks.ledger_room`` at the root of a checkout. Prints the tables of
``docs/pipelines.md``, part "What a ledger has room for". Fits are those of public facts
alone: nothing is fitted, but for the pipeline's two steps.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

from skdp import DPLogisticRegression, DPStandardScaler, privacy_report, set_budget
from skdp._configured import given_params
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import (
    Budget,
    BudgetLedger,
    Event,
    GaussianEvent,
    SelectionEvent,
    calibrate,
)
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.ledger._filter import Charge, FilterState
from skdp.solvers._base import Solver
from skdp.solvers._descent import NoisySGD
from skdp.solvers._objective_perturbation import ObjectivePerturbation

CAP = Budget(3.0, 1e-6)
_HALF = 5e-7
_RUNS = 7
_ENTRIES = 1000

_OPEN = """
import sys, time
from skdp.privacy import Budget, BudgetLedger, GaussianEvent
ledger = BudgetLedger.open(sys.argv[1])
asked = Budget(0.01, 1e-9)
start = time.perf_counter()
ledger.commit(GaussianEvent(1e4), adjacency="replace_one", budget=asked, label="more")
middle = time.perf_counter()
repr(ledger)
print(middle - start, time.perf_counter() - middle)
"""


def fit(solver: type[Solver], n: int, epsilon: float, delta: float) -> Event:
    """The event of a logistic regression with the solver's defaults."""
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=4,
        data_norm=1.0,
        adjacency="replace_one",
    )
    budget = Budget(epsilon, delta)
    given = given_params(solver, solver.key, {})
    plan = solver.planned(given, objective, budget).plan(objective)
    declare = partial(plan.event, relation="replace_one")
    event: Event = declare(calibrate(declare, budget))
    return event


def gaussian(epsilon: float, delta: float) -> Event:
    """A Gaussian fit of the same budget."""
    return GaussianEvent(1 / gaussian_mu(epsilon, delta))


def count(
    event: Event, delta: float, reserve: Charge, first: Event | None = None
) -> int:
    """How many such fits a ledger takes, after another one."""
    state, taken = FilterState(CAP, reserve), -1
    if first is not None:
        state = state.charged(first, 1e-6)
    while state.exhausted() is None and taken < 200:
        state, taken = state.charged(event, delta), taken + 1
    return taken


def least(accepts: Callable[[float], bool], low: float, high: float) -> float:
    """The least point accepted, to a thousandth of the way."""
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if accepts(middle) else (middle, high)
    return high


def print_counts() -> None:
    """Fits in a cap of (3, 1e-6)."""
    print("| fit | set aside | fits | after a Gaussian one | Gaussian fits |")
    print("|---|---|---|---|---|")
    first, half = gaussian(1.0, 1e-6), Charge(0.0, _HALF)
    for epsilon, delta in ((1.0, 1e-6), (0.5, 1e-6), (1.0, 1e-7), (0.5, 1e-7)):
        event = fit(NoisySGD, 33_000, epsilon, delta)
        row = [count(event, delta, half), count(event, delta, half, first)]
        row.append(count(gaussian(epsilon, delta), delta, Charge()))
        _print_row(f"noisy_sgd ({epsilon:g}, {delta:g})", half, row)
    for epsilon, aside in ((0.5, 0.0), (0.5, 1.44), (0.5, 1.6), (1, 0.0), (1, 1.44)):
        event = fit(ObjectivePerturbation, 10_000, epsilon, 1e-6)
        reserve = Charge(aside, _HALF)
        row = [count(event, 1e-6, reserve), count(event, 1e-6, reserve, first)]
        row.append(count(gaussian(epsilon, 1e-6), 1e-6, Charge()))
        _print_row(f"objective_perturbation ({epsilon:g}, 1e-06)", reserve, row)


def _print_row(name: str, reserve: Charge, row: list[int]) -> None:
    aside = f"{reserve.epsilon:g}, {reserve.delta:g}"
    print(f"| {name} | {aside} | {' | '.join(map(str, row))} |")


def print_search() -> None:
    """Random stopping at (1, 1e-6) and Gaussian fits of that budget, either first."""
    cap, first = Budget(3.0, 1e-5), gaussian(1.0, 1e-6)

    def declare(multiplier: float) -> Event:
        trial = GaussianEvent(multiplier)
        return SelectionEvent(trial, "negative_binomial", 12.0, 120, 0.0)

    search = declare(calibrate(declare, Budget(1.0, 1e-6)))
    for order in ((search, first), (first, search)):
        state = FilterState(cap, Charge(1.0, 1e-6))
        for event in order:
            state = state.charged(event, 1e-6)
        names = ["search" if event is search else "fit" for event in order]
        told = "admitted" if state.exhausted() is None else "refused"
        print(f"{names[0]}, then {names[1]}, with 1 and 1e-6 set aside: {told}")


def print_pipeline() -> None:
    """A scaler and objective perturbation, whose report says less than 1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 5))
    model = make_pipeline(
        DPStandardScaler(bounds=(-1, 1)),
        DPLogisticRegression(classes=[0, 1], solver="objective_perturbation"),
    )
    model = set_budget(model, epsilon=1.0, delta=1e-6).fit(X, X[:, 0] > 0)
    records = [step.privacy_ for _, step in model.steps]

    def has_room(cap: float) -> bool:
        for share in np.linspace(0, 0.6, 31):
            reserve = Charge(float(share) * cap, _HALF)
            state = FilterState(Budget(cap, 1e-6), reserve)
            for record in records:
                state = state.charged(record.event, record.delta)
            if state.exhausted() is None:
                return True
        return False

    report = privacy_report(model).epsilon
    print(
        f"pipeline: report {report:.3f}, least cap {least(has_room, report, 2.5):.3f}"
    )


def print_losses() -> None:
    """What half of delta costs a ledger of Gaussian fits."""
    for epsilon, delta in ((3.0, 1e-6), (1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-3)):
        cap = Budget(epsilon, delta)
        half = FilterState(cap, Charge(0.0, delta / 2)).whole.mu_squared
        none = FilterState(cap, Charge()).whole.mu_squared
        print(
            f"cap ({epsilon:g}, {delta:g}): mu loses {1 - math.sqrt(half / none):.1%}"
        )


def print_times() -> None:
    """Milliseconds of a commit and a repr in a fresh process."""
    kinds = [
        fit(NoisySGD, 33_000, 0.5, 1e-7),
        fit(ObjectivePerturbation, 10_000, 0.5, 1e-7),
        gaussian(0.5, 1e-7),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        ledger = BudgetLedger(path, epsilon=1e3, delta=0.1, reserve_epsilon=500.0)
        for number in range(_ENTRIES):
            ledger.commit(
                kinds[number % len(kinds)],
                adjacency="replace_one",
                budget=Budget(0.5, 1e-7),
                label=f"fit {number}",
            )
        runs = [_seconds(path) for _ in range(_RUNS)]
    for name, times in zip(("commit", "repr"), zip(*runs, strict=True), strict=True):
        print(f"{name} on {_ENTRIES} entries: {1e3 * statistics.median(times):.1f} ms")


def _seconds(path: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(text) for text in done.stdout.split()]


def main() -> None:
    """Print everything."""
    warnings.simplefilter("ignore")
    print_counts()
    print_search()
    print_pipeline()
    print_losses()
    print_times()


if __name__ == "__main__":
    main()
