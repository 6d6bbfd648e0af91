"""An owner's line to the coordinator: each round's bytes, sent again until answered."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from skdp._floats import IntArray
from skdp.exceptions import SourceError
from skdp.federated._frames import (
    OVERHEAD,
    STATEMENT_BYTES,
    Frame,
    Garbage,
    Inbox,
    Kind,
    Tagged,
)
from skdp.federated._keys import KEY_BYTES, Key
from skdp.federated._masks import Masked
from skdp.federated._plan import FederationPlan
from skdp.federated._roster import Roster, hello_key, mask_secrets, wire_key
from skdp.federated._wires import connected

# Seconds between two attempts to connect.
_AGAIN = 0.1
T = TypeVar("T")
_SILENT = "The coordinator did not answer in time."
_NOT_ALL = (
    "The coordinator and all parties must come in time. Got none or fewer. Ask them "
    "for an hour, or use more patience. Nothing was booked or read."
)


class Line:
    """One owner's side.

    Parameters
    ----------
    plan : FederationPlan
    number : int
        Of the owner in the plan.
    key : Key
        The owner's lasting key.
    patience : float
        Seconds after which a fit ends that gets no answer.
    tls : SSLContext or None, default=None
    """

    def __init__(
        self,
        plan: FederationPlan,
        number: int,
        key: Key,
        patience: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._plan, self._number, self._key = plan, number, key
        self._tls = tls
        self._patience, self._fresh = patience, Key.new()
        self._digest, self._paths = plan.digest, list(plan.paths)
        self._first = hello_key(key, plan.coordinator_key, self._digest)
        self._socket: socket.socket | None = None
        self._ready: list[Tagged] = []
        most = OVERHEAD + 8 * plan.longest
        self._longest = max(most, OVERHEAD + KEY_BYTES * (len(plan.parties) + 1))
        self._inbox = Inbox(self._longest)
        self._roster: Roster | None = None
        self._masked: Masked | None = None
        self._wire_key = b""
        self._round = 0
        self.n_sent = self.n_received = 0  # bytes of rounds

    def join(self) -> None:
        """Say hello, and hear who takes part.

        Raises
        ------
        SourceError
            If not all came in time.
        """
        self._until(self._connected, _NOT_ALL)

    def added(self, statement: bytes, share: IntArray) -> IntArray:
        """The sum of all owners' shares of the next round.

        Raises
        ------
        SourceError
            If it did not come in time, or the round is not one of the plan.
        """
        self.join()
        self._round += 1
        number = self._round
        # Those of the plan that this fit can still be.
        self._paths = [
            path for path in self._paths if path[number - 1 : number] == (share.size,)
        ]
        if not self._paths or not self._masked:
            raise SourceError("A round must be one of the plan.")
        words = self._masked.message(number, statement, share)
        frame = Frame(Kind.SHARE, self._number, number, statement + words)
        total = self._until(lambda: self._exchanged(frame))
        found: IntArray = np.frombuffer(total, dtype="<u8").view(np.int64)
        return found

    def leave(self) -> None:
        """Say that nothing more is needed; never raises."""
        if self._socket is not None and self._wire_key:
            bye = Frame(Kind.BYE, self._number, self._round, b"")
            try:
                self._socket.sendall(bye.packed(self._wire_key))
            except OSError:
                pass  # it will find out by itself
        self._drop()

    def _exchanged(self, frame: Frame) -> bytes:
        """The total of a round, if this connection brings it."""
        wire = self._connected()
        packed = frame.packed(self._wire_key)
        wire.sendall(packed)
        self.n_sent += len(packed)
        statement = frame.content[:STATEMENT_BYTES]
        while True:
            found = self._received(wire)
            is_ours = found.is_of(self._wire_key) and found.frame.kind == Kind.TOTAL
            is_now = found.frame.round_number == frame.round_number
            if not is_ours or found.frame.party != self._number:
                raise Garbage
            if is_now:
                content = found.frame.content
                is_same = content[:STATEMENT_BYTES] == statement
                if not is_same or len(content) != len(frame.content):
                    raise Garbage
                self.n_received += len(packed)
                return content[STATEMENT_BYTES:]

    def _connected(self) -> socket.socket:
        """A wire on which both sides have said who they are."""
        if self._socket is not None:
            return self._socket
        wire = connected(self._plan.address, self._patience, self._tls)
        self._socket, self._inbox, self._ready = wire, Inbox(self._longest), []
        hello = Frame(Kind.HELLO, self._number, 0, self._fresh.public)
        wire.sendall(hello.packed(self._first))
        found = self._received(wire)
        is_roster = found.frame.kind == Kind.ROSTER
        if not (is_roster and found.is_of(self._first)):
            raise Garbage
        self._agree(found.frame.content)
        return wire

    def _agree(self, content: bytes) -> None:
        """Take a roster that has this owner's key; the same one ever after."""
        names = tuple(party.key for party in self._plan.parties)
        roster = Roster.of(self._digest, content, len(names))
        if roster.parties[self._number] != self._fresh.public:
            raise Garbage  # of another fit
        if self._roster is None:
            self._roster = roster
            secrets = mask_secrets(self._number, self._key, self._fresh, names, roster)
            self._masked = Masked(self._number, secrets)
            theirs = self._plan.coordinator_key, roster.coordinator
            self._wire_key = wire_key(self._key, self._fresh, *theirs, roster)
        elif roster != self._roster:
            raise SourceError("The parties of a fit must stay the same.")

    def _received(self, wire: socket.socket) -> Tagged:
        while not self._ready:
            found = wire.recv(1 << 16)
            if not found:
                raise Garbage
            self._ready = self._inbox.feed(found)
        return self._ready.pop(0)

    def _until(self, attempt: Callable[[], T], told: str = _SILENT) -> T:
        """The result of the first attempt that does not fail, in time."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return attempt()
            except (OSError, Garbage):
                self._drop()
            if time.monotonic() > end:
                raise SourceError(told)
            time.sleep(_AGAIN)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
