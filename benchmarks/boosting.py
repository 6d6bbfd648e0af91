"""Boosted trees: bands of shape functions, the trial of trees, and costs of parameters.

Scores on all declared tables, beside constants and scikit-learn's histogram boosting,
are in ``python -m benchmarks declared --only boost``; times are in ``speed``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial, reduce
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks._models import Constant, Facts, quietly_fitted, scored
from benchmarks._runner import (
    Line,
    Measured,
    at_hand,
    benchmark,
    line,
    mean_and_error,
    pair,
)
from benchmarks._tables import DECLARED, declared, parts, table
from skdp.ensemble import _boosting as boosting
from skdp.ensemble import _linear_start, _losses
from skdp.ensemble._boosting import NewtonBoosting
from skdp.ensemble._estimators import _INTERACTIONS_AFTER as _AFTER
from skdp.ensemble._trees import RandomTrees, TreeDraws
from skdp.privacy.accounting._calibrate import Budget
from skdp.solvers import _centred_descent, _run_noise
from skdp.solvers._default_rules import curve_intervals, signal_to_noise_of

_TABLE = "adult"
# Tables whose bands constants were settled on, and tables kept apart.
_SETTLED = ("adult", "ccpp")
_APART = ("covertype", "protein_casp", "kddcup99", "wine_quality_white")
_EPSILONS = (0.1, 0.3, 1.0, 4.0)
ADJACENCIES = ("replace_one", "zero_out")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_METRICS = (
    *("size", "stated"),
    *(f"{q:g}" for q in _QUANTILES),
    *(f"codes {q:g}" for q in _QUANTILES[::2]),
    *("within 1", "2"),
)


class _Kept:
    """Draws that repeat those of the first fit."""

    def __init__(self, draws: TreeDraws, kept: list[RandomTrees]) -> None:
        self._draws, self._kept, self._n_asked = draws, kept, 0

    def draw(self, *args: Any) -> RandomTrees:
        self._n_asked += 1
        if self._n_asked > len(self._kept):
            self._kept.append(self._draws.draw(*args))
        return self._kept[self._n_asked - 1]


@contextmanager
def same_trees() -> Iterator[None]:
    """Trees of the first fit serve all; what its noise says of codes is in them."""
    draws = NewtonBoosting.draws
    kept: list[RandomTrees] = []

    def repeated(*args: Any) -> Any:
        return _Kept(draws(*args), kept)

    with patch.object(NewtonBoosting, "draws", repeated):
        yield


class Entries(NamedTuple):
    """Entries of a curve or a table, or of many, of one fit: (n_entries,) each."""

    values: np.ndarray
    noise: np.ndarray
    shares: np.ndarray


def entries(functions: Any) -> dict[tuple[int, ...], Entries]:
    """Entries by columns; where no shares were released, codes have equal shares."""
    sizes = enumerate(functions.bins.n_bins)
    known = [functions.shares.get(j, np.full(n, 1 / n)) for j, n in sizes]
    found = {}
    for each in functions:
        shares = reduce(np.multiply.outer, (known[j] for j in each.columns))
        shares = np.broadcast_to(shares[..., None], each.values.shape)
        found[each.columns] = Entries(
            each.values.ravel(), each.noise.ravel(), shares.ravel()
        )
    return found


def together(fits: Sequence[dict[tuple[int, ...], Entries]], size: int) -> Any:
    """Entries of all curves (1) or tables (2) that all fits have, one a fit."""
    keys = [key for key in fits[0] if len(key) == size]
    keys = [key for key in keys if all(key in fit for fit in fits)]
    if not keys:
        return None
    return [
        Entries(*map(np.concatenate, zip(*map(fit.get, keys), strict=True)))
        for fit in fits
    ]


def compared(fits: Sequence[Entries], kept: Sequence[float]) -> list[float]:
    """Deviations seen over stated ones, of fits that kept equal shares of their trees.

    Returns
    -------
    list of float
        Root mean squares of values and of stated deviations; quantiles of the ratios,
        an entry weighted by its share of the records; the same for all entries alike,
        without the quartiles; shares within one and two stated deviations.
    """
    values, noise, shares = (np.array(each) for each in zip(*fits, strict=True))
    size, mean_noise = np.sqrt([np.mean(values**2), np.mean(noise**2)])
    away, stated = np.zeros_like(values), np.zeros(values.shape[1])
    squares, left, within = stated.copy(), 0, []
    for share in set(kept):
        group = np.flatnonzero(np.array(kept) == share)
        away = values[group] - values[group].mean(axis=0)
        # Of one fit from the mean of all, itself among them.
        n_left = len(group) - 1
        squares += np.sum(away**2, axis=0)
        stated += n_left * np.mean(noise[group] ** 2, axis=0)
        left += n_left
        if n_left:
            away /= math.sqrt(n_left / len(group))
            within.append(np.abs(away) / np.where(noise > 0, noise, np.inf)[group])
    seen, stated = np.sqrt(squares / max(left, 1)), np.sqrt(stated / max(left, 1))
    weights = shares.mean(axis=0)
    # No entry has noise if no tree was worth keeping in any fit.
    there = stated > 0
    if not there.any():
        return [size, mean_noise, *[math.nan] * (len(_METRICS) - 2)]
    ratios = seen[there] / stated[there]
    order = np.argsort(ratios)
    below = np.cumsum(weights[there][order])
    of_records = np.interp(_QUANTILES, below / below[-1], ratios[order])
    of_codes = np.quantile(ratios, _QUANTILES[::2])
    known = np.concatenate([each[each > 0] for each in within])
    inside = [float(np.mean(known <= k)) for k in (1, 2)]
    return [size, mean_noise, *of_records, *of_codes, *inside]


@benchmark("boosting_bands")
def bands(
    fits: int = 30,
    n_train: int = 20_000,
    tables: str = "report",
    draw_trees: bool = False,
) -> Iterator[Line]:
    """Bands of shape functions: deviations seen over stated ones, at every epsilon.

    All fits have the same trees and other noise; with `draw_trees` trees are others
    each time, as they are for who fits twice. A line is a kind of entry, of all fits.
    `tables` are those that constants were settled on ("settle", on validation parts),
    those kept apart ("report"), or a name.
    """
    named = {"settle": _SETTLED, "report": _APART}.get(tables, (tables,))
    part = "settle" if tables == "settle" else "report"
    cells = product(named, ("linear", "constant"), (1, 2), _EPSILONS)
    for name, init, order, epsilon in cells:
        place = {"data": name, "init": init, "max_interaction": order}
        asked = _Cell(name, part, init, order, epsilon, fits, n_train, draw_trees)
        for kind in ("curves", "tables")[:order]:
            yield line(
                {**place, "epsilon": epsilon},
                kind,
                partial(_bands_of, kind, asked),
                _METRICS,
                private=True,
                most_runs=1,
            )


class _Cell(NamedTuple):
    table: str
    part: str
    init: str
    max_interaction: int
    epsilon: float
    n_fits: int
    n_train: int
    draws: bool


def _bands_of(kind: str, cell: _Cell, run: int) -> list[float]:
    fits, kept = _fits(cell)  # the run's number: fits have seeds of their own
    found = together(fits, 1 if kind == "curves" else 2)
    return [math.nan] * len(_METRICS) if found is None else compared(found, kept)


@lru_cache(1)
def _fits(cell: _Cell) -> tuple[list[dict[tuple[int, ...], Entries]], list[float]]:
    """Entries of each fit, and the share of its trees that it kept."""
    known = declared(cell.table)
    split_of = parts(cell.table, 0, cell.part, cell.n_train)
    fits, kept = [], []
    given = {"init": cell.init, "max_interaction": cell.max_interaction}
    with nullcontext() if cell.draws else same_trees():
        for seed in range(cell.n_fits):
            facts = Facts(known, cell.epsilon, 1e-6, "replace_one", seed)
            model = facts.boosted(columns=known.columns, **given)
            quietly_fitted(model, split_of.X_train, split_of.y_train)
            fits.append(entries(model.shape_functions_))
            kept.append(float(getattr(model, "shrinkage_", None) or 0.0))
    return fits, kept


# Tables on which it was settled from which ratio trees are tried.
_TRIED = (
    *("adult", "ccpp", "covertype", "covertype_types", "kddcup99", "protein_casp"),
    "wine_quality_white",
)
# The smallest and the largest n mu of a cell.
_SIGNALS = (300.0, 6000.0)


@benchmark("boosting_trial", runs=6, judged=True)
def trials() -> Iterator[Line]:
    """What a trial of trees costs or gains, against the linear model alone.

    Validation parts of cells with n mu of 300 to 6,000; every cell has a trial.
    """
    for name, epsilon, adjacency in product(_TRIED, _EPSILONS, ADJACENCIES):
        known, n = declared(name), len(parts(name, 0).y_train)
        budget = Budget(epsilon, 1 / n**2)
        signal = signal_to_noise_of(n, budget, adjacency)
        if not _SIGNALS[0] <= signal <= _SIGNALS[1]:
            continue
        for method, change in {"linear": {"n_estimators": 0}, "trial": {}}.items():
            yield line(
                {
                    "data": name,
                    "n mu": round(signal),
                    "epsilon": epsilon,
                    "adjacency": adjacency,
                },
                method,
                partial(_tried, name, epsilon, adjacency, change),
                ("R2" if known.classes is None else "log-loss", "kept"),
                private=True,
                judge=_beyond_linear,
                rival="linear",
            )


def _tried(
    name: str, epsilon: float, adjacency: str, change: dict[str, Any], seed: int
) -> list[float]:
    known, split_of = declared(name), parts(name, seed)
    facts = Facts(known, epsilon, 1 / len(split_of.y_train) ** 2, adjacency, seed)
    model = facts.boosted(columns=known.columns, **change)
    with patch.object(boosting, "_WORTH_GROWING", 0.0):
        score = scored(model, split_of, known)[0]
    return [score, float(getattr(model, "shrinkage_", None) or 0.0)]


def _beyond_linear(values: np.ndarray, first: np.ndarray | None) -> str:
    """Of fits to the same records; their noise differs."""
    return "" if first is None else pair((values - first)[:, 0], "+.4f")


@benchmark("boosting_optimism", runs=3)
def optimism() -> Iterator[Line]:
    """Gains by all trees on the records of the fit and on others, in log-loss.

    Validation parts, zero_out. All trees are kept. The ratio is the difference of the
    gains over the effective number of parameters.
    """
    tables = ("adult", "covertype", "covertype_types", "noisy")
    for name, epsilon in product(tables, (1.0, 4.0)):
        yield line(
            {"data": name, "epsilon": epsilon},
            "all trees",
            partial(_optimism, name, epsilon),
            ("asked", "of others", "parameters", "ratio"),
            private=True,
        )


def _optimism(name: str, epsilon: float, seed: int) -> list[float]:
    known, split_of = declared(name), parts(name, seed)
    n = len(split_of.y_train)
    facts = Facts(known, epsilon, 1 / n**2, "zero_out", seed)
    asked, losses = [], []

    def as_asked(gains: Any, shares: Any, n_parameters: float) -> Any:
        asked.append((float(gains.value[0]), n_parameters))
        return gains

    with (
        patch.object(boosting, "without_optimism", as_asked),
        patch.object(boosting, "helps", return_value=True),
        patch.object(boosting, "best_share") as share,
    ):
        for share.return_value in (0.0, 1.0):
            model = facts.boosted(columns=known.columns)
            losses.append(scored(model, split_of, known)[0])
    (gain, n_parameters), of_others = asked[-1], n * (losses[0] - losses[1])
    return [gain, of_others, n_parameters, (gain - of_others) / n_parameters]


# Other trees than those of the default after a linear model.
_TREES: dict[str, Any] = {
    "default": nullcontext(),
    "two and all columns": patch.dict(_AFTER, {"mix": (2, None)}),
    "60 a leaf": patch.object(boosting, "_SIGNAL_OF_A_LEAF", 60.0),
    "256 leaves": patch.object(boosting, "_LEAVES", (8.0, 256.0)),
    "counts .003": patch.object(boosting, "_CUTS", 0.003),
    "counts .08": patch.object(boosting, "_CUTS", 0.08),
}


@benchmark("boosting_trees", runs=2, judged=True)
def other_trees() -> Iterator[Line]:
    """Trees after a linear model against other trees: validation parts, zero_out."""
    tables = ("adult", "covertype", "kddcup99", "protein_casp")
    for (name, epsilon), method in product(product(tables, (1.0, 4.0)), _TREES):
        place = {"data": name, "epsilon": epsilon}
        yield _beside_default(place, "linear", method, _TREES[method])


def _beside_default(place: dict[str, Any], init: str, method: str, change: Any) -> Line:
    """A fit with changed rules, judged by what the default rules lose."""
    return line(
        place,
        method,
        partial(_with_rules, place["data"], init, place["epsilon"], change),
        ("log-loss or R2", "kept"),
        private=True,
        judge=_beyond_linear,
        rival="default",
    )


def _with_rules(
    name: str, init: str, epsilon: float, change: Any, seed: int
) -> list[float]:
    """The score and the kept share of the trees of a fit with changed rules."""
    known, split_of = declared(name), parts(name, seed)
    facts = Facts(known, epsilon, 1 / len(split_of.y_train) ** 2, "zero_out", seed)
    model = facts.boosted(columns=known.columns, init=init)
    with change:
        score = scored(model, split_of, known)[0]
    return [score, float(getattr(model, "shrinkage_", None) or 0.0)]


# Powers by which the weights of hats grow with the number of intervals, the intervals
# of the coarsest hats, and how far steps go where labels are nearly certain.
_HATS: dict[str, Any] = {
    "default": nullcontext(),
    "as heavy in fine curves": patch.object(_linear_start, "_FINE", 0.0),
    "twice the power": patch.object(_linear_start, "_FINE", 0.5),
    "coarsest of four": patch.object(_linear_start, "_COARSEST", 4),
    "all columns are few": patch.object(_linear_start, "_FEW_COLUMNS", math.inf),
    "16 columns are few": patch.object(_linear_start, "_FEW_COLUMNS", 16),
    "6 columns are few": patch.object(_linear_start, "_FEW_COLUMNS", 6),
}


@benchmark("boosting_hats", runs=6, judged=True)
def other_hats(
    tables: str = "adult,kddcup99,covertype,noisy,rare,"
    "protein_casp,wine_quality_white,ccpp,three_of_26",
    epsilons: str = "0.3,1,4",
) -> Iterator[Line]:
    """Other hats and steps in the linear model: validation parts, zero_out."""
    cells = product(tables.split(","), map(float, epsilons.split(",")))
    for (name, epsilon), method in product(cells, _HATS):
        place = {"data": name, "epsilon": epsilon}
        yield _beside_default(place, "linear", method, _HATS[method])


# Prior variances of steps: after a linear model, and of numbers.
_PRIORS: dict[str, Any] = {
    "default": nullcontext(),
    "half after a linear model": patch.object(boosting, "_MOST_AFTER", 0.3),
    "twice after a linear model": patch.object(boosting, "_MOST_AFTER", 1.2),
    "numbers, 4 times": patch.object(_losses, "_OF_NUMBERS", 1 / 4),
    "numbers, a half": patch.object(_losses, "_OF_NUMBERS", 1 / 32),
}


@benchmark("boosting_priors", runs=3, judged=True)
def other_priors(
    tables: str = "covertype,kddcup99,covertype_types,"
    "protein_casp,wine_quality_white,ccpp,three_of_26",
    epsilons: str = "0.3,1,4",
) -> Iterator[Line]:
    """Other prior variances of the steps of trees: validation parts, zero_out."""
    cells = product(tables.split(","), ("linear", "constant"))
    for (name, init), epsilon in product(cells, map(float, epsilons.split(","))):
        is_of_numbers = declared(name).classes is None
        for method, change in _PRIORS.items():
            is_other = method.startswith("numbers") and not is_of_numbers
            if is_other or (method.endswith("linear model") and init == "constant"):
                continue
            place = {"data": name, "init": init, "epsilon": epsilon}
            yield _beside_default(place, init, method, change)


# Cells with n mu of 15 to 50 (35 to 110 with ten labels): table, records, relation,
# epsilon.
_WEAK = (
    ("breast_cancer", 0, "zero_out", 0.3),
    ("breast_cancer", 0, "replace_one", 0.3),
    ("breast_cancer", 0, "replace_one", 1.0),
    ("digits_odd", 0, "zero_out", 0.1),
    ("digits_odd", 0, "replace_one", 0.1),
    ("digits_odd", 0, "replace_one", 0.3),
    ("digits", 0, "zero_out", 0.3),
    ("digits", 0, "replace_one", 0.3),
    ("wine_quality_white", 0, "replace_one", 0.1),
    ("ccpp", 2_000, "replace_one", 0.1),
    ("ccpp", 1_000, "replace_one", 0.3),
    ("protein_casp", 1_200, "replace_one", 0.3),
    ("adult", 1_000, "zero_out", 0.1),
    ("kddcup99", 2_000, "replace_one", 0.1),
    ("covertype", 2_000, "replace_one", 0.1),
    ("covertype_types", 3_000, "zero_out", 0.1),
)


@benchmark("boosting_alone", runs=16, judged=True)
def alone(permuted: bool = False) -> Iterator[Line]:
    """Trees after a constant against the constant, where there is no linear model.

    Validation parts; with `permuted` the targets of the fit have nothing to do with the
    columns.
    """
    for name, n, adjacency, epsilon in _WEAK:
        for method, ratio in {"constant": 1.0, "trees": boosting._ALONE}.items():
            cell = (name, n, adjacency, epsilon, permuted, ratio)
            yield line(
                {"data": name, "epsilon": epsilon, "adjacency": adjacency},
                method,
                partial(_alone, *cell),
                ("log-loss or R2",),
                private=True,
                judge=_beyond_linear,
                rival="constant",
            )


def _alone(
    name: str,
    n: int,
    adjacency: str,
    epsilon: float,
    is_permuted: bool,
    ratio: float,
    seed: int,
) -> list[float]:
    known, split_of = declared(name), parts(name, seed, n_train=n)
    y = split_of.y_train
    if is_permuted:
        split_of = split_of._replace(y_train=np.random.default_rng(seed).permutation(y))
    facts = Facts(known, epsilon, 1 / len(y) ** 2, adjacency, seed)
    with patch.object(boosting, "_ALONE", ratio):
        return [scored(facts.boosted(columns=known.columns), split_of, known)[0]]


@benchmark("boosting_gate", runs=10)
def gate() -> Iterator[Line]:
    """Weights of pure noise over what the gate expects: permuted targets, zero_out.

    The ratio in the linear model before trees if long rows count as weighted, as they
    are; its stated deviation; and the ratio if they count as clipped. nan: there is no
    linear model.
    """
    for name in at_hand(DECLARED, table):
        for epsilon in _EPSILONS[1:]:
            yield line(
                {"data": name, "epsilon": epsilon},
                "linear start",
                partial(_passed, name, epsilon),
                ("weighted", "stated deviation", "clipped"),
                private=True,
            )


def _passed(name: str, epsilon: float, seed: int) -> list[float]:
    weighted, margin = _ratio_of_noise(name, epsilon, seed, {})
    clipped, _ = _ratio_of_noise(name, epsilon, seed, {"are_weighted": False})
    return [weighted, margin / _run_noise._DEVIATIONS, clipped]


def _ratio_of_noise(
    name: str, epsilon: float, seed: int, change: dict[str, Any]
) -> tuple[float, float]:
    """The gate's ratio, and what it subtracts."""
    known, split_of = declared(name), parts(name, seed)
    y = np.random.default_rng(seed).permutation(split_of.y_train)
    facts = Facts(known, epsilon, 1 / len(y) ** 2, "zero_out", seed)
    seen = [(math.nan, math.nan)]

    def kept(ratio: float, margin: float) -> float:
        seen.append((ratio, margin))
        return 0.0

    def variances(*args: Any, **given: Any) -> Any:
        return _run_noise.state_variances(*args, **{**given, **change})

    with (
        patch.object(_centred_descent, "kept_share", kept),
        patch.object(_linear_start, "state_variances", variances),
    ):
        model = facts.boosted(columns=known.columns, n_estimators=0)
        quietly_fitted(model, split_of.X_train, y)
    return seen[-1]


# What boosting may lose, of log-loss and of R2.
_MAY_LOSE = {True: 0.003, False: 0.005}


@benchmark("boosting_behind", runs=1_000, closing=lambda found: _reported(found))
def behind(part: str = "settle") -> Iterator[Line]:
    """Boosting beside a linear model and the exact constant.

    Runs differ in the noise, and on validation parts (``settle``) in the records of
    both parts. A loss is a log-loss, or 1 - R2.
    """
    for name in at_hand(DECLARED, table):
        for epsilon, adjacency in product(_EPSILONS, ADJACENCIES):
            yield line(
                {"data": name, "epsilon": epsilon, "adjacency": adjacency},
                "boosting",
                partial(_beside, part, name, epsilon, adjacency),
                ("boosting", "linear", "constant"),
                private=True,
            )


def _beside(
    part: str, name: str, epsilon: float, adjacency: str, seed: int
) -> list[float]:
    known, split_of = declared(name), parts(name, seed, part)
    facts = Facts(known, epsilon, 1 / len(split_of.y_train) ** 2, adjacency, seed)
    models = facts.boosted, facts.dense
    found = [scored(m(columns=known.columns), split_of, known)[0] for m in models]
    found.append(scored(Constant(known), split_of, known)[0])
    return [1 - score for score in found] if known.classes is None else found


def _reported(measured: list[Measured]) -> Iterator[str]:
    """How far boosting is behind the better of the others, and in how many cells."""
    yield "| data | epsilon | adjacency | behind by | |\n|---|---|---|---|---|"
    kinds = []
    for each, values in measured:
        others = values[:, 1 + int(values[:, 1:].mean(axis=0).argmin())]
        gap, error = mean_and_error(values[:, 0] - others)
        limit = _MAY_LOSE[declared(each.place["data"]).classes is not None]
        kinds.append(
            "" if gap <= limit else "?" if gap <= limit + 2 * error else "MORE"
        )
        if kinds[-1] and np.array_equal(values[:, 0], values[:, 1]):
            kinds[-1] = "linear"  # a constant, but a private one
        place = " | ".join(map(str, each.place.values()))
        yield f"| {place} | {gap:+.4f} ± {error:.4f} | {kinds[-1]} |"
    counts = (kinds.count(kind) for kind in ("", "?", "MORE", "linear"))
    yield (
        "\n{} within the limit, {} within two errors of it, {} beyond, {} behind the "
        "exact constant with the predictions of the linear model"
    ).format(*counts)


# Tables with many columns, on which it was settled below which ratio columns have no
# hats, and the largest ratio of a cell with the whole budget.
_WIDE = (
    "breast_cancer",
    "digits",
    "digits_odd",
    "kddcup99",
    "three_of_26",
    "wine_quality_white",
)
_LARGEST_RATIO = 160.0


@benchmark("boosting_straight", runs=20, judged=True)
def straight() -> Iterator[Line]:
    """Straight lines against curves with hats in the linear model before trees.

    Validation parts of cells with much noise for their number of columns. The ratio is
    n mu of the linear model, for a table of ten columns.
    """
    for name, epsilon, adjacency in product(_WIDE, _EPSILONS, ADJACENCIES):
        n, n_columns = parts(name, 0).X_train.shape
        signal = signal_to_noise_of(n, Budget(epsilon, 1 / n**2), adjacency)
        if 10 * signal / n_columns > _LARGEST_RATIO:
            continue
        for method, below in {"hats": 0.0, "straight": math.inf}.items():
            yield line(
                {"data": name, "epsilon": epsilon, "adjacency": adjacency},
                method,
                partial(_with_straight, name, epsilon, adjacency, below),
                ("R2" if declared(name).classes is None else "log-loss", "ratio"),
                private=True,
                judge=_beyond_linear,
                rival="hats",
            )


def _with_straight(
    name: str, epsilon: float, adjacency: str, below: float, seed: int
) -> list[float]:
    known, split_of = declared(name), parts(name, seed)
    facts = Facts(known, epsilon, 1 / len(split_of.y_train) ** 2, adjacency, seed)
    model = facts.boosted(columns=known.columns)
    ratios = [math.nan]

    def seen(signal: float, n_columns: int, _: float) -> int:
        ratios.append(10 * signal / n_columns)
        return curve_intervals(signal, n_columns, below)

    with patch.object(_linear_start, "curve_intervals", seen):
        return [scored(model, split_of, known)[0], ratios[-1]]


_RISING = {"education-num": 1, "hours-per-week": 1}
# What is asked for beyond the defaults.
CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "max_interaction=1": {"max_interaction": 1},
    "max_interaction=2": {"max_interaction": 2},
    "max_interaction=None": {"max_interaction": None},
    "init='constant'": {"init": "constant"},
    "constant, max_interaction=1": {"init": "constant", "max_interaction": 1},
    "constant, max_interaction=2": {"init": "constant", "max_interaction": 2},
    "constant, max_interaction=None": {"init": "constant", "max_interaction": None},
    "years of school and hours rise": {"monotonic_cst": _RISING},
    "capital gains rise": {"monotonic_cst": {"capital-gain": 1}},
}


@benchmark("boosting_costs", runs=5, judged=True)
def costs(adjacency: str = "replace_one", epsilon: float = 1.0) -> Iterator[Line]:
    """What parameters of boosting cost or gain on Adult, against every default.

    Kept is the share of what trees add that was worth most, 0 where there are none.
    """
    for name, change in CHANGES.items():
        yield line(
            {"epsilon": epsilon, "adjacency": adjacency},
            name,
            partial(_changed, change, epsilon, adjacency),
            ("AUC", "log-loss", "kept"),
            private=True,
            judge=_beyond,
            rival="default",
        )


def _changed(
    change: dict[str, Any], epsilon: float, adjacency: str, seed: int
) -> list[float]:
    known, split_of = declared(_TABLE), parts(_TABLE, seed)
    facts = Facts(known, epsilon, 1 / len(split_of.y_train) ** 2, adjacency, seed)
    model = facts.boosted(columns=known.columns, **change)
    quietly_fitted(model, split_of.X_train, split_of.y_train)
    p = model.predict_proba(split_of.X)[:, 1]
    kept = float(getattr(model, "shrinkage_", 0.0))
    return [roc_auc_score(split_of.y, p), log_loss(split_of.y, p), kept]


def _beyond(values: np.ndarray, first: np.ndarray | None) -> str:
    """Of fits to the same records with the same seeds."""
    if first is None:
        return ""
    beyond = (values - first)[:, :2].T
    return " and ".join(pair(of, "+.4f") for of in beyond)
