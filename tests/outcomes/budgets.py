"""Budgets of pipelines, and what the books of a few fits add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPQuantileClipper,
    DPSimpleImputer,
    DPSparseLogisticRegression,
    DPStandardScaler,
    forecast,
    privacy_report,
    private_score,
    set_budget,
)
from tests.outcomes.linear import DENSE, SPARSE, model
from tests.outcomes.outcome import Outcome, Released, facts_of, of_fitted, values_of
from tests.outcomes.rows import ratings, rows, targets


def _logistic(**params: Any) -> Any:
    return DPLogisticRegression(classes=[0, 1], **params)


PIPELINES: dict[str, Callable[[], Any]] = {
    "scaled": lambda: make_pipeline(DPStandardScaler(bounds=(-3, 3)), _logistic()),
    "imputed": lambda: make_pipeline(
        DPSimpleImputer(bounds=(-3, 3)),
        DPQuantileClipper(bounds=(-3, 3)),
        DPPCA(n_components=3),
        _logistic(),
    ),
    "selected": lambda: make_pipeline(
        SelectFromModel(
            DPSparseLogisticRegression(classes=[0, 1], n_nonzero_coefs=3),
            threshold=1e-10,
        ),
        _logistic(),
    ),
    "tilted": lambda: make_pipeline(
        DPStandardScaler(bounds=(-3, 3)), _logistic(solver="objective_perturbation")
    ),
    "declared": lambda: make_pipeline(BoundedScaler(bounds=(-3, 3)), _logistic()),
    "regression": lambda: make_pipeline(
        DPStandardScaler(bounds=(-3, 3)), DPLinearRegression(target_bounds=(-2, 3))
    ),
}


def _private_names(pipeline: Any) -> list[str]:
    return sorted(
        name[: -len("random_state")]
        for name in pipeline.get_params()
        if name.endswith("random_state")
    )


def budgeted(name: str, delta: float, adjacency: str) -> Released:
    """The budgets of the steps, and what they release with them."""
    pipeline = PIPELINES[name]()
    steps = _private_names(pipeline)
    pipeline.set_params(**{f"{step}adjacency": adjacency for step in steps})
    pipeline = set_budget(pipeline, epsilon=3.0, delta=delta)
    found = pipeline.get_params()
    planned = [[found[f"{step}epsilon"], found[f"{step}delta"]] for step in steps]
    report = privacy_report(pipeline)
    planned.append([report.epsilon, report.delta])
    pipeline.set_params(
        **{f"{step}random_state": seed for seed, step in enumerate(steps)}
    )
    X = rows("missing" if name == "imputed" else "plain")
    y = targets(X, None if name == "regression" else 2)
    pipeline.fit(X, y)
    values = [planned, values_of(pipeline), pipeline.predict(X)]
    return Released(values, facts_of(pipeline[-1].privacy_))


def _fit_solvers(ledger: Any, delta: float, solvers: tuple[str, ...]) -> None:
    X = rows("plain")
    for solver in solvers:
        loss = "squared" if solver == "adassp" else "logistic"
        given = {"epsilon": 0.5, "delta": delta, "random_state": None}
        y = targets(X, None if loss == "squared" else 2)
        model(loss, solver, ledger=ledger, **given).fit(X, y)


def _fit_steps(ledger: Any, delta: float) -> None:
    X, y = rows("plain"), targets(rows("plain"), 2)
    given = {"epsilon": 0.5, "delta": delta, "ledger": ledger}
    DPStandardScaler(bounds=(-3, 3), **given).fit(X)
    DPSimpleImputer(bounds=(-3, 3), **given).fit(X)
    DPPCA(n_components=2, **given).fit(X)
    DPQuantileClipper(bounds=(-3, 3), **given).fit(X)
    fitted = _logistic(**given).fit(X, y)
    private_score(fitted, X, y, **given)
    DPGridSearchCV(_logistic(), {"C": [0.1, 1.0]}, **given).fit(X, y)


def _fit_too_much(ledger: Any, delta: float) -> None:
    _fit_solvers(ledger, delta, ("online",) * 300)


JOBS: dict[str, Callable[[Any, float], None]] = {
    **{
        solver: partial(_fit_solvers, solvers=(solver, solver))
        for solver in ("auto", *DENSE, *SPARSE)
    },
    "several": partial(_fit_solvers, solvers=("noisy_gd", "iht", "adassp")),
    "steps": _fit_steps,
    "too_much": _fit_too_much,
}


def _entries(ledger: Any) -> list[Any]:
    """Every charge, and the totals."""
    charges = [[x.event, x.epsilon, x.delta, x.epsilon_total] for x in _frame(ledger)]
    spent, left = ledger.spent(), ledger.remaining()
    totals = (spent.epsilon, spent.delta, left.epsilon, left.delta)
    return [*charges, *(float(x) for x in totals)]


def _frame(ledger: Any) -> Any:
    return ledger.to_frame().itertuples()


def booked(name: str, delta: float) -> Released:
    """The books after unseeded fits: public, and the same each time."""
    with TemporaryDirectory() as folder:
        ledger = BudgetLedger(Path(folder) / "books.db", epsilon=8.0, delta=delta)
        with suppress(BudgetExceeded):  # the books say where it stopped
            JOBS[name](ledger, delta)
        return Released(None, _entries(ledger))


def booked_ratings(unit: str) -> Released:
    """The books after factorisations."""
    X, y = ratings()
    given: dict[str, Any] = {"rating_bounds": (1, 5), "privacy_unit": unit}
    if unit == "user":
        given |= {"n_users": 45, "item_ids": [f"i{i:02}" for i in range(27)]}
    with TemporaryDirectory() as folder:
        ledger = BudgetLedger(
            Path(folder) / "books.db",
            epsilon=8.0,
            delta=1e-6,
            adjacency=unit,
            unit="user" if unit == "user" else "rating",
        )
        for _ in range(2):
            DPMatrixFactorization(ledger=ledger, **given).fit(X, y)
        return Released(None, _entries(ledger))


def seeded_with_ledger(solver: str) -> Released:
    """What a fit releases that is one of several on the books."""
    X = rows("plain")
    with TemporaryDirectory() as folder:
        ledger = BudgetLedger(
            Path(folder) / "books.db", epsilon=8.0, delta=1e-6, allow_nonprivate=True
        )
        fitted = model("logistic", solver, ledger=ledger).fit(X, targets(X, 2))
        return of_fitted(fitted, books=[x.event for x in _frame(ledger)])


def forecasted(solver: str, delta: float, adjacency: str) -> Released:
    """The noise that is told before any data are at hand."""
    found = forecast(800, 12, delta=delta, adjacency=adjacency, solver=solver)
    values = [found.noise_multiplier, found.coefficient_noise, found.coefficient_scale]
    return Released([found.solver, *values, found.records_for_little_noise], None)


def outcomes() -> Iterator[Outcome]:
    """All of budgets and books."""
    for budget, delta in {"delta": 1e-6, "pure": 0.0}.items():
        for adjacency in ("replace_one", "zero_out"):
            for name in PIPELINES:
                key = f"pipeline/{name}/{adjacency}/{budget}"
                yield Outcome(key, partial(budgeted, name, delta, adjacency))
            for solver in ("auto", "nesterov", "bolt_on", "output_perturbation"):
                key = f"forecast/{solver}/{adjacency}/{budget}"
                yield Outcome(key, partial(forecasted, solver, delta, adjacency))
        for name in JOBS:
            yield Outcome(f"ledger/{name}/{budget}", partial(booked, name, delta))
    for unit in ("rating_value", "user"):
        yield Outcome(f"ledger/{unit}", partial(booked_ratings, unit))
    for solver in ("auto", "noisy_gd"):
        key = f"ledger/seeded/{solver}"
        yield Outcome(key, partial(seeded_with_ledger, solver))
