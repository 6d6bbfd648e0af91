"""What `SqlSource` asks of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

# Characters of a text that are read where a longer one could end a query.
LONGEST_TEXT = 1 << 16


@dataclass(frozen=True)
class Cell:
    """A column as it is read; public.

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
    """How an engine writes what not all write alike; public.

    Parameters
    ----------
    longest_name : int
        Bytes of a column's name beyond which it would be cut.
    """

    longest_name: int = 1 << 16


class Engine(Protocol):
    """A database, by way of a connection of the user's that is left alone."""

    @property
    def snapshot(self) -> str:
        """What holds a reading still and is checked, in words for the record."""
        ...

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is given and not checked beyond that, in words for the record."""
        ...

    @property
    def dialect(self) -> Dialect:
        """How it writes what not all engines write alike."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """All that is read within is of one moment."""
        ...

    def check(self) -> None:
        """Raise any exception if another transaction goes on than at first."""
        ...

    def table(self, text: str) -> str | None:
        """The table or view that a text names, for FROM; None if it names none."""
        ...

    def is_stored(self, query: str) -> bool:
        """Whether all that a query reads is held still by the transaction."""
        ...

    def is_stored_table(self, table: str) -> bool:
        """Whether a table is stored, and none of its columns is made by reading."""
        ...

    def is_key(self, table: str, column: str) -> bool:
        """Whether a stored table declares one of its columns unique and not missing."""
        ...

    def schema(self, query: str) -> Any:
        """Names and Arrow types of what a query gives; nothing is read."""
        ...

    def cells(self, relation: str, texts: Mapping[str, str]) -> dict[str, Cell]:
        """Expressions, in the types and the forms in which they are read."""
        ...

    def expression(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """A user's expression of the columns of one row, made to fail for no row.

        Raises
        ------
        ValueError
            If it may look at other rows, answer otherwise next time, or fail.
        """
        ...

    def condition(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """The same for a condition: true, false or NULL."""
        ...

    def count(self, relation: str) -> int:
        """Rows of a table, or of a query in parentheses."""
        ...

    def batches(self, query: str, size: int) -> Iterator[Any]:
        """Record batches of what a query gives, of about so many rows."""
        ...

    def shares(self, table: str, n: int) -> list[str]:
        """Conditions on the rows of a stored table, of which each row meets one.

        One alone where the engine reads with threads or workers of its own.
        """
        ...

    def gathered(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries at once, in no order."""
        ...


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
