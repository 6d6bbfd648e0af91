"""Where boosting starts: one released sum at raw predictions of 0."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from skdp._floats import FloatArray
from skdp.privacy._answers import Released
from skdp.queries._leaf_sums import LeafTerms

# At raw predictions of 0 no residual is longer, so that none is clipped.
START_TERMS: dict[str, Callable[[int], LeafTerms]] = {
    "logistic": lambda k: LeafTerms("logistic", 1, 0.5, 0.0),
    "softmax": lambda k: LeafTerms("softmax", k, math.sqrt(1 - 1 / k), 0.0),
    "squared": lambda k: LeafTerms("squared", 1, 1.0, 0.0),
}
# Prior deviation of a mean of targets in [-1, 1].
_MEAN_DEVIATION = 0.5


def start_of(terms: LeafTerms, released: Released, n_samples: int) -> FloatArray:
    """Raw predictions of everybody, from the sums of all residuals at 0."""
    mean = released.value[0, : terms.n_outputs] / n_samples
    noise = released.deviation / n_samples
    if terms.loss == "squared":
        return -mean * _MEAN_DEVIATION**2 / (_MEAN_DEVIATION**2 + noise**2)
    least = max(noise, 0.5 / n_samples)
    if terms.loss == "logistic":
        share = np.clip(0.5 - mean, least, max(1 - least, 0.5))
        share = np.where(least < 0.5, share, 0.5)
        return np.asarray(np.log(share) - np.log1p(-share))
    shares = np.maximum(1 / terms.n_outputs - mean, min(least, 1 / terms.n_outputs))
    logs = np.log(shares / shares.sum())
    return np.asarray(logs - logs.mean())
