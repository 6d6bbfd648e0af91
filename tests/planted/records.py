"""Estimators with a bug each, which `audit_estimator` must find.

All release a noisy sum and call it private. `NoisySums` and `NoisyCorrelations` have
the noise that their sensitivity asks for; each of the others makes a mistake that has
been made in earnest. Their promise, of `epsilon` and `delta` under replace_one, is to
be handed to `audit_estimator`, since they do not state it themselves. Noise is of a
general-purpose generator.
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from skdp.privacy.accounting._gaussian import gaussian_mu

__all__ = [
    "BareIntercept",
    "FewSeeds",
    "FloatNoise",
    "HalfNoise",
    "NoisyCorrelations",
    "NoisySums",
    "NormForSquare",
    "SharedNoise",
]


class _Noisy(BaseEstimator):
    def _noise(self, size, sensitivity):
        sigma = sensitivity / gaussian_mu(self.epsilon, self.delta)
        return self._drawn(self._generator(), size, sigma)

    def _generator(self):
        return check_random_state(self.random_state)

    def _drawn(self, generator, size, sigma):
        return generator.normal(scale=sigma, size=size)

    def _clipped(self, X):
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X * np.minimum(1.0, self.data_norm / np.maximum(norms, 1e-300))


def diameter(norm):
    """Of all (x, 1), each in the part of a class; of means of them, too."""
    return max(2 * norm, math.sqrt(2 * (1 + norm**2)))


class ClassSums(ClassifierMixin, _Noisy):
    """Sums of rows (x, 1) with weights, each in the part of its class."""

    def _sums(self, X, y, weights):
        self.classes_ = np.unique(y)
        member = weights[:, None] * (y[:, None] == self.classes_)
        return member.T @ np.column_stack([self._clipped(X), np.ones(len(X))])

    def decision_function(self, X):
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._clipped(X) @ self.coef_.T + self.intercept_

    def predict(self, X):
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]


class NoisySums(ClassSums):
    """Sums of the rows of each class, and their number: without a bug.

    A record has (x, 1) in the part of its class. Of two records in one class these are
    at most ``2 * data_norm`` apart, in two at most ``sqrt(2 * (data_norm^2 + 1))``.
    """

    def __init__(self, epsilon=1.0, delta=1e-5, data_norm=1.0, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.random_state = random_state

    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        sums = self._sums(X, y, np.ones(len(X)))
        sums = self._released(sums, diameter(self.data_norm)) / len(X)
        self.coef_, self.intercept_ = sums[:, :-1], sums[:, -1]
        return self

    def _released(self, sums, sensitivity):
        return sums + self._noise(sums.shape, sensitivity)


class HalfNoise(NoisySums):
    """Bug: a standard deviation for one record, where two records differ."""

    def _drawn(self, generator, size, sigma):
        return super()._drawn(generator, size, sigma / 2)


class SharedNoise(NoisySums):
    """Bug: one draw, broadcast to all classes. Their difference has no noise."""

    def _released(self, sums, sensitivity):
        return sums + self._noise(sums.shape[1:], sensitivity)


class FewSeeds(NoisySums):
    """Bug: a seed of one byte. All the noise there is can be tried."""

    def _generator(self):
        if self.random_state is not None:
            return super()._generator()
        return check_random_state(check_random_state(None).randint(256))


class BareIntercept(NoisySums):
    """Bug: noise for the rows, and the numbers of the classes as they are."""

    def _released(self, sums, sensitivity):
        noise = self._noise(sums.shape, sensitivity)
        noise[:, -1] = 0.0
        return sums + noise


class FloatNoise(NoisySums):
    """Bug: noise of 24 bits on sums of 53. The last bits are those of the sum."""

    def _released(self, sums, sensitivity):
        return sums + self._noise(sums.shape, sensitivity).astype(np.float32)


class NoisyCorrelations(RegressorMixin, _Noisy):
    """The sum of rows times targets: without a bug.

    Rows are clipped to `data_norm` and targets to `data_norm` too, so that two records
    are at most ``2 * data_norm^2`` apart.
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        data_norm=3.0,
        target_bounds=(-3.0, 3.0),
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.random_state = random_state

    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        low, high = self.target_bounds
        norm = self.data_norm
        sums = self._clipped(X).T @ np.clip(y, max(low, -norm), min(high, norm))
        noise = self._noise(sums.shape, self._sensitivity(norm))
        self.coef_ = (sums + noise) / len(X)
        return self

    def _sensitivity(self, norm):
        return 2 * norm**2

    def predict(self, X):
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._clipped(X) @ self.coef_


class NormForSquare(NoisyCorrelations):
    """Bug: the norm for its square, which shows where the norm is not 1."""

    def _sensitivity(self, norm):
        return 2 * norm
