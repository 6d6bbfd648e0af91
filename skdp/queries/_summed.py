"""Queries that follow from whole numbers, which parts of the records can add up apart.

Such sums are exact in any order, so that it does not matter where a record is, how
records are divided, or which part answers first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from skdp._floats import FloatArray, IntArray
from skdp.queries._exact_sums import WholeSum

# Whole numbers that are summed, by what they are of. Private.
Sums = tuple[WholeSum, ...]


class Summed(ABC):
    """A query whose answer follows from whole sums alone."""

    @property
    def is_whole(self) -> bool:
        """Whether it does; public."""
        return True

    @abstractmethod
    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        """The sums over all records of a reader, or over `rows`. Private."""

    @abstractmethod
    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        """The exact answer. Private; no record of `source` is read."""

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        """The exact answer over all records, or over `rows`, which rise. Private."""
        return self.from_whole(reader, self.whole_sums(reader, rows))


def added(parts: list[Sums]) -> Sums:
    """Sums over all of several parts, at least one."""
    total, *others = parts
    for part in others:
        for own, other in zip(total, part, strict=True):
            own.include(other)
    return total
