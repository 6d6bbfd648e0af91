"""Survival models on two published simulations: concordance, curves and bands.

linear
    The linear simulation of DeepSurv [1]_: ten columns, uniform in [-1, 1], hazard
    ``exp(x_0 + 2 x_1) / 5``, and everybody is watched until 15.
weibull
    Weibull times by the inversion of Bender, Augustin and Blettner [2]_: an age, a
    Gaussian measurement, sex, four stages and a column without an effect; persons are
    lost at random, and the study ends at 5.
designs
    Another design in each run: 3 to 15 columns, of which a part has effects (straight
    lines, steps, categories), log-hazards of deviation 0.3 to 1.6, Weibull times, 20 to
    90 % with an event, and some persons lost. Constants of bands were settled on it.

Methods: `DPDiscreteTimeSurvival`; the Cox model without privacy, by Newton's method on
its partial likelihood, with one-hot categories; a private life table, which is
estimated from one released histogram with all of the budget; and the rows of a
person-period table in `DPLogisticRegression` with ``privacy_unit="user"``, whose users
count with the mean over their rows.

Concordance is Harrell's, in continuous time, of 4,000 other persons. The error is the
mean distance of predicted from true survival of these persons, over the ends of ten
intervals. Coverage is that of pointwise 95 % limits of the same survival; `all` is that
of the mean survival of all persons by the life table. Width is the mean distance of
both limits.

References
----------
.. [1] Katzman, Shaham, Cloninger, Bates, Jiang and Kluger (2018). DeepSurv:
   personalized treatment recommender system using a Cox proportional hazards deep
   neural network. BMC Medical Research Methodology 18.
.. [2] Bender, Augustin and Blettner (2005). Generating survival times to simulate Cox
   proportional hazards models. Statistics in Medicine 24.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark, line
from skdp import DPDiscreteTimeSurvival, DPLogisticRegression, TableEncoder
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.release._answers import Released
from skdp.solvers import (
    _average_descent,
    _hazard_effects,
    _hazards,
    _life_table,
    _true_weights,
)
from skdp.solvers._life_table import LifeTable
from skdp.tables._source import Block

METRICS = ("concordance", "error", "coverage", "all", "width")
_N_INTERVALS, _N_TEST, _DELTA = 10, 4_000, 1e-6


class Study(NamedTuple):
    """Persons, what happened to them, and their true log-hazards."""

    X: pd.DataFrame
    y: pd.DataFrame
    risk: np.ndarray


class Simulation(NamedTuple):
    """A way to draw persons, with public facts and the true baseline."""

    drawn: Any
    horizon: float
    columns: Any
    hazard: Any
    n_intervals: int = _N_INTERVALS

    @property
    def times(self) -> np.ndarray:
        return np.linspace(0, self.horizon, self.n_intervals + 1)[1:]

    def survival(self, risk: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-np.exp(risk)[:, None] * self.hazard(self.times)))


def linear(n: int, seed: int) -> Study:
    """DeepSurv's linear simulation."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 10)), columns=[f"x{i}" for i in range(10)])
    risk = X["x0"].to_numpy() + 2 * X["x1"].to_numpy()
    time = rng.exponential(5, n) / np.exp(risk)
    y = pd.DataFrame({"event": time <= 15, "duration": np.minimum(time, 15)})
    return Study(X, y, risk)


def weibull(n: int, seed: int) -> Study:
    """Weibull times, and persons who are lost."""
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(20, 80, n), rng.integers(0, 2, n)
    measured = np.clip(rng.normal(27, 5, n), 15, 50)
    stage = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    X = pd.DataFrame({"age": age, "measured": measured})
    X["sex"], X["stage"] = np.where(sex, "m", "f"), stage.astype(str)
    X["other"] = rng.uniform(0, 1, n)
    risk = 0.03 * (age - 50) + 0.05 * (measured - 27)
    risk += 0.4 * (sex - 0.5) + 0.35 * (stage - 1)
    time = (-np.log(rng.uniform(size=n)) / (0.08 * np.exp(risk))) ** (1 / 1.3)
    lost = rng.exponential(12, n)
    y = pd.DataFrame({"event": time <= lost, "duration": np.minimum(time, lost)})
    return Study(X, y, risk)


SIMULATIONS = {
    "linear": Simulation(
        linear, 15.0, {f"x{i}": (-1, 1) for i in range(10)}, lambda t: t / 5
    ),
    "weibull": Simulation(
        weibull,
        5.0,
        {
            "age": (20, 80),
            "measured": (15, 50),
            "sex": ["f", "m"],
            "stage": ["0", "1", "2", "3"],
            "other": (0, 1),
        },
        lambda t: 0.08 * t**1.3,
    ),
}


def design(seed: int) -> Simulation:
    """Columns, effects and times of one run of `designs`."""
    rng = np.random.default_rng([seed, 77])
    p, deviation, shape = (
        rng.integers(3, 16),
        rng.uniform(0.3, 1.6),
        rng.uniform(0.7, 1.6),
    )
    weights = rng.normal(size=p) * (np.arange(p) < max(1, p * rng.uniform(0.3, 1)))
    kinds = rng.choice(["line", "bell", "step", "levels"], p, p=[0.45, 0.2, 0.15, 0.2])
    levels = [rng.normal(size=rng.integers(2, 6)) for _ in range(p)]
    cuts, events, lost = (
        rng.uniform(-0.5, 0.5, p),
        rng.uniform(0.2, 0.9),
        rng.uniform(0, 0.5),
    )

    def people(n: int, rng: Any) -> tuple[pd.DataFrame, np.ndarray]:
        X, total = {}, np.zeros(n)
        for j, kind in enumerate(kinds):
            if kind == "levels":
                level = rng.integers(0, len(levels[j]), n)
                X[f"x{j}"], effect = level.astype(str), levels[j][level]
            else:
                x = rng.uniform(-1, 1, n)
                if kind == "bell":
                    x = np.clip(rng.normal(0, 0.33, n), -1, 1)
                X[f"x{j}"], effect = x, (2.0 * (x > cuts[j]) if kind == "step" else x)
            total += weights[j] * effect / max(float(np.std(effect)), 1e-9)
        return pd.DataFrame(X), total

    known = people(20_000, np.random.default_rng(1))[1]
    scale = deviation / known.std()
    risks = scale * (known - known.mean())

    def too_many(base: float) -> float:
        return float(np.mean(-np.expm1(-np.exp(risks + base)))) - events

    base = brentq(too_many, -20, 20)

    def drawn(n: int, run: int) -> Study:
        rng = np.random.default_rng([run, seed])
        X, total = people(n, rng)
        risk = scale * (total - known.mean())
        time = (rng.exponential(size=n) / np.exp(base + risk)) ** (1 / shape)
        end = rng.exponential(1 / lost, n)
        y = pd.DataFrame({"event": time <= end, "duration": np.minimum(time, end)})
        return Study(X, y, risk)

    columns = {
        f"x{j}": [str(k) for k in range(len(levels[j]))]
        if kind == "levels"
        else (-1, 1)
        for j, kind in enumerate(kinds)
    }
    return Simulation(drawn, 1.0, columns, lambda t: math.exp(base) * t**shape)


def simulation_of(name: str, seed: int) -> Simulation:
    """The simulation with this name, in this run."""
    return design(seed) if name == "designs" else SIMULATIONS[name]


def watched(y: pd.DataFrame, horizon: float) -> tuple[np.ndarray, np.ndarray]:
    """Events and durations until the horizon."""
    time = y["duration"].to_numpy()
    return y["event"].to_numpy() & (time <= horizon), np.minimum(time, horizon)


def harrell(event: np.ndarray, time: np.ndarray, risk: np.ndarray) -> float:
    """Share of comparable pairs in which the first event is of the higher risk."""
    order = np.argsort(time, kind="stable")
    event, time, risk = event[order], time[order], risk[order]
    ordered = pairs = 0.0
    for place in np.flatnonzero(event):
        later = risk[np.searchsorted(time, time[place], side="right") :]
        ordered += np.sum(risk[place] > later) + np.sum(risk[place] == later) / 2
        pairs += len(later)
    return ordered / pairs


def cox(X: np.ndarray, event: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Coefficients of Cox's model without privacy, for times without ties."""
    order = np.argsort(-time, kind="stable")
    X, event = X[order], event[order]
    beta = np.zeros(X.shape[1])
    for _ in range(12):
        weight = np.exp(X @ beta)
        total = np.cumsum(weight)[:, None]
        mean = np.cumsum(weight[:, None] * X, axis=0) / total
        gradient = (X - mean)[event].sum(axis=0)
        # The second moment of each risk set, by how often a person is in one.
        often = np.cumsum((event / total[:, 0])[::-1])[::-1]
        bent = (X.T * (weight * often)) @ X - mean[event].T @ mean[event]
        beta += np.linalg.lstsq(bent, gradient, rcond=None)[0]
    return beta


def breslow(
    risk: np.ndarray, event: np.ndarray, time: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """Cumulated baseline hazard of Cox's model at some times."""
    order = np.argsort(-time, kind="stable")
    total = np.cumsum(np.exp(risk[order]))
    steps = event[order] / total
    return np.array([steps[time[order] <= t].sum() for t in at])


def _scores(
    simulation: Simulation,
    test: Study,
    risk: np.ndarray,
    curves: np.ndarray,
    bands: Any = None,
    of_all: float = math.nan,
) -> list[float]:
    true = simulation.survival(test.risk)
    coverage = width = math.nan
    if bands is not None:
        low, high = bands
        coverage = float(np.mean((low <= true) & (true <= high)))
        width = float(np.mean(high - low))
    index = harrell(*watched(test.y, simulation.horizon), risk)
    error = float(np.abs(curves - true).mean())
    return [index, error, coverage, of_all, width]


def _of_all(simulation: Simulation, low: Any, high: Any) -> float:
    """Share of the ends of intervals at which limits hold the mean survival."""
    risk = simulation.drawn(200_000, 10**7).risk
    mean = simulation.survival(risk).mean(axis=0)
    return float(np.mean((low <= mean) & (mean <= high)))


def hazards(
    name: str,
    n: int,
    epsilon: float,
    adjacency: Any,
    seed: int,
    numeric: Any = "hats",
    n_intervals: int = _N_INTERVALS,
) -> Any:
    """`DPDiscreteTimeSurvival`."""
    own = simulation_of(name, seed)._replace(n_intervals=n_intervals)
    data, test = own.drawn(n, seed), own.drawn(_N_TEST, 10**6 + seed)
    columns = TableEncoder(own.columns, numeric=numeric)
    facts = {"horizon": own.horizon, "n_intervals": n_intervals, "columns": columns}
    model = DPDiscreteTimeSurvival(epsilon, **facts, adjacency=adjacency)
    model = quietly_fitted(model, data.X, data.y)
    table, bands = model.life_table_, model.survival_bands(test.X)
    of_all = _of_all(own, table["lower"], table["upper"])
    risk, curves = model.predict(test.X), model.predict_survival_function(test.X)
    return _scores(own, test, risk, curves, bands, of_all)


def life_table(name: str, n: int, epsilon: float, adjacency: Any, seed: int) -> Any:
    """A life table alone, with noise drawn by NumPy."""
    own = simulation_of(name, seed)
    data, test = own.drawn(n, seed), own.drawn(_N_TEST, 10**6 + seed)
    model = DPDiscreteTimeSurvival(horizon=own.horizon, columns=own.columns)
    y = model._targets(data.y, n)
    query = LifeTable.query(n, _N_INTERVALS)
    (counted,) = query.added(Block(None, y))
    pairs = zip(counted.places, counted.values, strict=True)
    each = [np.bincount(*pair, 2 * _N_INTERVALS + 1) for pair in pairs]
    counts = np.sum(each, axis=0)
    sigma = query.bound().under(adjacency) / gaussian_mu(epsilon, _DELTA)
    noise = np.random.default_rng([seed, 1]).normal(0, sigma, len(counts))
    released = Released(counts + noise, sigma, sigma)
    shown = LifeTable.of(released, n, _N_INTERVALS).shown()
    of_all = _of_all(own, shown["lower"], shown["upper"])
    curves = np.tile(shown["survival"], (_N_TEST, 1))
    return _scores(own, test, np.zeros(_N_TEST), curves, None, of_all)


def person_periods(name: str, n: int, epsilon: float, adjacency: Any, seed: int) -> Any:
    """Logistic regression on a row for each person and interval."""
    own = simulation_of(name, seed)
    data, test = own.drawn(n, seed), own.drawn(_N_TEST, 10**6 + seed)
    event, time = watched(data.y, own.horizon)
    last = np.clip(np.ceil(time / own.horizon * _N_INTERVALS), 1, _N_INTERVALS)
    whose = np.repeat(np.arange(n), last.astype(int))
    place = np.concatenate([np.arange(k) for k in last.astype(int)])
    X = data.X.iloc[whose].reset_index(drop=True).assign(interval=place.astype(str))
    y = (event[whose] & (place == last[whose] - 1)).astype(int)
    model = DPLogisticRegression(
        epsilon,
        columns=own.columns | {"interval": [str(k) for k in range(_N_INTERVALS)]},
        classes=[0, 1],
        privacy_unit="user",
        adjacency=adjacency,
    )
    model = quietly_fitted(model, X, y, groups=whose)
    raw = np.column_stack(
        [
            model.decision_function(test.X.assign(interval=str(k)))
            for k in range(_N_INTERVALS)
        ]
    )
    return _scores(own, test, raw[:, 0], np.cumprod(1 - expit(raw), axis=1))


def without_privacy(name: str, n: int, seed: int) -> Any:
    """Cox's model."""
    own = simulation_of(name, seed)
    data, test = own.drawn(n, seed), own.drawn(_N_TEST, 10**6 + seed)
    U = pd.get_dummies(data.X, drop_first=True, dtype=float)
    V = pd.get_dummies(test.X, drop_first=True, dtype=float)[U.columns].to_numpy()
    event, time = watched(data.y, own.horizon)
    middle = U.to_numpy().mean(axis=0)
    beta = cox(U.to_numpy() - middle, event, time)
    base = breslow((U.to_numpy() - middle) @ beta, event, time, own.times)
    risk = (V - middle) @ beta
    curves = np.exp(-np.exp(risk)[:, None] * base)
    return _scores(own, test, risk, curves)


@benchmark("survival", runs=10, judged=False)
def lines(simulations: str = "linear,weibull") -> Iterator[Line]:
    """Concordance, curves and bands of survival models, on two simulations."""
    names = simulations.split(",")
    for name, n, epsilon in product(names, (2_000, 20_000), (0.3, 1.0, 4.0)):
        place = {"simulation": name, "n": n, "epsilon": epsilon}
        for adjacency in ("replace_one", "zero_out"):
            at = place | {"adjacency": adjacency}
            cell = (name, n, epsilon, adjacency)
            for method in (hazards, life_table, person_periods):
                label = method.__name__.replace("_", " ")
                score = partial(method, *cell)
                # A row for each person and interval takes long.
                few = 3 if method is person_periods else None
                yield line(at, label, score, METRICS, private=True, most_runs=few)
        yield line(
            place | {"adjacency": "none"},
            "Cox without privacy",
            partial(without_privacy, name, n),
            METRICS,
        )


@benchmark("survival_bands", runs=160)
def lines_of_bands(
    simulations: str = "linear,weibull",
    adjacencies: str = "replace_one,zero_out",
    sizes: str = "500,5000,50000",
    numeric: str = "hats",
    n_intervals: int = _N_INTERVALS,
    first_seed: int = 0,
) -> Iterator[Line]:
    """Coverage of survival bands, on two simulations or on many designs.

    With ``numeric="linear"`` effects of numbers are straight lines, as they are in both
    simulations. `n_intervals` is that of the bands; a life table alone has 10.

    Constants were settled on the designs of the seeds 0 to 39, and on the simulations
    with the seeds 500 to 519, under replace_one.
    """
    settings = (
        adjacencies.split(","),
        simulations.split(","),
        map(int, sizes.split(",")),
    )
    cells = product(*settings, (0.3, 1.0, 4.0))
    for adjacency, name, n, epsilon in cells:
        place = {"simulation": name, "n": n, "epsilon": epsilon, "adjacency": adjacency}
        # Fits of few persons and of straight lines are fast.
        runs = 160 if n < 5_000 or numeric == "linear" else 40
        runs = 60 if n >= 50_000 else runs
        bands = partial(hazards, numeric=numeric, n_intervals=n_intervals)
        for label, method in (("bands", bands), ("life table alone", life_table)):
            score = partial(
                _with_later_seed, first_seed, method, name, n, epsilon, adjacency
            )
            yield line(place, label, score, METRICS, private=True, most_runs=runs)


def _with_later_seed(
    first: int, method: Callable[..., Any], *cell_and_seed: Any
) -> Any:
    *cell, seed = cell_and_seed
    return method(*cell, first + seed)


@benchmark("survival_constants", runs=40)
def lines_of_constants(
    constants: str = "_INTERVALS,_SPREAD,_ROUNDS,_N_PERSONS",
    sizes: str = "500,5000",
    adjacency: str = "replace_one",
    simulation: str = "designs",
) -> Iterator[Line]:
    """Constants of survival models, on many designs: curves and bands."""
    values = {
        "_INTERVALS": (0.2, 0.5, 1.0),
        "_SPREAD": (1.0, 1.5, 2.0),
        "_ROUNDS": (1, 2, 3),
        "_N_PERSONS": (1024, 4096),
        "_OF_BENDS": (0.0, -1.0, -2.0),
        "_BETWEEN": (0.0, 0.35),
        "_OF_LEVEL": (0.75, 1.5, 3.0),
        "_OF_SHAPE": (0.0, 0.7, 1.4),
    }
    for constant, n in product(constants.split(","), map(int, sizes.split(","))):
        for value, epsilon in product(values[constant], (0.3, 1.0, 4.0)):
            at = {"constant": constant, "value": value, "n": n, "epsilon": epsilon}
            at |= {"adjacency": adjacency, "simulation": simulation}
            cell = (simulation, n, epsilon, adjacency)
            score = partial(_changed, constant, value, *cell)
            yield line(at, "hazards", score, METRICS, private=True)


def _changed(constant: str, value: float, *cell_and_seed: Any) -> Any:
    places = (_hazards, _true_weights, _hazard_effects, _average_descent, _life_table)
    (where,) = (place for place in places if hasattr(place, constant))
    with patch.object(where, constant, value):
        return hazards(*cell_and_seed)
