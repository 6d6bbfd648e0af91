"""Splitters for ratings: rows are pairs of a user and an item."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from skdp._validation import check_count

IntArray = NDArray[np.int64]


class _Folds(BaseCrossValidator):
    """Splits by a fold of each row, drawn without regard to ratings."""

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of splits; the arguments are ignored."""
        return check_count("n_splits", self.n_splits, low=2)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Positions of the rows to fit on and to score on, split by split.

        Parameters
        ----------
        X : array-like or data frame of shape (n_ratings, 2)
            Ids of users and of items.
        y, groups : ignored
        """
        # pandas is needed for ids only, and slow to import.
        from skdp.decomposition._ids import found_ids, split_pairs

        n_splits = self.get_n_splits()
        users, codes = found_ids(split_pairs(X)[0], "users")
        fold = self._folds(codes, len(users), n_splits)
        for k in range(n_splits):
            is_test = fold == k
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)

    @abstractmethod
    def _folds(self, users: Any, n_users: int, n_splits: int) -> IntArray:
        """The fold of each row."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, "
            f"random_state={self.random_state})"
        )


class RatingKFold(_Folds):
    """Leaves out ratings: every user's are dealt out to all folds, at random.

    So a user with two ratings or more has some to fit on in every split: the question
    is what he thinks of other items.

    Parameters
    ----------
    n_splits : int of at least 2, default=5
    random_state : int, RandomState or None, default=None
        Of the split, which is public. It depends on who rated what and not on ratings,
        so it goes with ``privacy_unit="rating_value"``.

    Examples
    --------
    >>> from skdp.model_selection import RatingKFold
    >>> X = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 2]]
    >>> [len(test) for _, test in RatingKFold(2, random_state=0).split(X)]
    [2, 2]
    """

    def _folds(self, users: Any, n_users: int, n_splits: int) -> IntArray:
        rng = check_random_state(self.random_state)
        order = np.lexsort((rng.permutation(len(users)), users))
        fold = np.empty(len(users), dtype=np.int64)
        # Dealt out in turn, as cards are, from one user to the next.
        fold[order] = np.arange(len(users)) % n_splits
        return fold


class UserKFold(_Folds):
    """Leaves out users: all ratings of one are in one fold.

    So those to score on are of users of whom nothing is known: the question is what a
    model does for newcomers.

    With one user more or less, others change folds. So fits on several folds do not add
    up under ``privacy_unit="user"``: split public data only.

    Parameters
    ----------
    n_splits : int of at least 2, default=5
    random_state : int, RandomState or None, default=None
        Of the split, which is public.

    Examples
    --------
    >>> from skdp.model_selection import UserKFold
    >>> X = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 2]]
    >>> sorted(test.tolist() for _, test in UserKFold(2, random_state=0).split(X))
    [[0, 1], [2, 3]]
    """

    def _folds(self, users: Any, n_users: int, n_splits: int) -> IntArray:
        if n_users < n_splits:
            raise ValueError(
                "The 'n_splits' parameter must be at most the number of users. Got "
                f"{n_splits} for fewer. Use RatingKFold."
            )
        order = check_random_state(self.random_state).permutation(n_users)
        return np.asarray((order % n_splits)[users], dtype=np.int64)
