"""Wang's thesis (2021), chapter 6: table 6.1 and figures 6.1, 6.3, 6.4 and 6.7 to 6.9.

Noise is NumPy's, but for the rows of skdp. What the chapter does not say is read from
its released code: one draw of the tilt serves all owners of its local objective
perturbation, and the method of Rajkumar and Agarwal has a Gaussian tilt drawn once and
Laplace noise at every step. Ranges of Adult and KDD Cup 1999 and the kinds of words are
taken as public; KDD Cup 1998 is not at hand.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pandas as pd

from benchmarks._papers import _owners as owners
from benchmarks._papers._descent import Logistic
from benchmarks._papers._privacy import (
    classical_multiplier,
    exact_multiplier,
    spherical,
)
from benchmarks._runner import Benchmark, Line
from benchmarks._tables import data_folder
from skdp import DPLogisticRegression

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
    """One table among m owners, or however it is divided.

    Parameters
    ----------
    data : {"adult", "kddcup99"}
    chapter : Chapter
    m : float
    """

    data: str
    chapter: owners.Chapter
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
    """Gap and accuracy of every method, of descents after several numbers of steps.

    Parameters
    ----------
    data : {"adult", "kddcup99"}
    m : list of int
        Numbers of owners; of as many as there are records each has one.
    kept : list of int
        Steps after which a descent is measured; the last is its T.
    few_steps : int
        T of skdp's own descent.
    through : int
        Number of owners whose shares of noise skdp's descent has too.
    """
    problem = owned(data, owners.ALPHA).problem

    def chapter(m: int) -> owners.Chapter:
        smallest = problem.n // m
        return owners.Chapter(m=m, smallest=smallest, d=problem.d, n_steps=kept[-1])

    whole = Figure(data, chapter(1))
    yield from _references(whole)
    yield from _own(whole, few_steps)
    yield from _own(Figure(data, chapter(through), through), few_steps)
    yield from _pooled_descents(whole, tuple(kept))
    for number in m:
        figure = Figure(data, chapter(number), number)
        yield from _aggregations(figure)
        yield from _objectives(figure)
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
    """What makes a private fit of the chapter's model, with fresh noise each time.

    Parameters
    ----------
    table : Owned
    n_steps : int
    m : int
        Owners; 1 for a pooled fit.
    n_honest : int
        Of them.
    """
    # Here: other tables are measured without the extra that this needs.
    from skdp.federated import Federation

    problem = table.problem
    facts = owners.Chapter(m=m, smallest=problem.n // m, d=problem.d)
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
        noise = owners.Noise(deviation=deviation)
        yield from _descents(figure, name, cost, noise, shown)


def _divided_descents(figure: Figure) -> Iterator[Line]:
    """Every owner with noise of its own, and the method with two kinds of noise."""
    of = figure.chapter
    last = (of.n_steps,)
    spread = math.sqrt(of.m)
    for name, deviation in (
        ("Local Grad P, equation 6.3.1", of.gradient_deviation()),
        ("Local Grad P, exact", of.exact_deviation()),
    ):
        cost = Cost(of.epsilon, of.true_epsilon(deviation), of.delta)
        noise = owners.Noise(deviation=deviation * spread)
        yield from _descents(figure, name, cost, noise, last)
    n = of.m * of.smallest
    tilt = of.coded_objective()
    noise = owners.Noise(
        laplace=of.gradient_sensitivity / of.epsilon,
        tilt=classical_multiplier(tilt.epsilon, of.delta) * of.gradient_sensitivity,
        strength=tilt.strength / n,
    )
    every = owners.coordinatewise_epsilon(1 / of.epsilon, of.d, of.delta, of.n_steps)
    note = "claimed is each step's; true if the tilt were known"
    cost = Cost(of.epsilon, every, of.delta)
    yield from _descents(figure, "Rajkumar and Agarwal", cost, noise, last, note)


def _descents(
    figure: Figure,
    method: str,
    cost: Cost,
    noise: owners.Noise,
    kept: tuple[int, ...],
    note: str = "",
) -> Iterator[Line]:
    """One descent, measured after several numbers of steps."""
    for n_steps in kept:
        measure = partial(_descended, figure, noise, kept, n_steps)
        yield figure.line(method, cost, measure, n_steps=n_steps, note=note)


def _descended(
    figure: Figure,
    noise: owners.Noise,
    kept: tuple[int, ...],
    n_steps: int,
    runs: Sequence[int],
) -> Values:
    paths = _paths(figure, noise, tuple(runs), kept)
    for weights in paths[n_steps].T:
        yield figure.owned.measured(weights)


@lru_cache(maxsize=2)
def _paths(
    figure: Figure, noise: owners.Noise, runs: tuple[int, ...], kept: tuple[int, ...]
) -> dict[int, np.ndarray]:
    return owners.descend(figure.owned.problem, noise, runs, kept)


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
    certified = owners.certified_sensitivity(n, of.alpha)
    once = exact_multiplier(of.epsilon, of.delta)
    of_one = owners.certified_sensitivity(of.smallest, of.alpha)
    laplace = of.mean_sensitivity / of.epsilon
    independent = math.sqrt(of.d) * of.epsilon
    for method, cost, draw in (
        (
            "Out P, as printed",
            Cost(claimed, independent),
            _laplace(laplace),
        ),
        (
            "Out P, spherical",
            Cost(claimed, claimed),
            lambda rng, d: spherical(rng, (d,), certified / of.epsilon),
        ),
        (
            "Out P, exact",
            Cost(claimed, claimed, of.delta),
            _gaussian(once * certified),
        ),
        (
            "Pathak",
            Cost(claimed, independent / of.m),
            _laplace(laplace * of.m),
        ),
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
    rows, sizes = owners.divided(figure.owned.problem.signed, figure.chapter.m)
    found = owners.minimisers(rows, sizes, figure.chapter.alpha)
    return owners.weighted_mean(found, sizes)


def _objectives(figure: Figure) -> Iterator[Line]:
    """A random linear term in every owner's objective."""
    of = figure.chapter
    coded, right = of.coded_objective(), of.objective()
    yield figure.line(
        "Local Obj P, released code",
        Cost(of.epsilon, coded.most_epsilon(of, independent=True)),
        partial(_tilted, figure, coded, _one_for_all),
        note="true is an upper bound",
        most_runs=_FEW_RUNS,
    )
    yield figure.line(
        "Local Obj P, spherical tilts",
        Cost(of.epsilon, right.most_epsilon(of, independent=False)),
        partial(_tilted, figure, right, _one_for_each),
        most_runs=_FEW_RUNS,
    )


def _one_for_all(rng: np.random.Generator, m: int, d: int, scale: float) -> np.ndarray:
    return np.tile(rng.laplace(0, scale, d), (m, 1))


def _one_for_each(rng: np.random.Generator, m: int, d: int, scale: float) -> np.ndarray:
    return spherical(rng, (m, d), scale)


def _tilted(
    figure: Figure,
    tilt: owners.Tilt,
    draw: Callable[[np.random.Generator, int, int, float], np.ndarray],
    runs: Sequence[int],
) -> Values:
    of = figure.chapter
    rows, sizes = owners.divided(figure.owned.problem.signed, of.m)
    for run in runs:
        rng = np.random.default_rng([8, run])
        linear = draw(rng, of.m, of.d, tilt.scale) / sizes[:, None]
        found = owners.minimisers(rows, sizes, of.alpha + tilt.strength, linear)
        yield figure.owned.measured(owners.weighted_mean(found, sizes))


# --------------------------------------------------------------------------- table 6.1

# Of table 6.1; KDD Cup 1999 has 122 columns in the thesis.
TABLE = owners.Chapter(m=100, smallest=500, d=122, alpha=0.01, n_steps=100)
_SAMPLES = 1000


@dataclass(frozen=True)
class Entry:
    """A column of table 6.1.

    Parameters
    ----------
    method : str
    printed, sampled : float
        The table's scale, and the deviation of a thousand draws.
    scale : float
        By the method's own formula.
    exact : float
        Deviation of the Gaussian noise that the claim needs, in the same place.
    is_gaussian : bool
    released : float
        The scale in what one owner, or all together, release.
    sensitivity : float
        L2, of that.
    """

    method: str
    printed: float
    sampled: float
    scale: float
    exact: float
    is_gaussian: bool
    released: float
    sensitivity: float

    def drawn(self, rng: np.random.Generator) -> float:
        """Deviation of a thousand draws at the printed scale."""
        draw = rng.normal if self.is_gaussian else rng.laplace
        return float(np.std(draw(0, self.printed, _SAMPLES)))

    def true_epsilon(self, of: owners.Chapter) -> float:
        """At the table's scale: of Gaussian noise with delta, of Laplace without."""
        if self.is_gaussian:
            return of.true_epsilon(self.released)
        multiplier = self.released / self.sensitivity
        return owners.coordinatewise_epsilon(multiplier, of.d, 0.0)


def entries(of: owners.Chapter) -> Iterator[Entry]:
    """The columns; local noise is that of the mean of all owners' releases."""
    root = math.sqrt(of.m)
    once = exact_multiplier(of.epsilon, of.delta)
    local, mean = of.local_sensitivity, of.mean_sensitivity
    wide = local / of.epsilon
    yield Entry("Pathak", 0.8, 1.15, wide, once * mean, False, wide, mean)
    yield Entry(
        "Local Out P", 0.08, 0.112, wide / root, once * local / root, False, wide, local
    )
    # Of local gradients both noise and sensitivity are m times as large: the same cost.
    table, right = of.table_deviation(), of.gradient_deviation()
    exact = of.exact_deviation()
    yield Entry(
        "Local Grad P", 5.66e-3, 5.63e-3, right * root, exact * root, True, table, 0.0
    )
    narrow = mean / of.epsilon
    yield Entry("MPC Out P", 8e-3, 12.2e-3, narrow, once * mean, False, narrow, mean)
    yield Entry("MPC Grad P", 0.57e-3, 0.572e-3, right, exact, True, table, 0.0)


def noise() -> Iterator[Line]:
    """Table 6.1 with what it costs; a run draws a thousand numbers."""
    for entry in entries(TABLE):
        yield Line(
            place={"printed scale": entry.printed, "its deviation": entry.sampled},
            method=entry.method,
            claimed=TABLE.epsilon,
            true=entry.true_epsilon(TABLE),
            delta=TABLE.delta if entry.is_gaussian else 0.0,
            measure=partial(_drawn, entry),
            metrics=("deviation drawn", "by its formula", "deviation for the claim"),
        )
    coded, right = TABLE.coded_objective(), TABLE.objective()
    for name, tilt, independent in (
        ("Local Obj P, released code", coded, True),
        ("Local Obj P, as its theorem has it", right, False),
    ):
        scale = tilt.scale / TABLE.smallest
        yield Line(
            place={"printed scale": scale, "its deviation": math.nan},
            method=name,
            claimed=TABLE.epsilon,
            true=tilt.most_epsilon(TABLE, independent=independent),
            measure=lambda runs: [[math.nan] * 3 for _ in runs],
            metrics=("deviation drawn", "by its formula", "deviation for the claim"),
            note=f"true is at most; strength {tilt.strength:.3g} beside lambda",
        )


def _drawn(entry: Entry, runs: Sequence[int]) -> Iterator[list[float]]:
    for run in runs:
        drawn = entry.drawn(np.random.default_rng(run))
        yield [drawn, entry.scale, entry.exact]


def _figures(data: str, records: int) -> Benchmark:
    facts = {"m": [100, 1000, records], "kept": [60, 200, 500, 1500]}
    return Benchmark(
        name=f"owners_{data}",
        summary=f"Wang (2021), chapter 6: figures of several owners, {data}",
        lines=partial(figures, data=data, few_steps=60, through=100, **facts),
        runs=10,
        claims=True,
    )


BENCHMARKS = (
    _figures("adult", 30_000),
    _figures("kddcup99", 50_000),
    Benchmark(
        name="owners_noise",
        summary="Wang (2021), table 6.1: the noise of several owners",
        lines=noise,
        claims=True,
    ),
)
