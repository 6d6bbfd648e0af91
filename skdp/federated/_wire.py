"""Messages between owners and the coordinator: connections, frames, retries."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np

from skdp._arrays import IntArray
from skdp.exceptions import SourceError
from skdp.federated._plan import FederationPlan
from skdp.federated._secrets import (
    KEY_BYTES,
    Key,
    Masked,
    Roster,
    hello_key,
    mask_secrets,
    wire_key,
)

# ----------------------------------------------------------------------------- Messages
# A tag proves the sender of a message.
#
# =========  ======  =========================================
# bytes      name    what it is
# =========  ======  =========================================
# 4          length  of all that follows
# 1          kind    see `Kind`
# 2          sender  number of the owner that the wire is of
# 4          round
# length-39  content
# 32         tag     keyed digest of all that stands before it
# =========  ======  =========================================


_HEAD = struct.Struct(">BHI")
_LENGTH = struct.Struct(">I")
TAG_BYTES = 32
STATEMENT_BYTES = 32
# Bytes of a message beyond the words of a round or of its total, both ways.
OVERHEAD = _LENGTH.size + _HEAD.size + STATEMENT_BYTES + TAG_BYTES


class Kind(IntEnum):
    """Kind of a message."""

    HELLO = 1  # an owner's key for this fit
    ROSTER = 2  # the keys of all
    SHARE = 3  # an owner's masked share of a round
    TOTAL = 4  # the sum of all shares
    BYE = 5  # an owner has what it needs


@dataclass(frozen=True)
class Frame:
    """One message.

    Parameters
    ----------
    kind : int
    party : int
        The owner who sends or receives it.
    round_number : int
    content : bytes
    """

    kind: int
    party: int
    round_number: int
    content: bytes

    @property
    def _plain(self) -> bytes:
        return _HEAD.pack(self.kind, self.party, self.round_number) + self.content

    def packed(self, key: bytes) -> bytes:
        """Length, message and tag."""
        body = self._plain + tag_of(key, self._plain)
        return _LENGTH.pack(len(body)) + body


@dataclass(frozen=True)
class Tagged:
    """A message as received, from any sender.

    Parameters
    ----------
    frame : Frame
    tag : bytes
    """

    frame: Frame
    tag: bytes

    def is_of(self, key: bytes) -> bool:
        """Whether the sender knows the key."""
        return hmac.compare_digest(self.tag, tag_of(key, self.frame._plain))


def tag_of(key: bytes, content: bytes) -> bytes:
    """A digest that can be made only with the key."""
    return hashlib.blake2b(content, key=key, digest_size=TAG_BYTES).digest()


class Garbage(Exception):
    """Bytes that are not a message."""


class Inbox:
    """Received bytes of one wire, and the messages in them.

    Parameters
    ----------
    longest : int
        Bytes of the longest valid message.
    """

    def __init__(self, longest: int) -> None:
        self._bytes, self._longest = bytearray(), longest

    def feed(self, found: bytes) -> list[Tagged]:
        """Messages that are complete now.

        Raises
        ------
        Garbage
            If a message is too long or too short.
        """
        self._bytes += found
        whole = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if not _HEAD.size + TAG_BYTES <= length <= self._longest:
                raise Garbage
            if len(self._bytes) < _LENGTH.size + length:
                break
            body = bytes(self._bytes[_LENGTH.size : _LENGTH.size + length])
            del self._bytes[: _LENGTH.size + length]
            kind, party, number = _HEAD.unpack_from(body)
            content = body[_HEAD.size : -TAG_BYTES]
            frame = Frame(kind, party, number, content)
            whole.append(Tagged(frame, body[-TAG_BYTES:]))
        return whole


# ---------------------------------------------------- Connections, plain or through TLS
# They carry bytes of any sender. Messages prove themselves and shares are masked, so
# TLS adds one thing: an eavesdropper cannot see sums.


_AT_ONCE = 1 << 16


def connected(
    address: tuple[str, int], patience: float, tls: ssl.SSLContext | None
) -> socket.socket:
    """A connection to the coordinator.

    Raises
    ------
    OSError
        If there is none, or TLS finds another party there.
    """
    wire = socket.create_connection(address, timeout=patience)
    # Small messages, which must not wait for one another.
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return wire
    try:
        return tls.wrap_socket(wire, server_hostname=address[0])
    except OSError:
        wire.close()
        raise


class Wire:
    """An accepted connection, and its owner; None until the owner is known.

    Parameters
    ----------
    connection : socket
    longest : int
        Bytes of the longest valid message.
    patience : float
        Seconds after which a connection that takes no bytes is given up.
    tls : SSLContext or None
    """

    def __init__(
        self,
        connection: socket.socket,
        longest: int,
        patience: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._patience, self._inbox = patience, Inbox(longest)
        self.party: int | None = None
        self._is_greeted = tls is None
        self.socket = connection
        if tls is not None:
            # The handshake comes later, step by step: a silent stranger delays nobody.
            self.socket = tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )

    def messages(self) -> list[Tagged]:
        """Complete messages that have arrived; never waits.

        Raises
        ------
        Garbage, OSError
            If nothing more can come.
        """
        try:
            return self._inbox.feed(self._bytes())
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return []

    def _bytes(self) -> bytes:
        if isinstance(self.socket, ssl.SSLSocket) and not self._is_greeted:
            self.socket.do_handshake()
            self._is_greeted = True
        found = self.socket.recv(_AT_ONCE)
        if not found:
            raise Garbage
        # Bytes that TLS has already taken from the wire wake no selector.
        while isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            found += self.socket.recv(self.socket.pending())
        return found

    def send(self, packed: bytes) -> None:
        """Send all bytes.

        Raises
        ------
        OSError
            If the other side does not take it in time.
        """
        self.socket.settimeout(self._patience)
        try:
            self.socket.sendall(packed)
        finally:
            self.socket.setblocking(False)


# ---------------------------------- OwnerConnection: an owner's line to the coordinator
# Each round's bytes are sent again until they are answered.


# Seconds between two attempts to connect.
_AGAIN = 0.1
T = TypeVar("T")
_SILENT = "The coordinator did not answer in time."
_NOT_ALL = (
    "The coordinator and all parties must connect in time. Got fewer. Agree on an "
    "hour with them, or use more patience. Nothing was charged or read."
)


class OwnerConnection:
    """One owner's side.

    Parameters
    ----------
    plan : FederationPlan
    number : int
        Number of the owner in the plan.
    key : Key
        The owner's long-term key.
    patience : float
        Seconds without an answer after which a fit ends.
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
        """Send the hello, and receive the roster.

        Raises
        ------
        SourceError
            If not all parties connected in time.
        """
        self._until(self._connected, _NOT_ALL)

    def added(self, statement: bytes, share: IntArray) -> IntArray:
        """The sum of all owners' shares of the next round.

        Raises
        ------
        SourceError
            If the sum did not arrive in time, or the round is not one of the plan.
        """
        self.join()
        self._round += 1
        number = self._round
        # Runs of the plan that are still possible.
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
        """Announce that nothing more is needed; never raises."""
        if self._socket is not None and self._wire_key:
            bye = Frame(Kind.BYE, self._number, self._round, b"")
            try:
                self._socket.sendall(bye.packed(self._wire_key))
            except OSError:
                pass  # it will find out by itself
        self._drop()

    def _exchanged(self, frame: Frame) -> bytes:
        """The total of a round, if this connection delivers it."""
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
        """A wire after both sides have said hello."""
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
        """Accept a roster with this owner's key; later only the same roster."""
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
        """The result of the first successful attempt within the time."""
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
