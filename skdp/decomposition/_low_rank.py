"""`LowRank`: a matrix of predictions grown part by part, cut to what is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Order, Pattern
from skdp.decomposition._task import Task

# Pairs whose predictions are computed together: bounds the memory.
_BLOCK = 2**16
# What an id without a rating counts as, in ratings.
_UNRATED = 0.1


@dataclass(frozen=True)
class LowRank:
    """Predictions ``users @ items.T`` of all pairs of ids.

    Of shape (n_users, r) and (n_items, r).
    """

    users: FloatArray
    items: FloatArray

    def plus(self, other: LowRank) -> LowRank:
        """The sum of both."""
        users = np.hstack([self.users, other.users])
        return LowRank(users, np.hstack([self.items, other.items]))

    def predict(self, pattern: Pattern) -> FloatArray:
        """Predictions of the pairs of a pattern."""
        out = np.empty(len(pattern))
        for start in range(0, len(pattern), _BLOCK):
            part = slice(start, start + _BLOCK)
            users, items = pattern.users[part], pattern.items[part]
            out[part] = np.einsum("ij,ij->i", self.users[users], self.items[items])
        return out

    def centred(self, pattern: Pattern) -> LowRank:
        """Without the mean and the biases: rows less the mean rating's row."""
        users = self.users - mean_row(self.users, pattern.by_user)
        return LowRank(users, self.items - mean_row(self.items, pattern.by_item))

    def principal(self, pattern: Pattern, k: int) -> LowRank:
        """The best k factors, rows and columns weighted by the roots of their counts.

        The factors of users and of items share each singular value equally. Columns
        beyond the rank are zeros.
        """
        left, first = _weighted_basis(self.users, pattern.by_user)
        right, second = _weighted_basis(self.items, pattern.by_item)
        u, values, v = np.linalg.svd(first @ second.T, full_matrices=False)
        users, items = np.zeros((len(left), k)), np.zeros((len(right), k))
        cut = min(k, len(values))
        roots = np.sqrt(values[:cut])
        users[:, :cut] = left @ u[:, :cut] * roots
        items[:, :cut] = right @ v[:cut].T * roots
        return LowRank(users, items)

    def factors(self, pattern: Pattern, task: Task) -> Factors:
        """The mean and the biases, if there are to be any, and the best factors."""
        k = task.n_components
        if not task.biases:
            return _with_factors(Factors.zeros(task), self.principal(pattern, k))
        user = mean_row(self.users, pattern.by_user)
        item = mean_row(self.items, pattern.by_item)
        factors = Factors.zeros(task, float(user @ item))
        factors.users[:, k] = (self.users - user) @ item
        factors.items[:, k + 1] = (self.items - item) @ user
        return _with_factors(factors, self.centred(pattern).principal(pattern, k))


def mean_row(rows: FloatArray, order: Order) -> FloatArray:
    """The mean of rows over ratings."""
    return np.asarray(np.average(rows, axis=0, weights=_weights(order)))


def _with_factors(factors: Factors, rows: LowRank) -> Factors:
    k = factors.task.n_components
    factors.users[:, :k], factors.items[:, :k] = rows.users, rows.items
    return factors


def _weighted_basis(rows: FloatArray, order: Order) -> tuple[FloatArray, FloatArray]:
    roots = np.sqrt(_weights(order))[:, None]
    basis, turn = np.linalg.qr(rows * roots)
    return basis / roots, turn


def _weights(order: Order) -> FloatArray:
    return np.maximum(order.counts, _UNRATED)
