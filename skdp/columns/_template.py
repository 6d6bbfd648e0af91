"""A mapping to fill in, from names and dtypes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skdp.columns._declarations import Boolean

_BLANKS = {
    "number": "Range(..., ...)",
    "string": "Categories([...])",
    "date": "Dates(..., ...)",
    "unknown": "...",
}
_DATES = ("datetime", "date", "timestamp")
_NUMBERS = ("int", "uint", "float", "double", "decimal", "halffloat")
_STRINGS = (
    "category",
    "categorical",
    "enum",
    "large_string",
    "object",
    "str",
    "string",
)


@dataclass(frozen=True)
class Blank:
    """A declaration that is still to be written; every use refuses it."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Template(dict[str, Any]):
    """A mapping whose repr is code to fill in."""

    def __repr__(self) -> str:
        lines = [f"    {name!r}: {declared!r},\n" for name, declared in self.items()]
        return "{\n" + "".join(lines) + "}"


def template(frame: Any) -> Template:
    """A mapping to fill in, with a line for each column.

    Reads names and dtypes, which are public, and no value. The categories that a dtype
    holds are values and are not copied.

    Parameters
    ----------
    frame : DataFrame of pandas or polars

    Returns
    -------
    Template
        A dict; its repr is code. What is left blank is refused wherever it is used.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import columns
    >>> frame = pd.DataFrame({"age": [39.0], "sex": ["Male"], "citizen": [True]})
    >>> columns.template(frame)
    {
        'age': Range(..., ...),
        'sex': Categories([...]),
        'citizen': Boolean(),
    }
    """
    dtypes = getattr(frame, "dtypes", None)
    if not hasattr(frame, "columns") or dtypes is None:
        raise TypeError(
            "The 'frame' argument must be a DataFrame of pandas or polars. Got an "
            f"instance of {type(frame).__name__}. For an array write a list of "
            "declarations by position."
        )
    names = zip(frame.columns, dtypes, strict=True)
    return Template({str(name): _blank(dtype) for name, dtype in names})


def _blank(dtype: Any) -> Any:
    kind = _kind(dtype)
    return Boolean() if kind == "boolean" else Blank(_BLANKS[kind])


def _kind(dtype: Any) -> str:
    """Kind of a dtype by its name, so that neither library need be installed."""
    text = str(dtype).lower().partition("[")[0].partition("(")[0]
    text = text.rstrip("0123456789")
    if text in ("bool", "boolean"):
        return "boolean"
    for kind, names in (("number", _NUMBERS), ("date", _DATES), ("string", _STRINGS)):
        if text in names:
            return kind
    return "unknown"
