"""The `Engine` protocol: what `SqlSource` asks of a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from skdp._checks import similar_to

# --------------------------------------------------------------- Engine and its dialect


# Longest text that is read where a longer text could end a query.
LONGEST_TEXT = 1 << 16


@dataclass(frozen=True)
class Cell:
    """A column in the form in which it is read; public.

    Parameters
    ----------
    text : str
        An SQL expression that fails for no row.
    dtype : DataType of Arrow
    """

    text: str
    dtype: Any


@dataclass(frozen=True)
class Dialect:
    """Syntax in which an engine differs from others; public.

    Parameters
    ----------
    longest_name : int
        Bytes of a column's name beyond which it would be cut.
    """

    longest_name: int = 1 << 16


class Engine(Protocol):
    """A database; the user's connection to it is left alone."""

    @property
    def snapshot(self) -> str:
        """Text for the privacy record: what keeps a reading consistent, as checked."""
        ...

    @property
    def assumed(self) -> tuple[str, ...]:
        """Texts for the privacy record: further assumptions, which are not checked."""
        ...

    @property
    def dialect(self) -> Dialect:
        """Syntax in which this engine differs from others."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """A context within which all reads see one state."""
        ...

    def check(self) -> None:
        """Raise any exception if the transaction is not the one that began."""
        ...

    def table(self, text: str) -> str | None:
        """The table or view that a text names, for FROM; None if it names none."""
        ...

    def tables(self) -> list[str]:
        """Names of the tables and views, for the error about one that is missing."""
        ...

    def is_stored(self, query: str) -> bool:
        """Whether the transaction covers everything that a query reads."""
        ...

    def is_stored_table(self, table: str) -> bool:
        """Whether a table is stored, and no column is computed when it is read."""
        ...

    def is_key(self, table: str, column: str) -> bool:
        """Whether a stored table declares one of its columns unique and not missing."""
        ...

    def schema(self, query: str) -> Any:
        """Names and Arrow types of a query's columns; nothing is read."""
        ...

    def cells(self, relation: str, texts: Mapping[str, str]) -> dict[str, Cell]:
        """Expressions in the types and forms in which they are read."""
        ...

    def expression(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """A user's expression of the columns of one row, made to fail for no row.

        Raises
        ------
        ValueError
            If it may look at other rows, give another value next time, or fail.
        """
        ...

    def condition(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """A user's condition, made to give true, false or NULL for every row."""
        ...

    def count(self, relation: str) -> int:
        """Rows of a table, or of a query in parentheses."""
        ...

    def batches(self, query: str, size: int) -> Iterator[Any]:
        """Record batches of a query's result, of about this many rows."""
        ...

    def shares(self, table: str, n: int) -> list[str]:
        """Conditions on the rows of a stored table; each row meets exactly one.

        There is a single condition if the engine itself reads with threads or workers.
        """
        ...

    def gathered(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries at once, in any order."""
        ...


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


# --------------------------------------------------------------- Expressions of one row


# Nodes of DuckDB's syntax trees that read nothing but the row.
_ALLOWED = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "OPERATOR",
    "TYPE",
}
# Functions whose result follows from their arguments alone, in time and space that the
# arguments' lengths bound. The list says what is allowed, since engines have hundreds
# of functions that plan queries, look at statistics or count calls, and new releases
# add more.
FUNCTIONS = frozenset(
    "+ - * / // % ** ^ || ~~ !~~ ~~* !~~* abs ceil ceiling floor round trunc sign sqrt "
    "cbrt exp ln log log2 log10 pow power greatest least isnan isinf isfinite nullif "
    "ifnull if sin cos tan asin acos atan atan2 degrees radians pi lower upper trim "
    "ltrim rtrim length len contains starts_with prefix suffix ends_with position "
    "substring substr left right replace concat year month day hour minute second "
    "quarter week dayofweek isodow dayofyear date_part datepart date_diff datediff "
    "date_trunc datetrunc epoch epoch_ms to_days to_months to_years to_hours "
    "to_minutes to_seconds".split()
)
_TABLE = "one_row_of_a_table"


def check_row_wise(
    text: str, what: str, parse: Callable[[str], str], columns: Collection[str]
) -> None:
    """Refuse an expression that may look at other rows, or change its value next time.

    Parameters
    ----------
    text : str
    what : str
        What the expression is, for the error.
    parse : callable
        From a query to its syntax tree as JSON.
    columns : collection of str
        Columns that it may use; engines do not distinguish upper and lower case.
    """
    known = {name.lower() for name in columns}
    found = _expression(text, parse)
    for word in _columns(found):
        if word.lower() not in known:
            raise ValueError(
                f"{what} must use columns of the source. Got {word!r}."
                f"{similar_to(word, columns)} Its columns are {list(columns)}."
            )
    if found is None or not all(_is_fine(node, known) for node in _nodes(found)):
        raise ValueError(
            f"{what} must be one SQL expression of the columns of one row, by "
            "operators, CASE, CAST and the functions that "
            "docs/guide/large_tables.md lists. Got another. For anything else pass a "
            "query, with "
            "one_record_per_row=True if that holds."
        )


def _expression(text: str, parse: Callable[[str], str]) -> Any:
    """The syntax tree of one expression; None if the text is something else."""
    tree = json.loads(parse(f"SELECT {text} FROM {_TABLE}"))
    if tree.get("error") or len(tree["statements"]) != 1:
        return None
    node = tree["statements"][0]["node"]
    source = node.get("from_table", {})
    is_plain = (
        node.get("type") == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and source.get("type") == "BASE_TABLE"
        and source.get("table_name") == _TABLE
        and not node.get("modifiers")
        and not any(node.get(part) for part in ("where_clause", "having", "qualify"))
        and not node.get("group_expressions")
    )
    return node["select_list"][0] if is_plain else None


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _columns(tree: Any) -> Iterator[str]:
    """The words of an expression that should name columns."""
    for node in _nodes(tree):
        if node["class"] == "COLUMN_REF" and len(node.get("column_names", [])) == 1:
            yield str(node["column_names"][0])


def _is_fine(node: dict[str, Any], columns: Collection[str]) -> bool:
    if node["class"] == "FUNCTION":
        is_bare = not node.get("schema") and not node.get("catalog")
        name = str(node.get("function_name", "")).lower()
        is_bounded = name != "replace" or not _grows(node)
        return is_bare and is_bounded and name in FUNCTIONS
    if node["class"] == "COLUMN_REF":
        # A word that names no column may be a function without parentheses.
        names = node.get("column_names", [])
        return len(names) == 1 and str(names[0]).lower() in columns
    return node["class"] in _ALLOWED


def _grows(replacing: dict[str, Any]) -> bool:
    """Whether `replace` takes anything but constants beside a cell.

    If a cell replaces parts of another cell, the text may be as long as the product of
    both: one record's text could exhaust the memory of the database.
    """
    given = [own.get("expression", {}) for own in replacing.get("arguments", [])]
    return [own.get("class") for own in given[1:]] != ["CONSTANT"] * 2
