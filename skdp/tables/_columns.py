"""Declarations of columns: their classes, shorthands, JSON, TOML and template."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import MISSING, dataclass, fields
from datetime import date, datetime
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeVar

from skdp._checks import check_bool, check_choice, check_real, explained

# ----------------------------------------------- Quotes of wrong declarations in errors


# Longer values may be a column of data or a table, so they are not quoted.
_FEW, _LONG = 5, 60
_PLAIN = (list, tuple, set, frozenset, dict)


def briefly(given: Any) -> str:
    """The repr of `given` if it is short, else its type, without values."""
    if isinstance(given, _PLAIN):
        each = [*given, *given.values()] if isinstance(given, dict) else list(given)
        if len(given) <= _FEW and all(_is_one(value) for value in each):
            return repr(given)
        return f"a {type(given).__name__} of length {len(given)}"
    return repr(given) if _is_one(given) else f"an instance of {type(given).__name__}"


def _is_one(value: Any) -> bool:
    is_one = isinstance(value, str) or not isinstance(value, Sized)
    return is_one and len(repr(value)) <= _LONG


# -------------------------------------------------------------- Declarations of columns


# Possible parts of a date, and the number of values of each part.
PARTS = {"month": 12, "weekday": 7, "day": 31, "hour": 24}


@dataclass(frozen=True, repr=False)
class Declaration:
    """Public facts about the possible cells of a column.

    The repr is code for an equal object, and `from_json` reads the text of `to_json`.
    """

    # Kind of the cells: number, string, boolean or date.
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
        """The fields and the name of the class, as JSON-ready values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"is": type(self).__name__} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    def to_json(self) -> str:
        """JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the declaration that `to_json` wrote.

        Raises
        ------
        ValueError
            If the text is not a declaration of this class.
        """
        declared = from_dict(json.loads(text))
        if not isinstance(declared, cls):
            raise ValueError(
                f"The text must declare a {cls.__name__}. Got {declared!r}. Use "
                "skdp.columns.from_json for other declarations."
            )
        return declared

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


_Declared = TypeVar("_Declared", bound=type[Declaration])


def _written(example: str) -> Callable[[_Declared], _Declared]:
    """Let a class explain wrong names of arguments, and give an example."""

    def wrapped(cls: _Declared) -> _Declared:
        init = explained(cls.__init__, when_missing=f"Write for example {example}.")
        # mypy refuses that a method is replaced, which is what this decorator does.
        cls.__init__ = init  # type: ignore[method-assign]
        return cls

    return wrapped


# Fields that a repr shows without their names.
_BY_POSITION = ("low", "high", "values", "first", "last")


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


@_written("Range(17, 90)")
@dataclass(frozen=True, repr=False)
class Range(Declaration):
    """Numbers, clipped to [low, high].

    Parameters
    ----------
    low, high : float
        Finite, low < high, in units of the column.
    log : bool, default=False
        Whether ratios matter rather than differences. The column is then encoded by its
        logarithm, or by the logarithm of 1 + x if `low` is 0. Requires ``low >= 0``.
    missing : bool, default=False
        Whether values may be missing (NaN, None, null).
    whole : bool, default=False
        Whether all values are whole numbers; so must be the ends. Histograms and the
        bins of trees then hold equally many whole numbers each, unless ``log=True``.
    heaps : sequence of float, default=()
        Values in [low, high] at which many records lie: zero, a cap, round numbers. At
        most 100. Each has an effect of its own beside its neighbours: an indicator in
        linear models, a bin in trees and histograms. A cell belongs to a heap if it is
        equal to it after clipping, so that values beyond an end belong to a heap at
        this end. Take heaps from documentation, never from the records.

    Examples
    --------
    >>> from skdp.columns import Range
    >>> Range(0, 99_999, log=True), Range(17, 90, whole=True)
    (Range(0, 99999, log=True), Range(17, 90, whole=True))

    Most people gain nothing, and 99,999 stands for this amount and any above it.

    >>> Range(0, 99_999, heaps=[0, 99_999])
    Range(0, 99999, heaps=[0, 99999])
    """

    kind: ClassVar[str] = "number"
    low: float
    high: float
    log: bool = False
    missing: bool = False
    whole: bool = False
    heaps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_bool("log", self.log)
        check_bool("missing", self.missing)
        check_bool("whole", self.whole)
        self._set(low=_end("low", self.low), high=_end("high", self.high))
        if not self.high / 2 - self.low / 2 > 0:
            raise ValueError(
                "A Range must have low < high, with a difference that doubles can "
                f"represent. Got low={self.low!r} and high={self.high!r}. Use bounds "
                "that are known beforehand, never the minimum and maximum of the data."
            )
        if self.log and not (self.low >= 0 and log_width(self.low, self.high) > 0):
            raise ValueError(
                "A Range with log=True must have low >= 0, and ends whose logarithms "
                f"differ. Got low={self.low!r} and high={self.high!r}. Use log=False "
                "for numbers that may be negative."
            )
        if self.whole and not (self.low % 1 == 0 and self.high % 1 == 0):
            raise ValueError(
                "A Range with whole=True must have whole numbers as ends. Got "
                f"low={self.low!r} and high={self.high!r}. Use whole=False for values "
                "with fractions."
            )
        self._set(heaps=self._checked_heaps())

    def to_dict(self) -> dict[str, Any]:
        """The fields and the name of the class, as JSON-ready values."""
        values = super().to_dict()
        # Versions without heaps can read, and have written, the other ranges.
        return values if self.heaps else {k: v for k, v in values.items() if v != []}

    def _checked_heaps(self) -> tuple[float, ...]:
        """The heaps in rising order."""
        given = self.heaps
        is_list = isinstance(given, Collection) and not isinstance(given, (str, dict))
        are_numbers = is_list and all(is_number(heap) for heap in given)
        found = sorted(map(_plain_number, given)) if are_numbers else [math.nan]
        is_inside = all(self.low <= heap <= self.high for heap in found)
        is_whole = not self.whole or all(heap % 1 == 0 for heap in found)
        n_different = len({float(heap) for heap in found}) if is_inside else 0
        if is_inside and is_whole and n_different == len(found) <= _MOST_HEAPS:
            return tuple(found)
        kind = "whole numbers" if self.whole else "numbers"
        raise ValueError(
            f"The 'heaps' of a Range must be a list of at most {_MOST_HEAPS} distinct "
            f"{kind} in [{self.low!r}, {self.high!r}]. Got {briefly(given)}. Use the "
            "values that the code book names, or () for none."
        )


# Trees have at most 255 bins, and each heap may need two more than it finds.
_MOST_HEAPS = 100


def log_width(low: float, high: float) -> float:
    """Distance of two ends on the scale of ``log=True``."""
    return math.log(high) - math.log(low) if low > 0 else math.log1p(high)


@_written("Categories([1, 2, 3])")
@dataclass(frozen=True, repr=False)
class Categories(Declaration):
    """Strings or integers from a list.

    Parameters
    ----------
    values : list of str, or list of int
        Distinct values of one type; ``1`` and ``"1"`` are different.
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

    # In other declarations it is a constant; here it depends on the values.
    @property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of the cells."""
        return "string" if isinstance(self.values[0], str) else "number"


@_written("Boolean(missing=True)")
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


@_written('Dates("2020-01-01", "2024-12-31")')
@dataclass(frozen=True, repr=False)
class Dates(Declaration):
    """Points in time without a time zone, clipped to [first, last].

    Parameters
    ----------
    first, last : str, date or datetime
        ISO 8601, such as "2024-12-31" or "2024-12-31T18:00"; first < last.
    parts : sequence of {"month", "weekday", "day", "hour"}, default=()
        Parts of the date that are encoded in addition to the point in time. Each takes
        a fraction of the column's norm.
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
                f"last={self.last!r}. Use dates that are known without the data."
            )
        self._set(parts=_parts(self.parts))


def _end(name: str, value: Any) -> float:
    """A finite end of a range; an integer stays one if a double can represent it."""
    number = check_real(
        name,
        value,
        low=-math.inf,
        high=math.inf,
        low_open=True,
        high_open=True,
        remedy="Use a number that is known without looking at the data.",
    )
    return int(number) if isinstance(value, Integral) else number


def _plain_number(value: Any) -> float:
    """A number as one of Python's; an integer stays one."""
    return int(value) if isinstance(value, Integral) else float(value)


def _distinct(values: Any) -> tuple[Any, ...]:
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, Mapping))
    plain = tuple(_plain(value) for value in values) if is_list else ()
    is_one_type = len({type(value) for value in plain}) == 1
    if not is_one_type or len(set(plain)) < len(plain) or plain[0] is None:
        raise ValueError(
            "The 'values' of Categories must be a list of distinct strings, or of "
            f"distinct integers, at least one. Got {briefly(values)}. Declare all "
            "values that may occur. Use Boolean() for truth values, and a Range for "
            "other numbers."
        )
    return plain


def _plain(value: Any) -> str | int | None:
    """A plain Python string or integer; None for every other value."""
    if isinstance(value, str):
        return str(value)
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    return int(value) if is_integer else None


def _iso(name: str, value: Any) -> str:
    """A point in time as ISO text, without its time if it is midnight."""
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
    """The declaration in a result of `Declaration.to_dict`."""
    kinds = {cls.__name__: cls for cls in (Range, Categories, Boolean, Dates)}
    if isinstance(values, Mapping) and values.get("is") in kinds:
        cls, given = kinds[values["is"]], {k: v for k, v in values.items() if k != "is"}
        if set(given) <= {field.name for field in fields(cls)}:
            return cls(**given)
    raise ValueError(
        f"A stored declaration must be one of {list(kinds)} with its fields. Got "
        f"{values!r}. Use the text that to_json wrote."
    )


def is_number(value: Any) -> bool:
    """Whether a value is a real number and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


# ------------------------------------------------ Declarations by users, with shorthand


# What users may write. The values of a mapping are Any, since type checkers take a dict
# of a Range and a list of categories for one of objects.
Columns = Mapping[str, Any] | Sequence[Any] | Range
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
    """Convert declarations with shorthand to full declarations.

    Parameters
    ----------
    columns : mapping, sequence, or one declaration
        Declarations by name or by position, or one for all columns. Shorthand is
        allowed.

    Returns
    -------
    dict, tuple, or Declaration

    Raises
    ------
    ValueError
        If a declaration is ambiguous or not valid.
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
    """One full declaration; errors mention `name`."""
    if isinstance(given, Declaration):
        return given
    if _is_pair(given):
        problem = ""
        try:
            return Range(*given)
        except ValueError as error:
            problem = str(error)
        raise ValueError(f"The declaration of column {name!r} is not valid: {problem}")
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
    """Advice, by what the user probably meant."""
    if isinstance(given, type) and issubclass(given, Declaration):
        return f"Write {given.__name__}(...), with parentheses."
    if isinstance(given, str):
        return f"Declare the values of the column too: {_TEMPLATE}"
    if isinstance(given, Mapping):
        return "Read stored declarations with skdp.columns.from_json."
    each = list(given) if isinstance(given, (list, tuple, set, frozenset)) else []
    if each and all(isinstance(value, bool) for value in each):
        return "Write Boolean()."
    if any(value is None or _is_nan(value) for value in each):
        return "Write Categories([...], missing=True), without the missing value."
    if each and not any(is_number(value) for value in each):
        return (
            "Write categories as a list of strings in brackets, and a range of dates "
            "as Dates(first, last)."
        )
    return "Declare what is known without looking at the data."


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_pair(given: Any) -> bool:
    is_pair = isinstance(given, tuple) and len(given) == 2
    return is_pair and all(is_number(end) for end in given)


def _check_names(columns: Mapping[Any, Any]) -> None:
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(
            "The keys of the 'columns' mapping must be names of columns, which are "
            f"strings. Got {list(columns)!r}. Use a sequence by position for an array, "
            "or name the columns of the frame."
        )


def _for_all(declared: Declaration) -> Declaration:
    if isinstance(declared, Range):
        return declared
    raise ValueError(
        f"One declaration for all columns must be a Range. Got {declared!r}. Use a "
        "mapping by name, or a sequence by position."
    )


# ------------------------------------------------------ Declarations of a table as JSON


SCHEMA = 1


def to_json(columns: Any) -> str:
    """Declarations as JSON text, with a schema number.

    Parameters
    ----------
    columns : mapping, sequence, or one declaration
        Declarations, with shorthand allowed; `from_json` returns full declarations.
    """
    declared = as_declared(columns)
    ready: Any
    if isinstance(declared, Declaration):
        ready = declared.to_dict()
    elif isinstance(declared, tuple):
        ready = [each.to_dict() for each in declared]
    else:
        # Pairs keep their order in every reader and writer.
        ready = {"by_name": [[name, d.to_dict()] for name, d in declared.items()]}
    return json.dumps({"skdp_columns": SCHEMA, "columns": ready}, allow_nan=False)


def from_json(text: str) -> Declared:
    """Read the declarations that `to_json` wrote.

    Raises
    ------
    ValueError
        If the text is not a declaration, or has a newer schema.
    """
    stored = json.loads(text)
    schema = stored.get("skdp_columns") if isinstance(stored, dict) else None
    if schema != SCHEMA:
        raise ValueError(
            f"Stored columns must have the schema number {SCHEMA}. Got {schema!r}. "
            "Read a newer file with the version of skdp that wrote it."
        )
    ready = stored["columns"]
    if isinstance(ready, list):
        return as_declared([from_dict(each) for each in ready])
    if "by_name" in ready:
        return as_declared({name: from_dict(each) for name, each in ready["by_name"]})
    return as_declared(from_dict(ready))


# --------------------------------------------- Declarations that a person writes (TOML)


_IN_TOML = (
    'a list of texts such as ["office", "field"], [false, true], {low = 0, high = 99}, '
    "{values = [1, 2, 3]} or {first = 2020-01-01, last = 2024-12-31}"
)


def from_toml(text: str) -> dict[str, Declaration]:
    """Read declarations from TOML text, which people can write by hand.

    A column has a list of texts (its categories), ``[false, true]``, or a table with
    the fields of `Range`, `Categories` or `Dates`. ``missing = true`` belongs into a
    table. ``skdp template`` prints a text to fill in.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict of str to Declaration

    Raises
    ------
    ValueError
        If the text is not TOML, or an entry is not a declaration.

    Examples
    --------
    >>> from skdp import columns
    >>> columns.from_toml('''
    ... age = {low = 17, high = 90, missing = true}
    ... job = ["office", "field", "none"]
    ... citizen = [false, true]
    ... ''')
    {'age': Range(17, 90, missing=True),
     'job': Categories(['office', 'field', 'none']),
     'citizen': Boolean()}
    """
    problem, given = "it is empty", {}
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
    if not given:
        raise ValueError(
            "Declarations must be TOML with an entry for each column, such as age = "
            f"{{low = 0, high = 99}}. Got another text: {problem}. Fill in each '...', "
            "or delete its line."
        )
    return {name: _from_toml(name, value) for name, value in given.items()}


def _from_toml(name: str, given: Any) -> Declaration:
    values = dict(given) if isinstance(given, dict) else {"values": given}
    listed = values.get("values")
    each = listed if isinstance(listed, list) else []
    kinds: tuple[type[Declaration], ...] = ()
    if each and all(isinstance(value, bool) for value in each):
        kinds = (Boolean,) if sorted(values.pop("values")) == [False, True] else ()
    elif isinstance(given, dict) or all(isinstance(value, str) for value in each):
        kinds = (Range, Categories, Dates)
    problem = ""
    for kind in kinds:
        names = {field.name: field.default is MISSING for field in fields(kind)}
        if {field for field in names if names[field]} <= set(values) <= set(names):
            try:
                return kind(**values)
            except (TypeError, ValueError) as error:
                problem = str(error)
    if problem:
        raise ValueError(f"The entry of column {name!r} is not valid: {problem}")
    raise ValueError(
        f"The entry of column {name!r} must be {_IN_TOML}. Got {briefly(given)}. Put a "
        "name with dots or spaces into quotation marks."
    )


# ------------------------------------------------------- Template from names and dtypes


_BLANKS = {
    "number": "Range(..., ...)",
    "string": "Categories([...])",
    "date": "Dates(..., ...)",
    "unknown": "...",
}
_TOML_BLANKS = {
    "number": "{low = ..., high = ...}",
    "string": "[...]",
    "date": "{first = ..., last = ...}",
    "boolean": "[false, true]",
}
_TOML_HEAD = """\
# Fill in each ... from what you know without looking at the records:
# {low = 0, high = 99}, a list of texts such as ["office", "field"], [false, true],
# {values = [1, 2, 3]} for whole numbers that are categories,
# {first = 2020-01-01, last = 2024-12-31}.
# Where many cells have the same value, such as 0 or a cap:
# {low = 0, high = 99, heaps = [0, 99]}.
# Where cells may be missing: {low = 0, high = 99, missing = true},
# {values = ["office", "field"], missing = true}. Delete columns that you do not need.
"""
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
    """A declaration that the user must complete; it is refused wherever it is used."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Template(dict[str, Any]):
    """A mapping whose repr is code to fill in."""

    def __repr__(self) -> str:
        lines = [f"    {name!r}: {declared!r},\n" for name, declared in self.items()]
        return "{\n" + "".join(lines) + "}"


def template(frame: Any) -> Template:
    """Draft the declarations of a table, to be completed by hand.

    It is made from names and dtypes, which are public, and not from values. The
    categories of a dtype are values and are not copied.

    Parameters
    ----------
    frame : DataFrame of pandas or polars

    Returns
    -------
    Template
        A dict whose repr is code. Declarations that are left incomplete are refused
        when they are used.

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


def toml_template(kinds: Mapping[str, str]) -> str:
    """TOML to fill in and read by `from_toml`, with a line for each column.

    Parameters
    ----------
    kinds : mapping from str to str
        Kinds of cells by name of a column, as `Declaration.kind`; another kind leaves
        the whole entry blank.
    """
    lines = [
        f"{_key(name)} = {_TOML_BLANKS.get(kind, '...')}"
        for name, kind in kinds.items()
    ]
    return "\n".join([_TOML_HEAD, *lines])


def _key(name: str) -> str:
    is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return name if is_bare else json.dumps(name, ensure_ascii=False)


def _blank(dtype: Any) -> Any:
    kind = _kind(dtype)
    return Boolean() if kind == "boolean" else Blank(_BLANKS[kind])


def _kind(dtype: Any) -> str:
    """Kind of a dtype, from its name, so that neither library must be installed."""
    text = str(dtype).lower().partition("[")[0].partition("(")[0]
    text = text.rstrip("0123456789")
    if text in ("bool", "boolean"):
        return "boolean"
    for kind, names in (("number", _NUMBERS), ("date", _DATES), ("string", _STRINGS)):
        if text in names:
            return kind
    return "unknown"
