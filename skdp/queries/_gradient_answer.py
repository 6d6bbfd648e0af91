"""Queries that follow from a sum of gradients over clipped rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from skdp._floats import FloatArray, IntArray
from skdp.queries._summed import Summed, Sums


class GradientAnswer(Summed):
    """What is asked of the sum of gradients at released weights.

    Readers are `ExactGradientSum`, which adds up whole numbers, or do as it does.
    """

    @property
    @abstractmethod
    def at(self) -> FloatArray:
        """The weights as a reader takes them, on their grid."""

    @abstractmethod
    def answer(self, gradient: FloatArray) -> FloatArray:
        """What is asked of a reader's sum. Private."""

    @abstractmethod
    def open(self, source: Any) -> Any:
        """A reader of the source; nothing is read yet."""

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        sums: Sums = reader.whole_sums(self.at, rows)
        return sums

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        return self.answer(self.open(source).value(sums))

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        return self.answer(reader(self.at, rows))
