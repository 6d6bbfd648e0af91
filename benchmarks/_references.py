"""Short private methods in NumPy that ours are measured against, tuned by an oracle.

Yardsticks, not products: NumPy's noise is neither secure nor exact, the range of the
labels is read from the data, and nothing is checked. Rows must have norm at most 1;
a constant column is appended and the whole divided by sqrt(2), so that the norm of an
extended row is at most 1 as well.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Self

import numpy as np
import sklearn
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_ndtr, ndtr, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

# Largest norm by which one record changes a sum of vectors of norm at most 1.
SENSITIVITY = {"zero_out": 1.0, "replace_one": 2.0}


def extended(X: np.ndarray) -> np.ndarray:
    """Rows with a constant column, scaled back to norm at most 1."""
    return np.hstack([X, np.ones((len(X), 1), X.dtype)]) / X.dtype.type(math.sqrt(2))


@lru_cache
def gaussian_noise(epsilon: float, delta: float) -> float:
    """Noise per unit of sensitivity of one Gaussian release, exactly calibrated.

    Balle and Wang (2018), Theorem 8.
    """

    def excess(m: float) -> float:
        tail = math.exp(epsilon + log_ndtr(-m / 2 - epsilon / m))
        return float(ndtr(m / 2 - epsilon / m)) - tail - delta

    return 1 / brentq(excess, 1e-6, 1e3)


@lru_cache
def perturbation_noise(
    epsilon: float, delta: float, adjacency: str, curvature: float
) -> float:
    """Deviation of objective perturbation's Gaussian linear term.

    `curvature` is beta / lambda: bound on the loss' second derivative over the
    regularisation. At a fixed minimiser the neighbours' linear terms b differ by a
    vector g of norm at most s (1 or 2). The privacy loss is then at most
    log(1 + curvature) + k^2 / 2 + k R with k = s / sigma, where R is the length, in
    units of sigma, of b's projection on the span of g over all minimisers: a line
    for one record, a plane for two. So R is half-normal or Rayleigh (cf. Redberg,
    Koskela and Wang, 2023). Its hockey-stick divergence is what is solved for.
    """
    fixed = math.log1p(curvature)

    def excess(log_k: float) -> float:
        k = math.exp(log_k)
        a = epsilon - fixed - k * k / 2
        t = max(a / k, 0.0)
        tilted = math.exp(a + k * k / 2 + float(log_ndtr(-t - k)))
        if adjacency == "zero_out":
            return 2 * (float(ndtr(-t)) - tilted) - delta
        certain = max(0.0, -math.expm1(a)) if a < 0 else 0.0
        return certain + k * math.sqrt(2 * math.pi) * tilted - delta

    if fixed >= epsilon:
        raise ValueError("the regularisation is too weak for this epsilon")
    return SENSITIVITY[adjacency] / math.exp(brentq(excess, -30.0, 10.0))


class _LinearReference(ClassifierMixin, BaseEstimator):
    """Prediction from ``weights_`` of shape (d + 1, 1) or (d + 1, K)."""

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Raw predictions, one column for two classes."""
        return extended(X) @ self.weights_

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of the labels."""
        raw = self.decision_function(X).astype(float)
        if raw.shape[1] == 1:
            return np.hstack([expit(-raw), expit(raw)])
        return softmax(raw, axis=1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable labels."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Labels as one 0/1 column, or as one column per class."""
        self.classes_ = np.unique(y)
        one_hot = (y[:, None] == self.classes_).astype(float)
        return one_hot[:, 1:] if len(self.classes_) == 2 else one_hot


class NoisyGradientDescent(_LinearReference):
    """Full-batch gradient descent with Gaussian noise and averaging of the last half.

    Bassily, Smith and Thakurta (2014) with every record in every step: T releases of
    one Gaussian sum, composed exactly.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: str = "zero_out",
        n_steps: int = 100,
        step_size: float = 1.0,
        clip: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_steps = n_steps
        self.step_size = step_size
        self.clip = clip
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Run all steps."""
        rng = np.random.default_rng(self.random_state)
        target, rows = self._targets(y).astype(X.dtype), extended(X)
        binary = target.shape[1] == 1
        mean = (expit, 4.0) if binary else (lambda raw: softmax(raw, axis=1), 2.0)
        predict, inverse_smoothness = mean
        sigma = self.clip * SENSITIVITY[self.adjacency] * math.sqrt(self.n_steps)
        sigma *= gaussian_noise(self.epsilon, self.delta)
        weights = np.zeros((rows.shape[1], target.shape[1]), X.dtype)
        total = np.zeros(weights.shape)
        tail = self.n_steps - self.n_steps // 2
        for step in range(self.n_steps):
            residual = predict(rows @ weights) - target
            norms = np.linalg.norm(residual, axis=1, keepdims=True)
            residual *= np.minimum(1, self.clip / np.maximum(norms, 1e-12))
            noisy = rows.T @ residual + sigma * rng.standard_normal(weights.shape)
            weights -= (self.step_size * inverse_smoothness / len(rows) * noisy).astype(
                X.dtype
            )
            if step >= self.n_steps - tail:
                total += weights
        self.weights_ = total / tail
        return self


class ObjectivePerturbation(_LinearReference):
    """Minimiser of the binary log-loss plus ridge plus a random linear term.

    Chaudhuri, Monteleoni and Sarwate (2011) for ``delta=0`` (one factor
    1 + beta / lambda of theirs is enough for a loss of x @ w); Gaussian noise
    calibrated by `perturbation_noise` otherwise. The minimiser is taken as exact.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: str = "zero_out",
        regularisation: float = 10.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.regularisation = regularisation
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Draw the linear term and minimise."""
        target, rows = self._targets(y)[:, 0], extended(X)
        n, d = rows.shape
        linear = self._linear_term(d, np.random.default_rng(self.random_state))

        def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
            raw = rows @ weights
            ridge = self.regularisation * weights
            loss = np.logaddexp(0, raw).sum() - target @ raw
            slope = rows.T @ (expit(raw) - target) + ridge + linear
            return (loss + ridge @ weights / 2 + linear @ weights) / n, slope / n

        options: dict[str, Any] = {"maxiter": 500, "ftol": 0.0, "gtol": 1e-8}
        start = np.zeros(d)
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        self.weights_ = found.x[:, None]
        return self

    def _linear_term(self, d: int, rng: np.random.Generator) -> np.ndarray:
        curvature = 0.25 / self.regularisation
        if self.delta > 0:
            sigma = perturbation_noise(
                self.epsilon, self.delta, self.adjacency, curvature
            )
            return sigma * rng.standard_normal(d)
        left = self.epsilon - math.log1p(curvature)
        if left <= 0:
            raise ValueError("the regularisation is too weak for this epsilon")
        direction = rng.standard_normal(d)
        length = rng.gamma(d, SENSITIVITY[self.adjacency] / left)
        return length * direction / np.linalg.norm(direction)


def l1_logistic(C: float, **options: Any) -> LogisticRegression:
    """scikit-learn's logistic regression with an L1 penalty: not private."""
    kind: dict[str, Any] = {"l1_ratio": 1.0}
    if parse_version(sklearn.__version__) < parse_version("1.8"):
        kind = {"penalty": "l1"}
    return LogisticRegression(C=C, solver="liblinear", **kind, **options)
