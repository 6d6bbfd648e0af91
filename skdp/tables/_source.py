"""The protocol of a source: what solvers may ask of records, and public facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray, IntArray

# ----------------------------------------- What solve and the solvers may ask of data


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
        None means that all records are present. Numbers are shares in [0, 1] with which
        rows of users count (`UserSource`).
    users : ndarray of int of shape (n_rows,) or None, default=None
        Whose rows they are, from 0, where rows of a user are to be added up.
    """

    X: Any
    y: FloatArray
    present: NDArray[Any] | None = None
    users: IntArray | None = None


class Source(Protocol):
    """Records that can be read block by block, any number of times.

    The attributes are public facts; `blocks` is the only access to the data. Every
    reading shows every record once. The order of the records and the size of the
    blocks depend on public facts only, but another reading may show another order,
    unless the source declares that it is stable. A solver may not assume that rows
    can be indexed, nor, unless the source is stable, that a block holds the rows that
    it held before.
    """

    n_samples: int
    n_features: int
    largest_block: int  # rows of the largest block, for rounding-error bounds
    is_row_major: bool  # whether blocks are dense, one row after the other in memory
    is_stable: bool  # whether every reading shows the same rows in the same blocks

    def blocks(self) -> Iterator[Block]:
        """Read all records once, in blocks."""
        ...


def is_stable(source: Source) -> bool:
    """Whether a source declares that every reading shows the same blocks."""
    return getattr(source, "is_stable", False)  # what declares nothing promises nothing


def holds_rows(source: Source) -> bool:
    """Whether the rows of a source are in memory, however often they are read."""
    return getattr(source, "holds_rows", True)


def holds_users(source: Any) -> bool:
    """Whether the records of a source are users, whose rows come with shares."""
    return getattr(source, "is_of_users", False)


# Of all users, the share that a part to be fitted to must have at least.
LEAST_PART = 0.6


def max_overcount(source: Any) -> float:
    """How many times `n_samples` there may be at most; public.

    Above 1 of a part of users that has a stated size, and any number of them.
    """
    found: float = getattr(source, "max_overcount", 1.0)
    return found


def has_room(n_at_hand: int, n_declared: int) -> bool:
    """Whether a part of users has room enough to be fitted to; public.

    Sums whose units are made for so many are exact for all that there may be then
    (``docs/proofs/users.md``, Lemma 6).
    """
    return n_at_hand >= LEAST_PART * n_declared


def has_shares(present: NDArray[Any] | None) -> bool:
    """Whether rows of users count with shares; public."""
    return present is not None and present.dtype != np.bool_


def counted(values: FloatArray, present: NDArray[Any] | None) -> FloatArray:
    """What rows of `values` count: 0 where there is no record, or a share."""
    if present is None:
        return values
    values[present == 0] = 0.0
    if has_shares(present):
        values *= present.reshape(-1, *[1] * (values.ndim - 1))
    return values


class Remote(Protocol):
    """Where records are that are better added up there."""

    def sums(self, query: Any, source: Any, rows: IntArray | None) -> Any:
        """What a query needs of all records of a source there, or of `rows`. Private.

        The query is whole: its answer follows from sums that are exact in any order.
        """
        ...


def remote(source: Any) -> Remote | None:
    """Where the records of a source are added up; None if they come here."""
    found: Remote | None = getattr(source, "remote", None)
    return found


def n_partitions(source: Any) -> int:
    """In how many places lies what is kept of a source's rows; public."""
    return getattr(source, "n_partitions", 1)


def most_entries(source: Source) -> int:
    """How many numbers are stored of a row at most, as far as it is known; public."""
    found: int = getattr(source, "most_entries", source.n_features)
    return found


def nothing(source: Source) -> Block:
    """A block of no records that looks like those of a source; public."""
    show = getattr(source, "nothing", None)
    if show is None:
        return Block(np.empty((0, source.n_features)), np.empty(0))
    block: Block = show()
    return block


# ----------------------- Records as they were given, for what asks a model about them


@dataclass(frozen=True, eq=False)
class RawTable:
    """A raw table, one block of rows of any kind.

    Parameters
    ----------
    X : array-like, CSR or data frame of n_samples rows
        Private.
    y : array-like of shape (n_samples,)
        Private.
    """

    X: Any
    y: Any

    @property
    def n_samples(self) -> int:
        """Public."""
        return len(self.y)

    @property
    def largest_block(self) -> int:
        """Public."""
        return self.n_samples

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of a fitted model on these records. Private."""
        exact: FloatArray = scorer.statistic(model, self.X, self.y)
        return exact
