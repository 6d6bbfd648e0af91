"""Tables of Wang's thesis (2021), chapter 6: Adult and KDD Cup 1999.

Ranges and the kinds of words are taken as public. KDD Cup 1998 is not at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from benchmarks._data import data_folder
from benchmarks._papers._descent import Logistic

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
    # Here: other tables are measured without the extra that this needs.
    from benchmarks.federation import adult

    return adult()


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
