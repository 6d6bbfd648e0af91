"""Conditions on one row that cannot fail, for engines whose expressions may.

After a commit, an expression that fails for one record would reveal this record.
PostgreSQL's arithmetic, casts and functions may fail, and it has no TRY. Therefore a
user's condition is parsed here, and rewritten from columns, constants and comparisons.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skdp.io._engine import Cell
from skdp.io._reading import kind_of

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
        |(?P<text>'(?:[^'\x00]|'')*')
        |(?P<quoted>"(?:[^"\x00]|"")+")
        |(?P<word>[^\W\d]\w*)
        |(?P<sign><>|!=|<=|>=|[=<>(),]))""",
    re.VERBOSE,
)
_COMPARED = {"=", "<>", "!=", "<", "<=", ">", ">="}
# Type in which values of a kind are compared: numbers of all types as doubles.
_AS = {
    "number": "CAST({} AS DOUBLE PRECISION)",
    "string": "({})",
    "boolean": "{}",
    "date": "CAST({} AS TIMESTAMP)",
}


class _Refused(Exception):
    """The text is not a condition."""


@dataclass(frozen=True)
class _Value:
    """A column or a constant.

    Parameters
    ----------
    text : str
    kind : str
    is_text : bool, default=False
        Whether it is a constant in quotes, which may stand for a date.
    """

    text: str
    kind: str
    is_text: bool = False

    def compared_as(self, kind: str) -> str:
        """The value in the type in which values of a kind are compared."""
        if self.is_text and kind == "date":
            return _AS["date"].format(f"'{_date(self.text)}'")
        if self.kind != kind or kind not in _AS:
            raise _Refused
        return _AS[kind].format(self.text)


def condition_of(text: str, what: str, columns: Mapping[str, Cell]) -> str:
    """A condition, or a column of true and false, as SQL that cannot fail.

    Parameters
    ----------
    text : str
        Comparisons of columns with constants and columns of their kind, IN, BETWEEN,
        IS NULL, AND, OR, NOT and parentheses.
    what : str
        What the condition is, for the error.
    columns : mapping of str to Cell
        Columns that it may use.
    """
    try:
        return _Parser(text, columns).condition()
    except _Refused:
        raise ValueError(
            f"{what} must be a column, or a condition on the columns of one row by "
            "comparisons with constants or columns of the same kind, IN, BETWEEN, "
            "IS NULL, AND, OR and NOT. Got something else. An expression that fails "
            "would end the query and reveal a record: store anything else as a column "
            "(in PostgreSQL ADD COLUMN ... GENERATED ALWAYS AS (...) STORED)."
        ) from None


def column_of(text: str, columns: Mapping[str, Cell]) -> str | None:
    """The column that a text names in SQL; None if it names none."""
    if text in columns:
        return text
    found = _TOKEN.fullmatch(text.strip())
    return None if found is None else _name(found, columns)


def _name(token: re.Match[str], columns: Mapping[str, Cell]) -> str | None:
    word, inner = token["word"], token["quoted"]
    name = word.lower() if word else inner and inner[1:-1].replace('""', '"')
    return name if name in columns else None


def _date(text: str) -> str:
    """A date, or a time without a zone, in ISO 8601."""
    try:
        found = datetime.datetime.fromisoformat(text[1:-1])
    except ValueError:
        raise _Refused from None
    if found.tzinfo is not None:
        raise _Refused
    return found.isoformat()


class _Parser:
    """Reads tokens from the left; each method leaves the tokens it does not take."""

    def __init__(self, text: str, columns: Mapping[str, Cell]) -> None:
        self._columns = columns
        self._tokens, end = [], 0
        while found := _TOKEN.match(text, end):
            self._tokens.append(found)
            end = found.end()
        if text[end:].strip():
            raise _Refused
        self._next = 0

    def condition(self) -> str:
        """The whole condition."""
        found = self._any()
        if self._next < len(self._tokens):
            raise _Refused
        return found

    # ------------------------------------------------------------------------- tokens

    def _shown(self) -> re.Match[str] | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, *wanted: str) -> str:
        """The next token if it is one of these words or signs; else an empty string."""
        token = self._shown()
        found = token and (token["sign"] or (token["word"] or "").upper())
        if not found or found not in wanted:
            return ""
        self._next += 1
        return found

    def _needs(self, wanted: str) -> None:
        if not self._takes(wanted):
            raise _Refused

    # ------------------------------------------------------------------------ grammar

    def _any(self) -> str:
        return self._joined("OR", self._all)

    def _all(self) -> str:
        return self._joined("AND", self._not)

    def _joined(self, word: str, part: Callable[[], str]) -> str:
        found = [part()]
        while self._takes(word):
            found.append(part())
        return found[0] if len(found) == 1 else f"({f' {word} '.join(found)})"

    def _not(self) -> str:
        if self._takes("NOT"):
            return f"(NOT {self._not()})"
        if self._takes("("):
            found = self._any()
            self._needs(")")
            return found
        return self._comparison()

    def _comparison(self) -> str:
        left = self._value()
        sign = self._takes(*_COMPARED)
        if sign:
            return _compared(left, sign, self._value())
        if self._takes("IS"):
            negated = "NOT " if self._takes("NOT") else ""
            self._needs("NULL")
            return f"({left.text} IS {negated}NULL)"
        negated = "NOT " if self._takes("NOT") else ""
        if self._takes("BETWEEN"):
            low = self._value()
            self._needs("AND")
            inside = [_compared(left, ">=", low), _compared(left, "<=", self._value())]
            return f"({negated}({' AND '.join(inside)}))"
        if self._takes("IN"):
            return f"({negated}({' OR '.join(self._each(left))}))"
        if negated or left.kind != "boolean":
            raise _Refused
        return left.text

    def _each(self, left: _Value) -> list[str]:
        self._needs("(")
        found = [_compared(left, "=", self._value())]
        while self._takes(","):
            found.append(_compared(left, "=", self._value()))
        self._needs(")")
        return found

    def _value(self) -> _Value:
        token = self._shown()
        if token is None or token["sign"]:
            raise _Refused
        self._next += 1
        if token["number"]:
            return _Value(f"'{float(token['number'])!r}'", "number")
        if token["text"]:
            return _Value(token["text"], "string", is_text=True)
        name = _name(token, self._columns)
        if name is not None:
            cell = self._columns[name]
            return _Value(cell.text, kind_of(cell.dtype))
        if token["word"] and token["word"].upper() in ("TRUE", "FALSE"):
            return _Value(token["word"].upper(), "boolean")
        raise _Refused


def _compared(left: _Value, sign: str, right: _Value) -> str:
    # If one side is a column, its kind decides the meaning of a constant.
    kind = right.kind if left.is_text else left.kind
    return f"({left.compared_as(kind)} {sign} {right.compared_as(kind)})"
