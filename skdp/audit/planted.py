"""Estimators with a bug each, to see an audit find it. Never for private data.

All release a noisy sum and call it private. `NoisySums` and `NoisyCorrelations` have
the noise that their sensitivity asks for; each of the others makes a mistake that has
been made in earnest. Their promise, of `epsilon` and `delta` under replace_one, is what
is to be handed to `audit_estimator`, since they do not say it themselves.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._floats import FloatArray
from skdp._validation import check_data_norm, check_delta, check_epsilon
from skdp.privacy._gaussian import gaussian_mu

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
    """Gaussian noise of a general-purpose generator, which no release should have."""

    def _noise(self, size: tuple[int, ...], sensitivity: float) -> FloatArray:
        epsilon, delta = check_epsilon(self.epsilon), check_delta(self.delta)
        sigma = sensitivity / gaussian_mu(epsilon, delta)
        return self._drawn(self._generator(), size, sigma)

    def _generator(self) -> Any:
        return check_random_state(self.random_state)

    def _drawn(self, generator: Any, size: tuple[int, ...], sigma: float) -> FloatArray:
        return np.asarray(generator.normal(scale=sigma, size=size))

    def _clipped(self, X: FloatArray) -> FloatArray:
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        norm = check_data_norm(self.data_norm)
        clipped: FloatArray = X * np.minimum(1.0, norm / np.maximum(norms, 1e-300))
        return clipped


def diameter(norm: float) -> float:
    """Of all (x, 1), each in the part of a class; of means of them, too."""
    return max(2 * norm, math.sqrt(2 * (1 + norm**2)))


class ClassSums(ClassifierMixin, _Noisy):
    """What is known of sums of rows (x, 1), each in the part of its class."""

    def _sums(self, X: FloatArray, y: Any, shares: FloatArray) -> FloatArray:
        self.classes_ = np.unique(y)
        member = shares[:, None] * (y[:, None] == self.classes_)
        sums: FloatArray = member.T @ np.column_stack(
            [self._clipped(X), np.ones(len(X))]
        )
        return sums

    def decision_function(self, X: Any) -> FloatArray:
        """Products with the sums of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        products: FloatArray = self._clipped(X) @ self.coef_.T + self.intercept_
        return products

    def predict(self, X: Any) -> Any:
        """The class with the largest product.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]


class NoisySums(ClassSums):
    """Sums of the rows of each class, and their number: without a planted bug.

    A record has (x, 1) in the part of its class. Of two records in one class these are
    at most ``2 * data_norm`` apart, in two at most ``sqrt(2 * (data_norm^2 + 1))``.

    Parameters
    ----------
    epsilon : float, default=1.0
    delta : float, default=1e-5
    data_norm : float, default=1.0
        Rows are clipped to it.
    random_state : int or None, default=None
        An integer makes the noise reproducible.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Private output, if there were no bug. Means over all records.
    intercept_ : ndarray of shape (n_classes,)
        Private output, if there were no bug. Shares of the classes.
    classes_ : ndarray of shape (n_classes,)
        Taken to be public.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        data_norm: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Add up the rows of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        Self
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        sums = self._sums(X, y, np.ones(len(X)))
        sums = self._released(sums, diameter(float(self.data_norm))) / len(X)
        self.coef_, self.intercept_ = sums[:, :-1], sums[:, -1]
        return self

    def _released(self, sums: FloatArray, sensitivity: float) -> FloatArray:
        return sums + self._noise(sums.shape, sensitivity)


class HalfNoise(NoisySums):
    """Bug: a standard deviation for one record, where two records differ."""

    def _drawn(self, generator: Any, size: tuple[int, ...], sigma: float) -> FloatArray:
        return super()._drawn(generator, size, sigma / 2)


class SharedNoise(NoisySums):
    """Bug: one draw, broadcast to all classes. Their difference has no noise."""

    def _released(self, sums: FloatArray, sensitivity: float) -> FloatArray:
        return sums + self._noise(sums.shape[1:], sensitivity)


class FewSeeds(NoisySums):
    """Bug: a seed of one byte. All the noise there is can be tried."""

    def _generator(self) -> Any:
        if self.random_state is not None:
            return super()._generator()
        return check_random_state(check_random_state(None).randint(256))


class BareIntercept(NoisySums):
    """Bug: noise for the rows, and the numbers of the classes as they are."""

    def _released(self, sums: FloatArray, sensitivity: float) -> FloatArray:
        noise = self._noise(sums.shape, sensitivity)
        noise[:, -1] = 0.0
        return sums + noise


class FloatNoise(NoisySums):
    """Bug: noise of 24 bits on sums of 53. The last bits are those of the sum."""

    def _released(self, sums: FloatArray, sensitivity: float) -> FloatArray:
        return sums + self._noise(sums.shape, sensitivity).astype(np.float32)


class NoisyCorrelations(RegressorMixin, _Noisy):
    """The sum of rows times targets: without a planted bug.

    Rows are clipped to `data_norm` and targets to `data_norm` too, so that two records
    are at most ``2 * data_norm^2`` apart.

    Parameters
    ----------
    epsilon : float, default=1.0
    delta : float, default=1e-5
    data_norm : float, default=3.0
    target_bounds : tuple of float, default=(-3.0, 3.0)
        Targets are clipped to them; neither may be further from 0 than `data_norm`.
    random_state : int or None, default=None
        An integer makes the noise reproducible.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private output, if there were no bug.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        data_norm: float = 3.0,
        target_bounds: tuple[float, float] = (-3.0, 3.0),
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Add up rows times targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        Self
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        low, high = self.target_bounds
        norm = float(self.data_norm)
        targets = np.clip(y, max(low, -norm), min(high, norm))
        sums = self._clipped(X).T @ targets
        noise = self._noise(sums.shape, self._sensitivity(norm))
        self.coef_ = (sums + noise) / len(X)
        return self

    def _sensitivity(self, norm: float) -> float:
        return 2 * norm**2

    def predict(self, X: Any) -> FloatArray:
        """Products with the released sum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        predicted: FloatArray = self._clipped(X) @ self.coef_
        return predicted


class NormForSquare(NoisyCorrelations):
    """Bug: the norm for its square, which shows where the norm is not 1."""

    def _sensitivity(self, norm: float) -> float:
        return 2 * norm
