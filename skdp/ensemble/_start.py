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
# Prior deviations of a mean of targets in [-1, 1], and of the share of a class of two.
_DEVIATION = {"squared": 0.5, "logistic": 0.3}


def start_of(terms: LeafTerms, released: Released, n_samples: int) -> FloatArray:
    """Raw predictions of everybody, from the sums of all residuals at 0."""
    k, noise = terms.n_outputs, released.deviation / n_samples
    mean = -released.value[0, :k] / n_samples
    mean = mean - mean.mean() if k > 1 else mean
    found = max(float((mean**2).mean()) - noise**2, 0.0)
    variance = _DEVIATION[terms.loss] ** 2 if k == 1 else found
    mean = mean * (variance / max(variance + noise**2, 1e-300))
    if terms.loss == "squared":
        return mean
    least = min(max(noise, 0.5 / n_samples), 1 / max(k, 2))
    if terms.loss == "logistic":
        share = np.clip(0.5 + mean, least, 1 - least)
        return np.asarray(np.log(share) - np.log1p(-share))
    shares = np.maximum(1 / k + mean, least)
    logs = np.log(shares / shares.sum())
    return np.asarray(logs - logs.mean())
