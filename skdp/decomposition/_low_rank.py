"""`LowRank`: a matrix of predictions grown factor by factor, cut to what is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Pattern
from skdp.decomposition._task import Task

FloatArray = NDArray[np.float64]

# Pairs whose predictions are computed together: bounds the memory.
_BLOCK = 2**16


@dataclass(frozen=True)
class LowRank:
    """Predictions ``users @ items.T`` of all pairs of ids.

    Parameters
    ----------
    users, items : ndarrays of shape (n_users, r) and (n_items, r)
    """

    users: FloatArray
    items: FloatArray

    def plus(self, users: FloatArray, items: FloatArray) -> LowRank:
        """The sum with another product."""
        return LowRank(np.hstack([self.users, users]), np.hstack([self.items, items]))

    def predict(self, pattern: Pattern) -> FloatArray:
        """Predictions of the pairs of a pattern."""
        out = np.empty(len(pattern))
        for start in range(0, len(pattern), _BLOCK):
            part = slice(start, start + _BLOCK)
            users, items = pattern.users[part], pattern.items[part]
            out[part] = np.einsum("ij,ij->i", self.users[users], self.items[items])
        return out

    def principal(
        self, pattern: Pattern, k: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The best k factors of all but the means of rows and columns.

        Rows and columns are weighted by the square roots of their numbers of ratings.

        Returns
        -------
        users, items : ndarrays of shape (n_users, k) and (n_items, k)
            Singular vectors, the weights taken off; zeros beyond the rank.
        values : ndarray of shape (k,)
            ``users * values @ items.T`` is the approximation.
        """
        halves = []
        for rows, order in (
            (self.users, pattern.by_user),
            (self.items, pattern.by_item),
        ):
            weights = _weights(order.counts)
            centred = rows - _mean(rows, weights)
            roots = np.sqrt(weights)[:, None]
            basis, turn = np.linalg.qr(centred * roots)
            halves.append((basis / roots, turn))
        (left, first), (right, second) = halves
        u, values, v = np.linalg.svd(first @ second.T)
        users, items = np.zeros((len(left), k)), np.zeros((len(right), k))
        cut = min(k, *u.shape, *v.shape)
        users[:, :cut], items[:, :cut] = left @ u[:, :cut], right @ v[:cut].T
        kept = np.zeros(k)
        kept[:cut] = values[:cut]
        return users, items, kept

    def factors(self, pattern: Pattern, task: Task) -> Factors:
        """The mean, the biases and the best factors of what is left."""
        users, items, values = self.principal(pattern, task.n_components)
        roots = np.sqrt(values)
        mean_user = _mean(self.users, _weights(pattern.by_user.counts))
        mean_item = _mean(self.items, _weights(pattern.by_item.counts))
        factors = Factors.zeros(task, float(mean_user @ mean_item))
        factors.users[:, : task.n_components] = users * roots
        factors.items[:, : task.n_components] = items * roots
        k = task.n_components
        factors.users[:, k] = (self.users - mean_user) @ mean_item
        factors.items[:, k + 1] = (self.items - mean_item) @ mean_user
        return factors


def _weights(counts: NDArray[np.int64]) -> FloatArray:
    """Numbers of ratings, and next to none for ids without one."""
    return np.maximum(counts, 0.1)


def _mean(rows: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(np.average(rows, axis=0, weights=weights))
