"""Places of records in a source, by which searches divide them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skdp.io._batches import Batch

NO_PLACES = (
    "A source must have a fixed order to be divided, since records are divided by "
    "their places, which no other record may change. Got one without. Use a "
    "ParquetSource, a DaskSource of files, or an SqlSource with record_id=."
)


class Places:
    """Some places among the rows of a source; public. A bit is held for each row.

    Parameters
    ----------
    is_in : ndarray of bool of shape (n_rows,)
    """

    def __init__(self, is_in: NDArray[np.bool_]) -> None:
        self._bits, self._n_rows = np.packbits(is_in), len(is_in)
        self._size = int(np.count_nonzero(is_in))

    def __len__(self) -> int:
        return self._size

    @classmethod
    def all(cls, n_rows: int) -> Self:
        """All rows."""
        return cls(np.ones(n_rows, dtype=bool))

    def taking(self, positions: NDArray[np.int64] | slice) -> Places:
        """The places at some positions of this part."""
        is_in = np.zeros(self._n_rows, dtype=bool)
        if len(self) < self._n_rows:
            positions = self._places(0, self._n_rows)[positions]
        is_in[positions] = True
        return Places(is_in)

    def within(self, first: int, n_rows: int) -> Places:
        """Those among some rows, which follow each other, counted from the first."""
        is_in = np.zeros(n_rows, dtype=bool)
        is_in[self._places(first, first + n_rows)] = True
        return Places(is_in)

    def of(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """What one pass over the whole source shows of this part."""
        start = 0
        for batch in batches:
            places = self._places(start, start + len(batch))
            start += len(batch)
            if len(places):
                yield batch.at(places)

    def _places(self, start: int, stop: int) -> NDArray[np.int64]:
        """Places of this part within a range of rows, counted from its start."""
        first = start // 8
        bits = np.unpackbits(self._bits[first : -(-stop // 8)])
        return np.flatnonzero(bits[start - 8 * first : stop - 8 * first])
