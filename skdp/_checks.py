"""Checks of public arguments, in one grammar: what, allowed, got, remedy.

No message quotes a value found in data: these functions see constructor
arguments and declared facts only.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any


def _remedy(text: str) -> str:
    return f" {text}" if text else ""


def check_real(
    name: str,
    value: Any,
    *,
    low: float,
    high: float,
    low_open: bool = False,
    high_open: bool = False,
    remedy: str = "",
) -> float:
    """Return `value` as a float, or raise if it is no number in the interval."""
    interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number:
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all doubles
            number = math.nan
        above = number > low if low_open else number >= low
        below = number < high if high_open else number <= high
        if above and below:
            return number
    kind = TypeError if not is_number else ValueError
    raise kind(
        f"The {name!r} parameter must be a number in {interval}. Got {value!r}."
        + _remedy(remedy)
    )


def check_epsilon(value: Any) -> float:
    """Return `value` as a privacy parameter: inf, or in the range of the formulas."""
    if isinstance(value, Real) and value == math.inf:
        return math.inf
    return check_real(
        "epsilon",
        value,
        low=1e-6,
        high=1e8,
        remedy="Use 1.0 for a private fit, or inf for one without privacy.",
    )


def check_delta(value: Any) -> float:
    """Return `value` as a failure probability: 0, or in [1e-50, 1)."""
    if isinstance(value, Real) and not isinstance(value, bool) and value == 0:
        return 0.0
    return check_real(
        "delta",
        value,
        low=1e-50,
        high=1.0,
        high_open=True,
        remedy="Use a value far below 1 / n_samples, such as 1e-6, or 0.",
    )


def check_positive(name: str, value: Any, *, remedy: str = "") -> float:
    """Return `value` as a finite float above zero."""
    return check_real(
        name,
        value,
        low=0.0,
        high=math.inf,
        low_open=True,
        high_open=True,
        remedy=remedy,
    )


def check_data_norm(value: Any) -> float:
    """Return `value` as a bound on the norm of a row, in units of the features."""
    return check_real(
        "data_norm",
        value,
        low=1e-100,
        high=1e100,
        remedy="Rows are clipped to this norm, in units of the features.",
    )


def check_alpha(value: Any) -> float:
    """Return `value` as an L2 penalty of the mean loss; None, the default, as 0."""
    if value is None:
        return 0.0
    remedy = "Use None for the default rule."
    return check_real("alpha", value, low=0.0, high=1e100, remedy=remedy)


def check_count(
    name: str, value: Any, *, low: int = 1, high: int | None = None, remedy: str = ""
) -> int:
    """Return `value` as an integer from `low` to `high`."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if is_integer and int(value) >= low and (high is None or int(value) <= high):
        return int(value)
    kind = ValueError if is_integer else TypeError
    raise kind(
        f"The {name!r} parameter must be an integer of at least {low}"
        + (f" and at most {high}. " if high is not None else ". ")
        + f"Got {value!r}."
        + _remedy(remedy)
    )


def check_bool(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if isinstance(value, bool):
        return value
    raise TypeError(f"The {name!r} parameter must be True or False. Got {value!r}.")


def check_choice(
    name: str, value: Any, allowed: Collection[str], *, remedy: str = ""
) -> str:
    """Return `value` if it is one of the `allowed` strings."""
    if isinstance(value, str) and str(value) in allowed:
        return str(value)
    raise ValueError(
        f"The {name!r} parameter must be one of {list(allowed)}. Got {value!r}."
        + _remedy(remedy)
    )


def check_random_state(value: Any) -> int | None:
    """Return `value` if it is None (private noise) or a non-negative integer seed."""
    if value is None:
        return None
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if is_integer and int(value) >= 0:
        return int(value)
    raise TypeError(
        "The 'random_state' parameter must be None or a non-negative integer. "
        f"Got an instance of {type(value).__name__} that is neither. "
        "Use None for private noise; generator objects are refused because "
        "clones would share their noise."
    )


def check_n_jobs(value: Any) -> int | None:
    """Return `value` if it is None or a number of workers as scikit-learn has it."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and not (is_count and value != 0):
        raise ValueError(
            "The 'n_jobs' parameter must be None or an integer other than 0. "
            f"Got {value!r}. Use -1 for all processors."
        )
    return None if value is None else int(value)


def check_target_bounds(
    bounds: Any, *, name: str = "target_bounds"
) -> tuple[float, float]:
    """The bounds as two floats; public, so a message may quote them."""
    what = name.partition("_")[0]
    rule = (
        f"The {name!r} parameter must be two numbers, the lowest and the highest "
        f"{what}, known without looking at the data. Got {bounds!r}. Pass for example "
        f"{name}=(0, 100)."
    )
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError(rule) from None
    known = f"Use what is known of the {what} without looking at the data."
    low, high = (
        check_real(f"{name}[{i}]", end, low=-1e100, high=1e100, remedy=known)
        for i, end in enumerate((low, high))
    )
    if not high - low >= 1e-100:
        raise ValueError(f"{rule} The first must be below the second.")
    return low, high
