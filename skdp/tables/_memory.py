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
    Facts,
    Remote,
    Source,
    has_shares,
)

# ---------------------------------------- Records in memory: NumPy arrays and SciPy CSR


# A block is read from memory once and then used from the last-level cache. With smaller
# blocks, the overhead of the interpreter would outweigh the gain.
_BLOCK_BYTES = 1 << 21
_MIN_ROWS, _MAX_ROWS, _SPARSE_ROWS = 64, 1 << 14, 1 << 16


def _rows_of_a_block(row_bytes: int) -> int:
    return min(max(_BLOCK_BYTES // row_bytes, _MIN_ROWS), _MAX_ROWS)


class MemorySource(Source):
    """A source over arrays; it keeps references, and copies and reads nothing.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features), float32 or float64
    y : ndarray of shape (n_samples,)
    present : ndarray of bool or float64 of shape (n_samples,), default=None
        Whether each record is present under zero_out adjacency, or the weight of each
        row; None: all are present.
    """

    def __init__(
        self, X: Any, y: FloatArray, present: NDArray[Any] | None = None
    ) -> None:
        self._X, self._y, self._present = X, y, present
        n_samples, n_features = (int(size) for size in X.shape)
        self.is_sparse = issparse(X)
        # The length of sparse rows is not public. A fixed number of rows per block
        # makes the layout depend on public facts only.
        rows = _SPARSE_ROWS
        if not self.is_sparse:
            rows = _rows_of_a_block(max(1, n_features * X.dtype.itemsize))
        self.most_rows = rows
        self.facts = Facts(
            n_samples=n_samples,
            n_features=n_features,
            largest_block=min(rows, n_samples),
            is_row_major=not self.is_sparse
            and X.flags.c_contiguous
            and X.dtype.isnative,
            is_stable=type(self) is MemorySource,  # as in `held`
            is_ordered=True,
            is_permutable=True,
        )

    @classmethod
    def of(cls, block: Block) -> MemorySource:
        """A source of the records of one block."""
        return MemorySource(block.X, block.y, block.present)

    def without(self, row: int) -> MemorySource:
        """The same records, with one of them replaced by the null record."""
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
        size = self.facts.largest_block
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            present = None if self._present is None else self._present[rows]
            yield Block(self._rows(rows), self._y[rows], present)

    def _rows(self, rows: slice) -> Any:
        if not issparse(self._X):
            return self._X[rows]
        first, last = self._X.indptr[rows.start], self._X.indptr[rows.stop]
        shape = (rows.stop - rows.start, self.n_features)
        # Set one by one as views: the constructor, like slicing, would copy arrays.
        block = csr_array(shape, dtype=self._X.dtype)
        block.data = self._X.data[first:last]
        block.indices = self._X.indices[first:last]
        block.indptr = self._X.indptr[rows.start : rows.stop + 1] - first
        return block


# ------------------------------------- Rows of users, each of whom counts as one record


# Further rows of a user do not count, because the rounding of so many rows is charged
# for every user (docs/proofs/adder.md, Lemma 3).
MOST_ROWS_OF_A_USER = 1024


def equal_shares(codes: IntArray, n_users: int) -> FloatArray:
    """The weight of each row: 1 over the number of rows of its user.

    A row's weight depends only on the rows of its user and their order.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        The number of each row's user, from 0 to ``n_users - 1``.
    n_users : int

    Returns
    -------
    ndarray of float64 of shape (n_rows,)
        Equal for the rows of a user; 0 from row `MOST_ROWS_OF_A_USER` on.
    """
    counts = np.bincount(codes, minlength=n_users)
    shares = 1 / np.minimum(counts, MOST_ROWS_OF_A_USER)[codes]
    return np.where(places_of_own(codes) < MOST_ROWS_OF_A_USER, shares, 0.0)


def places_of_own(codes: IntArray) -> IntArray:
    """The position of each row among the rows of its user, from 0."""
    by_user = np.argsort(codes, kind="stable")
    in_turn = codes[by_user]
    is_first = np.append(True, in_turn[1:] != in_turn[:-1])[: len(codes)]
    firsts = np.flatnonzero(is_first)
    place = np.empty(len(codes), dtype=np.int64)
    place[by_user] = np.arange(len(codes)) - firsts[np.cumsum(is_first) - 1]
    return place


class UserSource(MemorySource):
    """A source over arrays whose records are users; their numbers of rows are private.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_rows, n_features), float32 or float64
    y : ndarray of shape (n_rows,)
    shares : ndarray of float64 of shape (n_rows,)
        Weights of the rows, at least 0, with a sum of at most 1 for each user.
    n_users : int
        Public.
    users : ndarray of int of shape (n_rows,) or None, default=None
        The number of each row's user, from 0, if the rows of a user are added up.

    Attributes
    ----------
    shares, users : ndarray of shape (n_rows,)
        Private.
    """

    @classmethod
    def copied(cls, source: Source) -> UserSource:
        """A copy in memory of a source of users."""
        empty = replace(source.nothing(), present=np.empty(0))
        blocks = list(source.blocks()) or [empty]
        rows = [block.X for block in blocks]
        X = vstack(rows, format="csr") if issparse(rows[0]) else np.concatenate(rows)
        y = np.concatenate([block.y for block in blocks])
        shares = np.concatenate([block.weight for block in blocks])
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
        self._n_rows, self.shares, self.users = len(y), shares, users
        self.facts = replace(
            self.facts,
            n_samples=n_users,
            # The size of blocks depends on the number of features only.
            largest_block=self.most_rows,
            is_stable=True,
            is_ordered=False,
            is_of_users=True,
        )

    def without(self, row: int) -> NoReturn:
        raise TypeError(
            "The null record of users must be a user without rows. Got a row. Leave "
            "the user's rows out of the table."
        )

    def blocks(self) -> Iterator[Block]:
        start = 0
        for block in self._blocks_of(self._n_rows):
            own = slice(start, start + len(block.y))
            users = None if self.users is None else self.users[own]
            yield replace(block, users=users)
            start = own.stop


# -------------------------------------------------- Records with an offset before a fit


class WithOffset(Source):
    """A source whose records have raw predictions from which a fit starts.

    Parameters
    ----------
    source : Source
        Must be stable.
    offset_of : callable
        Maps rows to an array of shape (n_rows, n_outputs), each row separately; public.
    """

    def __init__(self, source: Source, offset_of: Callable[[Any], FloatArray]) -> None:
        self.records, self.offset_of = source, offset_of
        self.facts = source.facts

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy gets the number of records from the source in its new process.
        return type(self), (self.records, self.offset_of)

    @property
    def remote(self) -> Remote | None:
        return self.records.remote

    def blocks(self) -> Iterator[Block]:
        yield from self.records.blocks()

    def nothing(self) -> Block:
        return self.records.nothing()


# ---------------------------------------------------- All records of a source in memory


def held(source: Source, *, with_shares: bool = False) -> Block:
    """All records as one block, which is a copy unless they are in memory.

    In addition to the copy, memory holds one block of the source at a time, or all
    blocks if they are sparse. Missing records are filled with null records, and records
    beyond `n_samples` are left out.

    Parameters
    ----------
    source : Source
    with_shares : bool, default=False
        Whether rows of users are allowed; `present` of the block has their weights.

    Raises
    ------
    TypeError
        If there are rows of users although they are not allowed.
    """
    if type(source) is WithOffset:
        return held(source.records, with_shares=with_shares)
    is_of_users = source.facts.is_of_users
    if is_of_users and not with_shares:
        raise _rows_for_records()
    # Exact types: a subclass may read its blocks from elsewhere.
    if type(source) is MemorySource:
        return _of_records(source.whole())
    if type(source) is UserSource:
        return source.whole()
    if type(source) is CachedSource:
        return source.whole()
    if is_of_users:
        return _joined([*source.blocks()] or [source.nothing()])
    blocks = (_of_records(block) for block in source.blocks())
    # A partition may have no records.
    first = next(blocks, None)
    first = source.nothing() if first is None else first
    if issparse(first.X):
        return _stacked([first, *blocks])
    return _filled(source.n_samples, first, blocks)


def _of_records(block: Block) -> Block:
    """The block; raises if its rows have weights of users."""
    if has_shares(block.present):
        raise _rows_for_records()
    return block


def _rows_for_records() -> TypeError:
    return TypeError(
        "The rows of users must be read block by block, with their weights. Got a "
        "reader that takes each row as a record."
    )


class CachedSource(Source):
    """A source that is read once, at its first use, and then kept in memory.

    Parameters
    ----------
    source : Source
        It may return another order at each reading; the first order is kept.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.facts = replace(source.facts, is_stable=True, holds_rows=True)
        self._records: MemorySource | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Copy the argument only: rows stay where they are.
        return type(self), (self._source,)

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if this process reads or holds them."""
        return self._source.remote if self._records is None else None

    def nothing(self) -> Block:
        return self._source.nothing()

    def whole(self) -> Block:
        """All records as one block, without a copy."""
        return self._read().whole()

    def blocks(self) -> Iterator[Block]:
        """The same blocks each time."""
        yield from self._read().blocks()

    def _read(self) -> MemorySource:
        if self._records is None:
            block = held(self._source, with_shares=self.facts.is_of_users)
            self._records = MemorySource.of(block)
            kept = self._records.facts
            self._records.facts = replace(kept, largest_block=self.facts.largest_block)
        return self._records


def in_memory(source: Source) -> Source:
    """A source that reads another source at most once."""
    return (
        source if type(source) in (MemorySource, UserSource) else CachedSource(source)
    )


def _filled(n_samples: int, first: Block, others: Iterator[Block]) -> Block:
    """Dense blocks in one array, in order."""
    X = np.zeros((n_samples, first.X.shape[1]), dtype=first.X.dtype)
    y, is_present = np.zeros(n_samples), np.zeros(n_samples, dtype=np.bool_)
    start = 0
    # Read to the end, where a source may check that it has returned all records.
    for block in chain([first], others):
        end = min(start + len(block.y), n_samples)
        rows = slice(0, end - start)
        X[start:end], y[start:end] = block.X[rows], block.y[rows]
        is_present[start:end] = block.weight[rows]
        start = end
    return Block(X, y, None if is_present.all() else is_present)


def _joined(blocks: list[Block]) -> Block:
    """Dense rows of users, of any number, with their weights."""
    return Block(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.weight for block in blocks]),
    )


def _stacked(blocks: list[Block]) -> Block:
    is_present = np.concatenate([block.weight for block in blocks]) > 0
    return Block(
        vstack([block.X for block in blocks], format="csr"),
        np.concatenate([block.y for block in blocks]),
        None if is_present.all() else is_present,
    )


# ------------------------------------------------------------- Passes in a random order
# For rows in memory an order is an array of positions; for other rows it is a key with
# which a database permutes the ids of its records.


Order = IntArray | str


class _Draws(Protocol):
    def permutation(self, n: int) -> IntArray: ...

    def integers(self, n: int, size: int) -> IntArray: ...


def drawn_order(source: Source, draws: _Draws) -> Order:
    """A random order of the records of a source; reads nothing."""
    if source.facts.holds_rows:
        return draws.permutation(source.n_samples)
    return "".join(f"{word:08x}" for word in draws.integers(1 << 32, 4))


def in_order(source: Source, order: Order) -> Iterator[tuple[Block, IntArray]]:
    """One pass: blocks, and the indices of their rows in the order of use.

    Parameters
    ----------
    source : Source
        Its rows are in memory, or it has a method `permuted`.
    order : ndarray of int64 of shape (n_samples,), or str
        Equal orders give equal passes.
    """
    if not isinstance(order, str):
        yield held(source), order
        return
    there: Source = source.permuted(order)  # type: ignore[attr-defined]  # as said above
    for block in there.blocks():
        yield block, np.arange(len(block.y))
