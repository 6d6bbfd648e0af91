r"""A Newton step from released sums, and how far it is off.

Of rows u, residuals r, curvatures c and weights v, with noise N_g and N in the released
``g = sum r u`` and ``H = sum c u u'``, and a penalty's ``K = n alpha``, the step d from
v has, about v* with gradient 0 in the population,

    (H + N + K) (v + d - v*) = - sum r* u - K v* - N_g - N d + terms of second order.

The right hand side has a variance that is known but for that of the records, which
follows from the released squares. All of it is post-processing
(``docs/proofs/noisy_newton.md``, Standard errors).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp._floats import FloatArray
from skdp.queries._newton_sums import NewtonAnswer

# Least eigenvalue of the curvatures, in units of the edge of the noise's spectrum, from
# which on what the noise does to the inverse is small; and the most that terms of
# second order may be, in units of the errors (benchmarks/intervals.py). Below four
# edges the fits that pass are those whose noise added curvature: at three, 6 % of the
# fits of a table with 2 % positives passed, and their 95 % intervals held 86 %.
_CLEAR, _MOST_BENT = 4.0, 1.0


def edge_of(curvature_noise: float, n_columns: int) -> float:
    """Of the spectrum of the noise in the curvatures."""
    return curvature_noise * math.sqrt(2 * n_columns)


def least_told(edge: float, lift: float) -> float:
    """Least eigenvalue of the curvatures above which errors are told."""
    return max(_CLEAR, lift) * edge


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """One step, in weights of the query's rows u.

    Parameters
    ----------
    start : ndarray of shape (n_columns,)
        Released weights at which the sums were asked.
    sums : NewtonAnswer
        Released.
    gradient_noise, curvature_noise : float
        Standard deviations of the noise in a number of the gradient, and in one on the
        diagonal of the curvatures; off it, that over the root of 2. Public.
    penalty : ndarray of shape (n_columns,)
        What is added to the diagonal of the curvatures. Public.
    n_samples : int
    lift : float
        Least eigenvalue of the curvatures that is believed, in units of the edge.
    """

    start: FloatArray
    sums: NewtonAnswer
    gradient_noise: float
    curvature_noise: float
    penalty: FloatArray
    n_samples: int
    lift: float

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        return np.linalg.eigh(self.sums.curvature + np.diag(self.penalty))

    @property
    def _edge(self) -> float:
        return edge_of(self.curvature_noise, len(self.start))

    @cached_property
    def _inverse(self) -> FloatArray:
        """Of the curvatures, none of which is taken to be below the noise."""
        eigenvalues, basis = self._spectrum
        lifted = np.maximum(eigenvalues, self.lift * self._edge)
        inverse = np.divide(1.0, lifted, out=np.zeros_like(lifted), where=lifted > 0)
        return np.asarray((basis * inverse) @ basis.T)

    @cached_property
    def length(self) -> FloatArray:
        """What is added to the weights."""
        pulled = self.penalty * self.start
        return np.asarray(-self._inverse @ (self.sums.gradient + pulled))

    def covariance(self, bend: float) -> FloatArray:
        """Of the weights after the step; inf where it is not known.

        Parameters
        ----------
        bend : float
            Half of the most that a curvature changes with the raw prediction, in
            units of itself.
        """
        unknown = np.full(self.sums.curvature.shape, np.inf)
        if self._spectrum[0][0] <= least_told(self._edge, self.lift):
            return unknown
        variance = self._variance()
        found = self._inverse @ variance @ self._inverse
        if not np.isfinite(found).all() or self._left(variance, bend) > _MOST_BENT:
            return unknown
        return np.asarray(found)

    def _variance(self) -> FloatArray:
        """Of the right hand side: the records', and that of ``N_g + N d``."""
        # At the optimum the mean of the records' gradients is the penalty's.
        pulled = self.penalty * self.start
        squares = self.sums.squares - np.outer(pulled, pulled) / self.n_samples
        if not np.isfinite(squares).all():
            return np.full_like(squares, np.inf)
        eigenvalues, basis = np.linalg.eigh(squares)
        of_records = (basis * np.maximum(eigenvalues, 0.0)) @ basis.T
        d = self.length
        of_gradient = self.gradient_noise**2 * np.eye(len(d))
        of_curvature = (float(d @ d) * np.eye(len(d)) + np.outer(d, d)) / 2
        return np.asarray(
            of_records + of_gradient + self.curvature_noise**2 * of_curvature
        )

    def _left(self, variance: FloatArray, bend: float) -> float:
        """Terms of second order, over the errors: about, and rather too much."""
        eigenvalues, basis = self._spectrum
        moved = eigenvalues * (basis.T @ self.length)
        # Mean square change of raw predictions, of rows of norm 1.
        change = float(self.length @ basis @ moved) / float(eigenvalues.sum())
        spread, axes = np.linalg.eigh(variance)
        along = axes.T @ (basis @ moved)
        size = np.divide(along**2, spread, out=np.zeros_like(along), where=spread > 0)
        return bend * math.sqrt(max(change, 0.0) * float(size.sum()))
