"""Predictions for ids, and rows of users from their own ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_count
from skdp.decomposition._ratings import (
    Factors,
    Ids,
    IntArray,
    Pattern,
    Ratings,
    Task,
    Threads,
    split_pairs,
)
from skdp.decomposition._user_rows_kernel import solve_block

# -------------------------------------- Recommender and LocalUsers: predictions for ids


@dataclass(frozen=True, eq=False)
class Recommender:
    """Known users and items with their factors.

    Predictions are clipped to `bounds`, if there are any; `rated` holds the rated
    pairs, so that recommended items are new to a user.
    """

    users: Ids
    items: Ids
    factors: Factors
    bounds: tuple[float, float] | None
    rated: Pattern | None

    def predict_pairs(self, users: Any, items: Any) -> np.ndarray:
        """Predicted ratings; for an unknown id they fall back to the means."""
        return self._predicted(self.users.codes(users), self.items.codes(items))

    def rows_of(self, users: Any) -> np.ndarray:
        """Factors of users, zeros for unknown users."""
        codes = self.users.codes(users)
        rows = self.factors.users[:, : self.factors.task.n_components]
        return np.where(codes[:, None] < 0, 0, rows[codes]).astype(rows.dtype)

    def best_items(self, user: Any, k: int, *, exclude_rated: bool) -> np.ndarray:
        """Ids of the items with the largest predictions, best first."""
        code = self.users.codes(_one(user))[0]
        scores = np.asarray(
            self.factors.predictions(
                np.full(len(self.items), code, dtype=np.int32),
                np.arange(len(self.items), dtype=np.int32),
            ),
            dtype=np.float64,
        )
        allowed = np.ones(len(self.items), dtype=bool)
        if check_bool("exclude_rated", exclude_rated):
            allowed[self._rated_by(code)] = False
        candidates = np.flatnonzero(allowed)
        k = check_count("k", k)
        best = candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
        return self.items.values[best]

    def _rated_by(self, code: int) -> IntArray:
        if self.rated is None or code < 0:
            return np.empty(0, dtype=np.int32)
        order = self.rated.by_user
        return order.others[order.starts[code] : order.starts[code + 1]]

    def _predicted(self, users: IntArray, items: IntArray) -> np.ndarray:
        predicted = self.factors.predictions(users, items)
        return predicted if self.bounds is None else np.clip(predicted, *self.bounds)


def _one(user: Any) -> Any:
    """A column with one id in it."""
    column = np.empty(1, dtype=object)
    column[0] = user
    return column


class LocalUsers:
    """Users who were folded into a fitted factorisation, from their ratings.

    Everything here depends directly on these users' raw ratings, as a prediction on a
    user's device does. With a private model it is **outside of the guarantee** if
    anybody but the user sees it, and it is never pickled.

    Parameters
    ----------
    recommender : Recommender
        Recommender for these users.
    is_private : bool
        Whether the model claims privacy.
    """

    def __init__(self, recommender: Recommender, is_private: bool) -> None:
        self._recommender, self._is_private = recommender, is_private

    def predict(self, X: Any) -> np.ndarray:
        """Predicted ratings of pairs, of shape (n_pairs,).

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            Ids of users and items. An unknown user gets the item's mean.
        """
        users, items = split_pairs(X)
        return self._recommender.predict_pairs(users, items)

    def transform(self, users: Any) -> np.ndarray:
        """Factors of users, of shape (n_users, n_components)."""
        return self._recommender.rows_of(users)

    def recommend(
        self, user: Any, k: int = 10, *, exclude_rated: bool = True
    ) -> np.ndarray:
        """Ids of the `k` items with the largest predictions, best first.

        Parameters
        ----------
        user : id
        k : int, default=10
        exclude_rated : bool, default=True
            Leave out the items that the user had rated in `fold_in`.
        """
        return self._recommender.best_items(user, k, exclude_rated=exclude_rated)

    def __reduce__(self) -> Any:
        if self._is_private:
            _refuse_pickling()
        return LocalUsers, (self._recommender, self._is_private)

    def __repr__(self) -> str:
        text = f"LocalUsers({len(self._recommender.users)} users)"
        if self._is_private:
            text += ": from their raw ratings, NOT covered by the model's guarantee"
        return text


def _refuse_pickling() -> NoReturn:
    raise TypeError(
        "Users folded into a private model must stay where they are: what is here "
        "depends on their raw ratings without noise. Pickle the model, and fold them "
        "in again."
    )


# ----------------------------------------------------- Rows of users from their ratings
# Each row is the solution of one small ridge regression on the rows of items.


# Number of ratings that the prior counts for, if items were released with noise.
_PRIVATE_PRIOR = 5.0
# Deviation of ratings from their predictions, over the width of the rating bounds.
_DEVIATION = 0.225
# Users solved by one call: many more calls than threads, few compared with users.
_BLOCK = 512


@dataclass(frozen=True)
class UserPrior:
    r"""Prior of a user's row, before any of the user's ratings is seen.

    A row x of a user with n ratings is penalised by
    ``sum_j (fixed[j] + per_rating * n) * (x[j] - centre[j])^2 / 2``, in units in which
    a rating's error e costs ``e^2 / 2``: a Gaussian prior of precision `fixed` in units
    of the inverse variance of one rating's error.

    `centre` has the mean user's factors and, with biases, bias; `fixed` has the numbers
    of ratings that the prior counts for, at least 0; both of shape (n_unknowns,).
    `per_rating` is `alpha` of a `Task`.
    """

    centre: FloatArray
    fixed: FloatArray
    per_rating: float = 0.0

    @classmethod
    def of_task(cls, task: Task) -> Self:
        """The penalty in the objective of a task, which a private task does not have.

        Private factorisers scale factors so that one prior suits factors and biases.
        """
        zeros = np.zeros(task.n_components + task.biases)
        return cls(zeros, zeros + _PRIVATE_PRIOR * (task.unit is not None), task.alpha)

    @classmethod
    def of_released(cls, factors: Factors) -> Self:
        """Prior of the next user from released rows of users: post-processing.

        It has the mean of the rows and the variance of each entry, over a rating's
        error.
        """
        task = factors.task
        low, high = task.declared_bounds
        rows = factors.users[:, : task.n_components + task.biases].astype(np.float64)
        error = (_DEVIATION * (high - low)) ** 2
        # An entry that is equal for all users leaves nothing to learn.
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

    A user's row depends only on the rows of items and on this user's ratings. A user
    without ratings gets the prior's centre. So do the directions that ratings leave
    open where nothing is penalised. Only the rows of items and the mean are used from
    `factors`; `ratings` may be of any users, known or new, over the same items. Without
    a `prior` the penalty of the task of `factors` is used. The result does not depend
    on the number of threads.

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
