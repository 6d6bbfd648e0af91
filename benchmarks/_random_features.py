"""Public features of rows of declared columns, before a linear model.

Random Fourier features, from a public seed, and products of pairs of numbers; both
follow from a row and declarations alone, and cost nothing.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class Fourier(TransformerMixin, BaseEstimator):
    """Rows, and cosines and sines of random directions: of norm at most sqrt(2).

    Parameters
    ----------
    n_directions : int
    deviation : float
        Of a direction's entries, per unit of the rows, which have norm at most 1.
    """

    def __init__(self, n_directions: int = 256, deviation: float = 4.0) -> None:
        self.n_directions = n_directions
        self.deviation = deviation

    def fit(self, X: Any, y: Any = None) -> Self:
        """Look at the number of columns only."""
        self.n_features_in_ = X.shape[1]
        shape = X.shape[1], self.n_directions
        self.directions_ = self.deviation * np.random.default_rng(0).normal(size=shape)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows of shape (n_rows, n_columns + 2 * n_directions)."""
        rows = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        turned = rows @ self.directions_
        waves = np.hstack([np.cos(turned), np.sin(turned)])
        return np.hstack([rows, waves / math.sqrt(self.n_directions)])


class Pairs(TransformerMixin, BaseEstimator):
    """Rows, and products of the columns that are numbers: of norm at most sqrt(2).

    Parameters
    ----------
    numbers : list of int
        Places of the numbers among the encoded columns.
    """

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def fit(self, X: Any, y: Any = None) -> Self:
        """Look at nothing."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows of shape (n_rows, n_columns + n_pairs)."""
        rows = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        pairs = list(combinations(self.numbers, 2))
        if not pairs:
            return rows
        left, right = np.transpose(pairs)
        # Squares of products of entries add up to at most half of ||x||^4 = 1.
        return np.hstack([rows, math.sqrt(2) * rows[:, left] * rows[:, right]])
