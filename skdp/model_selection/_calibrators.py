"""Calibration of probabilities by released shares of labels in intervals.

Post-processing of released counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression

from skdp._arrays import FloatArray

# Log-odds beyond which a probability is 0 or 1 in double precision, or nearly so.
_MOST_ODDS = 36.0


class Calibrator(ABC):
    """A rising map of probabilities, fitted to released shares.

    It is flat beyond the middles of the first and the last interval, since the records'
    positions inside an interval are unknown: a far too confident model has many records
    there.
    """

    @classmethod
    @abstractmethod
    def of(cls, middles: FloatArray, shares: FloatArray, weights: FloatArray) -> Self:
        """The best map for the released shares.

        Parameters
        ----------
        middles : ndarray of shape (n_intervals,)
            Predicted probabilities of the positive label, rising, within (0, 1).
        shares : ndarray of shape (n_intervals,)
            Released shares of the positive label there, within (0, 1).
        weights : ndarray of shape (n_intervals,)
            Number of records that each share counts as, above 0.
        """

    @abstractmethod
    def __call__(self, probabilities: ArrayLike) -> FloatArray:
        """Calibrated probabilities, of the same shape."""


@dataclass(frozen=True)
class Sigmoid(Calibrator):
    """Platt's calibration: a linear function of the log-odds.

    Parameters
    ----------
    slope : float
        At least 0; above 1 if the model is underconfident.
    intercept : float
        Above 0 if the model takes the positive label to be too rare.
    ends : pair of floats
        Probabilities between which the map is this function; flat outside.
    """

    slope: float
    intercept: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, middles: FloatArray, shares: FloatArray, weights: FloatArray) -> Self:
        odds = logit(middles)

        def loss(line: FloatArray) -> tuple[float, FloatArray]:
            raw = line[0] * odds + line[1]
            wrong = weights * (expit(raw) - shares)
            value = weights @ (np.logaddexp(0.0, raw) - shares * raw)
            return float(value), np.array([wrong @ odds, wrong.sum()])

        unchanged, is_rising = [1.0, 0.0], [(0.0, None), (None, None)]
        found = minimize(loss, unchanged, jac=True, bounds=is_rising).x
        slope, intercept = found.tolist()
        return cls(slope, intercept, (float(middles[0]), float(middles[-1])))

    def __call__(self, probabilities: ArrayLike) -> FloatArray:
        inside = np.clip(probabilities, *self.ends)
        odds = self.slope * logit(inside) + self.intercept
        return np.asarray(expit(np.clip(odds, -_MOST_ODDS, _MOST_ODDS)))


@dataclass(frozen=True)
class Isotonic(Calibrator):
    """Calibration by any increasing function, linear between middles of intervals.

    Parameters
    ----------
    middles, shares : tuple of floats
        Predicted probabilities, and the shares to which they are mapped.
    """

    middles: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, middles: FloatArray, shares: FloatArray, weights: FloatArray) -> Self:
        rising = isotonic_regression(shares, sample_weight=weights)
        return cls(tuple(middles.tolist()), tuple(rising.tolist()))

    def __call__(self, probabilities: ArrayLike) -> FloatArray:
        given = np.asarray(probabilities, dtype=np.float64)
        return np.asarray(np.interp(given, self.middles, self.shares))


CALIBRATORS: dict[str, type[Calibrator]] = {"isotonic": Isotonic, "sigmoid": Sigmoid}
