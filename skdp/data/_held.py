"""All records of a source in memory, read once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from skdp.data._memory import MemorySource
from skdp.data._offset import WithOffset
from skdp.data._source import (
    Block,
    Elsewhere,
    Source,
    counted,
    crowding,
    elsewhere,
    has_shares,
    holds_users,
    nothing,
)
from skdp.data._users import UserSource


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
    if type(source) is HeldSource:
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


class HeldSource:
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
        self.is_of_users, self.crowding = holds_users(source), crowding(source)

    def __reduce__(self) -> tuple[Any, ...]:
        # Of what it is made: rows stay where they are.
        return type(self), (self._source,)

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Where the records are added up; None if they come here, or have come."""
        return elsewhere(self._source) if self._records is None else None

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
    return source if type(source) in (MemorySource, UserSource) else HeldSource(source)


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
