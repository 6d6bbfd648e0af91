"""The protocol of a source: access of solvers to records, and public facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray, IntArray

# ----------------------------------------------------------------- Protocol of a source


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
        None means that all records are present. Numbers are the shares in [0, 1] by
        which rows of users count (`UserSource`).
    users : ndarray of int of shape (n_rows,) or None, default=None
        The user of each row, from 0, if rows of a user are to be added up.
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
    can be indexed, nor, unless the source is stable, that a block holds the same rows
    as before.
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
    return getattr(source, "is_stable", False)  # without a declaration, not stable


def holds_rows(source: Source) -> bool:
    """Whether the rows of a source are in memory."""
    return getattr(source, "holds_rows", True)


def holds_users(source: Any) -> bool:
    """Whether the records of a source are users, whose rows come with shares."""
    return getattr(source, "is_of_users", False)


# Least fraction of the declared users that a part for a fit must have.
LEAST_PART = 0.6


def max_overcount(source: Any) -> float:
    """Largest ratio of the number of records to `n_samples`; public.

    It exceeds 1 for a part of users with a declared size and an unknown number of
    users.
    """
    found: float = getattr(source, "max_overcount", 1.0)
    return found


def has_room(n_at_hand: int, n_declared: int) -> bool:
    """Whether a part of users is large enough for a fit; public.

    Then sums whose units are made for `n_at_hand` users are exact for every possible
    number of users (``docs/proofs/users.md``, Lemma 6).
    """
    return n_at_hand >= LEAST_PART * n_declared


def has_shares(present: NDArray[Any] | None) -> bool:
    """Whether rows of users count with shares; public."""
    return present is not None and present.dtype != np.bool_


def counted(values: FloatArray, present: NDArray[Any] | None) -> FloatArray:
    """Multiply rows of `values` by their presence or share; 0 without a record."""
    if present is None:
        return values
    values[present == 0] = 0.0
    if has_shares(present):
        values *= present.reshape(-1, *[1] * (values.ndim - 1))
    return values


class Remote(Protocol):
    """A place where records are stored and can be added up."""

    def sums(self, query: Any, source: Any, rows: IntArray | None) -> Any:
        """The whole sums of a query over all records there, or `rows`. Private.

        The query is whole: its answer follows from sums that are exact in any order.
        """
        ...


def remote(source: Any) -> Remote | None:
    """Where the records of a source are added up; None if this process reads them."""
    found: Remote | None = getattr(source, "remote", None)
    return found


def n_partitions(source: Any) -> int:
    """Number of partitions of a source's kept rows; public."""
    return getattr(source, "n_partitions", 1)


def most_entries(source: Source) -> int:
    """Known bound on the number of stored entries of a row; public."""
    found: int = getattr(source, "most_entries", source.n_features)
    return found


def nothing(source: Source) -> Block:
    """A block of no records in the form of a source's blocks; public."""
    show = getattr(source, "nothing", None)
    if show is None:
        return Block(np.empty((0, source.n_features)), np.empty(0))
    block: Block = show()
    return block


# ------------------------------------------------------ Raw records for scoring a model


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
