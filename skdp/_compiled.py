"""How loops are compiled; importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

# No compiled loop can fail: sums may be taken in any order (`reassoc`, `contract`)
# unless a loop is compiled exactly, but no assumption is made on infinities or NaN.


# Set explicitly: a function without these options takes them over from its first
# caller.
_EXACT_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
}
_OPTIONS = {**_EXACT_OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}


def compiled(function: Callable[..., Any]) -> Any:
    """`function`, to be compiled at its first call, once for all processes."""
    return _compiled(function, _OPTIONS)


def compiled_exactly(function: Callable[..., Any]) -> Any:
    """As `compiled`, with all operations in the order in which they are written."""
    return _compiled(function, _EXACT_OPTIONS)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:  # no folder to keep it in: anew in every process
        return njit(function, **options)
