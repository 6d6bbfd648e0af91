"""`LeafSteps`: values of leaves from their noisy sums; post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.ensemble._scale import Scale
from skdp.privacy._answers import Released
from skdp.queries._leaf_sums import LeafTerms

# Largest value of a leaf before the learning rate, in units of raw predictions.
_BOX = {
    "logistic": 2.0,
    "softmax": 2.0,
    "squared": 1.0,
    "poisson": 1.0,
    "quantile": 1.0,
}
# Prior variance of a step, in squares of these units.
_VARIANCE = {
    "logistic": 1.0,
    "softmax": 4.0,
    "squared": 0.25,
    "poisson": 0.06,
    "quantile": 0.06,
}
# Curvatures are taken to be at least this much of their noise: steps would be long.
_LEAST_CURVATURE = 0.5
# Over so many trees, times the learning rate, the noise in steps averages out.
_AVERAGED = 0.1


class LeafSteps:
    """Shrunk Newton steps of tree after tree.

    With a learning rate below 1 a step is one of many that correct each other, so that
    the noise in it counts as that of an average. What is too bold all the same is
    shrunk at the end, by what all trees are worth.

    Parameters
    ----------
    terms : LeafTerms
    learning_rate : float
    scale : Scale
    prior : float, default=1.0
        Times the prior variance of a step.
    """

    def __init__(
        self, terms: LeafTerms, learning_rate: float, scale: Scale, prior: float = 1.0
    ) -> None:
        self._terms, self._rate, self._scale = terms, learning_rate, scale
        self._box = _BOX[terms.loss] * scale.raw * learning_rate
        self._variance = prior * _VARIANCE[terms.loss] * scale.raw**2
        # Noise is drawn afresh for each tree, and so averaged out; the sample is not.
        self._averaged = min(learning_rate / _AVERAGED, 1.0)

    def next(
        self, released: Released, is_reached: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """Values and deviations of their noise, of shape (n_leaves, n_outputs).

        They are 0 in leaves that are not reached by any record, as the tree is.
        """
        noise = released.deviation
        sums, curvature = self._read(released.value[is_reached], noise)
        step = self._scale.step
        doubt = self._scale.sampling * curvature
        explained = doubt + self._averaged * (step * noise) ** 2
        spread = curvature**2 * self._variance + explained
        factor = self._rate * curvature * self._variance / spread
        shape = (len(is_reached), self._terms.n_outputs)
        values, deviations = np.zeros(shape), np.zeros(shape)
        values[is_reached] = np.clip(-factor * step * sums, -self._box, self._box)
        deviations[is_reached] = factor * step * noise
        return values, deviations

    def _read(self, value: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
        """Sums of residuals, and curvatures that are above 0."""
        k, own_noise = self._terms.n_outputs, noise / self._terms.weight
        sums = value[:, :k]
        curvature = _towards_mean(value[:, k:] / self._terms.weight, own_noise)
        curvature = np.maximum(curvature, (_LEAST_CURVATURE * own_noise + 1) / k)
        if self._terms.loss != "softmax":
            return sums, curvature
        # Of all outputs nothing but differences matter.
        sums = sums - sums.mean(axis=1, keepdims=True)
        rest = 1 - curvature / curvature.sum(axis=1, keepdims=True)
        return sums, np.maximum(curvature * rest, 1 / k)


def _towards_mean(noisy: FloatArray, noise: float) -> FloatArray:
    """Numbers of all leaves, shrunk to their mean as far as they may be noise alone."""
    mean = noisy.mean(axis=0)
    apart = noisy - mean
    spread = (apart**2).mean(axis=0)
    kept = np.maximum(spread - noise**2, 0.0) / np.maximum(spread, 1e-300)
    return np.asarray(mean + kept * apart)
