"""Runs of consecutive records, read once."""

from __future__ import annotations

from collections.abc import Iterator

from skdp.data._source import Block, Source


class Bucket:
    """Some consecutive records, a source like any other; too small to be compiled for.

    Parameters
    ----------
    n_features : int
    pieces : list of Block
    """

    is_row_major = False
    is_stable = True

    def __init__(self, n_features: int, pieces: list[Block]) -> None:
        sizes = [len(piece.y) for piece in pieces]
        self.n_samples, self.n_features = sum(sizes), n_features
        self.largest_block = max(sizes)
        self._pieces = pieces

    def blocks(self) -> Iterator[Block]:
        """The pieces of blocks that make up the bucket."""
        yield from self._pieces


def buckets(source: Source, size: int) -> Iterator[Bucket]:
    """Runs of `size` consecutive records, the last one shorter; one reading in all.

    It shows every record once, so every record is in one bucket, whatever the order.
    """
    pieces: list[Block] = []
    held = 0
    for block in source.blocks():
        start = 0
        while start < len(block.y):
            end = min(start + size - held, len(block.y))
            pieces.append(_piece(block, slice(start, end)))
            held += end - start
            start = end
            if held == size:
                yield Bucket(source.n_features, pieces)
                pieces, held = [], 0
    if pieces:
        yield Bucket(source.n_features, pieces)


def _piece(block: Block, rows: slice) -> Block:
    present = None if block.present is None else block.present[rows]
    return Block(block.X[rows], block.y[rows], present)
