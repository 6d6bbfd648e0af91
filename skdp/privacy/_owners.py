"""Owners of records who show nobody their sums: what a door must know of them.

While owners are asked, every release of this context is theirs: what cannot be added up
among them is refused before anything is booked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from skdp._floats import FloatArray, IntArray
from skdp.data._source import elsewhere


class Owners(Protocol):
    """Several owners of the records of one fit.

    Attributes
    ----------
    n_parties : int
        How many they are; public.
    n_honest : int
        How many of them are trusted to draw their share of the noise.
    seed : int or None
        From which all draw what is public, such as trees; None where one process does.
    """

    n_parties: int
    n_honest: int
    seed: int | None

    def books(self, event: Any, delta: float, ledger: Any) -> None:
        """Hear in a rehearsal of an event that will be booked, and where."""
        ...

    def one_of(self, fits: Sequence[Callable[[], Any]]) -> None:
        """Hear in a rehearsal which fits may come next, of which one will."""
        ...

    def planned(self, query: Any, source: Any, statement: bytes) -> None:
        """Hear in a rehearsal of a query that will be asked, and of its question.

        Raises `Refused` if they cannot be sent to the owners.
        """
        ...

    def answers(self, query: Any, source: Any) -> list[FloatArray]:
        """The exact answer over the records of each owner here. Private."""
        ...

    def added(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        """The sum of all owners' shares.

        Parameters
        ----------
        statement : bytes
            Digest of what is asked and of its noise; must be the same for all.
        shares : list of ndarray of int64
            Of the owners here, with their noise.
        """
        ...


# Whose records are asked for, and whether in rehearsal; of this thread alone.
_OWNERS: ContextVar[tuple[Owners | None, bool]] = ContextVar(
    "_OWNERS", default=(None, False)
)


def owners_now() -> Owners | None:
    """Whose records are being asked; None if those of this process."""
    return _OWNERS.get()[0]


def is_rehearsing() -> bool:
    """Whether what runs now is a rehearsal: nobody is asked, and nobody hears of it."""
    return _OWNERS.get()[1]


@contextmanager
def asking(owners: Owners, *, rehearses: bool = False) -> Iterator[None]:
    """All releases within are of these owners' records."""
    token = _OWNERS.set((owners, rehearses))
    try:
        yield
    finally:
        _OWNERS.reset(token)


def is_theirs(owners: Owners, source: Any) -> bool:
    """Whether a source's records are added up among these owners."""
    return getattr(elsewhere(source), "owners", None) is owners
