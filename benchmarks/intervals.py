"""How often intervals of a private linear regression hold the coefficients.

Run ``python -m benchmarks.intervals`` at the root of a checkout. Takes a minute.

Records are made up, from a linear model whose errors have one variance. Coverage is
that of all coefficients together, the intercept among them, with its standard error by
fits; the width is over that of least squares without privacy on the same records.
"""

from __future__ import annotations

import argparse
import warnings
from typing import NamedTuple

import numpy as np

from skdp import BoundedScaler, DPLinearRegression

EPSILONS = (0.5, 1.0, 4.0)
SIZES = ((5_000, 3), (20_000, 5))
_ERROR, _NEEDED = 0.2, 1.959964


class Sample(NamedTuple):
    """Scaled rows with their targets, and the coefficients behind them."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def sample(n_samples: int, n_features: int, seed: int) -> Sample:
    """Even rows, coefficients of either sign, errors cut at the declared bounds."""
    rng = np.random.default_rng(seed)
    X = BoundedScaler(bounds=(0, 1)).fit_transform(
        rng.uniform(0, 1, (n_samples, n_features))
    )
    slopes = rng.choice([-1.0, 1.0], n_features) / np.sqrt(n_features)
    truth = np.append(slopes, 0.1)
    errors = rng.normal(scale=_ERROR, size=n_samples).clip(-0.9, 0.9)
    return Sample(X, X @ slopes + 0.1 + errors, truth)


def without_privacy(drawn: Sample) -> np.ndarray:
    """Half the widths of the intervals of least squares."""
    X = np.column_stack([drawn.X, np.ones(len(drawn.X))])
    found, (squares,), _, _ = np.linalg.lstsq(X, drawn.y, rcond=None)
    variance = squares / (len(X) - len(found))
    covariance = variance * np.linalg.inv(X.T @ X)
    return np.asarray(_NEEDED * np.sqrt(np.diag(covariance)))


def covered(drawn: Sample, epsilon: float, adjacency: str) -> tuple[float, float]:
    """Share of the coefficients that are held, and the widths over those without."""
    model = DPLinearRegression(
        epsilon,
        adjacency=adjacency,
        target_bounds=(-2, 2),
        solver="adassp",
        solver_params={"squares_weight": 0.5},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends = model.fit(drawn.X, drawn.y).estimates_.conf_int()
    low, high = ends["lower"].to_numpy(), ends["upper"].to_numpy()
    is_held = (low <= drawn.truth) & (drawn.truth <= high)
    wider = (high - low) / 2 / without_privacy(drawn)
    return float(is_held.mean()), float(np.median(wider))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage of private intervals.")
    parser.add_argument("--repeats", type=int, default=400)
    repeats = parser.parse_args().repeats
    print("| records | columns | adjacency | epsilon | coverage | width over |")
    print("|---|---|---|---|---|---|")
    for n_samples, n_features in SIZES:
        for adjacency in ("replace_one", "zero_out"):
            for epsilon in EPSILONS:
                found = [
                    covered(sample(n_samples, n_features, seed), epsilon, adjacency)
                    for seed in range(repeats)
                ]
                held, wider = np.array(found).T
                error = held.std() / np.sqrt(repeats)
                cells = f"{100 * held.mean():.1f} ± {100 * error:.1f} %"
                cells += f" | {np.nanmedian(wider):.2f}"
                print(
                    f"| {n_samples:,} | {n_features} | {adjacency} | {epsilon:g} | "
                    f"{cells} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
