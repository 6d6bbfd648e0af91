"""Sources: access of solvers to records, and public facts about them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._arrays import FloatArray, IntArray
from skdp.tables._block_file import BlockFile

# -------------------------------------------------------- Records, and facts about them


@dataclass(frozen=True)
class Block:
    """A run of consecutive records. Private.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_rows, n_features)
    y : ndarray of float64 of shape (n_rows,)
        Targets, or class indices as floats.
    present : ndarray of bool or of float64 of shape (n_rows,), or None
        False marks the null record, which contributes exactly 0 to every sum.
        None means that all records are present. Numbers are weights in [0, 1] of the
        rows of users (`UserSource`).
    users : ndarray of int of shape (n_rows,) or None, default=None
        The number of each row's user, from 0, if the rows of a user are added up.
    """

    X: Any
    y: FloatArray
    present: NDArray[Any] | None = None
    users: IntArray | None = None

    @property
    def weight(self) -> FloatArray:
        """Weight of each row: 1, the weight of a user's row, or 0; read-only.

        If all weights are 1, the array takes no memory.
        """
        if self.present is None:
            return np.broadcast_to(1.0, len(self.y))
        return self.present.astype(np.float64, copy=False)

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays, and of rows that are neither an array nor CSR."""
        X = self.X
        arrays = [X] if isinstance(X, np.ndarray) else []
        if issparse(X):
            arrays = [X.data, X.indices, X.indptr]
        beside = (*arrays, self.y, self.present, self.users)
        others = sum(each.nbytes for each in beside if each is not None)
        return int(others if arrays else X.n_bytes + others)

    def part(self, rows: Any) -> Block:
        """Some of the rows: a slice, positions, or a mask."""
        present = None if self.present is None else self.present[rows]
        users = None if self.users is None else self.users[rows]
        return Block(self.X[rows], self.y[rows], present, users)


class Remote(Protocol):
    """A place where records are stored and can be added up."""

    def sums(self, query: Any, source: Any, rows: IntArray | None) -> Any:
        """The exact sums of a query over all records there, or over `rows`. Private.

        The answer to the query must follow from sums that are exact in any order.
        """
        ...


# Weights of states are multiples of 2 to minus this power, so that sums are exact.
SHARE_BITS = 20
# Default of the memory for rows of a source.
MEMORY = 2**30
# Largest number of bytes, on its grid, of a stored number of sparse rows.
STORED_BYTES = 24


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Public facts about the records of a source, which depend on no record.

    A source that shows the records of another source copies its facts, and changes some
    with `replace`, so that no fact is lost.

    Parameters
    ----------
    n_samples : int
        Number of records, or of users.
    largest_block : int
        Number of rows of the largest block, for bounds on rounding errors.
    n_features : int, default=0
        Number of features; 0 for records that are not read in blocks.
    is_row_major : bool, default=False
        Whether blocks are dense arrays in row-major order.
    is_stable : bool, default=False
        Whether every reading returns the same rows in the same blocks.
    holds_rows : bool, default=True
        Whether the rows are in memory.
    is_ordered : bool, default=False
        Whether every reading returns the records in the same order, which does not
        depend on the records.
    is_permutable : bool, default=False
        Whether the records can be read in a random order.
    is_of_users : bool, default=False
        Whether the records are users, whose rows have weights.
    max_overcount : float, default=1.0
        Largest ratio of the number of records to `n_samples`. It exceeds 1 for a part
        of users with a declared size and an unknown number of users.
    n_partitions : int, default=1
        Number of places in which values of rows are kept between readings.
    row_bytes : float, default=inf
        Largest number of bytes of a row on its grid, if it is below `STORED_BYTES` for
        each feature. Not of dense rows.
    memory, disk : float, default=2^30 and 0
        Largest numbers of bytes of rows that are kept between readings, in memory and
        in a temporary file, in each of `n_partitions` places, if the rows are not in
        memory.
    amplification : float, default=1.0
        Bound on the terms of a row's products, in units of the row.
    cells : int, default=0
        Number of values that are summed instead of features, if rows are made of parts;
        0 otherwise.
    """

    n_samples: int
    largest_block: int
    n_features: int = 0
    is_row_major: bool = False
    is_stable: bool = False
    holds_rows: bool = True
    is_ordered: bool = False
    is_permutable: bool = False
    is_of_users: bool = False
    max_overcount: float = 1.0
    n_partitions: int = 1
    row_bytes: float = math.inf
    memory: float = MEMORY
    disk: float = 0.0
    amplification: float = 1.0
    cells: int = 0


class Records:
    """The records for which answers are computed."""

    facts: Facts

    @property
    def n_samples(self) -> int:
        """Number of records, or of users; public."""
        return self.facts.n_samples

    @property
    def n_features(self) -> int:
        """Public."""
        return self.facts.n_features

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if this process reads them."""
        return None


class Source(Records, ABC):
    """Records that can be read block by block, any number of times.

    `blocks` is the only access to the data. Every reading returns every record once.
    The order of the records and the sizes of the blocks depend on public facts only.
    They may differ between readings unless the source is stable. A solver may not
    assume that rows can be indexed or, unless the source is stable, that a block has
    the same rows in each reading.
    """

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Read all records once, in blocks."""

    def nothing(self) -> Block:
        """A block without records, of the same form as this source's blocks; public."""
        return Block(np.empty((0, self.n_features)), np.empty(0))


# Smallest fraction of the declared users that a part must have for a fit.
LEAST_PART = 0.6


def has_room(n_at_hand: int, n_declared: int) -> bool:
    """Whether a part of users is large enough for a fit; public.

    If so, sums whose units are chosen for `n_at_hand` users are exact for every
    possible number of users (``docs/proofs/adder.md``, Lemma 6).
    """
    return n_at_hand >= LEAST_PART * n_declared


def has_shares(present: NDArray[Any] | None) -> bool:
    """Whether the rows of users have weights; public."""
    return present is not None and present.dtype != np.bool_


# ----------------------------------------------------- Whether rows are kept, and where
# The decision follows from declared numbers of rows and from types of columns, and not
# from what cells hold.


@dataclass(frozen=True)
class Room:
    """Largest numbers of bytes of rows that are kept; public.

    Parameters
    ----------
    memory : float
        In memory, which is filled first.
    disk : float, default=0
        In a temporary file.
    """

    memory: float
    disk: float = 0.0

    def for_all(self, n_bytes: float) -> Room:
        """Room in which rows of at most `n_bytes` are surely kept, or `NO_ROOM`."""
        if n_bytes <= self.memory:
            return UNLIMITED
        if n_bytes <= self.memory + self.disk:
            return Room(self.memory, math.inf)
        return NO_ROOM


NO_ROOM, UNLIMITED = Room(0.0), Room(math.inf)
# Largest number of bytes of a number of dense rows on their grid.
_DENSE_BYTES = 4


def room_for(source: Source, n_samples: int, n_features: int) -> Room:
    """Where rows on their grid are kept from one pass to the next; public.

    If rows are kept, a source need not return the same rows in later readings. How many
    rows users have is private: theirs are kept as long as they have room.
    """
    facts = source.facts
    limits = Room(facts.memory, facts.disk)
    if are_uncounted(source):
        return limits
    if facts.is_stable or facts.holds_rows:
        return UNLIMITED if facts.is_stable else NO_ROOM
    most = bytes_to_keep(source, n_samples, n_features)
    return limits.for_all(most / facts.n_partitions)


def bytes_to_keep(source: Source, n_samples: int, n_features: int) -> float:
    """Largest number of bytes of the rows of a source of records; public."""
    facts, of_row = source.facts, float(n_features * _DENSE_BYTES)
    if not facts.is_row_major:
        of_row = min(facts.row_bytes, facts.n_features * STORED_BYTES)
    return n_samples * of_row


def are_uncounted(source: Source) -> bool:
    """Whether no public fact bounds the number of rows, as for users in a source."""
    return source.facts.is_of_users and not source.facts.holds_rows


# ----------------------------------------------------------------- Blocks that are kept


class Sized(Protocol):
    """Rows that may be kept."""

    @property
    def n_bytes(self) -> int:
        """Approximate memory of the rows."""
        ...


Blocks = TypeVar("Blocks", bound=Sized)


class KeptRows(Generic[Blocks]):
    """Blocks of a first pass that are kept for later passes: all or none. Private.

    Whether blocks are kept depends on the number of rows, which is private for users.
    So sums must have the same bits in both cases, and the choice is not shown.

    Parameters
    ----------
    room : Room
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._blocks: list[Blocks] | None = None
        self._file: BlockFile | None = None

    def passed(self, read: Callable[[], Iterable[Blocks]]) -> Iterator[Blocks]:
        """One pass; `read` is called if no blocks are kept."""
        if self._blocks is not None:
            yield from self._blocks
            if self._file is not None:
                yield from self._file.blocks()
            return
        if self._room == NO_ROOM:
            yield from read()
            return
        kept, file, n_bytes = list[Blocks](), None, 0
        for block in read():
            n_bytes += block.n_bytes
            if n_bytes <= self._room.memory:
                kept.append(block)
            elif self._room != NO_ROOM:
                file = BlockFile() if file is None else file
                is_within = n_bytes <= self._room.memory + self._room.disk
                if not (is_within and file.add(block)):
                    self._room = NO_ROOM  # later passes keep nothing either
                    kept.clear()
                    file = None
            yield block
        if self._room != NO_ROOM:
            self._blocks, self._file = kept, file
