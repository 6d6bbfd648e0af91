"""Passes through the records in orders that are drawn.

Of rows in memory an order is an array of places; of others it is a key, by which a
database permutes the ids of its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from skdp._floats import IntArray
from skdp.data._held import held
from skdp.data._source import Block, Source, holds_rows

Order = IntArray | str


class _Draws(Protocol):
    def permutation(self, n: int) -> IntArray: ...

    def integers(self, n: int, size: int) -> IntArray: ...


def drawn_order(source: Source, draws: _Draws) -> Order:
    """An order of the records of a source; nothing is read."""
    if holds_rows(source):
        return draws.permutation(source.n_samples)
    return "".join(f"{word:08x}" for word in draws.integers(1 << 32, 4))


def in_order(source: Source, order: Order) -> Iterator[tuple[Block, IntArray]]:
    """One pass: blocks, and their rows in the order in which they count.

    Parameters
    ----------
    source : Source
        With its rows in memory, or with `permuted`.
    order : ndarray of int64 of shape (n_samples,), or str
        The same one gives the same pass.
    """
    if not isinstance(order, str):
        yield held(source), order
        return
    there: Source = source.permuted(order)  # type: ignore[attr-defined]  # as said above
    for block in there.blocks():
        yield block, np.arange(len(block.y))
