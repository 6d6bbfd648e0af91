"""Blocks of a source, or of some of its rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skdp._floats import IntArray
from skdp.data._source import Block, Source


def blocks_of(source: Source, rows: IntArray | None) -> Iterator[Block]:
    """All blocks, or the chosen rows of each; `rows` rise. Private."""
    start = 0
    for block in source.blocks():
        end = start + len(block.y)
        if rows is None:
            yield block
        else:
            first, last = np.searchsorted(rows, [start, end])
            chosen = rows[first:last] - start
            present = None if block.present is None else block.present[chosen]
            yield Block(block.X[chosen], block.y[chosen], present)
        start = end
