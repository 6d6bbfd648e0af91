"""Wang's thesis (2021), chapter 6: figures 6.1, 6.3, 6.4 and 6.7 to 6.9.

Noise is NumPy's, but for the rows of skdp. Of the methods of the chapter those that
aggregate minimisers and those that descend are here. Ranges of Adult and KDD Cup 1999
and the kinds of words are taken as public; KDD Cup 1998 is not at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks._models import quietly_fitted
from benchmarks._papers._descent import Logistic
from benchmarks._papers._privacy import exact_multiplier, gaussian_epsilon, spherical
from benchmarks._runner import Line, benchmark, each
from benchmarks._tables import coded, read_adult, read_kddcup99
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
    """Adult or KDD Cup 1999, rows of norm 1 in an order drawn once."""
    if name == "adult":
        frame = read_adult(na_values="?").dropna()  # complete records
        y = frame.pop("income").str.startswith(">50K").to_numpy()
    else:  # whether a denial of service
        frame = read_kddcup99()
        denials = ("back", "land", "neptune", "pod", "smurf", "teardrop")
        y = frame.pop(41).str.rstrip(".").isin(denials).to_numpy()
    X = coded(frame)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    drawn, training = _SAMPLED[name]
    order = np.random.default_rng(9000).permutation(len(y))[:drawn]
    kept, held = np.split(order, [training])
    problem = Logistic(X[kept] * np.where(y[kept], 1.0, -1.0)[:, None], alpha)
    return Owned(problem, problem.optimum(), X[held], y[held])


Values = Iterator[tuple[float, float]]
Draw = Callable[[np.random.Generator, int], np.ndarray]


def figures(
    *, data: str, m: list[int], kept: list[int], few_steps: int, through: int
) -> Iterator[Line]:
    """Gap and accuracy of every method, of descents after several numbers of steps.

    m = inf stands for however the records are divided; `through` is the number of
    owners whose shares of noise skdp's descent has too.
    """
    table = owned(data, ALPHA)
    n, last = table.problem.n, kept[-1]

    def at(m: float, n_steps: int, method: str, measure: Any, **more: Any) -> Line:
        metrics = ("mean", "accuracy")
        place = {"data": data, "m": m, "T": n_steps}
        return Line(
            place=place, method=method, measure=measure, metrics=metrics, **more
        )

    for name, weights in (("minimum", table.best), ("weights of zero", 0 * table.best)):
        measure = each(lambda run, w=weights: table.measured(w))
        yield at(math.inf, 0, f"{name}, not private", measure, most_runs=2)
    of = Chapter(m=1, smallest=n, d=table.problem.d, n_steps=last)
    budget = {"claimed": of.epsilon, "delta": of.delta}
    for owners, name in ((1, "noisy_gd"), (through, "noisy_gd, shares of noise")):
        fit = private_fit(table, few_steps, owners, owners - 1)
        measure = each(lambda run, fit=fit: table.measured(fit()))
        where, most = (math.inf, None) if owners == 1 else (owners, 3)
        more = {"private": True, "most_runs": most, **budget}
        yield at(where, few_steps, f"skdp, {name}", measure, **more)
    for name, deviation, shown in (
        ("Grad P, equation 6.3.1", of.gradient_deviation(), kept),
        ("Grad P, entry of table 6.1", of.table_deviation(), kept[-1:]),
        ("Grad P, exact", of.exact_deviation(), kept),
    ):
        true = of.true_epsilon(deviation)
        for n_steps in shown:
            measure = partial(_descended, table, deviation, tuple(shown), n_steps)
            yield at(math.inf, n_steps, name, measure, true=true, **budget)
    for number in m:
        of = Chapter(m=number, smallest=n // number, d=of.d, n_steps=last)
        for name, true, delta, draw in _aggregations(of, n):
            measure = partial(_averaged, table, of, draw)
            most = 2 if "not private" in name else None
            claimed = math.inf if most else of.epsilon
            more = {"claimed": claimed, "true": true, "delta": delta}
            yield at(number, 0, name, measure, most_runs=most, **more)
        for name, deviation in (
            ("Local Grad P, equation 6.3.1", of.gradient_deviation()),
            ("Local Grad P, exact", of.exact_deviation()),
        ):
            spread = deviation * math.sqrt(number)
            measure = partial(_descended, table, spread, (last,), last)
            true = of.true_epsilon(deviation)
            yield at(number, last, name, measure, true=true, **budget)


def private_fit(
    table: Owned, n_steps: int, m: int, n_honest: int, delta: float = Chapter.delta
) -> Callable[[], np.ndarray]:
    """What makes a private fit of the chapter's model, with fresh noise each time."""
    problem = table.problem
    facts = Chapter(m=m, smallest=problem.n // m, d=problem.d, delta=delta)
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

    def fit() -> np.ndarray:
        given: tuple[Any, ...] = (problem.signed, y)
        if m > 1:
            # Here: other tables are measured without the extra that this needs.
            from skdp.federated import Federation

            rows, labels = np.array_split(problem.signed, m), np.array_split(y, m)
            parts = list(zip(rows, labels, strict=True))
            given = (Federation.simulated(parts, n_honest=n_honest),)
        return np.asarray(quietly_fitted(model, *given).coef_.ravel())

    return fit


def _descended(
    table: Owned, deviation: float, kept: tuple[int, ...], n_steps: int, runs: list[int]
) -> Values:
    for weights in _paths(table, deviation, tuple(runs), kept)[n_steps].T:
        yield table.measured(weights)


@lru_cache(maxsize=2)
def _paths(
    table: Owned, deviation: float, runs: tuple[int, ...], kept: tuple[int, ...]
) -> dict[int, np.ndarray]:
    return descend(table.problem, deviation, runs, kept)


def _aggregations(of: Chapter, n: int) -> Iterator[tuple[str, float, float, Draw]]:
    """Noise in the average of the minimisers, with its true epsilon and delta."""
    yield "mean of minimisers, not private", math.inf, 0.0, lambda rng, d: np.zeros(d)
    certified = certified_sensitivity(n, of.alpha)
    once = exact_multiplier(of.epsilon, of.delta)
    of_one = certified_sensitivity(of.smallest, of.alpha) / math.sqrt(of.m)
    scale, e = of.mean_sensitivity / of.epsilon, of.epsilon
    # Independent Laplace coordinates cost sqrt(d) times a spherical law.
    true = math.sqrt(of.d) * e
    yield "Out P, as printed", true, 0.0, lambda rng, d: rng.laplace(0, scale, d)
    yield "Out P, spherical", e, 0.0, lambda rng, d: spherical(rng, (d,), certified / e)
    yield "Out P, exact", e, of.delta, partial(_gaussian, once * certified)
    yield "Pathak", true / of.m, 0.0, lambda rng, d: rng.laplace(0, scale * of.m, d)
    yield (
        "Local Out P, as printed",
        true,
        0.0,
        lambda rng, d: rng.laplace(0, scale, (of.m, d)).sum(axis=0),
    )
    yield "Local Out P, exact", e, of.delta, partial(_gaussian, once * of_one)


def _gaussian(deviation: float, rng: np.random.Generator, d: int) -> np.ndarray:
    return np.asarray(deviation * rng.standard_normal(d))


def _averaged(table: Owned, of: Chapter, draw: Draw, runs: list[int]) -> Values:
    mean = _mean_of_minimisers(table, of)
    for run in runs:
        yield table.measured(mean + draw(np.random.default_rng([7, run]), of.d))


@lru_cache(maxsize=4)
def _mean_of_minimisers(table: Owned, of: Chapter) -> np.ndarray:
    rows, sizes = divided(table.problem.signed, of.m)
    return weighted_mean(minimisers(rows, sizes, of.alpha), sizes)


for _data, _records in (("adult", 30_000), ("kddcup99", 50_000)):
    _facts = {"m": [100, 1000, _records], "kept": [60, 200, 500, 1500]}
    benchmark(
        f"owners_{_data}",
        f"Wang (2021), chapter 6: figures of several owners, {_data}",
        runs=10,
        claims=True,
    )(partial(figures, data=_data, few_steps=60, through=100, **_facts))
