"""Wang (PhD thesis, 2021), chapter 2: DP-IGHT, and IGHT without noise.

Rows are dense or CSR; y are targets, or labels 0 and 1. Weights have no intercept, as
in the thesis. Noise is NumPy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from skdp.solvers._sparse import keep_rows, largest_rows


@dataclass(frozen=True, kw_only=True)
class Table:
    """A training set, and what the thesis takes as known of it."""

    X: Any
    y: np.ndarray
    labels: bool
    s: int
    data_norm: float
    feature_bound: float
    entry_variance: float
    curvature: float
    residual: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def unit_step(self) -> float:
        """Inverse of the curvature of the loss along a feature."""
        return (4.0 if self.labels else 1.0) / self.curvature

    def residuals(self, weights: np.ndarray) -> np.ndarray:
        """Derivative of each record's loss by its raw prediction."""
        raw = np.asarray(self.X @ weights.astype(self.X.dtype), float)
        return (expit(raw) if self.labels else raw) - self.y

    def mean_gradient(self, residuals: np.ndarray) -> np.ndarray:
        """Gradient of the mean loss."""
        product = residuals.astype(self.X.dtype) @ self.X
        return np.asarray(product, float).ravel() / len(self.y)

    def clipped(self, residuals: np.ndarray, clip: float, *, by: str) -> np.ndarray:
        """Residuals with gradients of norm at most `clip`: "l2", or "linf" entries."""
        if not math.isfinite(clip):
            return residuals
        if isinstance(self.X, np.ndarray):
            size = np.abs(self.X).max(axis=1)
            if by == "l2":
                size = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        else:
            size = abs(self.X).max(axis=1).toarray().ravel()
            if by == "l2":
                size = np.sqrt(self.X.multiply(self.X).sum(axis=1).A1)
        norms = np.abs(residuals) * size
        return residuals * np.minimum(1, clip / np.maximum(norms, 1e-300))

    def value(self, weights: np.ndarray) -> float:
        """Mean loss."""
        raw = np.asarray(self.X @ weights.astype(self.X.dtype), float)
        if self.labels:
            return float(np.mean(np.logaddexp(0, raw) - self.y * raw))
        return float(np.mean((raw - self.y) ** 2) / 2)


def thresholded(weights: np.ndarray, s: int) -> np.ndarray:
    """The operator H_s: the s largest in magnitude."""
    column = weights[:, None]
    return keep_rows(column, largest_rows(column, s))[:, 0]


def dp_ight(
    table: Table,
    *,
    n_steps: int,
    step: float,
    deviation: float,
    clip: float = math.inf,
    ridge: float = 0.0,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Algorithm 1, DP-IGHT; without noise Algorithm 3, IGHT."""
    weights = np.zeros(table.shape[1])
    for _ in range(n_steps):
        residuals = table.clipped(table.residuals(weights), clip, by="l2")
        gradient = table.mean_gradient(residuals) + ridge * weights
        if rng is not None:
            gradient += deviation * rng.standard_normal(len(weights))
        weights = thresholded(weights - step * table.unit_step * gradient, table.s)
    return weights
