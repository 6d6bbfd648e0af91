"""`Recommender`: predictions for ids, by factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from skdp._validation import check_bool, check_count
from skdp.decomposition._factors import Factors
from skdp.decomposition._ids import Ids, split_pairs
from skdp.decomposition._ratings import IntArray, Pattern


@dataclass(frozen=True, eq=False)
class Recommender:
    """Known users and items with their factors.

    Predictions are clipped to `bounds`, if there are any; `rated` says who rated what,
    to recommend what is new.
    """

    users: Ids
    items: Ids
    factors: Factors
    bounds: tuple[float, float] | None
    rated: Pattern | None

    def predict_pairs(self, users: Any, items: Any) -> np.ndarray:
        """Predicted ratings; an unknown id falls back to the means."""
        return self._predicted(self.users.codes(users), self.items.codes(items))

    def rows_of(self, users: Any) -> np.ndarray:
        """Factors of users, zeros for those not known."""
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
    """Users folded into a fitted factorisation by their own ratings.

    What is here depends on these ratings directly, as a prediction that a user's own
    device makes. With a private model it is **outside of the guarantee** if it is shown
    to anybody but the user, and it is never pickled.

    Parameters
    ----------
    recommender : Recommender
        Of these users.
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
            Ids of users and items. A user who is not here is nobody: the item's mean.
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
            Leave out what the user rated when he was folded in.
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
