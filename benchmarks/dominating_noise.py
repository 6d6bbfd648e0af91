"""Where noise leaves no more than a constant model: synthetic data, all estimators.

Run ``python -m benchmarks.dominating_noise`` at the root of a checkout.

For each design and epsilon it prints the ratio that `forecast` gives and the skill of a
default fit: what its predictions explain of what could be explained beyond a constant
(1: all, 0: nothing), as mean and standard error over data sets with seeds from 2000 up.
The lines of ``skdp/solvers/_default_rules.py`` and
``skdp/decomposition/_factorize.py``, at which `fit` warns, were read off these tables.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)

EPSILONS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FIRST_SEED = 2000


@dataclass(frozen=True)
class Design:
    """A data set's shape, with a model and its skill there."""

    name: str
    ratio: Callable[[float], float]
    skill: Callable[[float, int], float]


def _rows(
    n: int, d: int, k: int, per_row: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with `per_row` entries of size 1 up, and raw predictions of variance 1.

    The `k` features that matter are in as many rows as the others are.
    """
    X = rng.uniform(-1, 1, size=(n, d))
    if per_row < d:
        absent = rng.random(size=(n, d)).argsort(axis=1)[:, per_row:]
        np.put_along_axis(X, absent, 0.0, axis=1)
    raw = X[:, :k].sum(axis=1)
    return X, raw / raw.std()


def _classes(raw: np.ndarray, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    noisy = raw + 0.3 * rng.normal(size=len(raw))
    return np.digitize(noisy, np.quantile(noisy, np.arange(1, n_classes) / n_classes))


def table_design(
    kind: type[Any], n: int, d: int, k: int, per_row: int = 0, **given: Any
) -> Design:
    """A table of `n` rows to learn from and 2,000 to judge by."""
    per_row = per_row or d
    is_regression = "Regression" in kind.__name__ and "Logistic" not in kind.__name__
    n_classes = given.pop("n_classes", 2)
    norm = given.pop("data_norm", float(np.sqrt(per_row / 3)))

    def model(epsilon: float, seed: int | None) -> Any:
        own = {"target_bounds": (-3, 3)} if is_regression else {}
        own |= {} if is_regression else {"classes": list(range(n_classes))}
        own |= given
        return kind(epsilon, data_norm=norm, random_state=seed, **own)

    def skill(epsilon: float, seed: int) -> float:
        rng = np.random.default_rng(seed)
        X, raw = _rows(n + 2000, d, k, per_row, rng)
        y = raw if is_regression else _classes(raw, n_classes, rng)
        fitted = model(epsilon, seed).fit(X[:n], y[:n])
        score = fitted.score(X[n:], y[n:])
        return float(
            score if is_regression else (score * n_classes - 1) / (n_classes - 1)
        )

    told = ", ".join(f"{key}={value:g}" for key, value in given.items())
    shape = f"n={n}, d={d}, {k} matter, {per_row} a row"
    classes = f", {n_classes} classes" if n_classes > 2 else ""
    return Design(
        f"{kind.__name__}({told}): {shape}{classes}",
        lambda epsilon: model(epsilon, None).forecast(n, d).noise_to_signal,
        skill,
    )


def _ratings(
    n_users: int, n_items: int, each: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`each` ratings of every user; popular items have more; biases and one taste."""
    popularity = 1 / np.arange(4, n_items + 4)
    keys = rng.exponential(size=(n_users, n_items)) / popularity
    items = np.argpartition(keys, each, axis=1)[:, :each]
    users = np.repeat(np.arange(n_users), each)
    chosen = items.ravel()
    bias = (
        0.45 * rng.normal(size=n_items)[chosen] + 0.45 * rng.normal(size=n_users)[users]
    )
    taste = 0.4 * (rng.normal(size=n_users)[users] * rng.normal(size=n_items)[chosen])
    noise = 0.85 * rng.normal(size=len(users))
    y = np.clip(3.5 + bias + taste + noise, 1, 5)
    return np.column_stack([users, chosen]), y


def rating_design(unit: str, n_users: int, n_items: int, each: int) -> Design:
    """Ratings, a tenth of them to judge by; of users by what items have in common."""

    def model(epsilon: float, seed: int | None) -> Any:
        return DPMatrixFactorization(
            epsilon,
            privacy_unit=unit,
            rating_bounds=(1, 5),
            n_users=n_users if unit == "user" else None,
            item_ids=np.arange(n_items),
            random_state=seed,
        )

    def skill(epsilon: float, seed: int) -> float:
        rng = np.random.default_rng(seed)
        X, y = _ratings(n_users, n_items, each, rng)
        train = rng.random(len(y)) < 0.9
        fitted = model(epsilon, seed).fit(X[train], y[train])
        error = np.mean((fitted.predict(X[~train]) - y[~train]) ** 2)
        # Of variances 0.2 each: biases of items and, unless private, of users.
        explained = 0.2 if unit == "user" else 0.4
        return float((np.var(y[~train]) - error) / explained)

    return Design(
        f"DPMatrixFactorization({unit}): {n_users} users, {n_items} items, {each} each",
        lambda epsilon: (
            model(epsilon, None)
            .forecast(n_users, n_items, n_users * each * 9 // 10)
            .noise_to_signal
        ),
        skill,
    )


def designs() -> Iterator[Design]:
    """All of them, by estimator."""
    for n, d in ((500, 5), (500, 30), (5000, 30)):
        yield table_design(DPLogisticRegression, n, d, 5)
    yield table_design(DPLogisticRegression, 1000, 100, 5, delta=0.0)
    yield table_design(DPLogisticRegression, 2000, 30, 5, n_classes=5)
    yield table_design(DPLinearSVC, 500, 30, 5)
    yield table_design(DPLinearRegression, 500, 30, 5)
    yield table_design(DPLinearRegression, 5000, 30, 5)
    yield table_design(DPLinearRegression, 5000, 30, 5, delta=0.0)
    for kind in (DPSparseLogisticRegression, DPSparseLinearRegression):
        for k in (2, 8):
            for n, d in ((1000, 500), (8000, 500)):
                yield table_design(kind, n, d, k, feature_bound=1.0, n_nonzero_coefs=k)
        yield table_design(kind, 4000, 500, 5, feature_bound=1.0)
        yield table_design(
            kind, 4000, 500, 5, feature_bound=1.0, n_nonzero_coefs=5, delta=0.0
        )
        yield table_design(kind, 4000, 500, 5, per_row=50, n_nonzero_coefs=5)
        yield table_design(kind, 4000, 300, 5, per_row=5, n_nonzero_coefs=5)
        yield table_design(kind, 4000, 300, 5, per_row=5)
    for shape in ((300, 100, 30), (2000, 100, 20), (1000, 600, 30)):
        yield rating_design("rating_value", *shape)
        yield rating_design("user", *shape)
    yield rating_design("user", 6000, 300, 30)


def main() -> None:
    """Print a line for each design and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(FIRST_SEED, FIRST_SEED + options.times)
    print("| design | epsilon | ratio | skill |\n|---|---|---|---|")
    for design in designs():
        for epsilon in EPSILONS if options.only in design.name else ():
            skills = [design.skill(epsilon, seed) for seed in seeds]
            error = np.std(skills, ddof=1) / np.sqrt(len(skills))
            print(
                f"| {design.name} | {epsilon:g} | {design.ratio(epsilon):.2g} "
                f"| {np.mean(skills):.3f} ± {error:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
