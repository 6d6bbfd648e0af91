r"""Least squares from released second moments, and how far it is off.

Of rows x with a constant, targets y, M = sum x x' and h = sum x y, the released
``M + N`` and ``h + N_h`` are solved for theta, and

    (M + N) (theta - beta) = sum x e + N_h - N beta

for true weights beta and errors e. The right hand side has a variance that is known but
for that of the errors, which follows from the released squares of the targets. All of
it is post-processing (``docs/proofs/adassp.md``, Standard errors).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray
from skdp.queries._moments import Moments, MomentWeights
from skdp.solvers._base import Solution

# Least eigenvalue of the centred moments, in units of the edge of the noise's spectrum,
# from which on what the noise does to the inverse is small (benchmarks/intervals.py).
_CLEAR = 3.0


@dataclass(frozen=True, kw_only=True)
class EstimatedSolution(Solution):
    """Weights, and least squares without a ridge with its covariance.

    Parameters
    ----------
    estimate : ndarray of shape (n_features,) or (n_features + 1,)
        Of ``x @ coef + intercept``, the intercept last. Private output; NaN where noise
        drowns a direction of the rows.
    covariance : ndarray of these sizes
        Of the estimate, by the noise and by the records' errors. Private output.
    """

    estimate: FloatArray
    covariance: FloatArray


def estimated(
    moments: Moments, weights: MomentWeights, n_samples: int, sigma: float
) -> tuple[FloatArray, FloatArray]:
    """Least squares of unit rows and targets, and its covariance.

    Parameters
    ----------
    moments : Moments
        Released, with the squares of the targets.
    weights : MomentWeights
        Of the query.
    n_samples : int
    sigma : float
        Standard deviation of the noise in a number of the query.

    Returns
    -------
    estimate : ndarray of shape (n_features,) or (n_features + 1,)
    covariance : ndarray of shape (n_features, n_features), or one more of each
    """
    matrix, vector = _equations(moments, weights, n_samples)
    size = len(vector)
    if not _is_clear(moments, weights, n_samples, sigma):
        return np.full(size, np.nan), np.full((size, size), np.inf)
    inverse = np.linalg.inv(matrix)
    estimate = inverse @ vector
    of_noise = _noise_covariance(estimate, moments, weights, sigma)
    # The noise fits itself: what is left is too small by this trace.
    left = moments.squares - float(vector @ estimate) + np.sum(inverse * of_noise)
    variance = max(left, 0.0) / max(n_samples - size, 1)
    covariance = variance * inverse + inverse @ of_noise @ inverse
    return estimate, np.asarray(covariance, dtype=np.float64)


def _equations(
    moments: Moments, weights: MomentWeights, n_samples: int
) -> tuple[FloatArray, FloatArray]:
    """The normal equations; a constant's own square is the public count."""
    if not weights.intercept:
        return moments.rows_rows, moments.rows_targets
    rows = moments.rows[:, None]
    matrix = np.block([[moments.rows_rows, rows], [rows.T, np.array([[n_samples]])]])
    return matrix, np.append(moments.rows_targets, moments.targets)


def _is_clear(
    moments: Moments, weights: MomentWeights, n_samples: int, sigma: float
) -> bool:
    """Whether rows spread well beyond the noise in every direction."""
    centred = moments.rows_rows
    if weights.intercept:
        centred = centred - np.outer(moments.rows, moments.rows) / n_samples
    edge = sigma * math.sqrt(2 * len(centred))
    least = np.linalg.eigvalsh(centred)[0]
    return bool(np.isfinite(least) and least > max(_CLEAR * edge, 0.0))


def _noise_covariance(
    estimate: FloatArray, moments: Moments, weights: MomentWeights, sigma: float
) -> FloatArray:
    """Of the noise in ``h - M theta``, number by number of the query.

    A number off the diagonal of M has the variance sigma^2 / 2, one on it sigma^2, and
    a sum of rows sigma^2 / (2 t^2).
    """
    t, k, d = weights.intercept, weights.target, len(moments.rows_targets)
    slopes = estimate[:d]
    size = float(slopes @ slopes)
    found = np.eye(d) * (1 / k**2 + size / 2) + np.outer(slopes, slopes) / 2
    if t:
        constant = estimate[-1]
        found += np.eye(d) * constant**2 / (2 * t**2)
        cross = (constant * slopes / (2 * t**2))[:, None]
        alone = 1 / (k * t) ** 2 + size / (2 * t**2)
        found = np.block([[found, cross], [cross.T, np.array([[alone]])]])
    return np.asarray(sigma**2 * found)
