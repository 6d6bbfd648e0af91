"""A noise source that does not listen: releases that do not depend on the data."""

from __future__ import annotations

import numpy as np


class DeafNoise:
    """Answers every query with the same numbers, whatever the query is.

    What a solver makes of two data sets with it must be equal bit for bit: otherwise
    something of the data reaches the output beside the noisy releases.
    """

    is_private = True

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        return sensitivity * noise_multiplier * self._rng.normal(size=query.shape)

    def spherical(self, query, *, sensitivity, epsilon, fine=False):
        return sensitivity / epsilon * self._rng.normal(size=query.shape)

    def top_k(self, scores, k, *, sensitivity, epsilon):
        return self._rng.permutation(len(scores))[:k]

    def signed_choice(self, ranking, *, sensitivity, epsilon):
        n_candidates = len(ranking.scores)
        return int(self._rng.integers(n_candidates)), int(self._rng.choice([-1, 1]))
