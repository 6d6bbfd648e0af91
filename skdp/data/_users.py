"""Rows that belong to users, who count as one record each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse, vstack

from skdp._floats import FloatArray, IntArray
from skdp.data._memory import MemorySource
from skdp.data._source import Block, Source, nothing

# Of a user with more rows the first so many count: what rounding does to each of them
# is charged for all (docs/proofs/users.md, Lemma 3).
MOST_ROWS_OF_A_USER = 1024


def equal_shares(codes: IntArray, n_users: int) -> FloatArray:
    """Of each row the share with which it counts: 1 over the rows of its user.

    A row's share follows from the rows of its own user and their order alone.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        Whose each row is, from 0 to ``n_users - 1``.
    n_users : int

    Returns
    -------
    ndarray of float64 of shape (n_rows,)
        Those of a user are alike, or 0 from row `MOST_ROWS_OF_A_USER` on.
    """
    counts = np.bincount(codes, minlength=n_users)
    shares = 1 / np.minimum(counts, MOST_ROWS_OF_A_USER)[codes]
    return np.where(places_of_own(codes) < MOST_ROWS_OF_A_USER, shares, 0.0)


def places_of_own(codes: IntArray) -> IntArray:
    """The place of each row among those of its user, from 0 on."""
    by_user = np.argsort(codes, kind="stable")
    in_turn = codes[by_user]
    is_first = np.append(True, in_turn[1:] != in_turn[:-1])[: len(codes)]
    firsts = np.flatnonzero(is_first)
    place = np.empty(len(codes), dtype=np.int64)
    place[by_user] = np.arange(len(codes)) - firsts[np.cumsum(is_first) - 1]
    return place


class UserSource(MemorySource):
    """A source over arrays whose records are users; how many rows they have is private.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_rows, n_features), float32 or float64
    y : ndarray of shape (n_rows,)
    shares : ndarray of float64 of shape (n_rows,)
        With which rows count: at least 0, and at most 1 together for each user.
    n_users : int
        Public.
    users : ndarray of int of shape (n_rows,) or None, default=None
        Whose rows they are, from 0, where rows of a user are to be added up.

    Attributes
    ----------
    shares, users : ndarray of shape (n_rows,)
        Private.
    """

    is_of_users = True

    @classmethod
    def copied(cls, source: Source) -> UserSource:
        """What a view of users shows, in memory."""
        empty = replace(nothing(source), present=np.empty(0))
        blocks = list(source.blocks()) or [empty]
        rows = [block.X for block in blocks]
        X = vstack(rows, format="csr") if issparse(rows[0]) else np.concatenate(rows)
        y = np.concatenate([block.y for block in blocks])
        shares = np.concatenate([block.present for block in blocks])
        whose = [block.users for block in blocks if block.users is not None]
        users = np.concatenate(whose) if whose else None
        return cls(X, y, shares, source.n_samples, users)

    def __init__(
        self,
        X: Any,
        y: FloatArray,
        shares: FloatArray,
        n_users: int,
        users: IntArray | None = None,
    ) -> None:
        super().__init__(X, y, shares)
        self.n_samples, self._n_rows = n_users, len(y)
        self.shares, self.users = shares, users
        # The size of blocks follows from the number of features alone.
        self.largest_block = self.most_rows
        self.is_stable = True

    def without(self, row: int) -> NoReturn:
        raise TypeError(
            "A null record of users must be a user without rows. Got a row. Make the "
            "table without the user's rows."
        )

    def blocks(self) -> Iterator[Block]:
        start = 0
        for block in self._blocks_of(self._n_rows):
            own = slice(start, start + len(block.y))
            users = None if self.users is None else self.users[own]
            yield replace(block, users=users)
            start = own.stop
