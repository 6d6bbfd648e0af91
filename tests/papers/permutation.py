"""A plain twin of permutation-based descent, for many data sets at once.

Rows are augmented: they hold the intercept's constant if there is one, and are zeros
for the null record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp.losses import LogisticLoss, SquaredLoss
from skdp.papers._bolt_on import BoltOn
from tests import door
from tests.papers.problem import BUDGET, objective_of

LOSS = LogisticLoss()
OBJECTIVE = objective_of(2000, 5)
SMALL = objective_of(7, 2, fit_intercept=False, adjacency="replace_one")


@dataclass(frozen=True)
class Linear:
    """A loss without curvature, whose gradient is the row itself."""

    n_outputs: ClassVar[int] = 1
    smoothness: ClassVar[float] = 0.0
    curvature_trace: ClassVar[float] = 1.0
    is_convex: ClassVar[bool] = True
    prediction_unit: ClassVar[float] = 1.0
    label_weights: ClassVar[tuple[float, ...]] = ()

    def residual(self, y, raw):
        return -np.ones_like(raw)

    def zero_out_bound(self, radius):
        return 1.0

    def replace_one_bound(self, radius):
        return 2.0


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(BoltOn, objective, budget, **params)


@dataclass(frozen=True)
class Plan:
    """What a run does, whoever computed it.

    `steps` and `shares` have shape (n_passes, updates_per_pass), `divisor` is
    "nominal", or "actual" for the broken twin that averages over a short batch.
    """

    steps: np.ndarray
    shares: np.ndarray
    batch_size: int
    alpha: float = 0.0
    radius: float = np.inf
    divisor: str = "nominal"

    @classmethod
    def of(cls, solver, objective):
        steps, shares = solver._steps(objective), solver._shares(objective)
        return cls(steps, shares, solver.batch_size, objective.alpha, solver.radius)


def descend(X, y, loss, plan, orders=None):
    """Averaged weights (P, columns, outputs) for P data sets X (P, n, columns)."""
    count, n, columns = X.shape
    weights = np.zeros((count, columns, loss.n_outputs))
    average = np.zeros_like(weights)
    for j, steps in enumerate(plan.steps):
        order = np.arange(n) if orders is None else orders[j]
        for t, step in enumerate(steps):
            batch = order[t * plan.batch_size : (t + 1) * plan.batch_size]
            rows, own = X[:, batch], y[:, batch].ravel()
            raw = np.einsum("pbc,pck->pbk", rows, weights)
            residual = loss.residual(own, raw.reshape(-1, loss.n_outputs))
            gradient = np.einsum("pbc,pbk->pck", rows, residual.reshape(raw.shape))
            gradient /= plan.batch_size if plan.divisor == "nominal" else len(batch)
            weights = weights - step * (gradient + plan.alpha * weights)
            norm = np.sqrt((weights**2).sum(axis=(1, 2), keepdims=True))
            weights = weights * np.minimum(1.0, plan.radius / np.maximum(norm, 1e-300))
            average += plan.shares[j, t] * weights
    return average


@dataclass
class Pairs:
    """P pairs of neighbours: tables, places of the record, and what replaces it."""

    X: np.ndarray  # (P, n, columns)
    y: np.ndarray  # (P, n)
    place: np.ndarray  # (P,)
    row: np.ndarray  # (P, columns)
    target: np.ndarray  # (P,)

    def take(self, chosen):
        return Pairs(*(value[chosen] for value in vars(self).values()))

    def distances(self, loss, plan, orders=None):
        """How far apart the released weights of each pair are."""
        every = np.arange(len(self.X))
        Z, z = self.X.copy(), self.y.copy()
        Z[every, self.place], z[every, self.place] = self.row, self.target
        moved = descend(self.X, self.y, loss, plan, orders)
        moved -= descend(Z, z, loss, plan, orders)
        return np.sqrt((moved**2).sum(axis=(1, 2)))


def clipped(features, objective):
    """Rows of norm at most data_norm, with the intercept's column."""
    norms = np.linalg.norm(features, axis=-1, keepdims=True)
    rows = features * np.minimum(1.0, objective.data_norm / np.maximum(norms, 1e-300))
    if objective.fit_intercept:
        column = np.full((*rows.shape[:-1], 1), objective.intercept_value)
        rows = np.concatenate([rows, column], axis=-1)
    return rows


def gone(rows, objective):
    """What takes a record's place."""
    return np.zeros_like(rows) if objective.adjacency == "zero_out" else rows


def targets(loss, rng, shape):
    if isinstance(loss, SquaredLoss):
        return rng.choice([-1.0, 1.0], shape) * loss.target_bound
    return rng.integers(0, max(2, loss.n_outputs), shape).astype(float)


def lone_records(objective):
    """One record among null ones, at every place, against its opposite or the null."""
    n, d, every = (
        objective.n_samples,
        objective.n_features,
        np.arange(objective.n_samples),
    )
    own = np.full((n, d), objective.data_norm / np.sqrt(d))
    X, y = np.zeros((n, n, objective.n_columns)), np.zeros((n, n))
    X[every, every] = clipped(own, objective)
    if isinstance(objective.loss, SquaredLoss):
        y += objective.loss.target_bound
    return Pairs(X, y, every, gone(clipped(-own, objective), objective), y[:, 0].copy())
