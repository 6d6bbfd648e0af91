"""Numbers that look random and follow from an id alone."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any


def number_of(own: Any) -> int:
    """A number below 2^64 that follows from an id; 5 and "5" have the same.

    Parameters
    ----------
    own : int, str or bytes
        Text as its bytes in UTF-8, which those of a source may not be.
    """
    # A text from JSON may hold half a character, which is no UTF-8.
    is_stored = isinstance(own, bytes)
    stored = own if is_stored else str(own).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(stored, digest_size=8).digest(), "little")
