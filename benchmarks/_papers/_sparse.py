"""Wang (PhD thesis, 2021), chapters 2 and 3, and the methods it compares with.

Rows are dense or CSR; y are targets, or labels 0 and 1. Weights have no intercept, as
in the thesis. Noise is NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import Lasso

from benchmarks._papers._privacy import (
    advanced_share,
    chapter_3_deviation,
    objective_deviation,
)
from benchmarks._references import l1_logistic
from skdp.solvers._sparse import keep_rows, largest_rows


@dataclass(frozen=True, kw_only=True)
class Table:
    """A training set, and what the thesis takes as known of it.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    y : ndarray of shape (n,)
    labels : bool
        Whether the loss is logistic; it is half the squared error otherwise.
    s : int
        Number of features wanted.
    data_norm, feature_bound : float
        Bounds on the L2 norm of a row and on an entry, K in chapters 2 and 3.
    entry_variance : float
        Mean square of an entry.
    curvature : float
        Of the squared error along a feature; steps are in units of its inverse.
    residual : float
        Typical residual, of which clips are multiples.
    """

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
    """Algorithm 1, DP-IGHT; without noise Algorithm 3, IGHT.

    Parameters
    ----------
    table : Table
    n_steps : int
    step : float
        In units of `Table.unit_step`.
    deviation : float
        Of the noise in a coordinate of the mean gradient.
    clip : float
        L2, per record. The thesis has none.
    ridge : float
        The lambda of chapter 3.
    rng : Generator or None
    """
    weights = np.zeros(table.shape[1])
    for _ in range(n_steps):
        residuals = table.clipped(table.residuals(weights), clip, by="l2")
        gradient = table.mean_gradient(residuals) + ridge * weights
        if rng is not None:
            gradient += deviation * rng.standard_normal(len(weights))
        weights = thresholded(weights - step * table.unit_step * gradient, table.s)
    return weights


def frank_wolfe(
    table: Table,
    *,
    n_steps: int,
    radius: float,
    clip: float,
    scale: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Talwar, Thakurta and Zhang (2015), Algorithm 2, over an L1 ball.

    `clip` bounds the entries of a record's gradient, `scale` is that of the Laplace
    noise in the score of a vertex; both in units of the gradient.
    """
    weights = np.zeros(table.shape[1])
    d = len(weights)
    for t in range(n_steps):
        residuals = table.clipped(table.residuals(weights), clip, by="linf")
        gradient = table.mean_gradient(residuals)
        scores = np.concatenate([gradient, -gradient])
        vertex = int(np.argmin(scores + rng.laplace(0, scale, 2 * d)))
        share = 2 / (t + 2)
        weights *= 1 - share
        weights[vertex % d] += share * radius * (1 if vertex < d else -1)
    return weights


def two_stage(
    table: Table,
    *,
    epsilon: float,
    delta: float,
    penalty: float,
    clip: float,
    rng: np.random.Generator,
    ridge: float = 0.0,
) -> np.ndarray:
    """Kifer, Smith and Thakurta (2012), Thakurta and Smith (2013): vote, then refit.

    Half of epsilon for the votes of about sqrt(n) blocks, half and all of delta for
    objective perturbation on the s features with the most. `clip` is the bound on a
    record's gradient that the second stage assumes and nothing enforces.
    """
    chosen = voted(table, epsilon=epsilon / 2, penalty=penalty, rng=rng)
    part = replace(table, X=table.X[:, chosen])
    weights = np.zeros(table.shape[1])
    weights[chosen] = objective_perturbation(
        part, epsilon=epsilon / 2, delta=delta, clip=clip, ridge=ridge, rng=rng
    )
    return weights


def voted(
    table: Table, *, epsilon: float, penalty: float, rng: np.random.Generator
) -> np.ndarray:
    """The s features with most noisy votes; a record moves at most 2 s votes by 1."""
    n, d = table.shape
    blocks = np.array_split(rng.permutation(n), math.isqrt(n))
    votes = np.zeros(d)
    for rows in blocks:
        coef = _sparse_fit(table, rows, penalty)
        votes[largest_rows(coef[:, None], table.s)] += 1
    noisy = votes + rng.laplace(0, 2 * table.s / epsilon, d)
    return np.sort(np.argsort(-noisy, kind="stable")[: table.s])


def _sparse_fit(table: Table, rows: np.ndarray, penalty: float) -> np.ndarray:
    # In single precision scikit-learn's Lasso does not converge on sparse rows.
    X, y = table.X[rows].astype(float), table.y[rows]
    if not table.labels:
        alpha = penalty * table.residual * math.sqrt(table.entry_variance / len(rows))
        model = Lasso(alpha=alpha, fit_intercept=False, max_iter=200, tol=1e-2)
        return model.fit(X, y).coef_
    if len(np.unique(y)) < 2:
        return np.zeros(X.shape[1])
    C = 1 / (penalty * math.sqrt(table.entry_variance * len(rows)) / 2)
    return l1_logistic(C, fit_intercept=False, tol=1e-2).fit(X, y).coef_[0]


def objective_perturbation(
    table: Table,
    *,
    epsilon: float,
    delta: float,
    clip: float,
    ridge: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Kifer, Smith and Thakurta (2012), Algorithm 1, with Gaussian noise.

    The curvature of one record is at most `data_norm` squared; `ridge` adds to the
    regularisation of the sum that the theorem asks for.
    """
    n, d = table.shape
    curvature = table.data_norm**2 * (0.25 if table.labels else 1.0)
    strength = 2 * curvature / epsilon + ridge
    tilt = objective_deviation(clip, epsilon, delta) * rng.standard_normal(d)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value = table.value(weights) + weights @ (strength * weights / 2 + tilt) / n
        slope = table.mean_gradient(table.residuals(weights))
        return value, slope + (strength * weights + tilt) / n

    found = minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B")
    return found.x


def knowledge_transfer(
    table: Table,
    *,
    epsilon: float,
    delta: float,
    strength: float,
    step: float,
    rng: np.random.Generator,
    n_steps: int = 50,
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
) -> np.ndarray:
    """Algorithm 2, DPSL-KT: not private, whatever its noise (docs/errata.md).

    `strength` is the c_1 of section 3.4, `draw` the public distribution, U(-1, 1) with
    beta = 1/3 if not given; as many auxiliary rows as records.
    """
    n, d = table.shape
    factor = math.sqrt(table.s * math.log(d) * math.log(1 / delta))
    ridge = strength * factor / (n * epsilon)
    teacher = dp_ight(table, n_steps=n_steps, step=step, deviation=0.0, ridge=ridge)
    gamma = table.feature_bound
    if not table.labels:
        gamma *= table.feature_bound * math.sqrt(table.s)
    deviation = chapter_3_deviation(
        n=n, m=n, s=table.s, gamma=gamma, ridge=ridge, epsilon=epsilon, delta=delta
    )
    shape = (n, d)
    rows = draw(rng, shape) if draw else 2 * rng.random(shape, dtype=np.float32) - 1
    answers = rows @ teacher.astype(rows.dtype) + deviation * rng.standard_normal(n)
    student = replace(table, X=rows, y=answers, labels=False, curvature=1 / 3)
    return dp_ight(student, n_steps=n_steps, step=0.6, deviation=0.0)


def frank_wolfe_scale(
    *, n: int, clip: float, n_steps: int, epsilon: float, delta: float
) -> float:
    """Laplace scale of TTZ15, L_1 ||C||_1 sqrt(8 T log(1/delta)) / (n epsilon).

    Scores are per unit of the radius ||C||_1, which cancels.
    """
    return clip / (n * advanced_share(epsilon, delta, n_steps))
