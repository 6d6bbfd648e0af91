"""Slots of users in a source, by which searches divide them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skdp._floats import IntArray
from skdp.io._batches import Batch
from skdp.io._users import UserIds


class Slots:
    """Some of as many slots as users are declared; a user's follows from the id alone.

    A slot has any number of users: none, one, or several who stay together. So nobody's
    rows, how many they are, or whether there are any, move anybody else to another
    part, as ranks among the ids that are there would.

    Parameters
    ----------
    ids : str
        Name of the column.
    chosen : ndarray of int
        Different ones, drawn without regard to the data.
    n_slots : int
        Public.
    """

    def __init__(self, ids: str, chosen: IntArray, n_slots: int) -> None:
        self.ids, self._chosen, self._n_slots = ids, chosen, n_slots

    def __len__(self) -> int:
        return len(self._chosen)

    @classmethod
    def all(cls, ids: str, n_slots: int) -> Slots:
        """All of them."""
        return cls(ids, np.arange(n_slots), n_slots)

    def taking(self, positions: NDArray[np.int64] | slice) -> Slots:
        """The slots at some positions among these."""
        return Slots(self.ids, self._chosen[positions], self._n_slots)

    def of(self, batches: Iterator[Batch], users: UserIds) -> Iterator[Batch]:
        """What one pass over the whole source shows of the users in these slots.

        Parameters
        ----------
        users : UserIds
            Of the whole source.
        """
        is_chosen = np.zeros(self._n_slots, dtype=bool)
        is_chosen[self._chosen] = True
        # Nobody is in no part.
        is_in = np.append(is_chosen[users.slots(self._n_slots)], False)
        for batch in batches:
            codes = users.codes(batch.columns.column(self.ids))
            places = np.flatnonzero(is_in[codes])
            if len(places):
                yield batch.at(places)
