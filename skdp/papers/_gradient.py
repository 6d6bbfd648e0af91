"""`Objective`: value and gradient of a task's objective, or of a subset's part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.decomposition._factors import width
from skdp.decomposition._ratings import IntArray, Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads

# Parts of a pass. Their number is fixed, for the sum over them is part of the value.
_N_PARTS = 8
_REGISTER = 32  # bytes


@dataclass(frozen=True)
class _Side:
    """Ratings sorted by one of their ids."""

    starts: NDArray[np.int64]
    others: IntArray
    bounds: list[int]  # of parts with about the same number of ratings

    @classmethod
    def of(cls, ids: IntArray, others: IntArray, n_ids: int) -> _Side:
        starts = np.zeros(n_ids + 1, dtype=np.int64)
        np.cumsum(np.bincount(ids, minlength=n_ids), out=starts[1:])
        # A row costs something too, as much as a few ratings.
        cost = starts + 4 * np.arange(n_ids + 1)
        shares = np.linspace(0, cost[-1], _N_PARTS + 1)[1:-1]
        inner = np.searchsorted(cost, shares).tolist()
        return cls(starts, np.ascontiguousarray(others), [0, *inner, n_ids])

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        ends = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        return [(j, first, last) for j, (first, last) in enumerate(ends)]


class Objective:
    r"""The objective of a `Task`, or the part of it that a subset of ratings makes.

    The objectives of the subsets of a partition add up to that of all ratings: each
    is divided by the number of all ratings, and has the penalty of its own.

    `mean` is subtracted from the ratings; `pairs` are positions of the subset's pairs,
    None for all.
    """

    def __init__(
        self,
        ratings: Ratings,
        task: Task,
        mean: float,
        pairs: NDArray[Any] | None = None,
    ) -> None:
        pattern, dtype = ratings.pattern, ratings.values.dtype
        order = pattern.by_user.pairs
        if pairs is not None:
            chosen = np.zeros(len(ratings), dtype=bool)
            chosen[pairs] = True
            order = order[chosen[order]]
        users, items = pattern.users[order], pattern.items[order]
        by_item = np.argsort(items, kind="stable")  # keeps each item's users in order
        self._users = _Side.of(users, items, pattern.n_users)
        self._items = _Side.of(items[by_item], users[by_item], pattern.n_items)
        self._places = np.empty(len(order), dtype=np.int32)
        self._places[by_item] = np.arange(len(order), dtype=np.int32)
        self._targets = (ratings.values[order] - mean).astype(dtype)
        self._residuals = np.empty(len(order), dtype=dtype)
        self._task = task
        self._scale = 1.0 / max(len(ratings), 1)
        self._registers = (0,) * (width(task) * dtype.itemsize // _REGISTER)

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def squares(self) -> float:
        """Sum of the squared residuals at the last `value_and_gradient`."""
        return float(np.square(self._residuals, dtype=np.float64).sum())

    def value_and_gradient(
        self, flat: NDArray[Any], gradient: NDArray[Any], threads: Threads
    ) -> float:
        """The value; `gradient` is overwritten.

        The gradient is 0 in constant columns and in the padding. Both arrays are as in
        `Factors`, and the result does not depend on the number of threads.
        """
        from skdp.papers._gradient_kernel import first_pass, second_pass

        task = self._task
        cut = task.n_users * width(task)
        p, q = (half.reshape(-1, width(task)) for half in (flat[:cut], flat[cut:]))
        g_p = gradient[:cut].reshape(p.shape)
        g_q = gradient[cut:].reshape(q.shape)
        users, items, residuals = self._users, self._items, self._residuals
        k, parts = task.n_components, np.zeros((2, _N_PARTS))

        def first(part: int, start: int, stop: int) -> None:
            parts[0, part] = first_pass(
                self._registers, p, q, g_p, users.starts, users.others, self._targets,
                self._places, residuals, start, stop, self._scale, task.alpha,
                k + 1 if task.biases else -1,
            )  # fmt: skip

        def second(part: int, start: int, stop: int) -> None:
            parts[1, part] = second_pass(
                self._registers, q, p, g_q, items.starts, items.others, residuals,
                start, stop, self._scale, task.alpha, k if task.biases else -1,
            )  # fmt: skip

        threads.each(first, users.parts)
        threads.each(second, items.parts)
        return float(parts.sum()) / 2
