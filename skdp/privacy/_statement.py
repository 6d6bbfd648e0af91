"""What is asked, as a digest: equal for all who ask the same at the same weights."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np

from skdp.exceptions import Refused

# Of a fitted model: what each owner has of its own, and what was booked.
_OWN = ("ledger", "privacy_", "random_state")
_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


def statement_of(*asked: Any) -> bytes:
    """Digest of values: plain ones, arrays, and public fields of frozen objects.

    Raises
    ------
    Refused
        For an object of which not all is known that an answer depends on.
    """
    found = hashlib.blake2b(digest_size=32)
    _tell(found, asked)
    return found.digest()


def _tell(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        _say(found, f"{value.dtype.str}{value.shape}", value.tobytes())
    elif isinstance(value, _PLAIN):
        _say(found, type(value).__name__, repr(value).encode())
    elif isinstance(value, np.ndarray):
        _say(found, "objects", str(value.shape).encode())
        _tell(found, value.ravel().tolist())
    elif isinstance(value, dict):
        _say(found, "mapping", str(len(value)).encode())
        _tell(found, sorted(value.items(), key=lambda item: repr(item[0])))
    elif hasattr(value, "get_params") and not isinstance(value, type):
        kind = type(value)
        _say(found, "model", f"{kind.__module__}.{kind.__qualname__}".encode())
        _tell(found, {k: v for k, v in vars(value).items() if k not in _OWN})
    elif isinstance(value, slice):
        _say(found, "slice", b"")
        _tell(found, (value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        _say(found, "several", str(len(value)).encode())
        for one in value:
            _tell(found, one)
    elif isinstance(value, FunctionType) and not value.__closure__:
        _say(found, "function", f"{value.__module__}.{value.__qualname__}".encode())
    elif not is_dataclass(value) or isinstance(value, type):
        raise Refused(
            "Several owners must be able to tell what they are asked. Got a question "
            f"that holds an instance of {type(value).__name__}. Use another estimator "
            "or solver. Nothing was booked or read."
        )
    else:
        _say(found, "object", type(value).__qualname__.encode())
        for field in fields(value):
            _say(found, "field", field.name.encode())
            _tell(found, getattr(value, field.name))


def _say(found: Any, kind: str, content: bytes) -> None:
    """Kind and length first, so that no two values read alike."""
    found.update(f"{kind} {len(content)} ".encode() + content)
