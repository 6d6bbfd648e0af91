"""Default fits and constant models where noise is large, on made-up tables.

Run at the root of a checkout:

* ``python -m benchmarks.hard_edges chance`` prints how much worse than the base rate
  the constant model is, for four noises from which on even labels are as likely as
  not, and four base rates.
* ``python -m benchmarks.hard_edges lines`` prints, for tables, estimators and budgets,
  the loss of weights and of the constant model, the ratio of `forecast`, and which of
  both a default fit takes. The line for delta = 0 of ``skdp/solvers/_default_rules.py``
  was settled on the tables "few", "small" and "wide"; the others report it.
* ``python -m benchmarks.hard_edges possible`` prints what no private constant can do
  on few records (`benchmarks._possible`), and what ours and some simple ones do.

* ``python -m benchmarks.hard_edges squares`` prints, for real tables with delta = 0,
  1 - R^2 of held-out rows by moments and by one minimisation, of declared columns as
  curves and as lines, and the ratio of `forecast`. What a linear regression takes was
  settled on ccpp, protein_casp and wine_quality_white; three_of_26 reports it.

Losses are means over seeds from 0 up, on the records of the fit but for `squares`.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import xlogy
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance

from benchmarks._declared_tables import declared
from benchmarks._declared_tables import table as real_table
from benchmarks._possible import counts_of, shown, simple_shares
from benchmarks.default_solver import Cell
from benchmarks.default_solver import fitted as fitted_to
from skdp import (
    DPGammaRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
)
from skdp.columns import Range
from skdp.exceptions import Refused
from skdp.preprocessing import TableEncoder
from skdp.solvers import _target_base
from skdp.solvers._registry import constant_model

CLASSIFIERS = (DPLogisticRegression, DPLinearSVC, DPRobustClassifier, DPMLPClassifier)
# With bounds of targets, and the loss of targets and predictions.
REGRESSORS: dict[type[Any], tuple[tuple[float, float], Callable[..., float]]] = {
    DPLinearRegression: ((-1, 1), lambda y, p: np.mean((y - p) ** 2)),
    DPQuantileRegressor: ((-1, 1), lambda y, p: np.mean(np.abs(y - p))),
    DPMLPRegressor: ((-1, 1), lambda y, p: np.mean((y - p) ** 2)),
    DPPoissonRegressor: ((0, 5), mean_poisson_deviance),
    DPGammaRegressor: ((0.1, 5), mean_gamma_deviance),
}
# Records, columns; few, small and wide are the tables that settle.
TABLES = {
    "few": (20, 3),
    "small": (300, 5),
    "wide": (500, 30),
    "one class": (3000, 5),
    "heavy": (5000, 5),
    "rare": (20_000, 5),
    "collinear": (5000, 10),
    "no signal": (3000, 30),
}
BUDGETS = ((0.01, 1e-6), (0.1, 1e-6), (1.0, 1e-6), (0.1, 0.0), (1.0, 0.0))
# Where fits ask for the constant model.
ASKED = (
    "skdp.linear_model._base.constant_if_dominated",
    "skdp.neural_network._network.constant_if_dominated",
)


def table(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and numbers that the first feature explains."""
    n, d = TABLES[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    if name == "heavy":
        X = 0.3 * rng.standard_cauchy((n, d))
    if name == "collinear":
        X = X[:, :1] * (1 - 2 * (np.arange(d) % 2))
    number, label = X[:, 0], X[:, 0] > 0
    if name == "one class":
        number, label = np.full(n, 0.7), np.ones(n)
    if name == "heavy":
        number = np.clip(number, -1, 1) + 0.1 * rng.standard_cauchy(n)
        label = X[:, 0] + 0.3 * rng.normal(size=n) > 0
    if name == "rare":
        number = label = rng.random(n) < 0.002 * np.exp(1.5 * X[:, 0])
    if name == "no signal":
        number, label = 0.3 * rng.normal(size=n), rng.random(n) < 0.3
    return X, np.asarray(label, dtype=int), np.clip(number.astype(float), -1, 1)


def always_constant(_: Any, objective: Any, budget: Any, signal: Any) -> Any:
    """The constant model, as a fit would take it where noise dominates."""
    try:
        return constant_model(objective, budget)
    except Refused:
        return None


def fitted(model: Any, X: np.ndarray, y: np.ndarray, is_constant: bool) -> Any:
    """With weights, or the constant model, whatever a default fit would take."""
    choose = always_constant if is_constant else lambda *_: None
    with ExitStack() as stack:
        for place in ASKED:
            stack.enter_context(patch(place, choose))
        return model.fit(X, y)


def losses(
    kind: type[Any], name: str, budget: tuple[float, float], seed: int
) -> tuple[float, float, float]:
    """Of weights, of the constant model, and of the best constant."""
    X, label, number = table(name, seed)
    epsilon, delta = budget
    given = {"delta": delta, "columns": Range(-1.0, 1.0), "random_state": seed}
    if kind in CLASSIFIERS:
        y, best = label, np.mean(label)
        model = kind(epsilon, classes=[0, 1], **given)
        has_chances = hasattr(model, "predict_proba")
        best = best if has_chances else round(best)
        loss = _log_loss if has_chances else lambda y, p: np.mean(y != p)
    else:
        (low, high), loss = REGRESSORS[kind]
        # Counts and positive targets lie around the middle of their bounds.
        y = number if low < 0 else np.clip((number + 1) * high / 2, low, high)
        y = np.round(y) if kind is DPPoissonRegressor else y
        best = (np.median if kind is DPQuantileRegressor else np.mean)(y)
        model, has_chances = kind(epsilon, target_bounds=(low, high), **given), False
    found = []
    for is_constant in (False, True):
        done = fitted(model, X, y, is_constant)
        told = done.predict_proba(X)[:, 1] if has_chances else done.predict(X)
        found.append(float(loss(y, told)))
    return found[0], found[1], float(loss(y, np.full(len(y), best)))


def _log_loss(y: np.ndarray, p: np.ndarray) -> float:
    return float(log_loss(y, np.clip(p, 1e-12, 1 - 1e-12), labels=[0, 1]))


def lines(times: int, only: str) -> Iterator[str]:
    """A line for each table, estimator and budget."""
    columns = ("table", "model", "epsilon, delta", "ratio", "weights", "constant")
    yield f"| {' | '.join((*columns, 'best', 'taken'))} |"
    yield "|---" * 8 + "|"
    for name in TABLES if not only else [only]:
        for kind in (*CLASSIFIERS, *REGRESSORS):
            for budget in BUDGETS:
                if budget[1] == 0 and kind in (DPMLPClassifier, DPMLPRegressor):
                    continue  # networks need a delta above 0
                found = [losses(kind, name, budget, seed) for seed in range(times)]
                mean = np.mean(found, axis=0)
                told = kind(budget[0], delta=budget[1], **_rest(kind))
                told = told.forecast(*TABLES[name])
                yield (
                    f"| {name} | {kind.__name__} | {budget[0]:g}, {budget[1]:g} "
                    f"| {told.noise_to_signal:.2f} | {mean[0]:.4f} | {mean[1]:.4f} "
                    f"| {mean[2]:.4f} "
                    f"| {'constant' if told.noise_dominates else 'weights'} |"
                )


def _rest(kind: type[Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"columns": Range(-1.0, 1.0)}
    if kind in CLASSIFIERS:
        return given | {"classes": [0, 1]}
    return given | {"target_bounds": REGRESSORS[kind][0]}


def chances(times: int) -> Iterator[str]:
    """Log-loss beyond that of the base rate, by the noise that makes labels even."""
    priors, rates = (0.01, 0.05, 0.2, 1e9), (0.5, 0.2, 0.02, 0.002)
    yield "| delta | n | epsilon | base rate | " + " | ".join(map(str, priors)) + " |"
    yield "|---" * 8 + "|"
    for delta in (1e-6, 0.0):
        for n in (20, 300, 3000, 20_000):
            for epsilon in (0.01, 0.1, 1.0):
                for rate in rates:
                    cells = []
                    for prior in priors:
                        with patch.object(_target_base, "FREE", prior):
                            cells.append(_excess(epsilon, delta, n, rate, times))
                    told = " | ".join(f"{x:.4f}" for x in cells)
                    yield f"| {delta:g} | {n} | {epsilon:g} | {rate:g} | {told} |"


def _excess(epsilon: float, delta: float, n: int, rate: float, times: int) -> float:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    y = (np.arange(n) < rate * n).astype(int)
    p, found = float(np.mean(y)), []
    for seed in range(times):
        model = DPLogisticRegression(
            epsilon,
            delta=delta,
            classes=[0, 1],
            data_norm=math.sqrt(2),
            random_state=seed,
        )
        told = fitted(model, X, y, True).predict_proba(X[:1])[0, 1]
        told = float(np.clip(told, 1e-12, 1 - 1e-12))
        found.append(xlogy(p, p / told) + xlogy(1 - p, (1 - p) / (1 - told)))
    return float(np.mean(found))


def possible(times: int) -> Iterator[str]:
    """What any private constant must miss, and what ours and simple ones miss."""
    columns = ("n", "of", "epsilon, delta", "exchanged", "least chance", "constant")
    yield f"| {' | '.join((*columns, 'misses', 'loses', 'at most'))} |"
    yield "|---" * 9 + "|"
    for n in (1, 5, 20, 3000):
        for budget in BUDGETS[::2]:
            for kind in ("labels", "numbers"):
                found = {"ours": _shares_of_ours(kind, n, budget, times)}
                found |= simple_shares(n, budget, times)
                yield from shown(kind, n, budget, found)


def _shares_of_ours(
    kind: str, n: int, budget: tuple[float, float], times: int
) -> np.ndarray:
    """Of ones that the constant model takes, of each table and seed."""
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    found = np.empty((len(counts_of(n)), times))
    for i, seed in np.ndindex(*found.shape):
        given = {"delta": budget[1], "columns": Range(-1.0, 1.0), "random_state": seed}
        y = (np.arange(n) < counts_of(n)[i]).astype(int)
        if kind == "labels":
            model = DPLogisticRegression(budget[0], classes=[0, 1], **given)
            told = fitted(model, X, y, True).predict_proba(X[:1])[0, 1]
        else:
            model = DPLinearRegression(budget[0], target_bounds=(-1, 1), **given)
            told = (fitted(model, X, 2.0 * y - 1, True).predict(X[:1])[0] + 1) / 2
        found[i, seed] = told
    return found


def squares(times: int) -> Iterator[str]:
    """Linear regressions with delta = 0; scores are not private."""
    ways = list(product(("adassp", "objective_perturbation"), ("hats", "linear")))
    heads = (f"{solver}, {numeric}" for solver, numeric in ways)
    yield f"| table | n | epsilon | ratio | {' | '.join(heads)} |"
    yield "|---" * (4 + len(ways)) + "|"
    for name in ("ccpp", "protein_casp", "wine_quality_white", "three_of_26"):
        for n, epsilon in product((300, 1_000, 3_000, 10_000), (0.1, 0.3, 1.0, 4.0)):
            cell = Cell(name, n, epsilon, "replace_one")
            found = [_unexplained(cell, *way, times) for way in ways]
            known = declared(name)
            ratio = DPLinearRegression(
                epsilon,
                delta=0.0,
                columns=known.columns,
                target_bounds=known.target_bounds,
            ).forecast(n, real_table(name).X.shape[1])
            facts = f"{name} | {n} | {epsilon:g} | {ratio.noise_to_signal:.3f}"
            yield f"| {facts} | {' | '.join(f'{loss:.3f}' for loss in found)} |"


def _unexplained(cell: Cell, solver: str, numeric: str, times: int) -> float:
    columns = TableEncoder(declared(cell.name).columns, numeric=numeric)
    facts = {"delta": 0.0, "solver": solver, "columns": columns}
    found = [fitted_to(cell, seed, changes=facts) for seed in range(times)]
    return float(np.mean([each.loss for each in found]))


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("chance", "lines", "possible", "squares"))
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--table", choices=TABLES, default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "lines":
        found = lines(given.times, given.table)
    else:
        kinds = {"chance": chances, "possible": possible, "squares": squares}
        found = kinds[given.what](given.times)
    for line in found:
        print(line, flush=True)


if __name__ == "__main__":
    main()
