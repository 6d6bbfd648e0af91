"""Hard thresholding: which features keep their weights, ties decided by their order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray


def largest(scores: FloatArray, k: int) -> NDArray[np.int64]:
    """Indices of the `k` largest scores in rising order; of equal ones the first."""
    if k >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: k - len(above)]
    return np.sort(np.concatenate([above, equal])).astype(np.int64)


def largest_rows(weights: FloatArray, k: int) -> NDArray[np.int64]:
    """Indices of the `k` rows of largest norm, in rising order."""
    return largest(np.sqrt(np.einsum("ij,ij->i", weights, weights)), k)


def keep_rows(weights: FloatArray, rows: NDArray[np.int64]) -> FloatArray:
    """`weights` with all rows but these set to 0."""
    kept = np.zeros_like(weights)
    kept[rows] = weights[rows]
    return kept
