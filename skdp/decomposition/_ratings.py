"""Ratings as integer codes: who rated what (`Pattern`), and the values (`Ratings`).

They are apart because with ``privacy_unit="rating_value"`` the pattern is public and
the values are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


@dataclass(frozen=True)
class Order:
    """The pairs sorted by one of their ids, the others' order within kept.

    Id j has the places ``starts[j]`` to ``starts[j + 1]`` of `pairs`, int32 positions
    of the pairs, and of `others`, the int32 other id of each of these pairs. `starts`
    are int64, one more than there are ids.
    """

    starts: NDArray[np.int64]
    pairs: IntArray
    others: IntArray

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of pairs of each id, of shape (n_ids,)."""
        return np.diff(self.starts)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Who rated what; each pair once.

    `users` and `items` are int32 codes from 0, of shape (n_ratings,); `n_users` and
    `n_items` count the known ids, with or without a rating.
    """

    users: IntArray
    items: IntArray
    n_users: int
    n_items: int

    def __len__(self) -> int:
        return len(self.users)

    @cached_property
    def by_user(self) -> Order:
        """The pairs user by user, each user's in the order of items."""
        return _order(self.users, self.items, self.n_users)

    @cached_property
    def by_item(self) -> Order:
        """The pairs item by item, each item's in the order of users."""
        return _order(self.items, self.users, self.n_items)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Pairs with their values.

    `values`, float32 or float64 of shape (n_ratings,), are in units of the ratings.
    Their dtype is that of all computation.
    """

    pattern: Pattern
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)


def _order(ids: IntArray, others: IntArray, n_ids: int) -> Order:
    pairs = np.lexsort((others, ids)).astype(np.int32)
    starts = np.zeros(n_ids + 1, dtype=np.int64)
    np.cumsum(np.bincount(ids, minlength=n_ids), out=starts[1:])
    return Order(starts, pairs, np.ascontiguousarray(others[pairs]))
