"""Sources in memory: arrays, sparse rows, rows of users, and orders of passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from skdp._arrays import FloatArray, IntArray
from skdp.tables._source import (
    Block,
    Remote,
    Source,
    counted,
    has_shares,
    holds_rows,
    holds_users,
    is_stable,
    max_overcount,
    nothing,
    remote,
)

# ---------------- Records held in memory: NumPy arrays (dense) and SciPy CSR (sparse)


# A block is read from memory once and used again from the last-level cache; smaller
# blocks would pay more for the interpreter than they gain.
_BLOCK_BYTES = 1 << 21
_MIN_ROWS, _MAX_ROWS, _SPARSE_ROWS = 64, 1 << 14, 1 << 16


def _rows_of_a_block(row_bytes: int) -> int:
    return min(max(_BLOCK_BYTES // row_bytes, _MIN_ROWS), _MAX_ROWS)


class MemorySource:
    """A source over arrays; keeps references, copies nothing, reads nothing yet.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features), float32 or float64
    y : ndarray of shape (n_samples,)
    present : ndarray of bool or float64 of shape (n_samples,), default=None
        Which records are present under zero_out adjacency, or shares with which rows
        count; None means all.
    """

    def __init__(
        self, X: Any, y: FloatArray, present: NDArray[Any] | None = None
    ) -> None:
        self._X, self._y, self._present = X, y, present
        self.n_samples, self.n_features = (int(size) for size in X.shape)
        self.is_sparse = issparse(X)
        self.is_row_major = (
            not issparse(X) and X.flags.c_contiguous and X.dtype.isnative
        )
        self.is_stable = type(self) is MemorySource  # as in `held`
        # Sparse rows have no public length: a fixed number of rows per block
        # keeps the layout a function of public facts.
        rows = _SPARSE_ROWS
        if not issparse(X):
            rows = _rows_of_a_block(max(1, self.n_features * X.dtype.itemsize))
        self.most_rows = rows
        self.largest_block = min(rows, self.n_samples)

    def without(self, row: int) -> MemorySource:
        """The same records with one of them null."""
        there = np.ones(self.n_samples, dtype=np.bool_)
        if self._present is not None:
            there = self._present.copy()
        there[row] = False
        return MemorySource(self._X, self._y, there)

    def nothing(self) -> Block:
        kind = csr_array if self.is_sparse else np.empty
        return Block(kind((0, self.n_features), dtype=self._X.dtype), np.empty(0))

    def whole(self) -> Block:
        """All records as one block, without a copy."""
        return Block(self._X, self._y, self._present)

    def blocks(self) -> Iterator[Block]:
        yield from self._blocks_of(self.n_samples)

    def _blocks_of(self, n_rows: int) -> Iterator[Block]:
        for start in range(0, n_rows, self.largest_block):
            rows = slice(start, min(start + self.largest_block, n_rows))
            present = None if self._present is None else self._present[rows]
            yield Block(self._rows(rows), self._y[rows], present)

    def _rows(self, rows: slice) -> Any:
        if not issparse(self._X):
            return self._X[rows]
        first, last = self._X.indptr[rows.start], self._X.indptr[rows.stop]
        shape = (rows.stop - rows.start, self.n_features)
        # Views set one by one: the constructor, like slicing, copies parts of arrays.
        block = csr_array(shape, dtype=self._X.dtype)
        block.data = self._X.data[first:last]
        block.indices = self._X.indices[first:last]
        block.indptr = self._X.indptr[rows.start : rows.stop + 1] - first
        return block


# ---------------------------- Rows that belong to users, who count as one record each


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


# --------------- WithOffset: records with raw predictions that are there before a fit


class WithOffset:
    """A source whose records have raw predictions of their own, where a fit starts.

    Parameters
    ----------
    source : Source
        Must be stable.
    offset_of : callable
        From rows to an array of shape (n_rows, n_outputs), each row by itself; public.
    """

    def __init__(self, source: Source, offset_of: Callable[[Any], FloatArray]) -> None:
        self.records, self.offset_of = source, offset_of
        self.n_samples, self.n_features = source.n_samples, source.n_features
        self.largest_block = source.largest_block
        self.is_row_major = source.is_row_major
        self.is_stable = is_stable(source)

    def __reduce__(self) -> tuple[Any, ...]:
        # The number of records is that of the source where it arrives.
        return type(self), (self.records, self.offset_of)

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if they come here."""
        return remote(self.records)

    def blocks(self) -> Iterator[Block]:
        yield from self.records.blocks()

    def nothing(self) -> Block:
        return nothing(self.records)


# --------------------------------------- All records of a source in memory, read once


def held(source: Source, *, with_shares: bool = False) -> Block:
    """All records as one block: as they are if they are in memory, else a copy.

    Beside the copy there is one block of the source at a time; sparse blocks are all
    there twice. Records that do not come are null records, and what comes beyond
    `n_samples` is left out.

    Parameters
    ----------
    source : Source
    with_shares : bool, default=False
        Whether rows of users may come, whose `present` are shares to be multiplied by.

    Raises
    ------
    TypeError
        If rows of users may not come, and do.
    """
    if type(source) is WithOffset:
        return held(source.records, with_shares=with_shares)
    is_of_users = holds_users(source)
    if is_of_users and not with_shares:
        raise _rows_for_records()
    # Their types themselves: a subclass may read its blocks from elsewhere.
    if type(source) is MemorySource:
        return _of_records(source.whole())
    if type(source) is UserSource:
        return source.whole()
    if type(source) is CachedSource:
        return source.whole()
    if is_of_users:
        return _joined([*source.blocks()] or [nothing(source)])
    blocks = map(_of_records, source.blocks())
    # A part of some records may have none.
    first = next(blocks, None)
    first = nothing(source) if first is None else first
    if issparse(first.X):
        return _stacked([first, *blocks])
    return _filled(source.n_samples, first, blocks)


def _of_records(block: Block) -> Block:
    """A block, unless its rows are shares of users."""
    if has_shares(block.present):
        raise _rows_for_records()
    return block


def _rows_for_records() -> TypeError:
    return TypeError(
        "The rows of users must be read block by block, with their shares. Got a "
        "reader that takes each row for a record."
    )


class CachedSource:
    """A source that is read once, when it is first asked for records, and then kept.

    Whatever order the reading has, it is the order from then on.

    Parameters
    ----------
    source : Source
        May show another order at each reading.
    """

    is_stable = True

    def __init__(self, source: Source) -> None:
        self._source = source
        self._records: MemorySource | None = None
        self.n_samples, self.n_features = source.n_samples, source.n_features
        self.largest_block = source.largest_block
        self.is_row_major = source.is_row_major
        self.is_of_users, self.max_overcount = (
            holds_users(source),
            max_overcount(source),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Of what it is made: rows stay where they are.
        return type(self), (self._source,)

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if they come here, or have come."""
        return remote(self._source) if self._records is None else None

    def nothing(self) -> Block:
        return nothing(self._source)

    def whole(self) -> Block:
        """All records as one block, without a copy."""
        return self._read().whole()

    def blocks(self) -> Iterator[Block]:
        """The same blocks each time."""
        yield from self._read().blocks()

    def _read(self) -> MemorySource:
        if self._records is None:
            block = held(self._source, with_shares=self.is_of_users)
            self._records = MemorySource(block.X, block.y, block.present)
            self._records.largest_block = self.largest_block
        return self._records


def in_memory(source: Source) -> Source:
    """A source that reads another one once at most."""
    return (
        source if type(source) in (MemorySource, UserSource) else CachedSource(source)
    )


def _filled(n_samples: int, first: Block, others: Iterator[Block]) -> Block:
    """Dense blocks in one array, one after the other."""
    X = np.zeros((n_samples, first.X.shape[1]), dtype=first.X.dtype)
    y, is_present = np.zeros(n_samples), np.zeros(n_samples, dtype=np.bool_)
    start = 0
    # To the end: a source may look there whether all came.
    for block in chain([first], others):
        end = min(start + len(block.y), n_samples)
        rows = slice(0, end - start)
        X[start:end], y[start:end] = block.X[rows], block.y[rows]
        is_present[start:end] = True if block.present is None else block.present[rows]
        start = end
    return Block(X, y, None if is_present.all() else is_present)


def _joined(blocks: list[Block]) -> Block:
    """Dense rows of users, however many there are, with their shares."""
    shares = [counted(np.ones(len(block.y)), block.present) for block in blocks]
    return Block(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate(shares),
    )


def _stacked(blocks: list[Block]) -> Block:
    present = [
        np.ones(len(block.y), dtype=bool) if block.present is None else block.present
        for block in blocks
    ]
    is_present = np.concatenate(present)
    return Block(
        vstack([block.X for block in blocks], format="csr"),
        np.concatenate([block.y for block in blocks]),
        None if is_present.all() else is_present,
    )


# -------------------------------- Passes through the records in orders that are drawn
# Of rows in memory an order is an array of places; of others it is a key, by which a
# database permutes the ids of its records.


Order = IntArray | str


class _Draws(Protocol):
    def permutation(self, n: int) -> IntArray: ...

    def integers(self, n: int, size: int) -> IntArray: ...


def drawn_order(source: Source, draws: _Draws) -> Order:
    """An order of the records of a source; nothing is read."""
    if holds_rows(source):
        return draws.permutation(source.n_samples)
    return "".join(f"{word:08x}" for word in draws.integers(1 << 32, 4))


def in_order(source: Source, order: Order) -> Iterator[tuple[Block, IntArray]]:
    """One pass: blocks, and their rows in the order in which they count.

    Parameters
    ----------
    source : Source
        With its rows in memory, or with `permuted`.
    order : ndarray of int64 of shape (n_samples,), or str
        The same one gives the same pass.
    """
    if not isinstance(order, str):
        yield held(source), order
        return
    there: Source = source.permuted(order)  # type: ignore[attr-defined]  # as said above
    for block in there.blocks():
        yield block, np.arange(len(block.y))
