"""Recommenders that protect rating values, beside simpler ones.

Who rated what is public, the values are not. Every method spends the same budget, and
its predictions of the test ratings are clipped to the bounds. Settings were chosen on
``validation`` parts, as those of `_user_recommenders`.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._commands import Commands, add_validation, count
from benchmarks._noisy_hamsi import NoisyGradientHAMSI
from benchmarks._user_recommenders import validation
from skdp._configured import given_params
from skdp._fit import Progress
from skdp.datasets import FilmRatings, load_movielens
from skdp.decomposition._factorize import PrivateFactorizer
from skdp.decomposition._ratings import Pattern, Ratings, RatingSource, Task
from skdp.decomposition._value_als import ValueALS
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import Door

CONFIG = Path(__file__).parent / "configs" / "recommenders" / "value.toml"


@dataclass(frozen=True)
class Coded:
    """Training and test ratings with ids as codes; ids are those of both parts."""

    pattern: Pattern
    values: np.ndarray
    test_users: np.ndarray
    test_items: np.ndarray
    test_values: np.ndarray
    config: dict[str, Any]

    @classmethod
    def of(cls, films: FilmRatings, config: dict[str, Any]) -> Coded:
        """The same ratings, coded."""
        X = np.vstack([films.X_train, films.X_test])
        (user_ids, users), (item_ids, items) = (
            np.unique(column, return_inverse=True) for column in X.T
        )
        n = len(films.y_train)
        codes = users[:n].astype(np.int32), items[:n].astype(np.int32)
        pattern = Pattern(*codes, len(user_ids), len(item_ids))
        test = users[n:], items[n:], films.y_test
        return cls(pattern, films.y_train, *test, config)

    def rmse(self, predicted: np.ndarray) -> float:
        """Of the test ratings, predictions clipped."""
        error = np.clip(predicted, *self.config["bounds"]) - self.test_values
        return float(np.sqrt(np.mean(error**2)))

    def private(
        self,
        kind: type[PrivateFactorizer],
        params: dict[str, Any],
        epsilon: float,
        seed: int,
    ) -> float:
        """Test error of a factoriser."""
        given = given_params(kind, kind.key, params)
        budget = Budget(epsilon, self.config["delta"])
        task = Task(
            n_users=self.pattern.n_users,
            n_items=self.pattern.n_items,
            n_components=0,
            alpha=0.0,
            biases=True,
            unit="rating_value",
            rating_bounds=tuple(self.config["bounds"]),
            pattern=self.pattern,
        )
        k = kind.default_components(given, task, budget)
        task = replace(task, n_components=k)
        solver = kind.planned(given, task, budget)
        door = Door(budget, adjacency=kind.unit, ledger=None, random_state=seed)
        source = RatingSource(Ratings(self.pattern, self.values), task.n_samples)
        answers = door.commit(solver.plan(task), source, label=kind.key)
        factors = solver.run(answers, replace(task, seed=seed), Progress())
        rows = factors.users[self.test_users] * factors.items[self.test_items]
        return self.rmse(factors.mean + rows.sum(axis=1))

    def means(self, epsilon: float, seed: int, noise: Any = None) -> float:
        """Test error of noisy sums for items, then users; half of mu^2 each, shrunk."""
        low, high = self.config["bounds"]
        mu = gaussian_mu(epsilon, self.config["delta"]) / np.sqrt(2)
        noise, sigma = noise or NoiseSource(seed), (high - low) / mu
        users, items = self.pattern.users, self.pattern.items
        left = self.values - (low + high) / 2
        test = np.full(len(self.test_values), (low + high) / 2)
        for codes, other, size, variance in (
            (items, self.test_items, self.pattern.n_items, self.config["items"]),
            (users, self.test_users, self.pattern.n_users, self.config["users"]),
        ):
            # Residuals differ by at most the width of the bounds: they are of one pair.
            sums = noise.gaussian(
                np.bincount(codes, left, size),
                sensitivity=high - low,
                noise_multiplier=1 / mu,
            )
            counts = np.maximum(np.bincount(codes, minlength=size), 1e-9)
            biases = sums / (counts + (1 + sigma**2 / counts) / variance)
            left = left - biases[codes]
            test += biases[other]
        return self.rmse(test)

    def biases(self) -> float:
        """Test error of biases without privacy, five ratings' worth of shrinkage."""
        users, items = self.pattern.users, self.pattern.items
        mean = self.values.mean()
        left = self.values - mean
        of_users, of_items = (np.zeros(n) for n in _sizes(self.pattern))
        for _ in range(10):
            of_items = _shrunk_means(items, left - of_users[users], len(of_items))
            of_users = _shrunk_means(users, left - of_items[items], len(of_users))
        both = of_users[self.test_users] + of_items[self.test_items]
        return self.rmse(mean + both)


def add(commands: Commands) -> None:
    """Make it a command."""
    parser = commands.add(
        "value_recommenders",
        "errors of private recommenders",
        lambda options: run(runs=options.runs, on_validation=options.validation),
    )
    parser.add_argument("--runs", type=count, help="at most so many runs")
    add_validation(parser)


def run(*, runs: int | None = None, on_validation: bool = False) -> None:
    """Measure and print; with standard errors over seeds of the noise."""
    config = tomllib.loads(CONFIG.read_text())
    seeds = range(min(config["runs"], runs or config["runs"]))
    print(f"# {config['title']}: mean and standard error of {len(seeds)} runs")
    for size in config["sizes"]:
        films = load_movielens(size)
        data = Coded.of(validation(films) if on_validation else films, config)
        print(f"\n{films.name}{', validation part' if on_validation else ''}\n")
        epsilons = config["epsilon"]
        print("| method |", " | ".join(f"epsilon {e:g}" for e in epsilons), "| s |")
        print("|---|" + "---|" * (len(epsilons) + 1))
        methods: dict[str, Callable[[float, int], float]] = {
            "noisy means of items and users": data.means
        }
        for name, params in config["methods"].items():
            methods[name] = partial(data.private, ValueALS, params)
        for name, params in config["gradients"].items():
            methods[name] = partial(data.private, NoisyGradientHAMSI, params)
        for name, method in methods.items():
            start = time.process_time()
            cells = [_said([method(e, j) for j in seeds]) for e in epsilons]
            spent = (time.process_time() - start) / len(seeds) / len(epsilons)
            print(f"| {name} |", " | ".join(cells), f"| {spent:.2f} |", flush=True)
        print(f"\nnot private: biases {data.biases():.4f}", flush=True)


def _sizes(pattern: Pattern) -> tuple[int, int]:
    return pattern.n_users, pattern.n_items


def _shrunk_means(codes: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    counts = np.bincount(codes, minlength=size)
    return np.bincount(codes, values, size) / (counts + 5)


def _said(scores: list[float]) -> str:
    error = np.std(scores, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
    return f"{np.mean(scores):.4f} ± {error:.4f}"
