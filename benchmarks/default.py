"""The default solver: what it loses on declared tables and on rows of numbers.

Losses are log-loss, or 1 - R^2, of held-out rows of the training part, beside those of
the exact constant of the fit's records and of the constant that costs nothing. They are
not private, and fits are seeded. Another checkout is compared by running the same
command there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, pairwise, product
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_array
from scipy.special import rel_entr
from scipy.stats import laplace
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from benchmarks._models import Facts, of_rows, quietly_fitted
from benchmarks._runner import (
    Line,
    Measured,
    at_hand,
    benchmark,
    each,
    line,
    mean_and_error,
)
from benchmarks._tables import (
    GENERATED,
    Declared,
    declared,
    imdb,
    reuters,
    rows,
    split,
    table,
    taken,
)
from skdp import TableEncoder, forecast
from skdp.linear_model import Forecast
from skdp.losses import SoftmaxLoss
from skdp.preprocessing import _blocks as blocks
from skdp.solvers import _default_rules as rules
from skdp.solvers import _run_noise as gate
from skdp.solvers import _target_base as target_base
from skdp.solvers._centred_rows import Numbers, States

# Tables on which the constants were settled, and tables on which nothing was settled.
SETTLED = tuple("adult covertype kddcup99 ccpp protein_casp wine_quality_white".split())
OTHERS = tuple(
    "breast_cancer covertype_types digits digits_odd noisy rare three_of_26".split()
)
SIZES = (2_000, 10_000, 40_000)
EPSILONS = (0.1, 0.3, 1.0, 4.0)
ADJACENCIES = ("zero_out", "replace_one")
METRICS = ("loss", "constant", "free")
_SEED, _HELD_OUT = 9300, 0.2


@dataclass(frozen=True)
class Cell:
    """Public facts of a fit; `n` of 0 are all rows of the training part."""

    data: str
    n: int
    epsilon: float
    adjacency: str

    @property
    def place(self) -> dict[str, Any]:
        """Columns of the table."""
        return {**vars(self), "n": self.n or "all"}


def fitted(
    cell: Cell,
    seed: int,
    *,
    is_permuted: bool = False,
    changes: dict[str, Any] | None = None,
) -> list[float]:
    """Losses of a fit, of the exact constant and of the free one on held-out rows.

    `changes` are parameters of the model that are not those of the cell.
    """
    known, data = declared(cell.data), table(cell.data)
    train = np.flatnonzero(~data.is_test)
    X, y = taken(data.X, train), data.y[train]
    if is_permuted:
        y = np.random.default_rng(_SEED + seed).permutation(y)
    fit, held = _divided(len(y), seed)
    fit = fit[: cell.n or None]
    # One record has a delta below 1 too.
    delta = 1 / max(len(fit), 20) ** 2
    facts = Facts(known, cell.epsilon, delta, cell.adjacency, seed)
    model = facts.dense(columns=known.columns).set_params(**(changes or {}))
    quietly_fitted(model, taken(X, fit), y[fit])
    return _losses(model, taken(X, held), y[fit], y[held], known)


def _divided(n: int, seed: int) -> Any:
    return train_test_split(
        np.arange(n), test_size=_HELD_OUT, random_state=_SEED + seed
    )


def _losses(
    model: Any, X: Any, y: np.ndarray, held: np.ndarray, known: Declared
) -> list[float]:
    """Of the model, of the constant of `y`, and of one that costs nothing."""
    if known.classes is None:
        assert known.target_bounds is not None, "targets that are numbers have bounds"
        predicted = np.clip(model.predict(X), *known.target_bounds)
        constants = (predicted, y.mean(), np.mean(known.target_bounds))
        return [float(np.mean((held - p) ** 2) / np.var(held)) for p in constants]
    shares = np.array([np.mean(y == label) for label in known.classes])
    constant = np.tile(np.maximum(shares, 1e-9), (len(held), 1))
    free = np.full_like(constant, 1 / len(shares))
    return [
        float(log_loss(held, np.clip(p, 1e-9, 1), labels=known.classes))
        for p in (model.predict_proba(X), constant, free)
    ]


def _sizes(name: str, sizes: Sequence[int]) -> list[int]:
    """Sizes beyond a table are all of its rows, once."""
    available = int(np.sum(~table(name).is_test) * (1 - _HELD_OUT))
    return list(dict.fromkeys(0 if n >= available else n for n in sizes))


def _cells(
    names: Sequence[str], sizes: Sequence[int], epsilons: Sequence[float] = EPSILONS
) -> Iterator[Cell]:
    """Places of all tables that are at hand."""
    for name in at_hand(names, table):
        chosen = _sizes(name, sizes)
        for n, epsilon, adjacency in product(chosen, epsilons, ADJACENCIES):
            yield Cell(name, n, epsilon, adjacency)


@benchmark("default", runs=3)
def losses(permuted: bool = False) -> Iterator[Line]:
    """The default for declared columns; with `permuted` nothing can be learned."""
    for cell in _cells((*SETTLED, *OTHERS), SIZES):
        measure = each(partial(fitted, cell, is_permuted=permuted))
        yield Line(
            place=cell.place,
            method="default",
            measure=measure,
            metrics=METRICS,
            private=True,
        )


@benchmark("default_permuted", runs=20, judged=True)
def permuted(n: int = 0) -> Iterator[Line]:
    """By how much more the default loses than constants do on targets in random order.

    Than the better of the constant at the whole budget and the constant that costs
    nothing, and than the exact constant of the fit's records. A mean beyond .005 and
    two standard errors is MISSED.
    """
    sizes = (n,) if n else (20, 200, 2_000, 20_000)
    # Not inf, where nothing stops a fit of few records from fitting their noise.
    for cell in _cells((*SETTLED, *OTHERS), sizes, (0.01, 0.1, 1.0, 4.0)):
        yield line(
            cell.place,
            "default",
            partial(_with_constants, cell),
            (*METRICS, "private constant"),
            private=True,
            judge=_excesses,
        )


def _with_constants(cell: Cell, seed: int) -> list[float]:
    found = fitted(cell, seed, is_permuted=True)
    with patch.object(rules, "LEAST_SIGNAL_TO_NOISE", 1e300):
        private = fitted(cell, seed, is_permuted=True)
    return [*found, private[0]]


def _excesses(values: np.ndarray, _: Any) -> str:
    model, exact, *others = values.T
    # The better constant on average, and not in each fit by itself.
    other = min(others, key=np.mean)
    return f"over constants {_marked(model - other)}, exact {_marked(model - exact)}"


def _marked(excess: np.ndarray) -> str:
    mean, error = mean_and_error(excess)
    is_missed = mean > max(0.005, 2 * error)
    return f"{mean:+.4f} ± {error:.4f}{' MISSED' if is_missed else ''}"


# ------------------------------------------------------------------ tables of many rows

# Tables with enough distinct rows to draw many rows from.
_LARGE = ("adult", "ccpp", "covertype", "covertype_types", "kddcup99", "protein_casp")


@benchmark("default_large", runs=2)
def large(n: int = 300_000, kind: str = "columns") -> Iterator[Line]:
    """The default with many records, with preconditioned steps and with plain steps.

    Generated tables have `n` records. Of others `n` records are drawn with replacement,
    and losses are those of all records from which they are drawn. With "numbers" as
    `kind`, declared columns are encoded as numbers of which the fit knows nothing else.
    """
    names = [*at_hand(_LARGE, table), *GENERATED]
    for name, epsilon, adjacency in product(names, (0.3, 1.0, 4.0), ADJACENCIES):
        for is_plain in (True, False):
            yield line(
                {"data": name, "n": n, "epsilon": epsilon, "adjacency": adjacency},
                "plain" if is_plain else "preconditioned",
                partial(_of_many, name, n, kind, epsilon, adjacency, is_plain),
                ("loss", "steps"),
                private=True,
            )


def _of_many(
    name: str,
    n: int,
    kind: str,
    epsilon: float,
    adjacency: str,
    is_plain: bool,
    seed: int,
) -> list[float]:
    known = declared(name)
    data = table(name) if name in _LARGE else GENERATED[name](2 * n, 1 + seed)
    train = np.flatnonzero(~data.is_test)
    drawn, held = train[:n], np.flatnonzero(data.is_test)
    if name in _LARGE:
        drawn, held = np.random.default_rng(_SEED + seed).choice(train, n), train
    facts = Facts(known, epsilon, 1 / n**2, adjacency, seed)
    model = facts.dense(columns=known.columns)
    if kind == "numbers":
        encoder = TableEncoder(known.columns, numeric="linear")
        model = make_pipeline(encoder, facts.dense())
    X, y = taken(data.X, drawn), data.y[drawn]
    with ExitStack() as changed:
        if is_plain:
            changed.enter_context(patch.object(States, "n_parts", 0))
            changed.enter_context(patch.object(Numbers, "planned", _unchanged))
        quietly_fitted(model, X, y)
    of_held = taken(data.X, held), data.y[drawn], data.y[held]
    loss, *_ = _losses(model, *of_held, known)
    fitted = model[-1] if kind == "numbers" else model
    return [loss, float(fitted.privacy_.solver_params["n_steps"])]


def _unchanged(rows: Numbers, _: float) -> Numbers:
    return rows


_HIGH = (4.0, 8.0, 100.0, math.inf)


@benchmark("default_ceiling", judged=True)
def ceiling() -> Iterator[Line]:
    """Losses on the records of the fit at high epsilons; inf should be the least."""
    metrics = tuple(f"epsilon {epsilon:g}" for epsilon in _HIGH)
    for name in (*SETTLED, *OTHERS):
        yield line(
            {"data": name},
            "default",
            partial(_on_records, name),
            metrics,
            private=True,
            judge=lambda values, _: (
                "" if values[0, -1] <= values[0, :-1].min() else "OVER"
            ),
        )


def _on_records(name: str, seed: int) -> list[float]:
    known, data = declared(name), table(name)
    train = np.flatnonzero(~data.is_test)[:20_000]
    X, y = taken(data.X, train), data.y[train]
    found = []
    for epsilon in _HIGH:
        facts = Facts(known, epsilon, 1 / len(y) ** 2, "zero_out", seed)
        model = quietly_fitted(facts.dense(columns=known.columns), X, y)
        found.append(_losses(model, X, y, y, known)[0])
    return found


# ----------------------------------------------------------- constants, left out in tu

# Module, name, and the values that are tried; the second one is shipped.
CONSTANTS: dict[str, tuple[Any, tuple[float, float, float]]] = {
    "LEAST_SIGNAL_TO_NOISE": (rules, (25.0, 50.0, 100.0)),
    "_NOISE": (rules, (0.5, 1.0, 2.0)),
    "_NOISE_OF_NUMBERS": (rules, (0.2, 0.4, 0.8)),
    "_ROWS": (rules, (0.25, 0.5, 1.0)),
    "_RELAXATIONS": (rules, (5, 7, 10)),
    "_EVERYTHING": (gate, (1.25, 1.5, 2.0)),
}
_SHIPPED = "as shipped"
Values = tuple[tuple[str, float], ...]


@benchmark("default_left_out", runs=2, closing=lambda found: _reported(found))
def left_out() -> Iterator[Line]:
    """Losses over the constant's, with each constant at half and twice its value."""
    for name in SETTLED:
        for values in ((), *_moves()):
            yield line(
                {"data": name},
                _named(values),
                partial(_over_constant, name, values),
                ("loss over constant",),
                private=True,
            )


def _named(values: Values) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values) or _SHIPPED


def _over_constant(name: str, values: Values, seed: int) -> float:
    """On average over the cells of a table."""
    found = []
    with ExitStack() as changed:
        for constant, value in values:
            module, _ = CONSTANTS[constant]
            changed.enter_context(patch.object(module, constant, value))
        for cell in product((name,), (2_000, 10_000), EPSILONS, ADJACENCIES):
            loss, constant_loss, _ = fitted(Cell(*cell), seed)
            found.append(loss / constant_loss)
    return float(np.mean(found))


def _moves() -> Iterator[Values]:
    """One constant at another value."""
    for constant, (_, values) in CONSTANTS.items():
        for value in (values[0], values[2]):
            yield ((constant, value),)


def chosen_by_others(losses: dict[tuple[str, str], float], left: str) -> Values:
    """What all tables but one would choose, one constant at a time."""
    others = {name for name, _ in losses} - {left}

    def on_others(values: Values) -> float:
        return float(np.mean([losses[name, _named(values)] for name in others]))

    chosen: list[tuple[str, float]] = []
    for constant in CONSTANTS:
        tried = [(), *(move for move in _moves() if move[0][0] == constant)]
        chosen += min(tried, key=on_others)
    return tuple(chosen)


def _reported(measured: list[Measured]) -> Iterator[str]:
    """The loss on each table of the constants that the others choose."""
    losses = {
        (str(line.place["data"]), line.method): float(values.mean())
        for line, values in measured
    }
    yield "| left out | chosen by the others | as shipped | chosen |\n|---|---|---|---|"
    for name in dict.fromkeys(name for name, _ in losses):
        chosen, shipped = chosen_by_others(losses, name), losses[name, _SHIPPED]
        runs = range(len(measured[0][1]))
        now = [_over_constant(name, chosen, seed) for seed in runs if chosen]
        shown = np.mean(now) if now else shipped
        yield f"| {name} | {_named(chosen)} | {shipped:.4f} | {shown:.4f} |"


# ------------------------------------------------------------- states of a curve

# Tables of 364 to 13,440 records in the fit.
_SMALL = (*(x for x in OTHERS if x != "covertype_types"), "ccpp", "wine_quality_white")
_INTERVALS = (16, 8, 4)


# Values tried, true rates, and deviations of Laplace noise in the share.
_FREE = (0.02, 0.04, 0.08, 0.16, 0.32)
_RATES = (0.5, 0.48, 0.45, 0.42, 0.38, 0.33, 0.27, 0.2, 0.1, 0.03)
_NOISES = (0.015, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3)
_QUANTILES = (np.arange(400) + 0.5) / 400


@benchmark("free_constant", runs=1)
def free_constant() -> Iterator[Line]:
    """Expected log-loss beyond the true rate's, where a noisy rate is the whole model.

    By the ratio of variances above which the constant that costs nothing is preferred;
    no draws, quantiles of the noise.
    """
    metrics = ("rate 0.5", "worst rate", "mean over rates")
    for noise in _NOISES:
        for ratio in (math.inf, *_FREE):
            measure = partial(_beyond_rate, noise, ratio)
            yield line({"data": f"noise {noise:g}"}, f"{ratio:g}", measure, metrics)


def _beyond_rate(noise: float, ratio: float, seed: int) -> list[float]:
    draws = laplace.ppf(_QUANTILES, scale=noise / math.sqrt(2))
    losses = []
    with patch.object(target_base, "_FREE", ratio):
        for rate in _RATES:
            shares = [target_base.base_rate(rate + x, noise, 2, True) for x in draws]
            lost = rel_entr(rate, shares) + rel_entr(1 - rate, np.subtract(1, shares))
            losses.append(float(lost.mean()))
    return [losses[0], max(losses), float(np.mean(losses))]


@benchmark("least_intervals", runs=12)
def intervals() -> Iterator[Line]:
    """Losses by the least number of intervals between the states of a curve."""
    for name, epsilon, adjacency in product(_SMALL, EPSILONS, ADJACENCIES):
        cell = Cell(name, 0, epsilon, adjacency)
        yield line(
            cell.place,
            "default",
            partial(_by_intervals, cell),
            tuple(f"{count} intervals" for count in _INTERVALS),
            private=True,
        )


def _by_intervals(cell: Cell, seed: int) -> list[float]:
    found = []
    for count in _INTERVALS:
        with patch.object(blocks, "_LEAST_INTERVALS", count):
            found.append(fitted(cell, seed)[0])
    return found


# ------------------------------------------------------------------------ rows of norm

DENSE = ("adult", "covertype", "a9a", "w8a", "kddcup99", "digits", "mnist")
SPARSE = ("a9a as CSR", "w8a as CSR", "imdb", "reuters")


@lru_cache(maxsize=1)
def training_rows(name: str) -> tuple[Any, np.ndarray]:
    """The training part of a table: rows of norm at most 1, and labels from 0 up."""
    if name in ("imdb", "reuters"):
        texts = imdb("sentiment", "tfidf") if name == "imdb" else reuters()
        X, y = texts.X_train, texts.y_train
    else:
        X, y, _, _ = split(*rows(name.removesuffix(" as CSR")), seed=0)
        X = csr_array(X) if name.endswith("CSR") else X
    return X, np.unique(y, return_inverse=True)[1]


def fitted_to_rows(cell: Cell, seed: int, *, is_permuted: bool = False) -> list[float]:
    """Losses as those of `fitted`, and seconds of the processor."""
    X, y = training_rows(cell.data)
    if is_permuted:
        y = np.random.default_rng(_SEED + seed).permutation(y)
    fit, held = _divided(len(y), seed)
    fit, known = fit[: cell.n or None], of_rows(y)
    facts = Facts(known, cell.epsilon, 1 / len(fit) ** 2, cell.adjacency, seed)
    start = time.process_time()
    model = quietly_fitted(facts.dense(), X[fit], y[fit])
    seconds = time.process_time() - start
    return [*_losses(model, X[held], y[fit], y[held], known), seconds]


@benchmark("default_rows", runs=3)
def losses_of_rows(permuted: bool = False) -> Iterator[Line]:
    """The default for rows of numbers, of which nothing is declared but a norm."""
    for name in (*DENSE, *SPARSE):
        for n, epsilon, adjacency in product(SIZES, EPSILONS, ADJACENCIES):
            cell = Cell(name, n, epsilon, adjacency)
            yield line(
                cell.place,
                "default",
                partial(fitted_to_rows, cell, is_permuted=permuted),
                (*METRICS, "s"),
                private=True,
            )


# ----------------------------------------------------------------------------- forecas

# Of the constant's loss; where there is less to gain the signal is weak.
_MUCH = 0.1


@dataclass(frozen=True)
class Score:
    """The measured score of a cell, and what is forecast for it.

    A score is the share of what the same model without privacy gains over the constant;
    `gain` is the part of the constant's loss that this model takes off.
    """

    cell: Cell
    measured: float
    told: Forecast
    gain: float

    @property
    def expected(self) -> float:
        """By the formula of `Forecast.epsilon_for`."""
        told = self.told
        if told.noise_dominates or told.half_at is None:
            return 0.0
        return 1 / (1 + told.noise_to_signal / told.half_at)


@benchmark("forecast", runs=3, judged=True, closing=lambda found: _summary(found))
def forecasts() -> Iterator[Line]:
    """How far `Forecast.epsilon_for` is from the epsilon that a score needs."""
    metrics = ("loss", "constant", "exact", "n", "labels")
    for cell in _cells((*SETTLED, *OTHERS), SIZES):
        said = partial(_said, cell)
        score = partial(_scored, cell)
        yield line(cell.place, "default", score, metrics, private=True, judge=said)


def _scored(cell: Cell, seed: int) -> list[float]:
    loss, constant = fitted(cell, seed)[:2]
    exact = _exact(replace(cell, epsilon=math.inf, adjacency="zero_out"), seed)
    n = int(np.sum(~table(cell.data).is_test))
    labels = len(declared(cell.data).classes or (0, 1))
    available = n - math.ceil(_HELD_OUT * n)
    return [loss, constant, exact, min(cell.n or available, available), labels]


@lru_cache
def _exact(cell: Cell, seed: int) -> float:
    return fitted(cell, seed)[0]


def score_of(cell: Cell, values: np.ndarray) -> Score:
    """From means over runs."""
    loss, constant, exact, n, labels = values.mean(axis=0)
    # The formula asks for the numbers of records and of labels, not of columns.
    told = forecast(
        int(n),
        1,
        cell.epsilon,
        delta=1 / n**2,
        adjacency=cell.adjacency,
        loss=SoftmaxLoss(int(labels)) if labels > 2 else None,
    )
    gain = 1 - exact / constant
    return Score(cell, (1 - loss / constant) / gain, told, gain)


def _said(cell: Cell, values: np.ndarray, _: Any) -> str:
    score = score_of(cell, values)
    return f"measured {score.measured:.2f}, forecast {score.expected:.2f}"


def factor(scores: Sequence[Score], target: float) -> float | None:
    """`epsilon_for` over the epsilon at which a score was reached.

    `scores` are of one table, by rising epsilon. None: the score is reached below the
    first of them, or beyond the last.
    """
    for low, high in pairwise(scores):
        if low.measured < target <= high.measured:
            part = (target - low.measured) / (high.measured - low.measured)
            least, most = low.cell.epsilon, high.cell.epsilon
            return low.told.epsilon_for(target) / (least * (most / least) ** part)
        if low.measured >= target:
            return None
    return None


def _summary(measured: list[Measured]) -> Iterator[str]:
    """How large the errors are, of all cells and of those with much to gain."""
    scores = [
        score_of(Cell(**line.place | {"n": int(values[0, 3])}), values)
        for line, values in measured
        if len(values)
    ]
    yield from summary(scores, 0.0)
    yield from summary(scores, _MUCH)


def summary(scores: Sequence[Score], least_gain: float) -> Iterator[str]:
    """Errors of the scores with more than that to gain."""
    scores = [score for score in scores if score.gain > least_gain]
    if not scores:
        return
    errors = [abs(min(max(s.measured, 0), 1) - s.expected) for s in scores]
    yield (
        f"gain above {least_gain:g} of the constant's loss: {len(scores)} cells; mean "
        f"error of a score {np.mean(errors):.3f}"
    )
    groups: dict[Cell, list[Score]] = {}
    for one in sorted(scores, key=lambda score: score.cell.epsilon):
        groups.setdefault(replace(one.cell, epsilon=0.0), []).append(one)
    found = {
        target: [factor(group, target) for group in groups.values()]
        for target in (0.5, 0.75, 0.9)
    }
    for target, factors in (*found.items(), ("all", [*chain(*found.values())])):
        logs = np.log([one for one in factors if one is not None])
        if not len(logs):
            continue
        within = [(np.mean(abs(logs) <= math.log(k)), k) for k in (2, 3, 5)]
        yield (
            f"score {target}: {len(logs)} reached between epsilons, "
            f"{len(factors) - len(logs)} not; epsilon_for is "
            f"{math.exp(np.median(logs)):.2f} times as much (median), "
            + ", ".join(f"{share:.0%} within {k}" for share, k in within)
        )
