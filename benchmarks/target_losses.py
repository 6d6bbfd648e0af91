"""Poisson, gamma and quantile regression beside scikit-learn's without privacy.

Run ``python -m benchmarks.target_losses`` at the root of a checkout. Takes minutes.

Shares of the deviance, or of the pinball loss, that are explained on held-out records
(D², 0 of the best constant), which are not private. Records are made up, a table of
hires by the hour: hour, weekday, temperature, humidity and wind. scikit-learn fits the
same features, those of `TableEncoder`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import GammaRegressor, PoissonRegressor, QuantileRegressor
from sklearn.metrics import d2_pinball_score, d2_tweedie_score

from skdp import (
    DPGammaRegressor,
    DPPoissonRegressor,
    DPQuantileRegressor,
    TableEncoder,
)

EPSILONS = (0.5, 1.0, 4.0)
SIZES = (2_000, 10_000)
_HELD_OUT = 5_000
COLUMNS = {
    "hour": (0, 24),
    "weekday": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
    "temperature": (-10, 40),
    "humidity": (0, 100),
    "wind": (0, 60),
}

Table = tuple[pd.DataFrame, np.ndarray]
Score = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Task:
    """A model, its twin without privacy, its targets and its score."""

    private: Callable[[float], Any]
    plain: Callable[[], Any]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    score: Score
    most: int | None = None  # records that the twin is fitted to


def _deviance(power: int) -> Score:
    return lambda y, found: float(d2_tweedie_score(y, found, power=power))


def _counts(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Counts that vary more than Poisson's."""
    return rng.poisson(mean * rng.gamma(3.0, 1 / 3, len(mean))).astype(float)


def _amounts(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    return np.maximum(rng.gamma(2.0, mean / 2), 0.1)


def quantile(level: float, top: float) -> Task:
    """Of amounts; scikit-learn's program is of 2,000 records at most, for its time."""
    return Task(
        lambda epsilon: DPQuantileRegressor(
            epsilon, quantile=level, columns=COLUMNS, target_bounds=(0, top)
        ),
        lambda: QuantileRegressor(quantile=level, alpha=0.0),
        _amounts,
        lambda y, found: float(d2_pinball_score(y, found, alpha=level)),
        most=2_000,
    )


def counts(top: float) -> Task:
    """Counts, declared to be at most `top`."""
    return Task(
        lambda epsilon: DPPoissonRegressor(
            epsilon, columns=COLUMNS, target_bounds=(0, top)
        ),
        lambda: PoissonRegressor(alpha=1e-6, max_iter=1000),
        _counts,
        _deviance(1),
    )


TASKS = {
    "DPPoissonRegressor, at most 60": counts(60.0),
    "DPPoissonRegressor, at most 240": counts(240.0),
    "DPGammaRegressor, 0.1 to 240": Task(
        lambda epsilon: DPGammaRegressor(
            epsilon, columns=COLUMNS, target_bounds=(0.1, 240)
        ),
        lambda: GammaRegressor(alpha=1e-6, max_iter=1000),
        _amounts,
        _deviance(2),
    ),
    "DPQuantileRegressor, 0.5, at most 240": quantile(0.5, 240.0),
    "DPQuantileRegressor, 0.9, at most 240": quantile(0.9, 240.0),
}


def records(task: Task, n: int, seed: int) -> tuple[Table, Table]:
    """Training and held-out records; about twelve hires an hour."""
    rng = np.random.default_rng(seed)
    size = n + _HELD_OUT
    frame = pd.DataFrame(
        {
            "hour": rng.integers(0, 24, size),
            "weekday": rng.choice(COLUMNS["weekday"], size),
            "temperature": rng.normal(14, 8, size).clip(-10, 40),
            "humidity": rng.uniform(20, 100, size),
            "wind": rng.gamma(2.0, 7.0, size).clip(0, 60),
        }
    )
    daily = 1.2 * np.sin((frame["hour"] - 9) / 24 * 2 * np.pi)
    weekend = 0.4 * frame["weekday"].isin(["sat", "sun"])
    weather = 0.04 * (frame["temperature"] - 14) - 0.01 * (frame["humidity"] - 60)
    mean = np.exp(2.0 + daily + weekend + weather - 0.01 * frame["wind"])
    y = task.draw(rng, mean.to_numpy())
    return (frame[:n], y[:n]), (frame[n:], y[n:])


def private(task: Task, n: int, epsilon: float, seed: int) -> float:
    """D² of a private fit."""
    (frame, y), (new, truth) = records(task, n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that noise is strong is what is measured
        model = task.private(epsilon).fit(frame, y)
    return task.score(truth, model.predict(new))


def without_privacy(task: Task, n: int, seed: int) -> float:
    """The same of scikit-learn."""
    (frame, y), (new, truth) = records(task, n, seed)
    encoder = TableEncoder(COLUMNS).fit(frame)
    rows = encoder.transform(frame)[: task.most]
    model = task.plain().fit(rows, y[: task.most])
    return task.score(truth, model.predict(encoder.transform(new)))


def _shown(found: list[float]) -> str:
    return f"{np.mean(found):.3f} ± {np.std(found) / np.sqrt(len(found)):.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Amounts and quantiles.")
    parser.add_argument("--repeats", type=int, default=10)
    seeds = range(parser.parse_args().repeats)
    heads = [f"epsilon {epsilon:g}" for epsilon in EPSILONS]
    print(f"| model | records | {' | '.join(heads)} | scikit-learn |")
    print("|---|---|" + "---|" * (len(EPSILONS) + 1))
    for name, task in TASKS.items():
        for n in SIZES:
            cells = [
                _shown([private(task, n, epsilon, seed) for seed in seeds])
                for epsilon in EPSILONS
            ]
            cells.append(_shown([without_privacy(task, n, seed) for seed in seeds]))
            print(f"| {name} | {n:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
