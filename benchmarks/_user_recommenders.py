"""Recommenders that protect all ratings of a user, beside simpler ones.

Items are released with noise; users' rows are folded in from their own training
ratings, and predictions of the test ratings are clipped to the bounds. Settings were
chosen on ``validation``: a tenth of the training ratings, with the rest to train on.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._commands import Commands, add_validation, count
from skdp.datasets import FilmRatings, load_movielens
from skdp.decomposition import DPMatrixFactorization
from skdp.decomposition._ratings import Factors, Pattern, Ratings, Task
from skdp.decomposition._recommender import solve_users
from skdp.exceptions import SeededNoiseWarning
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.noise._noise import NoiseSource

CONFIG = Path(__file__).parent / "configs" / "recommenders" / "user.toml"


@dataclass(frozen=True)
class Split:
    """Training and test ratings; users and the catalogue are those of both."""

    films: FilmRatings
    config: dict[str, Any]

    @cached_property
    def user_ids(self) -> np.ndarray:
        """Sorted."""
        return _sorted(self.films.X_train[:, 0], self.films.X_test[:, 0])

    @cached_property
    def item_ids(self) -> np.ndarray:
        """Sorted."""
        return _sorted(self.films.X_train[:, 1], self.films.X_test[:, 1])

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    def rmse(self, predicted: np.ndarray) -> float:
        """Of the test ratings, predictions clipped."""
        error = np.clip(predicted, *self.config["bounds"]) - self.films.y_test
        return float(np.sqrt(np.mean(error**2)))

    def model(self, epsilon: float, seed: int, **params: Any) -> float:
        """Test error of `DPMatrixFactorization`."""
        films, private = self.films, np.isfinite(epsilon)
        model = DPMatrixFactorization(
            epsilon,
            delta=self.config["delta"],
            privacy_unit="user",
            rating_bounds=self.config["bounds"],
            n_users=self.n_users,
            item_ids=self.item_ids,
            random_state=seed,
            **params,
        ).fit(films.X_train, films.y_train)
        users = model.fold_in(films.X_train, films.y_train) if private else model
        return self.rmse(users.predict(films.X_test))

    def item_means(self, epsilon: float, seed: int) -> float:
        """Test error of noisy means of items with users' own biases.

        A user with n ratings counts ``1 / sqrt(n)`` at each item, and that times the
        rating, in units of half the width of the bounds from their middle, in the
        sums. Sums and counts jointly change by at most 2 when all his ratings are
        replaced: ``|s - s'|^2 + |a - a'|^2 = 4 - 2 <s, s'> - 2 <a, a'>``, at most 4
        since ``|<s, s'>| <= <a, a'>``.
        """
        low, high = self.config["bounds"]
        middle, half = (low + high) / 2, (high - low) / 2
        users, items, values = self._train()
        weights = 1 / np.sqrt(np.bincount(users, minlength=self.n_users)[users])
        n_items = len(self.item_ids)
        counts = np.bincount(items, weights, n_items)
        sums = np.bincount(items, weights * (values - middle) / half, n_items)
        mu = gaussian_mu(epsilon, self.config["delta"])
        released = NoiseSource(seed).gaussian(
            np.stack([sums, counts]), sensitivity=2.0, noise_multiplier=1 / mu
        )
        noise = (2 / mu) ** 2
        sums, counts = released[0], np.maximum(released[1], np.sqrt(noise))
        mean = released[0].sum() / max(released[1].sum(), 1.0)
        variance = self.config["item_variance"] / half**2
        rest = sums - mean * counts
        biases = rest * counts * variance / (counts**2 * variance + noise)
        return self._with_own_biases(middle + half * mean, half * biases)

    def own_means(self) -> float:
        """Test error of the exact mean of all ratings and users' own biases."""
        return self._with_own_biases(self.films.y_train.mean(), 0.0)

    def _with_own_biases(self, mean: float, biases: Any) -> float:
        users, items, values = self._train()
        n_items = len(self.item_ids)
        task = Task(
            n_users=self.n_users, n_items=n_items, n_components=0, alpha=0.0,
            biases=True, unit="user", rating_bounds=tuple(self.config["bounds"]),
        )  # fmt: skip
        factors = Factors.zeros(task, float(mean))
        factors.items[:, 1] = biases
        pattern = Pattern(users, items, self.n_users, n_items)
        rows = solve_users(factors, Ratings(pattern, values))
        users, items = self._codes(self.films.X_test)
        return self.rmse(factors.mean + np.sum(rows[users] * factors.items[items], 1))

    def _train(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return *self._codes(self.films.X_train), self.films.y_train

    def _codes(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        users = np.searchsorted(self.user_ids, X[:, 0])
        items = np.searchsorted(self.item_ids, X[:, 1])
        return users.astype(np.int32), items.astype(np.int32)


def _sorted(*ids: np.ndarray) -> np.ndarray:
    # Of many integers numpy.unique is slow.
    return np.sort(pd.unique(np.concatenate(ids)))


def validation(films: FilmRatings) -> FilmRatings:
    """A tenth of the training ratings in the place of the test ratings."""
    is_out = np.random.default_rng(0).random(len(films.y_train)) < 0.1
    return replace(
        films,
        X_train=films.X_train[~is_out],
        y_train=films.y_train[~is_out],
        X_test=films.X_train[is_out],
        y_test=films.y_train[is_out],
    )


def add(commands: Commands) -> None:
    """Make it a command."""
    parser = commands.add(
        "user_recommenders",
        "errors of private recommenders",
        lambda options: run(runs=options.runs, on_validation=options.validation),
    )
    parser.add_argument("--runs", type=count, help="at most so many runs")
    add_validation(parser)


def run(*, runs: int | None = None, on_validation: bool = False) -> None:
    """Measure and print; with standard errors over seeds of the noise."""
    config = tomllib.loads(CONFIG.read_text())
    seeds = range(min(config["runs"], runs or config["runs"]))
    # The seeds are what makes the table reproducible; nothing is published with them.
    warnings.simplefilter("ignore", SeededNoiseWarning)
    print(f"# {config['title']}: mean and standard error of {len(seeds)} runs")
    for size in config["sizes"]:
        films = load_movielens(size)
        split = Split(validation(films) if on_validation else films, config)
        models = config["models"] | (config["variants"] if on_validation else {})
        scores: dict[str, Callable[[float, int], float]] = {
            "item means, own biases": split.item_means
        } | {name: partial(split.model, **params) for name, params in models.items()}
        rows = [
            {"method": name}
            | {
                f"epsilon {epsilon:g}": _said([score(epsilon, j) for j in seeds])
                for epsilon in config["epsilon"]
            }
            for name, score in scores.items()
        ]
        print(f"\n{films.name}{', validation part' if on_validation else ''}\n")
        for cells in (list(rows[0]), ["---"] * len(rows[0]), *map(dict.values, rows)):
            print("|", " | ".join(cells), "|")
        print(f"\nwithout any release of items: {split.own_means():.4f}")
        biases = split.model(np.inf, 0, n_components=0)
        print(f"not private: biases {biases:.4f}, default {split.model(np.inf, 0):.4f}")


def _said(scores: list[float]) -> str:
    error = np.std(scores, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
    return f"{np.mean(scores):.4f} ± {error:.4f}"
