"""Messages on a wire: of a kind, a sender and a round, with a tag that proves them.

=========  ======  =========================================
bytes      name    what it is
=========  ======  =========================================
4          length  of all that follows
1          kind    see `Kind`
2          sender  number of the owner that the wire is of
4          round
length-39  content
32         tag     keyed digest of all that stands before it
=========  ======  =========================================
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum

_HEAD = struct.Struct(">BHI")
_LENGTH = struct.Struct(">I")
TAG_BYTES = 32
STATEMENT_BYTES = 32
# Beyond the words of a round or of its total, both ways.
OVERHEAD = _LENGTH.size + _HEAD.size + STATEMENT_BYTES + TAG_BYTES


class Kind(IntEnum):
    """What a message says."""

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
        The owner that it comes from or goes to.
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
    """A message as it came, which may be anyone's.

    Parameters
    ----------
    frame : Frame
    tag : bytes
    """

    frame: Frame
    tag: bytes

    def is_of(self, key: bytes) -> bool:
        """Whether who sent it knows the key."""
        return hmac.compare_digest(self.tag, tag_of(key, self.frame._plain))


def tag_of(key: bytes, content: bytes) -> bytes:
    """A digest that only who knows the key can make."""
    return hashlib.blake2b(content, key=key, digest_size=TAG_BYTES).digest()


class Garbage(Exception):
    """Bytes that are no message."""


class Inbox:
    """Bytes of one wire, as they come, and the messages in them.

    Parameters
    ----------
    longest : int
        Bytes of the longest message that can be meant.
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
