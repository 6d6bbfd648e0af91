"""A stream: parts that arrive one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skdp.data._buckets import buckets
from skdp.data._source import holds_users


class Arriving:
    """The records, or users, of all parts of a stream, most of which are to come.

    Parameters
    ----------
    first : Source
        The first part; no other may have more records.
    n_parts : int
        Public, as are the numbers of records in parts.

    Attributes
    ----------
    n_samples : int
        As many as `n_parts` parts like the first one hold.
    """

    def __init__(self, first: Any, n_parts: int) -> None:
        self.n_samples = n_parts * first.n_samples
        self.n_features, self.largest_block = first.n_features, first.largest_block
        self.is_of_users = holds_users(first)
        self._arrived: Any = None

    def give(self, part: Any) -> None:
        """Let a part arrive, in the place of one that nobody asked about."""
        self._arrived = part

    def parts(self) -> Iterator[Any]:
        """Each part once, when it has arrived."""
        while True:
            yield self._taken()  # not kept here

    def _taken(self) -> Any:
        part, self._arrived = self._arrived, None
        return part


def parts_of(source: Any, size: int) -> Iterator[Any]:
    """Parts of a stream as they arrive; of a table, runs of `size` records."""
    if isinstance(source, Arriving):
        return source.parts()
    if holds_users(source):
        raise TypeError(
            "Parts of users must arrive one by one. Got one table. A user's rows may "
            "stand anywhere in it."
        )
    return buckets(source, size)
