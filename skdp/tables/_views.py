"""Sources that return the rows of another source, each changed separately."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray, clip_entries, clip_rows, columns_at, row_norms
from skdp.tables._source import Block, Facts, Records, Remote, Source

# ------------------------------------------------ Views that change each row separately
# A view changes rows while they are read, so it copies at most one block at a time.


class _View(Source):
    """A source with the rows of another source, changed block by block."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.facts = source.facts

    def blocks(self) -> Iterator[Block]:
        for block in self._source.blocks():
            yield self._changed_block(block)

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if this process reads them."""
        return self._source.remote

    def nothing(self) -> Block:
        return self._changed_block(self._source.nothing())

    def permuted(self, key: str) -> Self:
        """The same view of the source, in the order that a key gives."""
        other = copy.copy(self)
        other._look_at(self._source.permuted(key))  # type: ignore[attr-defined]  # a source that is permutable
        return other

    def without(self, row: int) -> Self:
        """The same view of the source with one record null."""
        other = copy.copy(self)
        other._look_at(self._source.without(row))  # type: ignore[attr-defined]  # a source in memory
        return other

    def _look_at(self, source: Source) -> None:
        self._source = source

    def _changed_block(self, block: Block) -> Block:
        return replace(block, X=self._changed(block.X))

    @abstractmethod
    def _changed(self, X: Any) -> Any:
        """The rows of one block, each changed separately."""


class EntriesClipped(_View):
    """Rows with every entry clipped to a public magnitude.

    Parameters
    ----------
    source : Source
    bound : float in (0, inf)
    """

    def __init__(self, source: Source, bound: float) -> None:
        super().__init__(source)
        self._bound = bound

    def _changed(self, X: Any) -> Any:
        return clip_entries(X, self._bound)


class ColumnsOf(_View):
    """Rows with only some of their columns.

    Parameters
    ----------
    source : Source
    columns : ndarray of int64 of shape (n_columns,)
        Released or public.
    """

    def __init__(self, source: Source, columns: NDArray[np.int64]) -> None:
        super().__init__(source)
        self.facts = replace(self.facts, n_features=len(columns))
        self._columns = columns

    def _changed(self, X: Any) -> Any:
        return columns_at(X, self._columns)


class CentredDense(_View):
    """Rows that are clipped, centred, clipped again and divided by the second norm.

    Parameters
    ----------
    source : Source
        Source of dense rows.
    data_norm : float in (0, inf)
        Clip of the rows before centring.
    centre : ndarray of float64 of shape (n_features,)
        Released.
    norm : float in (0, inf)
        Clip of the centred rows; released.
    """

    def __init__(
        self, source: Source, data_norm: float, centre: FloatArray, norm: float
    ) -> None:
        super().__init__(source)
        self._data_norm, self._centre, self._norm = data_norm, centre, norm

    def _changed(self, X: Any) -> Any:
        rows = clip_rows(X, self._data_norm)  # a copy, so it may be changed
        rows -= self._centre
        rows /= np.maximum(row_norms(rows), self._norm)[:, None]
        return rows


class Encoded(_View):
    """Rows in another form, computed once if every reading returns the same rows.

    Parameters
    ----------
    source : Source
    encode : callable
        Maps the rows of a block to their new form, each row separately.
    """

    def __init__(self, source: Source, encode: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self._encode = encode
        self._kept: list[Block] | None = None

    def blocks(self) -> Iterator[Block]:
        if not self.facts.is_stable:
            return super().blocks()
        if self._kept is None:
            self._kept = list(super().blocks())
        return iter(self._kept)

    def _look_at(self, source: Source) -> None:
        super()._look_at(source)
        self._kept = None

    def _changed(self, X: Any) -> Any:
        return self._encode(X)


class ConstantColumn(_View):
    """Rows of one column that holds the same number everywhere.

    Parameters
    ----------
    source : Source
    value : float
    """

    def __init__(self, source: Source, value: float) -> None:
        super().__init__(source)
        self.facts = replace(self.facts, n_features=1, is_row_major=True)
        self._value = value

    def _changed(self, X: Any) -> Any:
        return np.full((X.shape[0], 1), self._value)


# ---------------------------------------------------------- Runs of consecutive records


class Bucket(Source):
    """Some consecutive records as a source, too few to make compiled code worthwhile.

    Parameters
    ----------
    facts : Facts
        Facts about all records.
    pieces : list of Block
    """

    def __init__(self, facts: Facts, pieces: list[Block]) -> None:
        sizes = [len(piece.y) for piece in pieces]
        self.facts = replace(
            facts,
            n_samples=sum(sizes),
            largest_block=max(sizes),
            is_row_major=False,
            is_stable=True,
            holds_rows=True,
        )
        self._pieces = pieces

    def blocks(self) -> Iterator[Block]:
        """The pieces of blocks that make up the bucket."""
        yield from self._pieces


def buckets(source: Source, size: int) -> Iterator[Bucket]:
    """Runs of `size` consecutive records, the last one shorter, in a single reading.

    The reading returns every record once, so for any order each record is in one
    bucket.
    """
    pieces: list[Block] = []
    held = 0
    for block in source.blocks():
        start = 0
        while start < len(block.y):
            end = min(start + size - held, len(block.y))
            pieces.append(block.part(slice(start, end)))
            held += end - start
            start = end
            if held == size:
                yield Bucket(source.facts, pieces)
                pieces, held = [], 0
    if pieces:
        yield Bucket(source.facts, pieces)


# -------------------------------------------------------------------- A stream of parts


class ChunkSource(Records):
    """All records, or users, of a stream, whose parts arrive one after the other.

    Parameters
    ----------
    first : Source
        The first part; no other part may have more records.
    n_parts : int
        Number of parts; public, as are the numbers of records in parts.

    Attributes
    ----------
    n_samples : int
        Number of records of `n_parts` parts like the first one.
    """

    def __init__(self, first: Records, n_parts: int) -> None:
        self.facts = replace(first.facts, n_samples=n_parts * first.n_samples)
        self._arrived: Any = None

    def give(self, part: Any) -> None:
        """Add the next part; it replaces a part that no query has used."""
        self._arrived = part

    def parts(self) -> Iterator[Any]:
        """Each part once, after its arrival."""
        while True:
            yield self._taken()  # not kept here

    def _taken(self) -> Any:
        part, self._arrived = self._arrived, None
        return part


def parts_of(source: Any, size: int) -> Iterator[Any]:
    """Parts of a stream as they arrive; for a table, runs of `size` records."""
    if isinstance(source, ChunkSource):
        return source.parts()
    if source.facts.is_of_users:
        raise TypeError(
            "Parts of users must arrive one by one. Got one table, in which a user's "
            "rows may be anywhere. Use a stream."
        )
    return buckets(source, size)
