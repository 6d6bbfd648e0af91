"""Declarations as users give them, shorthand included."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skdp.columns._briefly import briefly
from skdp.columns._declarations import Categories, Declaration, Range, is_number

Declared = dict[str, Declaration] | tuple[Declaration, ...] | Declaration

_FORMS = (
    "a mapping from column names to declarations for a frame, a sequence of "
    "declarations by position for an array, or one Range for all columns"
)
_TEMPLATE = "skdp.columns.template(frame) prints a mapping to fill in."
_ONE = (
    "skdp.columns.Range, Categories, Boolean or Dates, a tuple of two numbers (a "
    "Range), or a list of strings (Categories)"
)


def as_declared(columns: Any) -> Declared:
    """Declarations in full.

    Parameters
    ----------
    columns : mapping, sequence, or one declaration
        By name, by position, or for all columns; shorthand allowed.

    Returns
    -------
    dict, tuple, or Declaration

    Raises
    ------
    ValueError
        If a declaration is ambiguous or none.
    """
    if isinstance(columns, Mapping):
        _check_names(columns)
        return {str(name): declaration(each, name) for name, each in columns.items()}
    if isinstance(columns, Declaration) or _is_pair(columns):
        return _for_all(declaration(columns, "all"))
    if isinstance(columns, (list, tuple)) and len(columns):
        return tuple(declaration(each, i) for i, each in enumerate(columns))
    raise ValueError(
        f"The 'columns' parameter must be {_FORMS}. Got {briefly(columns)}. {_TEMPLATE}"
    )


def declaration(given: Any, name: Any) -> Declaration:
    """One declaration in full; `name` is for the error."""
    if isinstance(given, Declaration):
        return given
    if _is_pair(given):
        return Range(*given)
    is_list = isinstance(given, list) and len(given) > 0
    if is_list and all(isinstance(value, str) for value in given):
        return Categories(given)
    if is_list and all(is_number(value) for value in given):
        raise ValueError(
            f"The declaration of column {name!r} must say whether these numbers are "
            f"the ends of a range or categories. Got {briefly(given)}. Write "
            "Range(low, high) or Categories([...])."
        )
    raise ValueError(
        f"The declaration of column {name!r} must be {_ONE}. Got {briefly(given)}. "
        f"{_remedy(given)}"
    )


def _remedy(given: Any) -> str:
    """What was probably meant."""
    if isinstance(given, type) and issubclass(given, Declaration):
        return f"Write {given.__name__}(...), with parentheses."
    if isinstance(given, str):
        return f"A name alone declares nothing: {_TEMPLATE}"
    if isinstance(given, Mapping):
        return "Read stored declarations with skdp.columns.from_json."
    each = list(given) if isinstance(given, (list, tuple, set, frozenset)) else []
    if each and all(isinstance(value, bool) for value in each):
        return "Write Boolean()."
    if any(value is None or _is_nan(value) for value in each):
        return "Write Categories([...], missing=True), without the missing value."
    if each and not any(is_number(value) for value in each):
        return (
            "Write categories as a list of strings in brackets, a range of time as "
            "Dates(first, last)."
        )
    return "Fill in what is known without looking at the data."


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_pair(given: Any) -> bool:
    is_pair = isinstance(given, tuple) and len(given) == 2
    return is_pair and all(is_number(end) for end in given)


def _check_names(columns: Mapping[Any, Any]) -> None:
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(
            "The 'columns' mapping must have names of columns, which are strings, as "
            f"its keys. Got {list(columns)!r}. Use a sequence by position for an "
            "array, or name the columns of the frame."
        )


def _for_all(declared: Declaration) -> Declaration:
    if isinstance(declared, Range):
        return declared
    raise ValueError(
        f"One declaration for all columns must be a Range. Got {declared!r}. Use a "
        "mapping by name, or a sequence by position."
    )
