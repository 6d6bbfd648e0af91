"""The two halves of a factorisation: ridge regressions given the other half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Order, Ratings
from skdp.decomposition._task import Task


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of users or of items as unknowns, those of the other side as the design.

    `order` is by this side's ids and `values` are the ratings in this order, less the
    mean. `rows` and `others` are views of the same `Factors`, `free` the columns that
    are unknowns here, and `fixed` those that are the other side's: with biases its own,
    last of all.
    """

    order: Order
    values: NDArray[Any]
    rows: NDArray[Any]
    others: NDArray[Any]
    free: list[int]
    fixed: list[int]

    def design(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """What the unknowns are multiplied by, and what is added to the product."""
        design = np.ascontiguousarray(self.others[:, self.free])
        return design, self.others[:, self.fixed].sum(axis=1)


def centred(ratings: Ratings, task: Task) -> Factors:
    """No factors yet, and the mean of the ratings where the task has biases."""
    mean = 0.0
    if task.biases and len(ratings):
        mean = float(ratings.values.mean(dtype=np.float64))
    return Factors.zeros(task, mean, ratings.values.dtype)


def sides(ratings: Ratings, factors: Factors) -> tuple[Side, Side]:
    """Users and items as unknowns."""
    k, pattern = factors.task.n_components, ratings.pattern
    values = ratings.values - ratings.values.dtype.type(factors.mean)
    columns, users, items = [*range(k)], factors.users, factors.items
    of_user, of_item = ([k], [k + 1]) if factors.task.biases else ([], [])
    order, other = pattern.by_user, pattern.by_item
    return (
        Side(order, values[order.pairs], users, items, columns + of_user, of_item),
        Side(other, values[other.pairs], items, users, columns + of_item, of_user),
    )


def spread(ratings: Ratings) -> float:
    """Standard deviation of the ratings; 1.0 if they are all the same."""
    value = float(ratings.values.std(dtype=np.float64)) if len(ratings) else 0.0
    return value if value > 0 else 1.0
