"""Owners whose records are in this process: what they answer, in how many rounds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

from skdp._floats import FloatArray, IntArray
from skdp.exceptions import Refused, SourceError
from skdp.io._part import Part, PartTable, Request, StateOf
from skdp.io._places import Places
from skdp.io._sent import received, sent
from skdp.io._session import Session
from skdp.privacy import Event
from skdp.privacy._elsewhere import whole_of
from skdp.privacy._owners import asking
from skdp.queries._summed import Summed, Sums, added

# More could make a sum of whole steps overflow: see `NoiseSource.gaussian_share`.
MOST_PARTIES = 512
# Bytes of one number of a message.
WORD = 8


@dataclass(frozen=True)
class Traffic:
    """What one fit asks of each owner; public.

    Parameters
    ----------
    sizes : tuple of int
        Numbers in each round.
    questions : bytes
        Digest of what a rehearsal asked.
    others : tuple of tuples of int
        Numbers in each round that there may be instead, by what a search chooses.
    """

    sizes: tuple[int, ...] = ()
    questions: bytes = b""
    others: tuple[tuple[int, ...], ...] = ()

    @property
    def n_rounds(self) -> int:
        return len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """Of all numbers that an owner sends; it receives as many."""
        return WORD * sum(self.sizes)


@dataclass(frozen=True, eq=False, repr=False)
class _Sums:
    """A request for whole sums of a query.

    Parameters
    ----------
    family : int
        Number of the queries that share what a reader keeps.
    query : Summed
    readers : dict of int to (int, Any)
        By part: of which family it is, and the reader. Private.
    firsts : tuple of int
        By part: how many records are in the parts before it.
    """

    family: int
    query: Any
    readers: dict[int, tuple[int, Any]]
    firsts: tuple[int, ...]

    def content(self, part: Part, sent: bytes) -> Any:
        """A tuple of whole sums."""
        number, reader = self.readers.get(part.number, (0, None))
        if number != self.family:
            # Before another one takes its room.
            reader = None
            self.readers.pop(part.number, None)
            query, source = received(sent, partial(self._table, part))
            reader = query.open(source)
            self.readers[part.number] = self.family, reader
        return self.query.whole_sums(reader, None)

    def _table(self, part: Part, places: Places | None, *facts: Any) -> PartTable:
        """What stands in the place of the table of all owners."""
        table = PartTable(part.rows, *facts)
        if places is None:
            return table
        own = places.within(self.firsts[part.number], part.rows.n_rows)
        return replace(table, places=own)


def _check_travels(query: Any, source: Any) -> None:
    """Refuse what could not be sent, while nothing is booked."""
    try:
        sent((query, source))
    except Exception as error:  # whatever a step of somebody else raises
        raise Refused(
            "All that owners are asked must be sent to them. Got a step that cannot be "
            f"pickled ({type(error).__name__}). Use steps of skdp or scikit-learn. "
            "Nothing was booked or read."
        ) from error


class LocalOwners:
    """Some owners' records, and how many owners there are.

    Parameters
    ----------
    parts : sequence of Part
        Those of this process. Private.
    sizes : sequence of int
        Declared numbers of records of all owners; public.
    n_honest : int
    """

    # What tells whether records changed, in words for a fit's record.
    state_kind = "checksums of each owner's records in each of its answers"

    # Of a simulation, which draws everything itself.
    seed: int | None = None

    def __init__(
        self, parts: Sequence[Part], sizes: Sequence[int], n_honest: int
    ) -> None:
        self.n_parties, self.n_honest = len(sizes), n_honest
        self.n_samples = sum(sizes)
        self._firsts = (0, *accumulate(sizes[:-1]))
        self.traffic = Traffic()
        # Of the last rehearsal, each with the delta of its budget.
        self.events: list[tuple[Event, float]] = []
        self.session: Session | None = None
        # What the last family of queries keeps of each part's rows. Private.
        self._readers: dict[int, tuple[int, Any]] = {}
        self._parts = tuple(parts)
        self._states: dict[int, tuple[int, bytes]] = {}
        # Sources and families of queries by number.
        self._families: list[tuple[int, Any, Any]] = []
        self._n_families = self._question = 0

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Within, nobody is asked; `traffic` is what would have been."""
        self.traffic, self.events = Traffic(), []
        with asking(self, rehearses=True):
            yield

    def check_rehearsed(self) -> None:
        """Raise if the rehearsal was of another fit than all owners agreed on."""

    @contextmanager
    def connected(self) -> Iterator[None]:
        """What is kept of rows is kept as long."""
        try:
            yield
        finally:
            self._families, self._states, self._readers = [], {}, {}

    def books(self, event: Event, delta: float, ledger: Any) -> None:
        """Hear in a rehearsal of an event that will be booked, and where."""
        self.events.append((event, delta))

    def planned(self, query: Any, source: Any, statement: bytes) -> None:
        """Hear in a rehearsal of a query that will be asked, and of its question."""
        _check_travels(query, source)
        before, size = self.traffic, math.prod(query.shape)
        asked = digest_of(before.questions + statement)
        self.traffic = Traffic((*before.sizes, size), asked, before.others)

    def one_of(self, fits: Sequence[Callable[[], Any]]) -> None:
        """Hear in a rehearsal which fits may come next, of which one will."""
        before, others, asked = self.traffic, [], self.traffic.questions
        for fit in fits:
            self.traffic = Traffic()
            fit()
            others.append((*before.sizes, *self.traffic.sizes))
            asked = digest_of(asked + self.traffic.questions)
        self.traffic = Traffic(before.sizes, asked, tuple(dict.fromkeys(others)))

    def check(self) -> None:
        """Raise if records here are not as they were."""
        self._asked(StateOf(), b"")

    def sums(self, query: Summed, source: Any) -> list[Sums]:
        """Whole sums of a query, of each owner here. Private."""
        family = self._family(source, query)
        is_known = all(number == family for number, _ in self._readers.values())
        # A source becomes that of an owner's part by the way it would travel.
        message = b"" if is_known and self._readers else sent((query, source))
        request = _Sums(family, query, self._readers, self._firsts)
        found: list[Sums] = self._passed(lambda: self._asked(request, message))
        return found

    def answers(self, query: Any, source: Any) -> list[FloatArray]:
        """The exact answer over the records of each owner here. Private."""
        whole = whole_of(query)
        return [whole.from_whole(source, own) for own in self.sums(whole, source)]

    def added(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        """The sum of shares: in a simulation of all owners."""
        total: IntArray = sum(shares[1:], shares[0])
        return total

    def _passed(self, ask: Callable[[], Any]) -> Any:
        """What is answered in a session, whose failures leave it without their text."""
        if self.session is None:
            raise SourceError("Owners are asked within a fit.")
        return self.session.answered(lambda: (self.n_samples, ask()), checks=True)

    def _family(self, source: Any, query: Any) -> int:
        """The number of a query's family over a source."""
        for number, other, family in self._families:
            if other is source and family == query.family:
                return number
        self._n_families += 1
        self._families.append((self._n_families, source, query.family))
        return self._n_families

    def _asked(self, request: Request, message: bytes) -> list[Any]:
        self._question += 1
        found = []
        for part in self._parts:
            answer = part.answer(self._question, request, message)
            if answer is None:
                raise SourceError("An owner could not answer.")
            facts = (answer.n_rows, answer.state)
            if self._states.setdefault(part.number, facts) != facts:
                raise SourceError("An owner's records are not as they were.")
            found.append(answer.content)
        return found


def digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def pooled(parts: list[Sums]) -> Sums:
    """Whole sums over all of several owners' records."""
    return added(parts)
