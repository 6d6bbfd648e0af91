"""`Factors`: a factorisation, biases among its columns, in one flat vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.decomposition._ratings import IntArray
from skdp.decomposition._task import Task

# Rows are padded with zeros to a multiple of this many numbers: a register of single
# precision or two of double, which is what the compiled loops take at a time.
_ROW = 8
# Pairs whose rows are copied at a time.
_TOGETHER = 1 << 14


@dataclass(frozen=True)
class Factors:
    r"""A prediction of each rating: ``mean + users[u] @ items[i]``.

    A row has the k factors first. With biases, column k is the user's bias (1 in rows
    of items) and column k + 1 the item's (1 in rows of users), so that one product of
    rows is everything but the mean. The other columns are zeros.

    `flat` has the rows of all users, then of all items, each of the same width: the
    unknowns of the solvers, among constants. `mean` is that of the ratings, or what a
    solver puts in its place; 0.0 without biases.
    """

    flat: NDArray[Any]
    mean: float
    task: Task

    @classmethod
    def zeros(cls, task: Task, mean: float = 0.0, dtype: Any = np.float64) -> Self:
        """No biases and no factors: predicts the mean."""
        size = (task.n_users + task.n_items) * width(task)
        factors = cls(np.zeros(size, dtype), mean, task)
        if task.biases:
            factors.items[:, task.n_components] = 1
            factors.users[:, task.n_components + 1] = 1
        return factors

    @property
    def users(self) -> NDArray[Any]:
        """Rows of users, of shape (n_users, width); a view."""
        size = self.task.n_users * width(self.task)
        return self.flat[:size].reshape(self.task.n_users, -1)

    @property
    def items(self) -> NDArray[Any]:
        """Rows of items, of shape (n_items, width); a view."""
        size = self.task.n_users * width(self.task)
        return self.flat[size:].reshape(self.task.n_items, -1)

    def predictions(self, users: IntArray, items: IntArray) -> NDArray[Any]:
        """Predicted ratings of pairs of codes, of shape (n_pairs,).

        Code -1 is an id that is not known: no factors, no bias.
        """
        predicted = np.empty(len(users), dtype=self.flat.dtype)
        of_users = _with_nobody(self.users, self.task, self.task.n_components + 1)
        of_items = _with_nobody(self.items, self.task, self.task.n_components)
        for start in range(0, len(users), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            predicted[part] = np.einsum(
                "ij,ij->i", of_users[users[part]], of_items[items[part]]
            )
        predicted += self.mean
        return predicted

    def copy(self) -> Self:
        """Factors with numbers of their own."""
        return replace(self, flat=self.flat.copy())


def _with_nobody(rows: NDArray[Any], task: Task, constant: int) -> NDArray[Any]:
    """The rows and, at the end, where -1 points to, that of an id nobody knows."""
    nobody = np.zeros((1, rows.shape[1]), dtype=rows.dtype)
    if task.biases:
        nobody[0, constant] = 1
    return np.concatenate([rows, nobody])


def width(task: Task) -> int:
    """Numbers in a row: factors, biases and padding."""
    return -(-max(1, task.n_components + 2 * task.biases) // _ROW) * _ROW
