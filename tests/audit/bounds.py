"""Empirical lower bounds on epsilon from two samples of attack scores."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta


def epsilon_lower_bound(scores_in, scores_out, delta, confidence=0.999):
    """Largest epsilon refuted by thresholding the scores, at the given confidence.

    An (epsilon, delta)-private release has ``P_in <= exp(epsilon) P_out + delta`` for
    every event. The threshold is chosen on the first half of the scores; the two
    probabilities are bounded by Clopper and Pearson on the second half, each with half
    of the error probability, so the bound is valid without any assumption.
    """
    half = len(scores_in) // 2
    candidates = np.quantile(scores_out[:half], np.linspace(0.5, 0.999, 60))

    def bound(threshold, scores_in, scores_out):
        error = (1 - confidence) / 2
        n_in, n_out = len(scores_in), len(scores_out)
        k_in, k_out = np.sum(scores_in > threshold), np.sum(scores_out > threshold)
        low = beta.ppf(error, k_in, n_in - k_in + 1) if k_in else 0.0
        high = beta.ppf(1 - error, k_out + 1, n_out - k_out) if k_out < n_out else 1.0
        return math.log(max(low - delta, 1e-300) / high)

    best = max(candidates, key=lambda t: bound(t, scores_in[:half], scores_out[:half]))
    return max(0.0, bound(best, scores_in[half:], scores_out[half:]))
