"""How loops are compiled; importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

# Sums may be computed in any order (`reassoc`, `contract`) unless a loop is compiled
# exactly. No assumption is made on infinities or NaN, and compiled loops do not raise.


# Set explicitly, since a function without these options inherits them from its first
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
    except RuntimeError:  # without a cache folder, compile again in every process
        return njit(function, **options)
