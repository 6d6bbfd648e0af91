"""Tables of sparse models: ours, dense ones, the constant one, and the papers'.

Ours has the noise of a private release. "oracle" is ours with settings that are best
on other data sets of the same kind, at no cost: what it could do, not what it does.
"search" pays for the choice from the epsilon of its row. delta is 1 / n^2 unless given.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any

from benchmarks._line import Experiment, Line
from benchmarks._papers._sparse_tables import grid, printed, thesis_lines
from benchmarks._sparse_design import Design
from benchmarks._sparse_tasks import SyntheticTask, Task, TextTask
from skdp.linear_model import (
    DPLinearRegression,
    DPLogisticRegression,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp.model_selection import DPGridSearchCV
from skdp.solvers import SOLVERS

# By solver, values of its parameters.
Settings = dict[str, dict[str, list[float]]]


def sparse_solvers() -> list[str]:
    """Registered solvers that select features."""
    return [key for key, solver in SOLVERS.items() if solver.is_sparse]


def synthetic(
    *,
    kinds: list[str],
    settings: list[list[int]],
    epsilon: list[float],
    adjacency: list[str],
    delta: float | None = None,
    labels: bool = False,
    solvers: list[str] | None = None,
    oracle: Settings | None = None,
    search: Settings | None = None,
    few_runs: dict[str, int] | None = None,
    thesis: Sequence[str] = (),
) -> Iterator[Line]:
    """Relative error and F1 of the support; a data set of its own for each run.

    Parameters
    ----------
    kinds : list of str
    labels : bool
        As in `Design`.
    settings : list of [n, d, s]
    epsilon, adjacency : list
    delta : float or None
    solvers : list of str or None
        None: "auto" and every solver that selects features.
    oracle : dict or None
        By solver, lists of values of its parameters that an oracle chooses from;
        ``step_size`` in units of the inverse curvature along a feature.
    search : dict or None
        The same for a search that is charged.
    few_runs : dict or None
        By method, at most so many runs: of those that take long.
    thesis : sequence of str
        Methods of the thesis, in the rows of replace_one.
    """
    for kind, (n, d, s) in product(kinds, settings):
        task = SyntheticTask(Design(n=n, d=d, s=s, kind=kind, labels=labels))
        lines = _lines(
            task, n, epsilon, adjacency, delta, solvers, oracle, search, thesis, None
        )
        yield from _limited(lines, few_runs or {})


def text(
    *,
    task: dict[str, Any],
    n_train: int,
    epsilon: list[float],
    adjacency: list[str],
    delta: float | None = None,
    solvers: list[str] | None = None,
    dense: bool = True,
    few_runs: dict[str, int] | None = None,
    thesis: Sequence[str] = (),
    table: str | None = None,
) -> Iterator[Line]:
    """Test scores on fixed parts; noise of its own for each run.

    Parameters
    ----------
    task : dict
        Parameters of `TextTask`.
    n_train : int
        Records to train on, for delta.
    epsilon, adjacency, delta, solvers, thesis
        As in `synthetic`.
    dense : bool
        Whether the estimators of all features are fitted too.
    few_runs : dict or None
        By method, at most so many runs: of those that take long.
    table : str or None
        Table of the thesis whose values are to stand beside.
    """
    bounds = task.get("target_bounds")
    given = task | {"target_bounds": tuple(bounds) if bounds else None}
    made = TextTask(**({"feature_bound": None, "s": None} | given))
    lines = _lines(
        made, n_train, epsilon, adjacency, delta, solvers, None, None, thesis, table
    )
    if dense:
        lines = chain(lines, _dense_lines(made, epsilon, adjacency, delta, n_train))
    yield from _limited(lines, few_runs or {})


EXPERIMENTS: dict[str, Experiment] = {
    "sparse.synthetic": synthetic,
    "sparse.text": text,
}


def _lines(
    task: Task,
    n: int,
    epsilon: list[float],
    adjacency: list[str],
    delta: float | None,
    solvers: list[str] | None,
    oracle: Settings | None,
    search: Settings | None,
    thesis: Sequence[str],
    table: str | None,
) -> Iterator[Line]:
    yield from _without_epsilon(task, table)
    delta = delta or 1 / n**2
    for row in _rows(epsilon, adjacency):
        budget = row | {"delta": delta}
        for solver in solvers or ["auto", *sparse_solvers()]:
            make = partial(_sparse, task, budget, solver)
            yield _ours(task, row, delta, f"skdp {solver}", make)
        for solver, values in (oracle or {}).items():
            make, choices = partial(_sparse, task, budget, solver), _grid(task, values)
            name = f"skdp {solver}, oracle"
            yield _ours(task, row, delta, name, make, grid=choices)
        for solver, values in (search or {}).items():
            make = partial(_search, task, budget, solver, _grid(task, values))
            yield _ours(task, row, delta, f"skdp {solver}, search", make)
        if row["adjacency"] == "replace_one":
            place = {"task": task.name} | row
            yield from thesis_lines(
                task,
                place,
                epsilon=row["epsilon"],
                delta=delta,
                methods=thesis,
                table=table,
            )


def _dense_lines(
    task: Task,
    epsilon: list[float],
    adjacency: list[str],
    delta: float | None,
    n: int,
) -> Iterator[Line]:
    delta = delta or 1 / n**2
    for row in _rows(epsilon, adjacency):
        make = partial(_dense, task, row | {"delta": delta})
        yield _ours(task, row, delta, "skdp, all features", make)


def _limited(lines: Iterable[Line], few: dict[str, int]) -> Iterator[Line]:
    for line in lines:
        yield replace(line, most_runs=few.get(line.method, line.most_runs))


def _rows(epsilon: list[float], adjacency: list[str]) -> Iterator[dict[str, Any]]:
    for kind in adjacency:
        for value in epsilon:
            yield {"adjacency": kind, "epsilon": value}


def _without_epsilon(task: Task, table: str | None) -> Iterator[Line]:
    place: dict[str, str | float] = {
        "task": task.name,
        "adjacency": "none",
        "epsilon": math.inf,
    }
    methods = {
        "constant": task.of_constant,
        f"{task.reference}, not private": task.not_private,
    }
    for name, score in methods.items():
        yield Line(
            place=place,
            method=name,
            claimed=math.inf,
            true=math.inf,
            adjacency="none",
            measure=partial(_each, score),
            metrics=task.metrics,
            note="" if name == "constant" else _beside(table),
            most_runs=None if isinstance(task, SyntheticTask) else 1,
        )


def _beside(table: str | None) -> str:
    """The thesis's own model without privacy, which is another one."""
    return printed(table, "IGHT", math.inf).replace("printed:", "printed for IGHT:")


def _each(
    score: Callable[[int], tuple[float, ...]], runs: Sequence[int]
) -> Iterator[tuple[float, ...]]:
    for run in runs:
        yield score(run)


def _ours(
    task: Task,
    row: dict[str, Any],
    delta: float,
    method: str,
    make: Callable[..., Any],
    grid: tuple[dict[str, Any], ...] = (),
) -> Line:
    return Line(
        place={"task": task.name} | row,
        method=method,
        claimed=row["epsilon"],
        true=row["epsilon"],
        delta=delta,
        adjacency=row["adjacency"],
        measure=partial(_fitted, task, make),
        private=True,
        metrics=task.metrics,
        better=task.better,
        grid=grid,
        note="settings by an oracle" if grid else "",
    )


def _fitted(
    task: Task, make: Callable[..., Any], runs: Sequence[int], **settings: Any
) -> Iterator[tuple[float, ...]]:
    for run in runs:
        table = task.table(run)
        model = make(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(table.X, table.y)
        if not getattr(model, "has_model_", True):  # a search may end without one
            yield task.of_constant(run)
        else:
            yield task.of_model(getattr(model, "best_estimator_", model), run)


def _kind(task: Task) -> dict[str, Any]:
    """What estimators of this task are told, beside budget and bounds."""
    facts: dict[str, Any] = {"fit_intercept": task.has_intercept}
    if task.labels:
        return facts | {"classes": [0.0, 1.0]}
    return facts | {"target_bounds": task.target_bounds}


def _sparse(task: Task, budget: dict[str, Any], solver: str, **settings: Any) -> Any:
    estimator = DPSparseLogisticRegression if task.labels else DPSparseLinearRegression
    return estimator(
        data_norm=task.data_norm,
        feature_bound=task.feature_bound,
        n_nonzero_coefs=task.s,
        solver=solver,
        solver_params=settings or None,
        **_kind(task),
        **budget,
    )


def _dense(task: Task, budget: dict[str, Any]) -> Any:
    estimator = DPLogisticRegression if task.labels else DPLinearRegression
    return estimator(data_norm=task.data_norm, **_kind(task), **budget)


def _search(
    task: Task, budget: dict[str, Any], solver: str, choices: tuple[dict[str, Any], ...]
) -> Any:
    estimator = _sparse(task, {}, solver)
    return DPGridSearchCV(estimator, {"solver_params": list(choices)}, **budget)


def _grid(task: Task, values: dict[str, list[float]]) -> tuple[dict[str, Any], ...]:
    """All combinations, steps in the solvers' units."""
    sizes = values.get("step_size")
    if sizes is not None:
        unit = _unit_step(task)
        values = values | {"step_size": [unit * size for size in sizes]}
    return grid(**values)


def _unit_step(task: Task) -> float:
    """Inverse of the curvature along a feature; public."""
    assert isinstance(task, SyntheticTask), "settings are tuned on synthetic data"
    return (4.0 if task.labels else 1.0) / task.design.entry_variance
