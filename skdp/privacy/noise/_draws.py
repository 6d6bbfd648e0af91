"""`Draws`: orders, samples and counts, which are random but not noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skdp._arrays import IntArray


class Draws(Protocol):
    """Exact draws from finite laws; none of them could hide a number."""

    def permutation(self, n: int) -> IntArray:
        """A uniform order of 0, ..., n - 1."""
        ...

    def subset(self, n: int, size: int) -> IntArray:
        """A uniform subset of {0, ..., n - 1} of a public size, in rising order."""
        ...

    def poisson_sample(self, n: int, rate: float) -> IntArray:
        """Each of 0, ..., n - 1 independently with probability `rate`, rising."""
        ...

    def integers(self, n: int, size: int) -> IntArray:
        """Independent uniform draws from {0, ..., n - 1}, of shape (size,)."""
        ...

    def weighted_index(self, weights: Sequence[int]) -> int:
        """An index drawn with probability exactly proportional to its weight."""
        ...


class DrawsOf:
    """The draws of a noise source, without its noise."""

    def __init__(self, noise: Draws) -> None:
        self._noise = noise

    def permutation(self, n: int) -> IntArray:
        return self._noise.permutation(n)

    def subset(self, n: int, size: int) -> IntArray:
        return self._noise.subset(n, size)

    def poisson_sample(self, n: int, rate: float) -> IntArray:
        return self._noise.poisson_sample(n, rate)

    def integers(self, n: int, size: int) -> IntArray:
        return self._noise.integers(n, size)

    def weighted_index(self, weights: Sequence[int]) -> int:
        return self._noise.weighted_index(weights)
