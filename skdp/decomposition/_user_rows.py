"""Rows of users from their own ratings and the rows of items: one small ridge each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.decomposition._user_rows_kernel import solve_block

# Ratings that the prior counts for where items were released with noise.
_PRIVATE_PRIOR = 5.0
# Of ratings around their predictions, in units of the width of the rating bounds.
_DEVIATION = 0.225
# Users solved by one call: many more calls than threads, few compared with users.
_BLOCK = 512


@dataclass(frozen=True)
class UserPrior:
    r"""What is supposed of a user before any rating of his is seen.

    A row x of a user with n ratings is penalised by
    ``sum_j (fixed[j] + per_rating * n) * (x[j] - centre[j])^2 / 2``, in units in which
    a rating's error e costs ``e^2 / 2``: a Gaussian prior of precision `fixed` in units
    of the inverse variance of one rating's error.

    `centre` has the mean user's factors and, with biases, his bias; `fixed` numbers of
    ratings that the prior counts for, not below 0; both of shape (n_unknowns,).
    `per_rating` is `alpha` of a `Task`.
    """

    centre: FloatArray
    fixed: FloatArray
    per_rating: float = 0.0

    @classmethod
    def of_task(cls, task: Task) -> Self:
        """The penalty in the objective of a task, which a private one has not.

        Private factorisers scale factors so that one prior suits them and the biases.
        """
        zeros = np.zeros(task.n_components + task.biases)
        return cls(zeros, zeros + _PRIVATE_PRIOR * (task.unit is not None), task.alpha)

    @classmethod
    def of_released(cls, factors: Factors) -> Self:
        """What released rows of users say of the next one: post-processing.

        Their mean and the variance of each entry, beside that of a rating's error.
        """
        task = factors.task
        low, high = task.declared_bounds
        rows = factors.users[:, : task.n_components + task.biases].astype(np.float64)
        error = (_DEVIATION * (high - low)) ** 2
        # An entry that is the same for all leaves nothing to be learned of it.
        return cls(
            rows.mean(axis=0), error / np.maximum(rows.var(axis=0), 1e-9 * error)
        )


def solve_users(
    factors: Factors,
    ratings: Ratings,
    prior: UserPrior | None = None,
    threads: Threads | None = None,
) -> NDArray[Any]:
    """Rows that minimise each user's own penalised squared error, items held fixed.

    A user's row depends on the rows of items and on his own ratings only. One without
    ratings gets the prior's centre, and so does what his ratings leave open where
    nothing is penalised.

    Of `factors` the rows of items and the mean are used; `ratings` may be of any users,
    the ones of `factors` or new ones, over the same items. Without a `prior` it is the
    penalty of the task of `factors`. The result, of the dtype of `factors`, does not
    depend on the number of threads.

    Returns
    -------
    ndarray of shape (ratings.pattern.n_users, width), of the dtype of `factors`
    """
    task = factors.task
    prior = UserPrior.of_task(task) if prior is None else prior
    n_unknowns = task.n_components + task.biases
    n_users = ratings.pattern.n_users
    items = np.ascontiguousarray(factors.items[:, :n_unknowns], dtype=np.float64)
    known = np.full(len(items), float(factors.mean))
    rows = np.zeros((n_users, factors.items.shape[1]), factors.flat.dtype)
    if task.biases:
        known += factors.items[:, n_unknowns]
        rows[:, n_unknowns] = 1
    order = ratings.pattern.by_user
    values = ratings.values[order.pairs].astype(np.float64, copy=False)
    arguments = (
        order.starts, order.others, values, items, known,
        prior.centre, prior.fixed, prior.per_rating, rows,
    )  # fmt: skip
    firsts = range(0, n_users, _BLOCK)
    blocks = [(u, min(u + _BLOCK, n_users), *arguments) for u in firsts]
    (threads or Threads()).each(solve_block, blocks)
    return rows
