"""`LeafSteps`: values of leaves from their noisy sums; post-processing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.privacy._answers import Released
from skdp.queries._leaf_sums import LeafTerms

# Largest value of a leaf before the learning rate, in units of raw predictions.
_BOX = {"logistic": 2.0, "softmax": 2.0, "squared": 1.0}
# Largest prior variance of a step, which is also that of the first tree.
_LARGEST_VARIANCE = {"logistic": 4.0, "softmax": 4.0, "squared": 1.0}
# Variance of a residual by its curvature.
_SAMPLING = {"logistic": 1.0, "softmax": 1.0, "squared": 0.15}
# Evidence of a signal has to be so many standard deviations above none.
_DOUBT = 2.0
# Curvatures are taken to be at least this much of their noise: steps would be long.
_LEAST_CURVATURE = 0.5
# Over so many trees, times the learning rate, the noise in steps averages out.
_AVERAGED = 2.0


class LeafSteps:
    """Shrunk Newton steps of tree after tree.

    The prior variance of a step is that by which sums of residuals vary more than
    sampling and noise explain, over all trees of its kind so far. With a learning rate
    below 1 a step is one of many that correct each other, so that the noise in it
    counts as that of their average.

    Parameters
    ----------
    terms : LeafTerms
    learning_rate : float
    n_kinds : int
        Trees are of so many kinds, in turn.
    """

    def __init__(self, terms: LeafTerms, learning_rate: float, n_kinds: int) -> None:
        self._terms, self._rate = terms, learning_rate
        self._box = _BOX[terms.loss] * learning_rate
        self._largest = _LARGEST_VARIANCE[terms.loss]
        self._beyond, self._known = np.zeros(n_kinds), np.zeros(n_kinds)
        self._variance = np.full(n_kinds, self._largest)
        self._done = 0

    def next(
        self, released: Released, is_reached: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """Values and deviations of their noise, of shape (n_leaves, n_outputs).

        They are 0 in leaves that are not reached by any record, as the tree is.
        """
        kind = self._done % len(self._variance)
        self._done += 1
        noise = released.deviation
        sums, curvature = self._read(released.value[is_reached], noise)
        sampling = _SAMPLING[self._terms.loss] * curvature
        self._learn(kind, sums, curvature, sampling + noise**2)
        # Without noise a signal need not be told from it.
        prior = self._variance[kind] if noise else self._largest
        # Noise is drawn afresh for each tree, and so averaged out; the sample is not.
        averaged = noise**2 * min(self._rate / _AVERAGED, 1.0)
        spread = curvature**2 * prior + sampling + averaged
        factor = self._rate * curvature * prior / spread
        shape = (len(is_reached), self._terms.n_outputs)
        values, deviations = np.zeros(shape), np.zeros(shape)
        values[is_reached] = np.clip(-factor * sums, -self._box, self._box)
        deviations[is_reached] = factor * noise
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

    def _learn(
        self, kind: int, sums: FloatArray, curvature: FloatArray, explained: FloatArray
    ) -> None:
        """Take in by how much the sums of a tree vary more than is explained."""
        spread = explained + curvature**2 * self._variance[kind]
        weight = (curvature / spread) ** 2
        self._beyond[kind] += float((weight * (sums**2 - explained)).sum())
        self._known[kind] += float((weight * curvature**2).sum())
        known = max(self._known[kind], 1e-300)
        found = self._beyond[kind] / known - _DOUBT * math.sqrt(2 / known)
        self._variance[kind] = min(max(found, 1e-12), self._largest)


def _towards_mean(noisy: FloatArray, noise: float) -> FloatArray:
    """Numbers of all leaves, shrunk to their mean as far as they may be noise alone."""
    mean = noisy.mean(axis=0)
    apart = noisy - mean
    spread = (apart**2).mean(axis=0)
    kept = np.maximum(spread - noise**2, 0.0) / np.maximum(spread, 1e-300)
    return np.asarray(mean + kept * apart)
