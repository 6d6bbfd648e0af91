"""Defaults beside constants where little can be learned.

Run ``python -m benchmarks.hostile``, or with names of defaults.

Every default is fitted 50 times in each cell of a literal grid. Its mean excess is over
the better of two constants: the same estimator with nothing but an intercept, at the
whole budget, and the constant that costs nothing (even probabilities, the middle of the
target's bounds).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, r2_score

from skdp import DPLinearRegression, DPLogisticRegression
from skdp.columns import Range

_FITS = 50
_TEST = 2_000


@dataclass(frozen=True)
class Cell:
    """One hostile case.

    Parameters
    ----------
    n, d : int
    epsilon : float
    adjacency : str
    signal : float
        Size of the weights; 0 is pure noise.
    width : float
        Rows are this many times too long for their norm.
    base : float
        Share of positives, or where in [0, 1] of its bounds the target lies.
    """

    n: int
    d: int
    epsilon: float
    adjacency: str = "replace_one"
    signal: float = 2.0
    width: float = 1.0
    base: float = 0.5


CELLS = [
    Cell(n, d, epsilon, adjacency)
    for n, d in ((200, 5), (200, 50), (2_000, 20), (2_000, 500), (20_000, 50))
    for epsilon in (0.1, 1.0)
    for adjacency in ("replace_one", "zero_out")
]
CELLS += [
    Cell(2_000, 20, epsilon, signal=0.0, base=base)
    for epsilon in (0.1, 1.0)
    for base in (0.5, 0.03)
]
CELLS += [
    Cell(5_000, 20, 1.0, width=10.0),
    Cell(5_000, 20, 0.1, width=10.0),
    Cell(5_000, 20, 1.0, base=0.02),
    Cell(20_000, 20, 0.3, base=0.02),
    Cell(5_000, 20, 3.0, base=0.01),
]


def rows(cell: Cell, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of independent columns in [-1, 1]."""
    return rng.uniform(-1, 1, (n, cell.d))


def scores(cell: Cell, X: np.ndarray) -> np.ndarray:
    """What rows say of the target: every column the same, in turn up and down."""
    signs = np.where(np.arange(cell.d) % 2, 1.0, -1.0)
    return np.asarray(cell.signal * (X @ signs) / np.sqrt(cell.d / 3))


def labels(cell: Cell, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels of about the cell's share of positives."""
    raw = scores(cell, X) + np.log(cell.base / (1 - cell.base))
    return np.asarray(rng.random(len(X)) < 1 / (1 + np.exp(-raw))).astype(int)


def targets(cell: Cell, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Targets in [0, 1], of deviation 0.1 or less at an end."""
    noise = rng.normal(size=len(X))
    size = 0.1 if cell.base == 0.5 else 0.02
    return np.asarray(
        np.clip(cell.base + size * (scores(cell, X) / 2 + noise), 0.0, 1.0)
    )


def classifier(cell: Cell, columns: Any) -> DPLogisticRegression:
    """The default, of declared columns or of rows as they come."""
    norm = {} if columns is not None else {"data_norm": np.sqrt(cell.d / 3)}
    return DPLogisticRegression(
        cell.epsilon,
        columns=columns,
        classes=[0, 1],
        delta=1e-6,
        adjacency=cell.adjacency,
        **norm,
    )


def regressor(cell: Cell, columns: Any) -> DPLinearRegression:
    """The default, of declared columns or of rows as they come."""
    norm = {} if columns is not None else {"data_norm": np.sqrt(cell.d / 3)}
    return DPLinearRegression(
        cell.epsilon,
        columns=columns,
        target_bounds=(0, 1),
        delta=1e-6,
        adjacency=cell.adjacency,
        **norm,
    )


def loss_of(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Log-loss, or 1 - R2 of predictions within the bounds."""
    if hasattr(model, "predict_proba"):
        shares = np.clip(model.predict_proba(X), 1e-12, 1.0)
        return float(log_loss(y, shares, labels=[0, 1]))
    return float(1 - r2_score(y, np.clip(model.predict(X), 0, 1)))


def excess(
    cell: Cell, make: Callable[[Cell, Any], Any], columns: Any, draw: Any
) -> tuple[float, float]:
    """Mean excess over the better constant, and its standard error."""
    warnings.simplefilter("ignore")
    found, constant, free = [], [], []
    for seed in range(_FITS):
        rng = np.random.default_rng(seed)
        X, X_test = rows(cell, cell.n, rng), rows(cell, _TEST, rng)
        y, y_test = draw(cell, X, rng), draw(cell, X_test, rng)
        wide = 1.0 if columns is not None else cell.width
        model = make(cell, columns).fit(wide * X, y)
        found.append(loss_of(model, wide * X_test, y_test))
        nothing, nothing_test = np.zeros((cell.n, 1)), np.zeros((_TEST, 1))
        alone = make(cell, None).set_params(data_norm=1.0).fit(nothing, y)
        constant.append(loss_of(alone, nothing_test, y_test))
        is_class = hasattr(alone, "predict_proba")
        middle = float(1 - r2_score(y_test, np.full(_TEST, 0.5)))
        free.append(np.log(2) if is_class else middle)
    best = constant if np.mean(constant) < np.mean(free) else free
    apart = np.array(found) - np.array(best)
    return float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(_FITS))


DEFAULTS: dict[str, Callable[[Cell], tuple[float, float]]] = {
    "logistic": lambda c: excess(c, classifier, None, labels),
    "logistic, columns": lambda c: excess(c, classifier, Range(-1, 1), labels),
    "regression": lambda c: excess(c, regressor, None, targets),
    "regression, columns": lambda c: excess(c, regressor, Range(-1, 1), targets),
}
ALLOWED = {"logistic": 0.01, "regression": 0.02}


def _cell(cell: Cell, names: list[str]) -> str:
    told = []
    for name in names:
        mean, error = DEFAULTS[name](cell)
        bar = ALLOWED[name.partition(",")[0]] + 4 * error
        told.append(f"{mean:+.4f} ±{error:.4f}{' MISSED' if mean > bar else ''}")
    facts = (cell.n, cell.d, cell.epsilon, cell.adjacency, cell.signal)
    facts += (cell.width, cell.base)
    return "| " + " | ".join([*map(str, facts), *told]) + " |"


def main(names: list[str]) -> None:
    """Print the grid."""
    names = names or list(DEFAULTS)
    facts = ["n", "d", "epsilon", "adjacency", "signal", "width", "base"]
    print("| " + " | ".join([*facts, *names]) + " |")
    print("|" + "---|" * (len(facts) + len(names)))
    with ProcessPoolExecutor(2) as pool:
        for line in pool.map(partial(_cell, names=names), CELLS):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
