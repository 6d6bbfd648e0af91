"""What is asked, as a digest: equal for all who ask the same at the same weights."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


def statement_of(*asked: Any) -> bytes:
    """Digest of values: plain ones, arrays, and public fields of frozen objects.

    Objects that are neither count by their type alone.
    """
    found = hashlib.blake2b(digest_size=32)
    _tell(found, asked)
    return found.digest()


def _tell(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        _say(found, f"{value.dtype.str}{value.shape}", value.tobytes())
    elif isinstance(value, _PLAIN):
        _say(found, type(value).__name__, repr(value).encode())
    elif isinstance(value, (tuple, list)):
        _say(found, "several", str(len(value)).encode())
        for one in value:
            _tell(found, one)
    else:
        _say(found, "object", type(value).__qualname__.encode())
        for field in fields(value) if is_dataclass(value) else ():
            _say(found, "field", field.name.encode())
            _tell(found, getattr(value, field.name))


def _say(found: Any, kind: str, content: bytes) -> None:
    """Kind and length first, so that no two values read alike."""
    found.update(f"{kind} {len(content)} ".encode() + content)
