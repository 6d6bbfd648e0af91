"""Small ratings for tests: users of two tastes, made by a fixed seed."""

from __future__ import annotations

import numpy as np

N_USERS, N_ITEMS = 40, 25


def low_rank_ratings(n_ratings=600, noise=0.3, seed=0):
    """Pairs of shape (n_ratings, 2), each once, and ratings in [1, 5]."""
    rng = np.random.RandomState(seed)
    every = np.array([(u, i) for u in range(N_USERS) for i in range(N_ITEMS)])
    X = every[rng.permutation(len(every))[:n_ratings]]
    taste = rng.normal(size=(N_USERS, 2)) @ rng.normal(size=(2, N_ITEMS))
    bias = rng.normal(size=N_USERS)[:, None] + rng.normal(size=N_ITEMS)
    y = 3 + 0.7 * taste[X[:, 0], X[:, 1]] + 0.3 * bias[X[:, 0], X[:, 1]]
    return X, np.clip(y + noise * rng.normal(size=n_ratings), 1, 5)
