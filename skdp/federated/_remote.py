"""Owners as processes, and the coordinator that adds up their sums."""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from skdp._arrays import IntArray
from skdp.exceptions import BudgetExceeded, Refused, SourceError
from skdp.federated._federation import LocalOwners, digest_of
from skdp.federated._plan import FederationPlan
from skdp.federated._secrets import (
    KEY_BYTES,
    Key,
    Roster,
    hello_key,
    unmasked,
    wire_key,
)
from skdp.federated._wire import (
    OVERHEAD,
    STATEMENT_BYTES,
    Frame,
    Garbage,
    Kind,
    OwnerConnection,
    Tagged,
    Wire,
)
from skdp.io._parquet import UNREADABLE, File
from skdp.io._parts import FileRows, Piece, WorkerPart
from skdp.io._session import refused
from skdp.privacy.accounting._events import Event
from skdp.privacy.ledger._ledger import BudgetLedger

# --------------------------------------------------- The coordinator: sums without data
# A round ends when every owner has answered it. An owner that was cut off connects
# again and sends the same bytes; a stranger's bytes are dropped. An owner that sends
# two different answers in one round, or answers another question than the others, ends
# the fit.


class Hub:
    """Connections of all owners.

    Parameters
    ----------
    plan : FederationPlan
    key : Key
        The coordinator's long-term key.
    patience : float
        Seconds of an owner's silence after which a fit ends.
    tls : SSLContext or None, default=None
    """

    def __init__(
        self,
        plan: FederationPlan,
        key: Key,
        patience: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._plan, self._key, self._patience = plan, key, patience
        self._tls = tls
        self._fresh, self._digest = Key.new(), plan.digest
        self._n = len(plan.parties)
        self._first = [
            hello_key(key, party.key, self._digest) for party in plan.parties
        ]
        self._longest = OVERHEAD + max(8 * plan.longest, KEY_BYTES)
        self._hellos: dict[int, bytes] = {}
        self._wires: dict[int, Wire] = {}
        self._keys: list[bytes] = []
        self._roster: Roster | None = None
        self._round = self._ended = 0
        self._said: dict[int, bytes] = {}  # by owner, in this round
        self._last: dict[int, bytes] = {}  # and in the last one that ended
        self._total = b""
        self._gone: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(plan.address)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def open(self) -> None:
        """Wait for all owners, and send each of them the list of parties.

        Raises
        ------
        SourceError
            If one of them did not come in time.
        """
        self._wait(lambda: len(self._hellos) == self._n)
        parties = tuple(self._hellos[number] for number in range(self._n))
        self._roster = Roster(self._digest, self._fresh.public, parties)
        self._keys = [
            wire_key(self._key, self._fresh, party.key, fresh, self._roster)
            for party, fresh in zip(self._plan.parties, parties, strict=True)
        ]
        for number in range(self._n):
            self._send_roster(number)

    def added(self, statement: bytes) -> IntArray:
        """The sum of all owners' shares of the next round.

        Raises
        ------
        SourceError
            If an owner was silent, answered twice, or another question.
        """
        self._round += 1
        self._said = {}
        self._wait(lambda: len(self._said) == self._n)
        said = [self._said[number] for number in range(self._n)]
        # A statement includes the number of words.
        if any(one[:STATEMENT_BYTES] != statement for one in said):
            raise SourceError("An owner answered another question than was asked.")
        total = unmasked([one[STATEMENT_BYTES:] for one in said])
        self._total = statement + np.asarray(total).astype("<i8").tobytes()
        self._last, self._ended = self._said, self._round
        for number in range(self._n):
            self._send_total(number)
        return total

    def finish(self) -> None:
        """Wait a little for owners that lack the last total."""
        try:
            self._wait(lambda: len(self._gone) == self._n)
        except SourceError:
            pass  # an owner that is silent now has ended its own fit

    def hang_up(self) -> None:
        """Close all connections."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()

    def _wait(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + self._patience
        while not is_done():
            for wire, tagged in self._messages(end):
                try:
                    self._hear(wire, tagged)
                except (Garbage, OSError):
                    self._drop(wire)
            if not is_done() and time.monotonic() > end:
                raise SourceError("An owner did not answer in time.")

    def _messages(self, end: float) -> Iterator[tuple[Wire, Tagged]]:
        """The next messages from any owner."""
        left = max(end - time.monotonic(), 0.0)
        for key, _ in self._selector.select(min(left, 0.5)):
            wire = key.data
            if wire is None:
                self._accept()
                continue
            try:
                messages = wire.messages()
            except (Garbage, OSError):
                self._drop(wire)
                continue
            for tagged in messages:
                yield wire, tagged

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
            wire = Wire(connection, self._longest, self._patience, self._tls)
        except OSError:
            return
        self._selector.register(wire.socket, selectors.EVENT_READ, wire)

    def _hear(self, wire: Wire, tagged: Tagged) -> None:
        frame = tagged.frame
        if not frame.party < self._n:
            raise Garbage
        if frame.kind == Kind.HELLO and tagged.is_of(self._first[frame.party]):
            self._hear_hello(wire, frame)
            return
        is_theirs = wire.party == frame.party and self._roster is not None
        if not is_theirs or not tagged.is_of(self._keys[frame.party]):
            raise Garbage
        if frame.kind == Kind.BYE:
            self._gone.add(frame.party)
        elif frame.kind == Kind.SHARE:
            self._hear_share(frame)
        else:
            raise Garbage

    def _hear_hello(self, wire: Wire, frame: Frame) -> None:
        if len(frame.content) != KEY_BYTES:
            raise Garbage
        known = self._hellos.setdefault(frame.party, frame.content)
        if known != frame.content:
            # An owner from another fit, or restarted: its masks would not cancel any
            # more.
            if self._roster is not None:
                raise Garbage
            self._hellos[frame.party] = frame.content
        before = self._wires.get(frame.party)
        if before is not None and before is not wire:
            self._drop(before)
        wire.party = frame.party
        self._wires[frame.party] = wire
        if self._roster is not None:
            self._send_roster(frame.party)

    def _hear_share(self, frame: Frame) -> None:
        number, content = frame.party, frame.content
        has_ended = frame.round_number == self._ended
        if has_ended and self._ended:
            known = self._last[number]
        elif frame.round_number == self._round > self._ended:
            if not self._is_planned(len(content)):
                raise Garbage
            known = self._said.setdefault(number, content)
        else:
            raise Garbage
        if known != content:
            raise SourceError("An owner answered a round twice.")
        if has_ended:
            self._send_total(number)

    def _is_planned(self, length: int) -> bool:
        """Whether a round of the plan can have a share of this many bytes."""
        paths = [path for path in self._plan.paths if len(path) >= self._round]
        words = (length - STATEMENT_BYTES) / 8
        return any(path[self._round - 1] == words for path in paths)

    def _send_roster(self, number: int) -> None:
        if self._roster is not None:
            frame = Frame(Kind.ROSTER, number, 0, self._roster.content)
            self._send(number, frame.packed(self._first[number]))

    def _send_total(self, number: int) -> None:
        frame = Frame(Kind.TOTAL, number, self._ended, self._total)
        self._send(number, frame.packed(self._keys[number]))

    def _send(self, number: int, packed: bytes) -> None:
        """Send to an owner; if it is cut off, it will ask again."""
        wire = self._wires.get(number)
        try:
            if wire is not None:
                wire.send(packed)
        except OSError:
            self._drop(wire)

    def _drop(self, wire: Wire | None) -> None:
        if wire is None or wire.socket.fileno() < 0:
            return
        self._selector.unregister(wire.socket)
        wire.socket.close()
        if wire.party is not None and self._wires.get(wire.party) is wire:
            del self._wires[wire.party]


# ------------------------------------------------------------ Owners in other processes
# One of them is here, or none at the coordinator.


# Seconds of any party's silence after which a fit ends.
PATIENCE = 60.0


class _Remote(LocalOwners):
    """The common part of an owner and the coordinator: a plan that binds them.

    Parameters
    ----------
    plan : FederationPlan
    parts : list of WorkerPart
    """

    state_kind = "size, time and end of each owner's file in each of its answers"

    def __init__(self, plan: FederationPlan, parts: list[WorkerPart]) -> None:
        super().__init__(parts, plan.sample_counts, plan.n_honest)
        self._plan, self.seed = plan, plan.seed
        self._heard = b""  # digest of all questions and totals so far

    def added(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        # The rows depend on totals of earlier steps, which the question does not
        # contain.
        asked = digest_of(self._heard + statement)
        total: IntArray = self._passed(lambda: self._summed(asked, shares))
        self._heard = digest_of(asked + np.asarray(total).astype("<i8").tobytes())
        return total

    @abstractmethod
    def _summed(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        """The sum of all owners' shares."""

    def check_rehearsed(self) -> None:
        if self.traffic != self._plan.traffic:
            raise Refused(
                "The plan must have the rounds and the questions that its fit has. Got "
                "others. Use one version of skdp, and one kind of machine, for all "
                "parties, and make the plan anew. Nothing was charged or read."
            )


class PartyOwners(_Remote):
    """An owner with its own records.

    Parameters
    ----------
    plan : FederationPlan
    part : WorkerPart
    line : OwnerConnection
    ledger : BudgetLedger
    """

    def __init__(
        self,
        plan: FederationPlan,
        part: WorkerPart,
        line: OwnerConnection,
        ledger: BudgetLedger,
    ) -> None:
        super().__init__(plan, [part])
        self._line, self._ledger = line, ledger

    def charged(self, event: Event, delta: float, ledger: Any) -> None:
        # Any private step inside the model must have this ledger.
        if ledger != self._ledger:
            raise Refused(
                "A plan must charge all of its events to the ledger of a party. Got "
                "one that would be charged elsewhere. Ask for another plan. Nothing "
                "was charged or read."
            )
        super().charged(event, delta, ledger)

    def check_rehearsed(self) -> None:
        super().check_rehearsed()
        # Before any charge: a party that cannot take part does not connect.
        if self._ledger.admits(self.events):
            self._line.join()
        elif len(self.events) > 1:
            raise BudgetExceeded(
                "The ledger must have room for all steps of a plan. Got less. Ask for "
                "a plan with a smaller epsilon. Nothing was charged or read.",
                ledger=self._ledger.path,
                exhausted="epsilon",
            )
        # The ledger itself refuses a single event, and says what would fit.

    def _summed(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        (share,) = shares
        return self._line.added(statement, share)


class CoordinatorOwners(_Remote):
    """All owners, as seen by a coordinator without records.

    Parameters
    ----------
    plan : FederationPlan
    hub : Hub
    """

    def __init__(self, plan: FederationPlan, hub: Hub) -> None:
        super().__init__(plan, [])
        self._hub = hub

    def check_rehearsed(self) -> None:
        super().check_rehearsed()
        self._hub.open()

    def _summed(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        return self._hub.added(statement)


def coordinate(
    plan: FederationPlan,
    key: Key,
    *,
    patience: float = PATIENCE,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """Coordinate the fit of a plan; a coordinator needs no records.

    Parameters
    ----------
    plan : FederationPlan
    key : Key
        The coordinator's.
    patience : float, default=60.0
        Seconds of a party's silence after which the fit ends.
    tls : ssl.SSLContext or None, default=None
        With the coordinator's certificate, if the plan is encrypted.

    Returns
    -------
    estimator
        Fitted, with `privacy_`.

    Raises
    ------
    ValueError
        If the key or `tls` differs from the plan's. Nothing was asked.
    SourceError
        If the parties did not connect, and nothing was charged; or if a party broke
        the rules, and everything that was charged stays in the parties' ledgers.
    """
    if key.public != plan.coordinator_key:
        raise ValueError(
            "The key must be that of the plan's coordinator. Got another. Use the key "
            "that the plan was made with."
        )
    plan.check_tls(tls, verifies=False)
    hub = Hub(plan, key, patience, tls)
    try:
        model = plan.federation(CoordinatorOwners(plan, hub)).fit(plan.model())
        hub.finish()
    finally:
        hub.hang_up()
    return model


def serve(
    plan: FederationPlan,
    key: Key,
    data: str | Path,
    ledger: BudgetLedger,
    *,
    patience: float = PATIENCE,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """Take part in the fit of a plan, as one of its owners.

    The fit is rehearsed. When all parties have connected, it is charged to the ledger,
    and only then are records read and rounds answered.

    Parameters
    ----------
    plan : FederationPlan
        As approved.
    key : Key
        This party's.
    data : path
        A Parquet file with the plan's columns and number of rows.
    ledger : BudgetLedger
        This party's.
    patience : float, default=60.0
        Seconds without a message after which the fit ends.
    tls : ssl.SSLContext or None, default=None
        A context that knows the coordinator's certificate, if the plan is encrypted.

    Returns
    -------
    estimator
        Fitted: the same model as all parties have.

    Raises
    ------
    Refused, TypeError, ValueError
        If the plan, the key, the ledger, `tls` or the data are not as described.
        Nothing was charged.
    BudgetExceeded
        From the ledger. Nothing was read.
    SourceError
        If not all parties connected in time, and nothing was charged; or if the fit
        ended early, and it stays in the ledger.
    """
    if not isinstance(ledger, BudgetLedger):
        raise TypeError(
            "The 'ledger' parameter must be a BudgetLedger: a party charges what its "
            f"records are asked. Got an instance of {type(ledger).__name__}. Use "
            "BudgetLedger.open(path) for a ledger that exists."
        )
    number = plan.number(key.public)
    part = WorkerPart(number, _file_rows(plan, number, data))
    plan.check_tls(tls, verifies=True)
    line = OwnerConnection(plan, number, key, patience, tls)
    owners = PartyOwners(plan, part, line, ledger)
    with _left(line):
        return plan.federation(owners).fit(plan.model(ledger))


@contextmanager
def _left(line: OwnerConnection) -> Iterator[None]:
    try:
        yield
    finally:
        line.leave()


def _file_rows(plan: FederationPlan, number: int, data: str | Path) -> FileRows:
    """The party's rows, if they are as the plan describes them."""
    file = File(str(data))
    schema = refused(file.schema, UNREADABLE)
    found = {field.name: str(field.type) for field in schema}
    wanted = dict(plan.features)
    n_rows = refused(file.n_rows, UNREADABLE)
    is_same = all(found.get(name) == kind for name, kind in wanted.items())
    if not is_same or n_rows != plan.parties[number].n_samples:
        raise ValueError(
            "A party's file must have the plan's columns of the plan's types, and as "
            "many rows as the plan says. Got another. Ask for another plan, or write "
            "the file anew. Nothing was charged."
        )
    groups = tuple(range(len(file.group_sizes())))
    return FileRows((Piece(file, groups, n_rows),), len(wanted))
