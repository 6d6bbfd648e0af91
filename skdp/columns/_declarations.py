"""Declarations: frozen facts about one column each."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from skdp._validation import check_bool, check_choice, check_real
from skdp.columns._briefly import briefly

# What a date may be split into, and how many values each part has.
PARTS = {"month": 12, "weekday": 7, "day": 31, "hour": 24}


@dataclass(frozen=True, repr=False)
class Declaration:
    """What a column may hold; public.

    Its repr evaluates to an equal object, and so does what `to_json` writes.
    """

    # What cells must be: number, string, boolean or date.
    kind: ClassVar[str]

    def __repr__(self) -> str:
        given = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is value or field.default == value:
                continue
            by_name = "" if field.name in _BY_POSITION else f"{field.name}="
            given.append(by_name + _shown(value))
        return f"{type(self).__name__}({', '.join(given)})"

    def to_dict(self) -> dict[str, Any]:
        """The fields and the name of the class, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"is": type(self).__name__} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote.

        Raises
        ------
        ValueError
            If the text declares something else.
        """
        declared = from_dict(json.loads(text))
        if not isinstance(declared, cls):
            raise ValueError(
                f"The text must be of a {cls.__name__}. Got {declared!r}. Use "
                "skdp.columns.from_json for any declaration."
            )
        return declared

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


# Fields that a repr gives without their names.
_BY_POSITION = ("low", "high", "values", "first", "last")


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


@dataclass(frozen=True, repr=False)
class Range(Declaration):
    """Numbers, clipped to [low, high].

    Parameters
    ----------
    low, high : float
        Finite, low < high, in units of the column.
    log : bool, default=False
        Whether ratios matter rather than differences: the column is encoded by its
        logarithm, or by that of 1 + x if `low` is 0. Needs ``low >= 0``.
    missing : bool, default=False
        Whether values may be missing (NaN, None, null).

    Examples
    --------
    >>> from skdp.columns import Range
    >>> Range(0, 99_999, log=True)
    Range(0, 99999, log=True)
    """

    kind: ClassVar[str] = "number"
    low: float
    high: float
    log: bool = False
    missing: bool = False

    def __post_init__(self) -> None:
        check_bool("log", self.log)
        check_bool("missing", self.missing)
        self._set(low=_end("low", self.low), high=_end("high", self.high))
        if not self.high / 2 - self.low / 2 > 0:
            raise ValueError(
                "A Range must have low < high, not too close for doubles to tell. Got "
                f"low={self.low!r} and high={self.high!r}. Use what is known of the "
                "quantity, never the minimum and maximum of the data."
            )
        if self.log and not (self.low >= 0 and log_width(self.low, self.high) > 0):
            raise ValueError(
                "A Range with log=True must have low >= 0, and logarithms of both ends "
                f"that differ. Got low={self.low!r} and high={self.high!r}. Use "
                "log=False for what may be negative."
            )


def log_width(low: float, high: float) -> float:
    """Distance of two ends on the scale of ``log=True``."""
    return math.log(high) - math.log(low) if low > 0 else math.log1p(high)


@dataclass(frozen=True, repr=False)
class Categories(Declaration):
    """Strings or integers from a list.

    Parameters
    ----------
    values : list of str, or list of int
        Distinct, of one type. ``1`` is not ``"1"``.
    missing : bool, default=False
        Whether values may be missing (NaN, None, null).

    Examples
    --------
    >>> from skdp.columns import Categories
    >>> Categories(["Female", "Male"], missing=True)
    Categories(['Female', 'Male'], missing=True)
    """

    values: tuple[Any, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        check_bool("missing", self.missing)
        self._set(values=_distinct(self.values))

    # A constant of the other declarations; here it depends on the values.
    @property
    def kind(self) -> str:  # type: ignore[override]
        """What cells must be."""
        return "string" if isinstance(self.values[0], str) else "number"


@dataclass(frozen=True, repr=False)
class Boolean(Declaration):
    """True or False.

    Parameters
    ----------
    missing : bool, default=False
        Whether values may be missing (None, null).
    """

    kind: ClassVar[str] = "boolean"
    missing: bool = False

    def __post_init__(self) -> None:
        check_bool("missing", self.missing)


@dataclass(frozen=True, repr=False)
class Dates(Declaration):
    """Points in time without a time zone, clipped to [first, last].

    Parameters
    ----------
    first, last : str, date or datetime
        ISO 8601, such as "2024-12-31" or "2024-12-31T18:00"; first < last.
    parts : sequence of {"month", "weekday", "day", "hour"}, default=()
        What may matter beside the point in time itself; each takes a share of the
        column's norm.
    missing : bool, default=False
        Whether values may be missing (NaT, None, null).

    Examples
    --------
    >>> from skdp.columns import Dates
    >>> Dates("2020-01-01", "2024-12-31", parts=["month"])
    Dates('2020-01-01', '2024-12-31', parts=['month'])
    """

    kind: ClassVar[str] = "date"
    first: str
    last: str
    parts: tuple[str, ...] = ()
    missing: bool = False

    def __post_init__(self) -> None:
        check_bool("missing", self.missing)
        self._set(first=_iso("first", self.first), last=_iso("last", self.last))
        if not datetime.fromisoformat(self.first) < datetime.fromisoformat(self.last):
            raise ValueError(
                f"Dates must have first < last. Got first={self.first!r} and "
                f"last={self.last!r}. Use what is known, never the data."
            )
        self._set(parts=_parts(self.parts))


def _end(name: str, value: Any) -> float:
    """A finite end of a range; integers stay integers where a double holds them."""
    number = check_real(
        name,
        value,
        low=-math.inf,
        high=math.inf,
        low_open=True,
        high_open=True,
        remedy="Fill in what is known of the quantity without looking at the data.",
    )
    return int(number) if isinstance(value, Integral) else number


def _distinct(values: Any) -> tuple[Any, ...]:
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, Mapping))
    plain = tuple(_plain(value) for value in values) if is_list else ()
    is_one_type = len({type(value) for value in plain}) == 1
    if not is_one_type or len(set(plain)) < len(plain) or plain[0] is None:
        raise ValueError(
            "The 'values' of Categories must be a list of distinct strings, or of "
            f"distinct integers, at least one. Got {briefly(values)}. Declare what may "
            "occur; truth values are Boolean(), other numbers a Range."
        )
    return plain


def _plain(value: Any) -> str | int | None:
    """A string or integer as Python has it; None for anything else."""
    if isinstance(value, str):
        return str(value)
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    return int(value) if is_integer else None


def _iso(name: str, value: Any) -> str:
    """A point in time as ISO text, without its time if that is midnight."""
    try:
        point = value if isinstance(value, date) else datetime.fromisoformat(value)
        if not isinstance(point, datetime):
            point = datetime(point.year, point.month, point.day)
        if point.tzinfo is None:
            point = datetime.fromisoformat(point.isoformat()[:26])
            is_day = point == datetime(point.year, point.month, point.day)
            return (point.date() if is_day else point).isoformat()
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"The {name!r} parameter must be a date without a time zone, as ISO text, date "
        f"or datetime. Got {value!r}. Use for example '2024-12-31'."
    )


def _parts(parts: Any) -> tuple[str, ...]:
    is_list = isinstance(parts, Collection) and not isinstance(parts, str)
    if not is_list or len(set(parts)) < len(parts):
        raise ValueError(
            f"The 'parts' parameter must be a list of distinct names from "
            f"{list(PARTS)}. Got {parts!r}. Use () for none."
        )
    return tuple(check_choice("parts", part, PARTS) for part in parts)


def from_dict(values: Any) -> Declaration:
    """What `Declaration.to_dict` returned."""
    kinds = {cls.__name__: cls for cls in (Range, Categories, Boolean, Dates)}
    if isinstance(values, Mapping) and values.get("is") in kinds:
        cls, given = kinds[values["is"]], {k: v for k, v in values.items() if k != "is"}
        if set(given) <= {field.name for field in fields(cls)}:
            return cls(**given)
    raise ValueError(
        f"A stored declaration must be one of {list(kinds)} with its fields. Got "
        f"{values!r}. Use what to_json wrote."
    )


def is_number(value: Any) -> bool:
    """Whether a value is a real number and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)
