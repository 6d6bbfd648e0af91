"""Factorisations of ratings: without privacy, and with both private relations.

Predictions of test ratings are clipped to their bounds. Settings were chosen on a tenth
of the training ratings of MovieLens (``part="settle"``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks._models import quietly_fitted
from benchmarks._results import versions_of
from benchmarks._runner import Line, at_hand, benchmark, line
from benchmarks._tables import data_folder
from skdp._configured import given_params
from skdp._fit import Progress
from skdp.datasets import FilmRatings, load_movielens
from skdp.decomposition import DPMatrixFactorization
from skdp.decomposition._factorize import Factorizer
from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._ratings import (
    Factors,
    Pattern,
    Ratings,
    RatingSource,
    Task,
    Threads,
)
from skdp.decomposition._recommender import solve_users
from skdp.decomposition._value_als import ValueALS
from skdp.papers._hamsi import HAMSI, MinibatchGD
from skdp.privacy import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import UNITS, Unit
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import Door

BOUNDS, DELTA = (1.0, 5.0), 1e-6
SIZES = ("1m", "100k")
# Ratings of 5,000 users of 100 jokes, from -10 to 10 (docs/notebook/data.md).
JESTER, _JESTER_BOUNDS = "jester5k", (-10.0, 10.0)
Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Coded:
    """Training and test ratings with ids as codes; ids are those of both parts."""

    train: Ratings
    test: Ratings
    bounds: tuple[float, float]

    @classmethod
    def of(cls, films: FilmRatings) -> Coded:
        """The same ratings, coded."""
        X = np.concatenate([films.X_train, films.X_test])
        y = np.concatenate([films.y_train, films.y_test])
        users, items = (np.unique(X[:, j], return_inverse=True) for j in (0, 1))
        codes = users[1].astype(np.int32), items[1].astype(np.int32)
        shape, n = (len(users[0]), len(items[0])), len(films.y_train)
        parts = (
            Ratings(Pattern(codes[0][part], codes[1][part], *shape), y[part])
            for part in (slice(n), slice(n, None))
        )
        return cls(*parts, _JESTER_BOUNDS if films.name == JESTER else BOUNDS)

    @property
    def pattern(self) -> Pattern:
        """The pairs of the training part."""
        return self.train.pattern

    def rmse(self, predicted: np.ndarray) -> float:
        """Of the test ratings, predictions clipped."""
        error = np.clip(predicted, *self.bounds) - self.test.values
        return float(np.sqrt(np.mean(error**2)))

    def error(self, predict: Predict) -> float:
        """Of what predicts pairs of codes."""
        return self.rmse(predict(self.test.pattern.users, self.test.pattern.items))


@lru_cache(maxsize=2)
def films_of(size: str, part: str = "report") -> FilmRatings:
    """A set with its test part, or with a tenth of the training part in its place."""
    if size == JESTER:
        films = _jokes()
    else:
        data_folder(f"movielens_{size}")
        films = load_movielens(size)
    return films if part == "report" else _without_a_tenth(films)


def _jokes() -> FilmRatings:
    """All ratings of jokes, a random tenth of them in the test part."""
    with np.load(data_folder(JESTER) / f"{JESTER}.npz") as file:
        X = np.column_stack([file["users"], file["items"]]).astype(np.int64)
        y = file["ratings"].astype(float)
    return _without_a_tenth(FilmRatings(JESTER, "", X, y, X[:0], y[:0], {}))


def _without_a_tenth(films: FilmRatings) -> FilmRatings:
    """A random tenth of the training part in the place of the test part."""
    is_out = np.random.default_rng(0).random(len(films.y_train)) < 0.1
    return replace(
        films,
        X_train=films.X_train[~is_out],
        y_train=films.y_train[~is_out],
        X_test=films.X_train[is_out],
        y_test=films.y_train[is_out],
    )


@lru_cache(maxsize=2)
def coded(size: str, part: str = "report") -> Coded:
    """The same, coded."""
    return Coded.of(films_of(size, part))


# --------------------------------------------------------------------- without privacy

_RACE = ("test", "s", "equal s", "passes", "components")


@benchmark("recommenders", runs=1, judged=True)
def race(part: str = "report", n_jobs: int = 1) -> Iterator[Line]:
    """Held-out error and time, and the time until libmf's error is reached.

    Times of one thread are the processor's, of several the clock's. Peers have the
    better of the settings that their defaults and grids gave on the test part: an
    advantage for them. "equal s" is the time until libmf's error is reached.
    """
    for size in at_hand((*SIZES, JESTER), films_of):
        for name, (fit, params) in PEERS.items():
            settings = dict(
                zip(("k", "penalty", "n_passes"), params[size], strict=True)
            )
            settings["n_jobs"] = n_jobs
            yield line(
                {"data": size, "epsilon": np.inf},
                name,
                partial(_of_peer, fit, settings, size, part),
                _RACE,
                stamp=versions_of(name),
            )
        for key, kind in FACTORIZERS.items():
            yield line(
                {"data": size, "epsilon": np.inf},
                f"skdp {key}",
                partial(_of_factorizer, kind, size, part, n_jobs),
                _RACE,
                private=True,
                judge=_times,
                rival="libmf",
            )


def _times(values: np.ndarray, rival: np.ndarray | None) -> str:
    if rival is None or not len(rival):
        return ""
    whole, equal = np.median(values[:, 1:3], axis=0) / np.median(rival[:, 1])
    return f"{whole:.2f} times libmf's s; its error after {equal:.2f} times"


def _clock(n_jobs: int) -> float:
    return time.process_time() if n_jobs == 1 else time.perf_counter()


@lru_cache(maxsize=4)
def _error_of_libmf(size: str, part: str) -> float:
    """What others have to reach; NaN if it is not installed."""
    if versions_of("libmf") is None:
        return np.nan
    fit, params = PEERS["libmf"]
    data = coded(size, part)
    return data.error(fit(data.train, *params[size], 1)())


def default_task(kind: type[Factorizer], ratings: Ratings) -> Task:
    """What the estimator asks of a solver with ``n_components=alpha=None``."""
    pattern = ratings.pattern
    task = Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=0,
        alpha=0.0,
        biases=True,
        pattern=pattern,
    )
    task = replace(task, n_components=kind.components)
    return replace(task, alpha=kind.default_alpha(task))


def _of_factorizer(
    kind: type[Factorizer], size: str, part: str, n_jobs: int, run: int
) -> list[float]:
    data, target = coded(size, part), _error_of_libmf(size, part)
    # A copy, so that what is derived from the pattern is timed for every solver.
    values = data.train.values.astype(np.float32)
    ratings = Ratings(replace(data.pattern), values)
    task = default_task(kind, ratings)
    for params in ({"n_steps": 1}, {}):  # the first compiles
        solver = kind.planned(given_params(kind, kind.key, params), task)
        rng, spent, equal, n_passes = np.random.RandomState(run), 0.0, np.nan, -1
        with Threads(n_jobs) as threads:
            start = _clock(n_jobs)
            for factors in solver.iterates(ratings, task, rng, threads):
                spent += _clock(n_jobs) - start
                n_passes += 1
                error = data.error(factors.predictions)  # takes no part in the race
                if np.isnan(equal) and error <= target:
                    equal = spent
                start = _clock(n_jobs)
            spent += _clock(n_jobs) - start
    return [error, spent, equal, n_passes, task.n_components]


def _of_peer(
    fit: Callable[..., Any], settings: dict[str, Any], size: str, part: str, run: int
) -> list[float]:
    data, start = coded(size, part), _clock(settings["n_jobs"])
    predictor = fit(data.train, **settings)
    seconds = _clock(settings["n_jobs"]) - start
    error = data.error(predictor())
    return [error, seconds, np.nan, settings["n_passes"], settings["k"]]


def _libmf(
    ratings: Ratings, k: int, penalty: float, n_passes: int, n_jobs: int = 1
) -> Any:
    from libmf import mf

    model = mf.MF(
        k=k, nr_threads=n_jobs, nr_iters=n_passes, lambda_p1=0.0, lambda_q1=0.0,
        lambda_p2=penalty, lambda_q2=penalty, eta=0.1, quiet=True,
    )  # fmt: skip
    pattern = ratings.pattern
    table = np.column_stack([pattern.users, pattern.items, ratings.values])
    order = np.random.default_rng(0).permutation(len(table))
    model.fit(table[order].astype(np.float32))

    def predictor() -> Predict:
        # Not the binding's predict, which returns other numbers than the factors.
        found = model.model
        p = np.ctypeslib.as_array(found.P, (found.m, found.k))
        q = np.ctypeslib.as_array(found.Q, (found.n, found.k))

        def predict(users: np.ndarray, items: np.ndarray) -> np.ndarray:
            values = np.full(len(users), float(found.b))
            known = (users < len(p)) & (items < len(q))
            values[known] = np.sum(p[users[known]] * q[items[known]], axis=1)
            return np.where(np.isnan(values), found.b, values)  # ids never seen

        return predict

    return predictor


def _cmfrec(
    ratings: Ratings, k: int, penalty: float, n_passes: int, n_jobs: int = 1
) -> Any:
    """Alternating least squares with biases."""
    import pandas as pd
    from cmfrec import CMF

    pattern = ratings.pattern
    table = pd.DataFrame(
        {
            "UserId": pattern.users,
            "ItemId": pattern.items,
            "Rating": ratings.values,
        }
    )
    model = CMF(
        k=k, lambda_=penalty, niter=n_passes, nthreads=n_jobs, use_float=True,
        verbose=False,
    )  # fmt: skip
    model.fit(table)

    def predictor() -> Predict:
        return lambda users, items: np.asarray(model.predict(users, items))

    return predictor


# Components, penalty and passes by set.
PEERS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, float, int]]]] = {
    "libmf": (
        _libmf,
        {"1m": (50, 0.05, 20), "100k": (50, 0.1, 30), JESTER: (20, 0.3, 20)},
    ),
    "cmfrec": (
        _cmfrec,
        {"1m": (20, 20.0, 10), "100k": (20, 15.0, 10), JESTER: (40, 200.0, 10)},
    ),
}


# ------------------------------------------------------------------------- private use

_USERS: dict[str, dict[str, Any]] = {"biases": {"n_components": 0}, "factors": {}}


@benchmark("user_recommenders", runs=5)
def users(part: str = "report") -> Iterator[Line]:
    """All ratings of a user protected; rows of users are folded in."""
    metrics = ("test",)
    for size in at_hand(SIZES, films_of):
        at = {"data": size, "epsilon": np.inf}
        scores: dict[str, Callable[..., float]] = {
            "item means, biases of users": partial(_item_means, size, part)
        }
        for name, params in _USERS.items():
            scores[name] = partial(_of_model, params, size, part)
            plain = partial(_of_model, params, size, part, np.inf)
            name = f"{name}, not private"
            yield line(at, name, plain, metrics, most_runs=1)
        for epsilon, (name, score) in product((1.0, 4.0, 10.0, 20.0), scores.items()):
            yield line(
                at | {"epsilon": epsilon},
                name,
                partial(score, epsilon),
                metrics,
                private=True,
            )


@benchmark("rating_units", runs=3)
def units() -> Iterator[Line]:
    """Both units where pairs say nothing of tastes: items are shown at random."""
    metrics, at = ("released", "folded in"), {"data": "random pairs"}
    biases = partial(_of_unit, "user", np.inf)
    yield line(at | {"epsilon": np.inf}, "biases, not private", biases, metrics)
    for epsilon, unit in product((1.0, 4.0), UNITS):
        score = partial(_of_unit, unit, epsilon)
        yield line(at | {"epsilon": epsilon}, unit, score, metrics, private=True)


def _of_unit(unit: Unit, epsilon: float, seed: int) -> tuple[float, float]:
    """Test errors of ratings from -10 to 10 by 20,000 users of 100 items."""
    rng, bounds = np.random.default_rng(seed), (-10.0, 10.0)
    users, items = rng.normal(size=(20_000, 3)), rng.normal(size=(3, 100))
    R = 1.5 * users @ items + 3 * rng.normal(size=(20_000, 100))
    R += 2 * rng.normal(size=(20_000, 1)) + 2 * rng.normal(size=100)
    X = np.argwhere(rng.random(R.shape) < 0.55)
    y = np.clip(R, *bounds)[X[:, 0], X[:, 1]]
    is_out = rng.random(len(y)) < 0.1
    facts: dict[str, Any] = {"n_users": 20_000, "item_ids": range(100)}
    if not np.isfinite(epsilon):
        facts |= {"solver": "als", "n_components": 0}
    model = DPMatrixFactorization(
        epsilon,
        privacy_unit=unit,
        rating_bounds=bounds,
        random_state=seed,
        **facts,
    )
    quietly_fitted(model, X[~is_out], y[~is_out])
    local = model.fold_in(X[~is_out], y[~is_out])
    errors = (each.predict(X[is_out]) - y[is_out] for each in (model, local))
    released, folded = (float(np.sqrt(np.mean(error**2))) for error in errors)
    return released, folded


def _of_model(
    params: dict[str, Any], size: str, part: str, epsilon: float, seed: int
) -> float:
    films, data = films_of(size, part), coded(size, part)
    X = np.concatenate([films.X_train, films.X_test])
    model = DPMatrixFactorization(
        epsilon,
        delta=DELTA,
        privacy_unit="user",
        rating_bounds=BOUNDS,
        n_users=data.pattern.n_users,
        item_ids=np.unique(X[:, 1]),
        random_state=seed,
        **params,
    )
    quietly_fitted(model, films.X_train, films.y_train)
    if np.isfinite(epsilon):
        model = model.fold_in(films.X_train, films.y_train)
    return data.rmse(model.predict(films.X_test))


def _item_means(size: str, part: str, epsilon: float, seed: int) -> float:
    """Test error of noisy means of items with exact biases of users.

    A user with n ratings counts ``1 / sqrt(n)`` at each item, and that times the
    rating, in units of half the width of the bounds from their middle, in the sums.
    Sums and counts jointly change by at most 2 when all ratings of a user are replaced:
    ``|s - s'|^2 + |a - a'|^2 = 4 - 2 <s, s'> - 2 <a, a'>``, at most 4 since
    ``|<s, s'>| <= <a, a'>``.
    """
    data = coded(size, part)
    pattern, values = data.pattern, data.train.values
    middle, half = np.mean(BOUNDS), (BOUNDS[1] - BOUNDS[0]) / 2
    weights = 1 / np.sqrt(np.bincount(pattern.users)[pattern.users])
    counts = np.bincount(pattern.items, weights, pattern.n_items)
    own = weights * (values - middle) / half
    sums = np.bincount(pattern.items, own, pattern.n_items)
    mu = gaussian_mu(epsilon, DELTA)
    released = NoiseSource(seed).gaussian(
        np.stack([sums, counts]), sensitivity=2.0, noise_multiplier=1 / mu
    )
    noise = (2 / mu) ** 2
    sums, counts = released[0], np.maximum(released[1], np.sqrt(noise))
    mean = released[0].sum() / max(released[1].sum(), 1.0)
    variance = 0.3 / half**2  # of items
    rest = sums - mean * counts
    biases = rest * counts * variance / (counts**2 * variance + noise)
    task = Task(
        n_users=pattern.n_users, n_items=pattern.n_items, n_components=0, alpha=0.0,
        biases=True, unit="user", rating_bounds=BOUNDS,
    )  # fmt: skip
    factors = Factors.zeros(task, float(middle + half * mean))
    factors.items[:, 1] = half * biases
    rows = solve_users(factors, data.train)
    test = data.test.pattern
    found = np.sum(rows[test.users] * factors.items[test.items], 1)
    return data.rmse(factors.mean + found)


# ------------------------------------------------------------------------ private valu

# What ValueALS is without its parts, from the bottom up; the last is the default.
_VALUES: dict[str, dict[str, Any]] = {
    "biases, clipped residuals, one round": {
        "n_embedding": 0,
        "rank": 0,
        "n_rounds": 1,
    },
    "biases, two rounds": {"n_embedding": 0, "rank": 0},
    "points of the pattern alone": {"n_rounds": 0},
    "points of the pattern, biases": {"rank": 0},
    "low rank without the pattern": {"n_embedding": 0},
    "one round": {"n_rounds": 1},
    "default": {},
}


@benchmark("value_recommenders", runs=4)
def values(part: str = "report") -> Iterator[Line]:
    """Values of ratings protected; the pairs are public."""
    metrics = ("test",)
    for size in at_hand(SIZES, films_of):
        for epsilon, (name, params) in product((1.0, 4.0, 10.0), _VALUES.items()):
            score = partial(_of_values, params, size, part)
            yield line(
                {"data": size, "epsilon": epsilon},
                name,
                partial(score, epsilon),
                metrics,
                private=True,
            )


def _of_values(
    params: dict[str, Any], size: str, part: str, epsilon: float, seed: int
) -> float:
    data, kind, budget = coded(size, part), ValueALS, Budget(epsilon, DELTA)
    given = given_params(kind, kind.key, params)
    task = Task(
        n_users=data.pattern.n_users, n_items=data.pattern.n_items, n_components=0,
        alpha=0.0, biases=True, unit="rating_value", rating_bounds=BOUNDS,
        pattern=data.pattern,
    )  # fmt: skip
    task = replace(task, n_components=kind.default_components(given, task, budget))
    solver = kind.planned(given, task, budget)
    door = Door(budget, adjacency=kind.unit, ledger=None, random_state=seed)
    source = RatingSource(data.train, task.n_samples)
    answers = door.commit(solver.plan(task), source, label=kind.key)
    factors = solver.run(answers, replace(task, seed=seed), Progress())
    return data.error(factors.predictions)


# ---------------------------------------------------------- table 3.1 of Kuru's thesis

PARTITIONS = ("hogwild", "color", "color_balanced", "strata", "strata_balanced")
_THESIS: dict[str, tuple[type[Factorizer], dict[str, Any]]] = {
    "minibatch_gd, thesis": (
        MinibatchGD,
        {"eta": 0.001, "gamma": 0.51, "least_divisor": 0.0, "first_step": 1.0}
        | {"safeguarded": False},
    ),
    "minibatch_gd, tuned": (MinibatchGD, {}),
    "hamsi, thesis": (
        HAMSI,
        {"eta": 0.06, "gamma": 0.51, "least_divisor": 0.0, "n_corrections": 5}
        | {"first_step": 500.0, "capped": True, "waits": True},
    ),
}
# Of 1M ratings; columns as PARTITIONS.
_PRINTED = {
    ("minibatch_gd, thesis", "deterministic"): (3.1074, 3.1061, 3.0845, 2.5315, 2.4588),
    ("minibatch_gd, thesis", "stochastic"): (3.1433, 3.1470, 3.1003, 2.5325, 2.4650),
    ("hamsi, thesis", "deterministic"): (0.6901, 0.6955, 0.7102, 0.6133, 0.6022),
    ("hamsi, thesis", "stochastic"): (0.6900, 0.7987, 0.8017, 0.6088, 0.5994),
}


@benchmark("hamsi", runs=3)
def table_3_1(
    size: str = "1m", s: float = 25.0, n_jobs: int = 2, cpu: bool = False
) -> Iterator[Line]:
    """Kuru (2019), table 3.1: training errors of HAMSI when the time is over.

    Time is that of the method alone: partitioning, compilation and the evaluation of
    the error are left out, as in the thesis.
    """
    clock = time.process_time if cpu else time.perf_counter
    for name, schedule in product(_THESIS, ("deterministic", "stochastic")):
        for place, kind in enumerate(PARTITIONS):
            printed = _PRINTED.get((name, schedule)) if size == "1m" else None
            yield line(
                {"schedule": schedule, "partition": kind},
                name,
                partial(_trained, name, schedule, kind, size, (s, n_jobs, clock)),
                ("training", "passes"),
                note=f"printed: {printed[place]}" if printed else "",
            )


def _trained(
    name: str,
    schedule: str,
    partition: str,
    size: str,
    how: tuple[float, int, Callable[[], float]],
    seed: int,
) -> tuple[float, int]:
    limit, n_jobs, clock = how
    found, (kind, settings) = _all_ratings(size), _THESIS[name]
    # The number of threads of the thesis for both strata; 20 for the other partitions.
    n_subsets = 2 if partition.startswith("strata") else 20
    settings = {"n_steps": 10**6, "start_scale": 1.0} | settings
    settings |= {"schedule": schedule, "partition": partition, "n_subsets": n_subsets}
    pattern = found.pattern
    task = Task(
        n_users=pattern.n_users, n_items=pattern.n_items, n_components=50, alpha=0.0,
        biases=False, pattern=pattern,
    )  # fmt: skip
    method = kind.planned(given_params(kind, kind.key, settings), task)
    spent, n_passes = 0.0, 0
    with Threads(n_jobs) as threads:
        path = method.iterates(found, task, np.random.RandomState(seed), threads)
        factors = next(path)  # compiles, divides the ratings, and starts
        while spent < limit:
            before = clock()
            factors = next(path)
            spent, n_passes = spent + clock() - before, n_passes + 1
    return rmse(found, factors), n_passes


@lru_cache(maxsize=1)
def _all_ratings(size: str) -> Ratings:
    films = films_of(size)
    X = np.concatenate([films.X_train, films.X_test])
    y = np.concatenate([films.y_train, films.y_test]).astype(np.float32)
    (m, users), (n, items) = (np.unique(x, return_inverse=True) for x in X.T)
    codes = users.astype(np.int32), items.astype(np.int32)
    return Ratings(Pattern(*codes, len(m), len(n)), y)


def rmse(found: Ratings, factors: Factors) -> float:
    """Root mean square error over all ratings."""
    total, pattern = 0.0, found.pattern
    for start in range(0, len(found), 1 << 18):
        part = slice(start, start + (1 << 18))
        p, q = factors.users[pattern.users[part]], factors.items[pattern.items[part]]
        errors = np.einsum("ij,ij->i", p, q) + factors.mean - found.values[part]
        total += float(np.square(errors, dtype=np.float64).sum())
    return float(np.sqrt(total / len(found)))
