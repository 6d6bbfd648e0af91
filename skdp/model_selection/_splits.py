"""Splitters for ratings: rows are pairs of a user and an item."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from skdp._arrays import IntArray
from skdp._checks import check_count
from skdp._users import number_of

if TYPE_CHECKING:
    from skdp.decomposition._ratings import Ids


class _Folds(BaseCrossValidator):
    """Splits by folds of rows that are drawn without looking at ratings."""

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
        # pandas is needed only for ids, and slow to import.
        from skdp.decomposition._ratings import found_ids

        n_splits = self.get_n_splits()
        users, codes = found_ids(self._ids(X, groups), "users")
        fold = self._folds(users, codes.astype(np.int64), n_splits)
        for k in range(n_splits):
            is_test = fold == k
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def _ids(self, X: Any, groups: Any) -> Any:
        """The id of the user of each row."""
        from skdp.decomposition._ratings import split_pairs

        return split_pairs(X)[0]

    @abstractmethod
    def _folds(self, users: Ids, codes: IntArray, n_splits: int) -> IntArray:
        """The fold of each row, from the codes of its user."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, "
            f"random_state={self.random_state})"
        )


class RatingKFold(_Folds):
    """K folds of ratings, which divide each user's ratings at random.

    A user with two ratings or more has some in the training part of every split: the
    score is about the user's opinion of other items.

    Parameters
    ----------
    n_splits : int of at least 2, default=5
    random_state : int, RandomState or None, default=None
        Seed of the split, which is public. The split depends on the pairs of users and
        items and not on ratings, so it suits ``privacy_unit="rating_value"``.

    Examples
    --------
    >>> from skdp.model_selection import RatingKFold
    >>> X = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 2]]
    >>> [len(test) for _, test in RatingKFold(2, random_state=0).split(X)]
    [2, 2]
    """

    def _folds(self, users: Ids, codes: IntArray, n_splits: int) -> IntArray:
        rng = check_random_state(self.random_state)
        order = np.lexsort((rng.permutation(len(codes)), codes))
        fold = np.empty(len(codes), dtype=np.int64)
        # Dealt in turn, like cards, from one user to the next.
        fold[order] = np.arange(len(codes)) % n_splits
        return fold


class UserKFold(_Folds):
    """K folds of users, which keep all rows or ratings of a user in one fold.

    For tables pass ids as `groups`; without them rows are pairs of a user and an item.
    The model knows nothing of the users in the test part: the score is about new users.

    A user's fold follows from the user's id and `random_state` alone, so that other
    users cannot change it. Therefore fits on several folds also compose under
    ``privacy_unit="user"``, which holds for no other folds. An id has the same fold in
    every array: 5 and 5.0 are in one fold. Folds are equally large only on average;
    with few users a fold may be empty.

    Parameters
    ----------
    n_splits : int of at least 2, default=5
    random_state : int, RandomState or None, default=None
        Seed of the split, which is public.

    Examples
    --------
    >>> from skdp.model_selection import UserKFold
    >>> X = [[user, item] for user in range(60) for item in range(2)]
    >>> folds = UserKFold(2, random_state=0).split(X)
    >>> [{X[row][0] for row in train} & {X[row][0] for row in test}
    ...  for train, test in folds]
    [set(), set()]
    """

    # As in scikit-learn's splitters of groups, to which its tools pass groups on.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def _ids(self, X: Any, groups: Any) -> Any:
        return super()._ids(X, groups) if groups is None else groups

    def _folds(self, users: Ids, codes: IntArray, n_splits: int) -> IntArray:
        seed = str(check_random_state(self.random_state).randint(2**31))
        drawn = [number_of(f"{seed} {user}") % n_splits for user in users.texts()]
        return np.array(drawn, dtype=np.int64)[codes]
