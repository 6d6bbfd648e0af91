"""The logistic problem of the papers and one momentum loop, all runs side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

_BLOCK = 400_000  # numbers of one block of margins: what the cache holds


class Gradients(Protocol):
    """What a descent asks for."""

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Mean gradient at each column of `weights`, of shape (d, R)."""
        ...


class Logistic:
    """Mean of log(1 + exp(-z <u, w>)) plus half of mu times the squared norm of w."""

    def __init__(self, signed: np.ndarray, mu: float) -> None:
        self.signed = signed
        self.mu = mu
        self.n, self.d = signed.shape
        self._single = signed.astype(np.float32)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Mean gradient at each column of `weights`, of shape (d, R)."""
        total = np.zeros(weights.shape, np.float32)
        columns = weights.astype(np.float32)
        size = max(256, _BLOCK // weights.shape[1])
        for first in range(0, self.n, size):
            block = self._single[first : first + size]
            total += block.T @ _residuals(block @ columns)
        return total.astype(float) / self.n + self.mu * weights

    def sampled_gradient(self, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Mean gradient over other records for each column; `rows` is (R, m)."""
        batches = self._single[rows]
        margins = (batches @ weights.T.astype(np.float32)[..., None])[..., 0]
        residuals = -expit(-margins) / rows.shape[1]
        data_part = (residuals[:, None] @ batches)[:, 0].T
        return data_part.astype(float) + self.mu * weights

    def value(self, weights: np.ndarray) -> np.ndarray:
        """The objective at each column, in double precision; a vector is one column."""
        columns = weights.reshape(self.d, -1)
        loss = np.zeros(columns.shape[1])
        for first in range(0, self.n, _BLOCK // 20):
            margins = self.signed[first : first + _BLOCK // 20] @ columns
            loss += np.logaddexp(0, -margins).sum(axis=0)
        return loss / self.n + self.mu / 2 * (columns**2).sum(axis=0)

    def optimum(self) -> np.ndarray:
        """The minimiser, in double precision."""

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            residuals = -expit(-(self.signed @ w))
            gradient = self.signed.T @ residuals / self.n + self.mu * w
            return self.value(w)[0], gradient

        tight = {"maxiter": 2000, "maxfun": 5000, "ftol": 0, "gtol": 1e-10}
        start = np.zeros(self.d)
        return minimize(
            value_and_gradient, start, jac=True, method="L-BFGS-B", options=tight
        ).x

    def excess(self, weights: np.ndarray, least: float) -> np.ndarray:
        """Objective above its least value."""
        return self.value(weights) - least


class Sampled:
    """Gradients over a fresh random subset for each call and run."""

    def __init__(self, problem: Logistic, size: int, runs: Sequence[int]) -> None:
        self._problem, self._size = problem, size
        self._rngs = [np.random.default_rng([5, run]) for run in runs]

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Mean gradient over the subsets at the columns of `weights`."""
        n, size = self._problem.n, self._size
        rows = [rng.choice(n, size, replace=False) for rng in self._rngs]
        return self._problem.sampled_gradient(weights, np.stack(rows))


def _residuals(margins: np.ndarray) -> np.ndarray:
    """Derivative of the loss, in place."""
    np.clip(margins, -80, 80, out=margins)
    np.exp(margins, out=margins)
    margins += 1
    np.divide(-1, margins, out=margins)
    return margins


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Steps, momentum and noise of one descent; each an array of shape (T,)."""

    steps: np.ndarray
    momentum: np.ndarray
    scales: np.ndarray
    restarts: np.ndarray | None = None
    looks_ahead: bool = True

    @property
    def n_steps(self) -> int:
        """T."""
        return len(self.steps)


def descend(
    problem: Gradients, plan: Plan, start: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Last iterates, of shape (d, R), given unit noise of shape (T, d, R)."""
    old = now = np.repeat(start[:, None], noise.shape[2], axis=1)
    for t in range(plan.n_steps):
        if plan.restarts is not None and plan.restarts[t]:
            old = now
        ahead = now + plan.momentum[t] * (now - old)
        gradient = problem.gradient(ahead if plan.looks_ahead else now)
        noisy = gradient + plan.scales[t] * noise[t]
        old, now = now, ahead - plan.steps[t] * noisy
    return now


def nesterov_momentum(steps: np.ndarray, mu: float) -> np.ndarray:
    """(1 - sqrt(alpha mu)) / (1 + sqrt(alpha mu)) for each step alpha."""
    roots = np.sqrt(steps * mu)
    return (1 - roots) / (1 + roots)


def clipped_rows(X: np.ndarray, bound: float, order: int) -> np.ndarray:
    """Rows with norm of this order at most `bound`."""
    norms = np.linalg.norm(X, ord=order, axis=1, keepdims=True)
    return X * np.minimum(1, bound / np.maximum(norms, 1e-300))


def unit_noise(kind: str, run: int, shape: tuple[int, ...]) -> np.ndarray:
    """Laplace noise of scale 1 or Gaussian noise of deviation 1, of one run."""
    rng = np.random.default_rng([7, run, math.prod(shape)])
    return rng.laplace(size=shape) if kind == "laplace" else rng.standard_normal(shape)
