"""`LeafSteps`: values of leaves from their noisy sums; post-processing."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray
from skdp.privacy._answers import Released
from skdp.queries._leaf_sums import LeafTerms

# Largest value of a leaf, in units of raw predictions.
_BOX = {"logistic": 2.0, "softmax": 2.0, "squared": 1.0}
# Largest prior variance of a step, which is also that of the first trees.
_FIRST_VARIANCE = {"logistic": 1.0, "softmax": 1.0, "squared": 0.1}
# How many trees of a kind the prior variance is an average of.
_WINDOW = 10.0


class LeafSteps:
    """Shrunk Newton steps of tree after tree.

    The prior variance of a step is that by which sums of residuals vary more than
    sampling and noise explain, over recent trees of the same kind.

    Parameters
    ----------
    terms : LeafTerms
    learning_rate : float
    n_kinds : int
        Trees are of so many kinds, in turn.
    """

    def __init__(self, terms: LeafTerms, learning_rate: float, n_kinds: int) -> None:
        self._terms, self._rate = terms, learning_rate
        self._first, self._box = _FIRST_VARIANCE[terms.loss], _BOX[terms.loss]
        self._beyond, self._known = np.zeros(n_kinds), np.zeros(n_kinds)
        self._variance = np.full(n_kinds, self._first)
        self._done = 0

    def next(self, released: Released) -> tuple[FloatArray, FloatArray]:
        """Values and deviations of their noise, of shape (n_leaves, n_outputs)."""
        kind = self._done % len(self._variance)
        self._done += 1
        noise = released.deviation
        sums, curvature = self._read(released.value, noise)
        self._learn(kind, sums, curvature, noise)
        variance = self._variance[kind]
        spread = curvature + noise**2
        factor = curvature * variance / (curvature**2 * variance + spread)
        factor *= self._rate
        box = self._box * self._rate
        return np.clip(-factor * sums, -box, box), factor * noise

    def _read(self, value: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
        """Sums of residuals, and curvatures of at least half of their noise."""
        k = self._terms.n_outputs
        sums, curvature = value[:, :k], value[:, k:] / self._terms.weight
        least = 0.5 * noise / self._terms.weight + 1
        if self._terms.loss != "softmax":
            return sums, np.maximum(curvature, least)
        # Of all outputs nothing but differences matter.
        sums = sums - sums.mean(axis=1, keepdims=True)
        shares = np.maximum(curvature, least / k)
        shares = shares * (1 - shares / np.maximum(shares.sum(axis=1), 1)[:, None])
        return sums, np.maximum(shares, least / k)

    def _learn(
        self, kind: int, sums: FloatArray, curvature: FloatArray, noise: float
    ) -> None:
        explained = curvature + noise**2
        weight = (curvature / (explained + curvature**2 * self._variance[kind])) ** 2
        keep = 1 - 1 / _WINDOW
        beyond = float((weight * (sums**2 - explained)).sum())
        self._beyond[kind] = keep * self._beyond[kind] + beyond
        known = float((weight * curvature**2).sum())
        self._known[kind] = keep * self._known[kind] + known
        found = max(self._beyond[kind], 0.0) / max(self._known[kind], 1e-300)
        self._variance[kind] = min(max(found, 1e-12), self._first)
