"""How loops are compiled; importing this imports numba.

No compiled loop can fail: sums may be taken in any order (`reassoc`, `contract`), but
no assumption is made on infinities or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def compiled(function: Callable[..., Any]) -> Any:
    """`function`, to be compiled at its first call, once for all processes."""
    try:
        return njit(function, cache=True, **_OPTIONS)
    except RuntimeError:  # no folder to keep it in: anew in every process
        return njit(function, **_OPTIONS)
