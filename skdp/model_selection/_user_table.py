"""Rows of users as they are scored: each user once, with the mean over the own rows.

What an estimator is asked about are arrays of one length, in which a user has one
place: what others have, and how many rows, moves nobody's row to another place, nor to
an array of another length, where its prediction may round otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp._rows import rows_at
from skdp._users import Users
from skdp.model_selection._scoring_base import ROWS_ASKED


@dataclass(frozen=True, eq=False)
class UserTable:
    """A raw table whose records are users.

    Parameters
    ----------
    X : array-like, CSR or data frame of n_rows rows
        Private.
    y : array-like of shape (n_rows,)
        Private.
    users : Users
        Whose these rows are. Private, but for their number.
    """

    is_of_users = True

    X: Any
    y: Any
    users: Users

    @property
    def n_samples(self) -> int:
        """Public."""
        return self.users.n_users

    @property
    def largest_block(self) -> int:
        """Public."""
        return self.n_samples

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of a fitted model on these users. Private."""
        total, y = np.zeros(scorer.size), np.asarray(self.y)
        for rows, shares in self._arrays():
            some = rows_at(self.X, rows)
            if hasattr(some, "iloc"):  # no label twice
                some = some.reset_index(drop=True)
            total += scorer.statistic(model, some, y[rows], shares)
        return total

    def _arrays(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows of one block of users after the other, one row of each at a time.

        A place whose user has no such row has another user's, which counts nothing.
        """
        n_users, codes = self.n_samples, self.users.codes
        shares = self.users.shares
        own = np.flatnonzero(shares)
        own = own[np.argsort(codes[own], kind="stable")]
        counts = np.bincount(codes[own], minlength=n_users)
        first = np.cumsum(counts) - counts
        size = min(n_users, ROWS_ASKED)
        for start in range(0, n_users, size):
            block = slice(start, start + size)
            for k in range(counts[block].max()):
                has = np.flatnonzero(counts[block] > k)
                rows = own[first[block][has] + k]
                places, weights = np.full(size, rows[0]), np.zeros(size)
                places[has], weights[has] = rows, shares[rows]
                yield places, weights
