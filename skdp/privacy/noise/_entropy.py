"""Sources of random words: the operating system, or a seed that determines them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray


class Entropy(Protocol):
    """A source of random words."""

    def words(self, size: int) -> NDArray[np.uint64]:
        """Independent uniform 64-bit words."""
        ...


@dataclass(frozen=True)
class SystemEntropy:
    """The operating system's cryptographic generator; forks and workers never share."""

    is_private: ClassVar[bool] = True

    def words(self, size: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


class SeededEntropy:
    """A reproducible stream, for tests and teaching; its noise is not private."""

    is_private: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(seed)

    def words(self, size: int) -> NDArray[np.uint64]:
        return np.asarray(self._generator.random_raw(size), dtype=np.uint64)
