"""What errors repeat of what was given in place of a declaration."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

# Longer things may be a column of data, or a table.
_FEW, _LONG = 5, 60
_PLAIN = (list, tuple, set, frozenset, dict)


def briefly(given: Any) -> str:
    """Its repr if that is short, else its type, without values."""
    if isinstance(given, _PLAIN):
        each = [*given, *given.values()] if isinstance(given, dict) else list(given)
        if len(given) <= _FEW and all(_is_one(value) for value in each):
            return repr(given)
        return f"a {type(given).__name__} of length {len(given)}"
    return repr(given) if _is_one(given) else f"an instance of {type(given).__name__}"


def _is_one(value: Any) -> bool:
    is_one = isinstance(value, str) or not isinstance(value, Sized)
    return is_one and len(repr(value)) <= _LONG
