"""At most m ratings of each user, by a rule that looks at nobody else.

A user's items get pseudorandom keys and those with the smallest are kept. The keys
depend on a public seed, on the item and on the set of his own items, neither on his
code, which shifts when another user appears or disappears, nor on the values. So a
change of one user's ratings changes what is kept of him only. Mixing in his own items
spares the catalogue: one order for all users would never keep some of the items of
those who rated much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp.decomposition._ratings import Order, Pattern, Ratings

_KeyArray = NDArray[np.uint64]


def kept_ratings(ratings: Ratings, max_ratings: int | None, seed: int) -> Ratings:
    """The ratings that are used, user by user, each user's in the order of items.

    At most `max_ratings` of a user, whose pairs are each there once; None: all. `seed`
    is that of the keys; no privacy rests on it.
    """
    order = ratings.pattern.by_user
    starts, pairs, items = order.starts, order.pairs, order.others
    if max_ratings is not None and (order.counts > max_ratings).any():
        stays = _smallest_keys(order, np.uint64(seed) << np.uint64(32), max_ratings)
        pairs, items = pairs[stays], items[stays]
        starts = np.concatenate([[0], np.cumsum(stays)])[starts].astype(np.int64)
    old = ratings.pattern
    pattern = Pattern(old.users[pairs], items, old.n_users, old.n_items)
    places = np.arange(len(pairs), dtype=np.int32)
    pattern.__dict__["by_user"] = Order(starts, places, items)  # it is sorted already
    return Ratings(pattern, ratings.values[pairs].astype(np.float64))


def _smallest_keys(order: Order, seed: np.uint64, n_kept: int) -> NDArray[np.bool_]:
    """Which pairs, user by user, are among the user's `n_kept` smallest keys."""
    users = np.repeat(np.arange(len(order.counts)), order.counts)
    marks = _mixed(order.others.astype(np.uint64) ^ seed)
    own = np.concatenate([np.zeros(1, np.uint64), np.cumsum(marks)])  # modulo 2^64
    sums = own[order.starts[1:]] - own[order.starts[:-1]]
    keys = _mixed(marks ^ _mixed(sums)[users])
    by_key = np.lexsort((keys, users))
    rank = np.empty(len(users), dtype=np.int64)
    rank[by_key] = np.arange(len(users)) - np.repeat(order.starts[:-1], order.counts)
    return rank < n_kept


def _mixed(values: _KeyArray) -> _KeyArray:
    """Vigna's splitmix64, one step."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
