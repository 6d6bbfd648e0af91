"""Record batches, and which of their rows are records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


class Batch:
    """A record batch, and which of its rows are records."""

    def __init__(self, columns: Any, is_record: NDArray[np.bool_] | None) -> None:
        self.columns, self.is_record = columns, is_record

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @classmethod
    def of(
        cls, scanned: Iterator[tuple[Any, NDArray[np.bool_] | None]], size: int
    ) -> Iterator[Self]:
        """Batches of at most so many rows."""
        for columns, is_record in scanned:
            for start in range(0, columns.num_rows, size):
                part = columns.slice(start, size)
                own = None if is_record is None else is_record[start : start + size]
                yield cls(part, own)

    def at(self, places: NDArray[np.int64]) -> Batch:
        """Some of the rows."""
        own = None if self.is_record is None else self.is_record[places]
        return Batch(self.columns.take(places), own)
