"""`WithOffset`: records with raw predictions that are there before a fit."""

from __future__ import annotations

from collections.abc import Iterator

from skdp._floats import FloatArray
from skdp.data._source import Block, Source, is_stable


class WithOffset:
    """A source whose records have raw predictions of their own, where a fit starts.

    Parameters
    ----------
    source : Source
        Must be stable.
    offset : ndarray of float64 of shape (n_samples, n_outputs)
        Private. Each row must follow from that record alone and released numbers.
    """

    def __init__(self, source: Source, offset: FloatArray) -> None:
        self.records, self.offset = source, offset
        self.n_samples, self.n_features = source.n_samples, source.n_features
        self.largest_block = source.largest_block
        self.is_row_major = source.is_row_major
        self.is_stable = is_stable(source)

    def blocks(self) -> Iterator[Block]:
        yield from self.records.blocks()
