"""Wang's thesis (2021), chapter 6: figures 6.1, 6.3, 6.4 and 6.7 to 6.9.

Noise is NumPy's, but for the rows of skdp. Of the methods of the chapter those that
aggregate minimisers and those that descend are here. Ranges of Adult and KDD Cup 1999
and the kinds of words are taken as public; KDD Cup 1998 is not at hand.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks._papers._descent import Logistic
from benchmarks._papers._privacy import exact_multiplier, gaussian_epsilon, spherical
from benchmarks._runner import Line, benchmark
from benchmarks._tables import data_folder
from skdp import DPLogisticRegression

# The chapter's lambda.
ALPHA = 1e-3
CURVATURE = 0.25
# Norm of the gradient that may be left of a mean loss; part of the sensitivity.
TOLERANCE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Public facts of one fit."""

    m: int
    smallest: int
    d: int
    alpha: float = ALPHA
    epsilon: float = 0.5
    delta: float = 1e-3
    n_steps: int = 1500

    @property
    def local_sensitivity(self) -> float:
        """L2, of one owner's minimiser: 2 G / (n_(1) lambda)."""
        return 2 / (self.smallest * self.alpha)

    @property
    def mean_sensitivity(self) -> float:
        """L2, of the mean of all owners' minimisers."""
        return self.local_sensitivity / self.m

    @property
    def gradient_sensitivity(self) -> float:
        """L2, of one mean gradient over all records."""
        return 2 / (self.m * self.smallest)

    def gradient_deviation(self) -> float:
        """Equation (6.3.1)."""
        return self.table_deviation() * math.sqrt(4 * math.log(1 / self.delta))

    def table_deviation(self) -> float:
        """Table 6.1's entry for gradient perturbation."""
        return math.sqrt(2 * self.n_steps) / (self.m * self.smallest * self.epsilon)

    def exact_deviation(self, n_steps: int | None = None) -> float:
        """What so many noisy mean gradients need."""
        of_one = exact_multiplier(self.epsilon, self.delta) * self.gradient_sensitivity
        return of_one * math.sqrt(n_steps or self.n_steps)

    def true_epsilon(self, deviation: float) -> float:
        """Of T mean gradients with Gaussian noise of this deviation."""
        scales = np.full(self.n_steps, deviation)
        return gaussian_epsilon(scales, self.gradient_sensitivity, self.delta)


def divided(signed: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of m owners of sizes that differ by one at most, filled up with zeros."""
    parts = np.array_split(signed, m)
    sizes = np.array([len(part) for part in parts])
    rows = np.zeros((m, sizes.max(), signed.shape[1]))
    for own, part in zip(rows, parts, strict=True):
        own[: len(part)] = part
    return rows, sizes


def minimisers(rows: np.ndarray, sizes: np.ndarray, strength: float) -> np.ndarray:
    """Minimiser of every owner's own objective, to a gradient of norm `TOLERANCE`.

    The mean of log(1 + exp(-<z, w>)) over an owner's rows z, plus half of `strength`
    times the squared norm of w. Nesterov's method takes as many steps
    as its theorem asks for; the certificate is checked at the end.
    """
    m, _, d = rows.shape
    steepest = CURVATURE + strength
    root = math.sqrt(strength / steepest)
    momentum = (1 - root) / (1 + root)
    old = now = np.zeros((m, d))
    for _ in range(_n_steps(strength)):
        ahead = now + momentum * (now - old)
        gradient = _gradients(rows, sizes, strength, ahead)
        old, now = now, ahead - gradient / steepest
    left = np.linalg.norm(_gradients(rows, sizes, strength, now), axis=1)
    if left.max() > TOLERANCE:
        raise ArithmeticError(f"A gradient of norm {left.max():.1e} is left.")
    return now


def _gradients(
    rows: np.ndarray, sizes: np.ndarray, strength: float, W: np.ndarray
) -> np.ndarray:
    margins = (rows @ W[:, :, None])[:, :, 0]
    residuals = -expit(-margins) / sizes[:, None]
    found: np.ndarray = (residuals[:, None, :] @ rows)[:, 0, :] + strength * W
    return found


def _n_steps(strength: float) -> int:
    """After which the gradient's norm is at most `TOLERANCE`.

    Nesterov (2018), Theorem 2.2.3: the excess falls by 1 - sqrt(q) a step from twice
    its start, and a squared gradient is at most twice L times the excess.
    """
    steepest = CURVATURE + strength
    start = 2 * math.log(2)
    goal = TOLERANCE**2 / (2 * steepest)
    return math.ceil(
        math.log(goal / start) / math.log1p(-math.sqrt(strength / steepest))
    )


def weighted_mean(W: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Of owners' minimisers by their numbers of records.

    Every record then moves it by the same 2 G / (n lambda) at most; a plain mean has
    the n_(1) of the smallest owner.
    """
    mean: np.ndarray = sizes @ W / sizes.sum()
    return mean


def certified_sensitivity(n: int, alpha: float) -> float:
    """L2, of the weighted mean of minimisers up to `TOLERANCE`."""
    return (2 / n + 2 * TOLERANCE) / alpha


def descend(
    problem: Logistic, deviation: float, runs: tuple[int, ...], kept: tuple[int, ...]
) -> dict[int, np.ndarray]:
    """Weights of shape (d, R) after each number of steps in `kept`.

    Steps of length 1 from 0, as the chapter's experiments have them, with Gaussian
    noise of this deviation in the mean gradients.
    """
    rngs = [np.random.default_rng([6, run]) for run in runs]
    for rng in rngs:
        rng.standard_normal(problem.d)  # of a method that is not here
    weights = np.zeros((problem.d, len(runs)))
    found = {}
    for step in range(1, max(kept) + 1):
        drawn = [rng.standard_normal(problem.d) for rng in rngs]
        noise = deviation * np.stack(drawn, axis=1)
        weights = weights - problem.gradient(weights) - noise
        if step in kept:
            found[step] = weights
    return found


DENIALS = ("back", "land", "neptune", "pod", "smurf", "teardrop")
# Records that are drawn, and how many of them are for training.
_SAMPLED = {"adult": (45_222, 30_000), "kddcup99": (70_000, 50_000)}


@dataclass(frozen=True, eq=False)
class Owned:
    """A training part as rows times labels, and a test part."""

    problem: Logistic
    best: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def measured(self, weights: np.ndarray) -> tuple[float, float]:
        """The loss above its least on the training part, accuracy on the test part."""
        gap = self.problem.value(weights)[0] - self.problem.value(self.best)[0]
        return float(gap), float(np.mean((self.X_test @ weights > 0) == self.y_test))


@lru_cache(maxsize=1)
def owned(name: str, alpha: float) -> Owned:
    """One of the tables, in an order drawn once."""
    X, y = _LOADERS[name]()
    drawn, training = _SAMPLED[name]
    order = np.random.default_rng(9000).permutation(len(y))[:drawn]
    kept, held = np.split(order, [training])
    signed = X[kept] * np.where(y[kept], 1.0, -1.0)[:, None]
    problem = Logistic(signed, alpha)
    return Owned(problem, problem.optimum(), X[held], y[held] == 1)


def _adult() -> tuple[np.ndarray, np.ndarray]:
    """Complete records in 104 columns, of norm 1."""
    names = (
        "age workclass fnlwgt education education-num marital-status occupation "
        "relationship race sex capital-gain capital-loss hours country income"
    ).split()
    folder = data_folder("adult")
    frame = pd.concat(
        pd.read_csv(
            folder / file,
            header=None,
            names=names,
            skipinitialspace=True,
            skiprows=skipped,
            na_values="?",
        )
        for file, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1))
    ).dropna()
    y = frame.pop("income").str.startswith(">50K").to_numpy().astype(np.int64)
    numbers = frame.select_dtypes("number").to_numpy(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    words = pd.get_dummies(frame.select_dtypes(exclude="number")).to_numpy(float)
    X = np.hstack([(numbers - low) / (high - low), words])
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def _kddcup99() -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 from the published ten per cent; whether a denial of service."""
    file = data_folder("kddcup99") / "kddcup.data_10_percent.gz"
    frame = pd.read_csv(file, header=None)
    y = frame.pop(41).str.rstrip(".").isin(DENIALS).to_numpy().astype(int)
    numbers = frame.select_dtypes("number").to_numpy(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    # Two columns are the same in every record.
    scaled = (numbers - low) / np.where(high > low, high - low, 1)
    words = pd.get_dummies(frame.select_dtypes(exclude="number")).to_numpy(float)
    X = np.hstack([scaled, words])
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


_LOADERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "adult": _adult,
    "kddcup99": _kddcup99,
}


# Of the loss above its least on the training part; on the test part.
METRICS = ("mean", "accuracy")
ANY = math.inf  # the same however the records are divided
# Of what takes long, and of what is the same in every run.
_FEW_RUNS, _SAME_RUNS = 3, 2

Values = Iterator[tuple[float, float]]
Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Cost:
    """What a method claims and what it costs."""

    claimed: float = math.inf
    true: float = math.inf
    delta: float = 0.0


@dataclass(frozen=True)
class Figure:
    """One table among m owners, or however it is divided."""

    data: str
    chapter: Chapter
    m: float = ANY

    @property
    def owned(self) -> Owned:
        """The records."""
        return owned(self.data, self.chapter.alpha)

    def line(
        self,
        method: str,
        cost: Cost,
        measure: Callable[[Sequence[int]], Values],
        *,
        n_steps: int = 0,
        note: str = "",
        most_runs: int | None = None,
    ) -> Line:
        """A method at this place."""
        return Line(
            place={"data": self.data, "m": self.m, "T": n_steps},
            method=method,
            claimed=cost.claimed,
            true=cost.true,
            delta=cost.delta,
            measure=measure,
            private=method.startswith("skdp"),
            note=note,
            metrics=METRICS,
            most_runs=most_runs,
        )


def figures(
    *, data: str, m: list[int], kept: list[int], few_steps: int, through: int
) -> Iterator[Line]:
    """Gap and accuracy of every method, of descents after several numbers of steps."""
    problem = owned(data, ALPHA).problem

    def chapter(m: int) -> Chapter:
        smallest = problem.n // m
        return Chapter(m=m, smallest=smallest, d=problem.d, n_steps=kept[-1])

    whole = Figure(data, chapter(1))
    yield from _references(whole)
    yield from _own(whole, few_steps)
    yield from _own(Figure(data, chapter(through), through), few_steps)
    yield from _pooled_descents(whole, tuple(kept))
    for number in m:
        figure = Figure(data, chapter(number), number)
        yield from _aggregations(figure)
        yield from _divided_descents(figure)


def _references(figure: Figure) -> Iterator[Line]:
    """Without noise: the least loss, and weights of zero."""
    best = figure.owned.best
    for name, weights in (("minimum", best), ("weights of zero", 0 * best)):
        yield figure.line(
            f"{name}, not private",
            Cost(),
            partial(_same, figure, weights),
            most_runs=_SAME_RUNS,
        )


def _same(figure: Figure, weights: np.ndarray, runs: Sequence[int]) -> Values:
    for _ in runs:
        yield figure.owned.measured(weights)


def _own(figure: Figure, n_steps: int) -> Iterator[Line]:
    """The noisy_gd of skdp at its defaults, pooled or with shares of the noise."""
    of = figure.chapter
    yield figure.line(
        "skdp, noisy_gd" if figure.m == ANY else "skdp, noisy_gd, shares of noise",
        Cost(of.epsilon, of.epsilon, of.delta),
        partial(_private, figure, n_steps),
        n_steps=n_steps,
        note="" if figure.m == ANY else f"n_honest={of.m - 1}",
        most_runs=None if figure.m == ANY else _FEW_RUNS,
    )


def _private(figure: Figure, n_steps: int, runs: Sequence[int]) -> Values:
    m = 1 if figure.m == ANY else figure.chapter.m
    fit = private_fit(figure.owned, n_steps, m, m - 1)
    for _ in runs:
        yield figure.owned.measured(fit())


def private_fit(
    table: Owned, n_steps: int, m: int, n_honest: int
) -> Callable[[], np.ndarray]:
    """What makes a private fit of the chapter's model, with fresh noise each time."""
    # Here: other tables are measured without the extra that this needs.
    from skdp.federated import Federation

    problem = table.problem
    facts = Chapter(m=m, smallest=problem.n // m, d=problem.d)
    model = DPLogisticRegression(
        facts.epsilon,
        delta=facts.delta,
        C=1 / (facts.alpha * problem.n),
        classes=[0, 1],
        fit_intercept=False,
        solver="noisy_gd",
        solver_params={"n_steps": n_steps},
    )
    y = np.ones(problem.n, int)  # rows are times their labels
    given: tuple[object, ...] = (problem.signed, y)
    if m > 1:
        rows, labels = np.array_split(problem.signed, m), np.array_split(y, m)
        parts = list(zip(rows, labels, strict=True))
        given = (Federation.simulated(parts, n_honest=n_honest),)

    def fit() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights: np.ndarray = model.fit(*given).coef_.ravel()
        return weights

    return fit


def _pooled_descents(figure: Figure, kept: tuple[int, ...]) -> Iterator[Line]:
    """Gradient perturbation of the pooled objective, noise drawn once for all."""
    of = figure.chapter
    for name, deviation, shown in (
        ("Grad P, equation 6.3.1", of.gradient_deviation(), kept),
        ("Grad P, entry of table 6.1", of.table_deviation(), kept[-1:]),
        ("Grad P, exact", of.exact_deviation(), kept),
    ):
        cost = Cost(of.epsilon, of.true_epsilon(deviation), of.delta)
        yield from _descents(figure, name, cost, deviation, shown)


def _divided_descents(figure: Figure) -> Iterator[Line]:
    """Every owner with noise of its own."""
    of = figure.chapter
    last = (of.n_steps,)
    spread = math.sqrt(of.m)
    for name, deviation in (
        ("Local Grad P, equation 6.3.1", of.gradient_deviation()),
        ("Local Grad P, exact", of.exact_deviation()),
    ):
        cost = Cost(of.epsilon, of.true_epsilon(deviation), of.delta)
        yield from _descents(figure, name, cost, deviation * spread, last)


def _descents(
    figure: Figure,
    method: str,
    cost: Cost,
    deviation: float,
    kept: tuple[int, ...],
    note: str = "",
) -> Iterator[Line]:
    """One descent, measured after several numbers of steps."""
    for n_steps in kept:
        measure = partial(_descended, figure, deviation, kept, n_steps)
        yield figure.line(method, cost, measure, n_steps=n_steps, note=note)


def _descended(
    figure: Figure,
    deviation: float,
    kept: tuple[int, ...],
    n_steps: int,
    runs: Sequence[int],
) -> Values:
    paths = _paths(figure, deviation, tuple(runs), kept)
    for weights in paths[n_steps].T:
        yield figure.owned.measured(weights)


@lru_cache(maxsize=2)
def _paths(
    figure: Figure, deviation: float, runs: tuple[int, ...], kept: tuple[int, ...]
) -> dict[int, np.ndarray]:
    return descend(figure.owned.problem, deviation, runs, kept)


def _aggregations(figure: Figure) -> Iterator[Line]:
    """Minimisers of the owners, averaged, with noise in the average."""
    of, n = figure.chapter, figure.owned.problem.n
    yield figure.line(
        "mean of minimisers, not private",
        Cost(),
        partial(_averaged, figure, lambda rng, d: np.zeros(d)),
        most_runs=_SAME_RUNS,
    )
    claimed = of.epsilon
    certified = certified_sensitivity(n, of.alpha)
    once = exact_multiplier(of.epsilon, of.delta)
    of_one = certified_sensitivity(of.smallest, of.alpha)
    laplace = of.mean_sensitivity / of.epsilon
    independent = math.sqrt(of.d) * of.epsilon
    for method, cost, draw in (
        ("Out P, as printed", Cost(claimed, independent), _laplace(laplace)),
        (
            "Out P, spherical",
            Cost(claimed, claimed),
            lambda rng, d: spherical(rng, (d,), certified / of.epsilon),
        ),
        ("Out P, exact", Cost(claimed, claimed, of.delta), _gaussian(once * certified)),
        ("Pathak", Cost(claimed, independent / of.m), _laplace(laplace * of.m)),
        (
            "Local Out P, as printed",
            Cost(claimed, independent),
            lambda rng, d: rng.laplace(0, laplace, (of.m, d)).sum(axis=0),
        ),
        (
            "Local Out P, exact",
            Cost(claimed, claimed, of.delta),
            _gaussian(once * of_one / math.sqrt(of.m)),
        ),
    ):
        yield figure.line(method, cost, partial(_averaged, figure, draw))


def _laplace(scale: float) -> Draw:
    return lambda rng, d: rng.laplace(0, scale, d)


def _gaussian(deviation: float) -> Draw:
    return lambda rng, d: deviation * rng.standard_normal(d)


def _averaged(figure: Figure, draw: Draw, runs: Sequence[int]) -> Values:
    mean = _mean_of_minimisers(figure)
    for run in runs:
        rng = np.random.default_rng([7, run])
        yield figure.owned.measured(mean + draw(rng, figure.chapter.d))


@lru_cache(maxsize=4)
def _mean_of_minimisers(figure: Figure) -> np.ndarray:
    rows, sizes = divided(figure.owned.problem.signed, figure.chapter.m)
    found = minimisers(rows, sizes, figure.chapter.alpha)
    return weighted_mean(found, sizes)


def _figures(data: str, records: int) -> None:
    facts = {"m": [100, 1000, records], "kept": [60, 200, 500, 1500]}
    summary = f"Wang (2021), chapter 6: figures of several owners, {data}"
    lines = partial(figures, data=data, few_steps=60, through=100, **facts)
    benchmark(f"owners_{data}", summary, runs=10, claims=True)(lines)


_figures("adult", 30_000)
_figures("kddcup99", 50_000)
