"""`WithOffset`: records with raw predictions that are there before a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skdp._floats import FloatArray
from skdp.data._source import Block, Elsewhere, Source, elsewhere, is_stable, nothing


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
    def elsewhere(self) -> Elsewhere | None:
        """Where the records are added up; None if they come here."""
        return elsewhere(self.records)

    def blocks(self) -> Iterator[Block]:
        yield from self.records.blocks()

    def nothing(self) -> Block:
        return nothing(self.records)
