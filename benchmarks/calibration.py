"""Probabilities before and after a private calibration, on records nobody fitted to.

Run ``python -m benchmarks.calibration adult | rare`` at the root of a checkout. Scores
are computed from raw data: the output is not private.

adult
    The test records of Adult, models of its declared columns.
rare
    Made-up tables of 10,000 records, one in 20 positive.

A row is a model: as it is, of all records; as it is of four fifths of them; and
calibrated by the other fifth, by a line and by any rising map. A model is called bold
where its log-odds are thrice what it was fitted to give.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from benchmarks.describe import adult_or_stop
from skdp import (
    DPCalibratedClassifier,
    DPGradientBoostingClassifier,
    DPLogisticRegression,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES

_EPSILONS = (0.3, 1.0)
_TABLES = 10_000


class Bold(DPLogisticRegression):
    """Far too sure of itself."""

    def predict_proba(self, X: Any) -> np.ndarray:
        p = super().predict_proba(X)[:, 1]
        sure = expit(3 * logit(np.clip(p, 1e-9, 1 - 1e-9)))
        return np.column_stack([1 - sure, sure])


def calibration_error(y: np.ndarray, p: np.ndarray, n_bins: int = 20) -> float:
    """Mean distance of predicted and found shares in intervals of equal width."""
    place = np.minimum((p * n_bins).astype(int), n_bins - 1)
    apart = np.bincount(place, p - y, minlength=n_bins)
    return float(np.abs(apart).sum() / len(y))


def errors(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Log-loss and calibration error."""
    p = model.predict_proba(X)[:, 1]
    return log_loss(y, p), calibration_error(y, p)


def compared(model: Any, fitted_to: Any, tested_on: Any, epsilon: float) -> np.ndarray:
    """Errors of four ways, of shape (4, 2)."""
    whole = model.set_params(epsilon=epsilon).fit(*fitted_to)
    found = [errors(whole, *tested_on)]
    for method in ("sigmoid", "isotonic"):
        plain = model.set_params(epsilon=1.0)
        calibrated = DPCalibratedClassifier(plain, method=method, epsilon=epsilon)
        calibrated.fit(*fitted_to)
        if method == "sigmoid":
            found.append(errors(calibrated.estimator_, *tested_on))
        found.append(errors(calibrated, *tested_on))
    return np.array(found)


def told(name: str, epsilon: float, runs: list[np.ndarray]) -> None:
    """A line for each way: means, and the largest log-loss."""
    ways = ("as it is", "of four fifths", "sigmoid", "isotonic")
    for way, loss in zip(ways, np.swapaxes(runs, 0, 1), strict=True):
        mean, worst = loss.mean(axis=0), loss.max(axis=0)
        print(
            f"epsilon={epsilon:<4g} {name:<9} {way:<15} log-loss {mean[0]:.4f} (worst "
            f"{worst[0]:.4f})  calibration error {mean[1]:.4f}",
            flush=True,
        )


def adult(repeats: int) -> None:
    """Linear, bold and boosted models of Adult."""
    data = adult_or_stop()
    declared = {"columns": ADULT_BOUNDS | ADULT_CATEGORIES, "classes": [0, 1]}
    train, test = (data.X_train, data.y_train), (data.X_test, data.y_test)
    models = {
        "linear": DPLogisticRegression(**declared),
        "bold": Bold(**declared),
        "boosted": DPGradientBoostingClassifier(**declared),
    }
    print(f"Adult, {len(data.y_train)} records, mean of {repeats} fits")
    for epsilon in _EPSILONS:
        for name, model in models.items():
            runs = [compared(model, train, test, epsilon) for _ in range(repeats)]
            told(name, epsilon, runs)


def rare(repeats: int) -> None:
    """A linear and a bold model of made-up tables."""
    print(f"made-up tables, {_TABLES} records, mean of {repeats} tables")
    for epsilon in _EPSILONS:
        for name, kind in (("linear", DPLogisticRegression), ("bold", Bold)):
            runs = [_made_up(kind, epsilon, seed) for seed in range(repeats)]
            told(name, epsilon, runs)


def _made_up(kind: Callable[..., Any], epsilon: float, seed: int) -> np.ndarray:
    X, y = make_classification(
        3 * _TABLES, 10, n_informative=5, weights=[0.95], random_state=seed
    )
    X /= np.sqrt(10.0)
    model = kind(classes=[0, 1], data_norm=2.0)
    train, test = (X[:_TABLES], y[:_TABLES]), (X[_TABLES:], y[_TABLES:])
    return compared(model, train, test, epsilon)


_PARTS = {"adult": adult, "rare": rare}


def main() -> None:
    """Print one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    _PARTS[options.part](options.repeats)


if __name__ == "__main__":
    main()
