"""Defaults beside constants where little can be learned.

Run ``python -m benchmarks.hostile``, or with names of defaults; "as_encoded" is a
default but for rows that are not centred. ``--grid curved`` has other cells: targets
that are smooth functions of four columns, and pure noise of several sizes.

Every default is fitted 50 times in each cell of a literal grid, on other records and
with other noise each time. Its mean excess is over the better of two constants: the
same estimator with nothing but an intercept, at the whole budget, and the constant that
costs nothing (even probabilities, the middle of the target's bounds). A mean beyond
what is allowed and four standard errors is marked MISSED.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, r2_score

from benchmarks._accuracy import mean_and_error
from skdp import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)
from skdp.columns import Range

_TEST = 2_000
# Noise is drawn apart from records.
_NOISE_SEED = 7000


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
        Rows are this many times too long for their norm; declared columns stay as they
        are.
    base : float
        Share of positives, or where in [0, 1] of its bounds the target lies.
    form : {"linear", "smooth"}
        What the target is of the columns; "smooth" is of the first four.
    """

    n: int
    d: int
    epsilon: float
    adjacency: str = "replace_one"
    signal: float = 2.0
    width: float = 1.0
    base: float = 0.5
    form: str = "linear"


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
_CURVED = [
    Cell(n, d, epsilon, adjacency, signal, form=form)
    for n, d in ((200, 5), (1_000, 20), (20_000, 20))
    for epsilon in (0.1, 1.0)
    for adjacency in ("replace_one", "zero_out")
    for signal, form in ((2.0, "smooth"), (0.0, "linear"))
]
GRIDS = {"linear": CELLS, "curved": _CURVED}


def rows(cell: Cell, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of independent columns in [-1, 1]."""
    return rng.uniform(-1, 1, (n, cell.d))


def scores(cell: Cell, X: np.ndarray) -> np.ndarray:
    """What rows say of the target, of a deviation of about the signal."""
    if cell.form == "smooth":
        return np.asarray(cell.signal * _smooth(*X[:, :4].T))
    # Every column the same, in turn up and down.
    signs = np.where(np.arange(cell.d) % 2, 1.0, -1.0)
    return np.asarray(cell.signal * (X @ signs) / np.sqrt(cell.d / 3))


def _smooth(
    wave: np.ndarray, one: np.ndarray, other: np.ndarray, bowl: np.ndarray
) -> np.ndarray:
    return np.asarray(
        np.sin(np.pi * wave) + 1.5 * one * other + 1.5 * (bowl**2 - 1 / 3)
    )


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


@dataclass(frozen=True)
class Default:
    """A model with every default.

    Parameters
    ----------
    kind : type
    known : dict
        What it must be told of its target.
    draw : callable
        Targets of rows.
    loss : callable
        Of true targets and a model's view of rows.
    free : float
        What the constant that costs nothing predicts.
    allowed : float
        Excess over the better constant, in units of the loss.
    columns : Range or None
        Of all columns; None gives it rows as they come.
    start : dict or None
        Parameters that leave of boosting nothing but its start.
    """

    kind: Callable[..., Any]
    known: dict[str, Any]
    draw: Callable[[Cell, np.ndarray, np.random.Generator], np.ndarray]
    loss: Callable[[np.ndarray, np.ndarray], float]
    free: float
    allowed: float
    columns: Range | None = None
    start: dict[str, Any] | None = None

    def model(self, cell: Cell) -> Any:
        """What is measured."""
        if self.columns is None:
            return self._made(cell)(data_norm=np.sqrt(cell.d / 3))
        return self._made(cell)(columns=self.columns)

    def constant(self, cell: Cell) -> Any:
        """Its like for rows of zeros: an intercept."""
        if self.start is not None:
            return self._made(cell)(columns=self.columns, **self.start)
        return self._made(cell)(data_norm=1.0)

    def _made(self, cell: Cell) -> Callable[..., Any]:
        budget = {"delta": 1e-6, "adjacency": cell.adjacency}
        return partial(self.kind, cell.epsilon, **budget, **self.known)

    def loss_of(self, model: Any, X: np.ndarray, y: np.ndarray) -> float:
        """Of a fitted model."""
        if hasattr(model, "predict_proba"):
            return self.loss(y, model.predict_proba(X)[:, 1])
        return self.loss(y, model.predict(X))


def log_loss_of(y: np.ndarray, shares: np.ndarray) -> float:
    """Of shares of positives."""
    return float(log_loss(y, np.clip(shares, 1e-12, 1 - 1e-12), labels=[0, 1]))


def unexplained(y: np.ndarray, predicted: np.ndarray) -> float:
    """1 - R2 of predictions within the bounds."""
    return float(1 - r2_score(y, np.clip(predicted, 0, 1)))


def losses(cell: Cell, default: Default, seed: int) -> tuple[float, float, float]:
    """Of the default, of its intercept alone, and of the constant that is free."""
    rng = np.random.default_rng(seed)
    X, X_test = rows(cell, cell.n, rng), rows(cell, _TEST, rng)
    y, y_test = default.draw(cell, X, rng), default.draw(cell, X_test, rng)
    width = cell.width if default.columns is None else 1.0
    noise = {"random_state": _NOISE_SEED + seed}
    model = default.model(cell).set_params(**noise).fit(width * X, y)
    alone = default.constant(cell).set_params(**noise).fit(np.zeros((cell.n, 1)), y)
    return (
        default.loss_of(model, width * X_test, y_test),
        default.loss_of(alone, np.zeros((_TEST, 1)), y_test),
        default.loss(y_test, np.full(_TEST, default.free)),
    )


def excess(cell: Cell, default: Default, n_fits: int) -> tuple[float, float]:
    """Mean excess over the better constant, and its standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = [losses(cell, default, seed) for seed in range(n_fits)]
    found, *constants = np.array(measured).T
    return mean_and_error(found - min(constants, key=np.mean))


def verdict(cell: Cell, default: Default, n_fits: int) -> str:
    """A cell of the table."""
    mean, error = excess(cell, default, n_fits)
    is_missed = mean > default.allowed + 4 * error
    return f"{mean:+.4f} ±{error:.4f}{' MISSED' if is_missed else ''}"


_LOGISTIC = Default(
    DPLogisticRegression,
    {"classes": [0, 1]},
    labels,
    log_loss_of,
    free=0.5,
    allowed=0.01,
)
_REGRESSION = Default(
    DPLinearRegression,
    {"target_bounds": (0, 1)},
    targets,
    unexplained,
    free=0.5,
    allowed=0.02,
)
# A tree must be, but may add next to nothing. What is left is for the unit of targets.
_START = {
    "init": "constant",
    "solver": "newton_boosting",
    "n_estimators": 1,
    "learning_rate": 1e-9,
    "solver_params": {"start_share": 0.89, "counts_share": 0.0, "gains_share": 0.0},
}


def _boosted(default: Default, kind: Callable[..., Any]) -> Default:
    return replace(_of_columns(default), kind=kind, start=_START)


def _of_columns(default: Default) -> Default:
    return replace(default, columns=Range(-1, 1))


def _as_encoded(default: Default) -> Default:
    known = default.known | {"solver": "noisy_gd"}
    return replace(_of_columns(default), known=known)


DEFAULTS = {
    "logistic": _LOGISTIC,
    "logistic, columns": _of_columns(_LOGISTIC),
    "logistic, as_encoded": _as_encoded(_LOGISTIC),
    "regression": _REGRESSION,
    "regression, columns": _of_columns(_REGRESSION),
    "regression, as_encoded": _as_encoded(_REGRESSION),
    "boosted logistic": _boosted(_LOGISTIC, DPGradientBoostingClassifier),
    "boosted regression": _boosted(_REGRESSION, DPGradientBoostingRegressor),
}


def line(cell: Cell, names: Iterable[str], n_fits: int) -> str:
    """A line of the table."""
    facts = [cell.n, cell.d, cell.epsilon, cell.adjacency, cell.signal]
    facts += [cell.width, cell.base, cell.form]
    told = [verdict(cell, DEFAULTS[name], n_fits) for name in names]
    return "| " + " | ".join([*map(str, facts), *told]) + " |"


def main(arguments: list[str] | None = None) -> None:
    """Print the grid, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(DEFAULTS))
    parser.add_argument("--grid", choices=GRIDS, default="linear")
    parser.add_argument("--fits", type=int, default=50, help="in each cell")
    parser.add_argument("--most-entries", type=int, help="of X, in the cells measured")
    parser.add_argument("--least-entries", type=int, default=0)
    parser.add_argument("--jobs", type=int, choices=[1, 2], default=2)
    options = parser.parse_args(arguments)
    names = options.names or list(DEFAULTS)
    if unknown := set(names) - set(DEFAULTS):
        parser.error(f"names must be of {list(DEFAULTS)}. Got {sorted(unknown)}.")
    facts = ["n", "d", "epsilon", "adjacency", "signal", "width", "base", "form"]
    print("| " + " | ".join([*facts, *names]) + " |")
    print("|" + "---|" * (len(facts) + len(names)))
    measured = partial(line, names=names, n_fits=options.fits)
    for told in _lines(measured, _chosen(options), options.jobs):
        print(told, flush=True)


def _chosen(options: argparse.Namespace) -> list[Cell]:
    low, high = options.least_entries, options.most_entries or math.inf
    return [cell for cell in GRIDS[options.grid] if low <= cell.n * cell.d <= high]


def _lines(
    measured: Callable[[Cell], str], cells: list[Cell], n_processes: int
) -> Iterable[str]:
    if n_processes == 1:
        yield from map(measured, cells)
        return
    with ProcessPoolExecutor(n_processes) as pool:
        yield from pool.map(measured, cells)


if __name__ == "__main__":
    main()
