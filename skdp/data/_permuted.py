"""Passes through the records in an order that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from skdp._floats import IntArray
from skdp.data._held import held
from skdp.data._source import Block, Source, holds_rows

# A block, and its rows in the order in which they count.
OrderedBlock = tuple[Block, IntArray]


class _Draws(Protocol):
    def permutation(self, n: int) -> IntArray: ...

    def integers(self, n: int, size: int) -> IntArray: ...


def permuted(source: Source, draws: _Draws) -> Callable[[], Iterator[OrderedBlock]]:
    """A pass in an order that is drawn now, and is the same whenever the pass is made.

    Rows in memory are indexed; others are read in the order of a permutation of their
    records' ids, whose key is drawn.

    Parameters
    ----------
    source : Source
        With its rows in memory, or with `permuted`.
    draws : Draws
    """
    if holds_rows(source):
        block, order = held(source), draws.permutation(source.n_samples)
        return lambda: iter([(block, order)])
    key = "".join(f"{word:08x}" for word in draws.integers(1 << 32, 4))
    there: Source = source.permuted(key)  # type: ignore[attr-defined]  # as said above
    return lambda: ((block, np.arange(len(block.y))) for block in there.blocks())
