"""The small problem that most tests of the papers' solvers are about."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.privacy.release._answers import Released
from skdp.tables._memory import MemorySource

BUDGET, PURE = Budget(1.0, 1e-6), Budget(1.0, 0.0)
ADJACENCIES = ("replace_one", "zero_out")
by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def objective_of(n=200, d=3, **facts):
    facts = {"loss": LogisticLoss(), "data_norm": 1.0, "adjacency": "zero_out"} | facts
    return LinearObjective(n_samples=n, n_features=d, **facts)


def table(n=200, d=3, seed=0):
    """Rows of norm 1, with labels that the first feature tells."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, (X[:, 0] > 0).astype(float)


def source(n=200, d=3, seed=0):
    return MemorySource(*table(n, d, seed))


def mean_gradient(X, y, weights, divisor=None):
    """Of the logistic loss, with an intercept."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    p = 1 / (1 + np.exp(-rows @ weights))
    return rows.T @ (p - y[:, None]) / (divisor or len(X))


class Heard:
    """Answers that are told beforehand, with the deviations of honest ones."""

    noise_scale = 1.0

    def __init__(self, values, deviations=None):
        self.values, self.asked = values, []
        self.deviations = deviations or [1.0] * len(values)

    def ask(self, query, line=0):
        self.asked.append((line, query))
        t = len(self.asked) - 1
        return Released(self.values[t], 1.0, self.deviations[t])
