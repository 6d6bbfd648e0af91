"""Defaults where little can be learned, and where noise leaves a constant model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import (
    log_loss,
    mean_gamma_deviance,
    mean_poisson_deviance,
    r2_score,
)

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark, line, mean_and_error
from skdp import (
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
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
from skdp.solvers._registry import constant_model

_TEST, _DELTA = 2_000, 1e-6
# Least target of models with a gamma loss.
_LEAST = 0.01
# Noise is drawn apart from records.
_NOISE_SEED = 7000


@dataclass(frozen=True)
class Cell:
    """One hostile case."""

    n: int
    d: int
    epsilon: float
    adjacency: str = "replace_one"
    signal: float = 2.0  # size of the weights; 0 is pure noise
    width: float = 1.0  # rows are so many times too long for their norm
    base: float = 0.5  # share of positives, or where in its bounds the target lies
    form: str = "linear"  # or "smooth", of the first four columns


_BOTH = ("replace_one", "zero_out")
CELLS = [
    Cell(n, d, epsilon, adjacency)
    for n, d in ((200, 5), (200, 50), (2_000, 20), (2_000, 500), (20_000, 50))
    for epsilon in (0.1, 1.0)
    for adjacency in _BOTH
]
CELLS += [
    Cell(2_000, 20, epsilon, signal=0.0, base=base)
    for epsilon in (0.1, 1.0)
    for base in (0.5, 0.03)
]
CELLS += [Cell(3_000, 20, 0.1, "zero_out", signal=signal) for signal in (0.0, 2.0)]
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
    for adjacency in _BOTH
    for signal, form in ((2.0, "smooth"), (0.0, "linear"))
]


def rows(cell: Cell, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of independent columns in [-1, 1]."""
    return rng.uniform(-1, 1, (n, cell.d))


def scores(cell: Cell, X: np.ndarray) -> np.ndarray:
    """What rows say of the target, of a deviation of about the signal."""
    if cell.form == "smooth":
        wave, one, other, bowl = X[:, :4].T
        curve = np.sin(np.pi * wave) + 1.5 * one * other + 1.5 * (bowl**2 - 1 / 3)
        return np.asarray(cell.signal * curve)
    # Every column the same, in turn up and down.
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


def log_loss_of(y: np.ndarray, shares: np.ndarray) -> float:
    """Of shares of positives."""
    return float(log_loss(y, np.clip(shares, 1e-12, 1 - 1e-12), labels=[0, 1]))


def unexplained(y: np.ndarray, predicted: np.ndarray) -> float:
    """1 - R2 of predictions within the bounds."""
    return float(1 - r2_score(y, np.clip(predicted, 0, 1)))


def gamma_loss(y: np.ndarray, predicted: np.ndarray) -> float:
    """Gamma deviance over that of the best constant, of positive targets."""
    y = np.clip(y, _LEAST, 1)
    of_mean = mean_gamma_deviance(y, np.full(len(y), y.mean()))
    return float(mean_gamma_deviance(y, np.clip(predicted, _LEAST, 1)) / of_mean)


# A tree must be, but may add next to nothing. What is left is for the unit of targets.
_START: dict[str, Any] = {
    "init": "constant",
    "solver": "newton_boosting",
    "n_estimators": 1,
    "learning_rate": 1e-9,
    "solver_params": {"start_share": 0.89, "counts_share": 0.0, "gains_share": 0.0},
}


@dataclass(frozen=True)
class Default:
    """A model with every default."""

    kind: Callable[..., Any]
    is_classifier: bool
    columns: Range | None = None  # None gives it rows as they come
    solver: str = ""
    start: dict[str, Any] | None = None  # what leaves of boosting nothing but a start
    has_gamma_loss: bool = False

    @property
    def allowed(self) -> float:
        """Excess over the better constant, in units of the loss."""
        return 0.01 if self.is_classifier else 0.02

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
        known: dict[str, Any] = {"target_bounds": (0, 1)}
        if self.is_classifier:
            known = {"classes": [0, 1]}
        if self.has_gamma_loss:
            known = {"target_bounds": (_LEAST, 1)}
            if self.start is not None:
                known["loss"] = "gamma"
        if self.solver:
            known["solver"] = self.solver
        budget = {"delta": _DELTA, "adjacency": cell.adjacency}
        return partial(self.kind, cell.epsilon, **budget, **known)

    def loss_of(self, model: Any, X: np.ndarray, y: np.ndarray) -> float:
        """Of a fitted model."""
        if self.is_classifier and hasattr(model, "predict_proba"):
            return log_loss_of(y, model.predict_proba(X)[:, 1])
        return self.of_constant(y, model.predict(X))

    def of_constant(self, y: np.ndarray, predicted: np.ndarray) -> float:
        """Loss of shares of positives, or of predictions."""
        if self.is_classifier:
            return log_loss_of(y, predicted)
        return (gamma_loss if self.has_gamma_loss else unexplained)(y, predicted)


_COLUMNS = {"columns": Range(-1, 1)}
DEFAULTS = {
    "logistic": Default(DPLogisticRegression, True),
    "logistic, columns": Default(DPLogisticRegression, True, **_COLUMNS),
    "logistic, as_encoded": Default(
        DPLogisticRegression, True, **_COLUMNS, solver="noisy_gd"
    ),
    "regression": Default(DPLinearRegression, False),
    "regression, columns": Default(DPLinearRegression, False, **_COLUMNS),
    "regression, as_encoded": Default(
        DPLinearRegression, False, **_COLUMNS, solver="noisy_gd"
    ),
    "boosted logistic": Default(
        DPGradientBoostingClassifier, True, **_COLUMNS, start=_START
    ),
    "boosted regression": Default(
        DPGradientBoostingRegressor, False, **_COLUMNS, start=_START
    ),
    "gamma, columns": Default(DPGammaRegressor, False, **_COLUMNS, has_gamma_loss=True),
    "boosted gamma": Default(
        DPGradientBoostingRegressor,
        False,
        **_COLUMNS,
        start=_START,
        has_gamma_loss=True,
    ),
}


def losses(cell: Cell, default: Default, seed: int) -> tuple[float, float, float]:
    """Of the default, of its intercept alone, and of the constant that is free."""
    rng = np.random.default_rng(seed)
    X, X_test = rows(cell, cell.n, rng), rows(cell, _TEST, rng)
    draw = labels if default.is_classifier else targets
    y, y_test = draw(cell, X, rng), draw(cell, X_test, rng)
    width = cell.width if default.columns is None else 1.0
    noise = {"random_state": _NOISE_SEED + seed}
    nothing, test = np.zeros((cell.n, 1)), np.zeros((_TEST, 1))
    model = quietly_fitted(default.model(cell).set_params(**noise), width * X, y)
    alone = quietly_fitted(default.constant(cell).set_params(**noise), nothing, y)
    return (
        default.loss_of(model, width * X_test, y_test),
        default.loss_of(alone, test, y_test),
        default.of_constant(y_test, np.full(_TEST, 0.5)),
    )


@benchmark("hostile", runs=50, judged=True)
def hostile(curved: bool = False) -> Iterator[Line]:
    """Defaults beside two constants where little can be learned.

    Records are others in each run. The constants are the same estimator with nothing
    but an intercept, at the whole budget, and the constant that costs nothing. A mean
    excess beyond what is allowed and four standard errors is MISSED. With `curved`
    targets are smooth functions of four columns, or pure noise.
    """
    for cell in _CURVED if curved else CELLS:
        for name, default in DEFAULTS.items():
            yield line(
                vars(cell),
                name,
                partial(losses, cell, default),
                ("loss", "intercept", "free"),
                private=True,
                judge=partial(_excess, default.allowed),
            )


def _excess(allowed: float, values: np.ndarray, _: Any) -> str:
    found, *constants = values.T
    mean, error = mean_and_error(found - min(constants, key=np.mean))
    is_missed = mean > allowed + 4 * error
    return f"{mean:+.4f} ± {error:.4f}{' MISSED' if is_missed else ''}"


# ------------------------------------------------------- weights or the constant model

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
_BUDGETS = ((0.01, 1e-6), (0.1, 1e-6), (1.0, 1e-6), (0.1, 0.0), (1.0, 0.0))
# Where fits ask for the constant model.
_ASKED = (
    "skdp.linear_model._base.constant_if_dominated",
    "skdp.neural_network._network.constant_if_dominated",
)


def made_up(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def _always_constant(_: Any, objective: Any, budget: Any, signal: Any) -> Any:
    """The constant model, as a fit would take it where noise dominates."""
    try:
        return constant_model(objective, budget)
    except Refused:
        return None


def chosen_fit(model: Any, X: np.ndarray, y: np.ndarray, is_constant: bool) -> Any:
    """With weights, or the constant model, whatever a default fit would take."""
    choose = _always_constant if is_constant else lambda *_: None
    with ExitStack() as stack:
        for place in _ASKED:
            stack.enter_context(patch(place, choose))
        return quietly_fitted(model, X, y)


def _both_losses(
    kind: type[Any], name: str, budget: tuple[float, float], seed: int
) -> tuple[float, float, float]:
    """Of weights, of the constant model, and of the best constant."""
    X, label, number = made_up(name, seed)
    model = _of(kind, budget).set_params(random_state=seed)
    has_chances = hasattr(model, "predict_proba") and kind in CLASSIFIERS
    if kind in CLASSIFIERS:
        y, best = label, np.mean(label)
        best = best if has_chances else round(best)
        loss = log_loss_of if has_chances else lambda y, p: np.mean(y != p)
    else:
        (low, high), loss = REGRESSORS[kind]
        # Counts and positive targets lie around the middle of their bounds.
        y = number if low < 0 else np.clip((number + 1) * high / 2, low, high)
        y = np.round(y) if kind is DPPoissonRegressor else y
        best = (np.median if kind is DPQuantileRegressor else np.mean)(y)
    found = []
    for is_constant in (False, True):
        done = chosen_fit(model, X, y, is_constant)
        told = done.predict_proba(X)[:, 1] if has_chances else done.predict(X)
        found.append(float(loss(y, told)))
    return found[0], found[1], float(loss(y, np.full(len(y), best)))


def _of(kind: type[Any], budget: tuple[float, float]) -> Any:
    given: dict[str, Any] = {"delta": budget[1], "columns": Range(-1.0, 1.0)}
    if kind in CLASSIFIERS:
        return kind(budget[0], classes=[0, 1], **given)
    return kind(budget[0], target_bounds=REGRESSORS[kind][0], **given)


@benchmark("hard_edges", runs=5)
def weights_or_constant() -> Iterator[Line]:
    """Weights or the constant model at the edges, with what `forecast` says.

    Losses are those on the records of the fit. The line for delta = 0 of
    ``skdp/solvers/_default_rules.py`` was settled on the tables "few", "small" and
    "wide"; the others report it.
    """
    for name, kind, budget in product(TABLES, (*CLASSIFIERS, *REGRESSORS), _BUDGETS):
        if budget[1] == 0 and kind in (DPMLPClassifier, DPMLPRegressor):
            continue  # networks need a delta above 0
        told = _of(kind, budget).forecast(*TABLES[name])
        taken = "constant" if told.noise_dominates else "weights"
        yield line(
            {"table": name, "epsilon": budget[0], "delta": budget[1]},
            kind.__name__,
            partial(_both_losses, kind, name, budget),
            ("weights", "constant", "best constant"),
            private=True,
            note=f"ratio {told.noise_to_signal:.2f}, takes {taken}",
        )
