"""What a pass over rows leaves for the next ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Some rows that may be kept."""

    @property
    def n_bytes(self) -> int:
        """About what they take in memory."""
        ...


Blocks = TypeVar("Blocks", bound=Sized)


class KeptRows(Generic[Blocks]):
    """Blocks of a first pass for those that follow: all of them, or none. Private.

    Which of the two may follow from how many rows there are, which is no public fact of
    users. So sums must have the same bits either way, and nothing is told of it.

    Parameters
    ----------
    most_bytes : float
        All are kept that take no more.
    """

    def __init__(self, most_bytes: float) -> None:
        self._most_bytes = most_bytes
        self._blocks: list[Blocks] | None = None

    def passed(self, read: Callable[[], Iterable[Blocks]]) -> Iterator[Blocks]:
        """One pass; `read` is called if nothing is kept."""
        if self._blocks is not None:
            yield from self._blocks
            return
        kept, n_bytes = list[Blocks](), 0
        for block in read():
            n_bytes += block.n_bytes
            kept.append(block)
            if n_bytes > self._most_bytes:
                kept.clear()
                self._most_bytes = -1.0  # nor in a later pass
            yield block
        if n_bytes <= self._most_bytes:
            self._blocks = kept
