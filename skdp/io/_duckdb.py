"""DuckDB as an engine of `SqlSource`: one transaction, batches of Arrow, plans."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from skdp.exceptions import SourceError
from skdp.io._engine import Cell, Dialect, check_row_wise, quoted
from skdp.io._reading import arrow, kind_of

# Leaves of a plan that are stored tables of the database.
_STORED = {"SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"}


class DuckDB:
    """A connection to DuckDB, as a source uses it.

    Readings open another connection to the same database, so that the user's is left
    alone; its temporary and registered tables are therefore not seen.

    Parameters
    ----------
    connection : DuckDBPyConnection
    """

    # Text for the privacy record of a fit.
    snapshot = "the number of one transaction of DuckDB before each reading and after"
    assumed = ()
    dialect = Dialect()

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._link: Any = None
        self._number: Any = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A context within which all reads see one state."""
        if self._link is not None:
            yield
            return
        self._link = self._connection.cursor()
        try:
            self._link.begin()
            self._number = self._now()
            yield
        finally:
            link, self._link = self._link, None
            link.close()

    def check(self) -> None:
        """Raise if the transaction is not the one that began."""
        if self._link is None or self._now() != self._number:
            raise SourceError("The transaction has ended.")

    def schema(self, query: str) -> Any:
        """Names and Arrow types of a query's columns."""
        reader = self._link.sql(f"SELECT * FROM ({query}) LIMIT 0").to_arrow_reader(1)
        schema = reader.schema
        reader.close()
        return schema

    def cells(self, relation: str, texts: Mapping[str, str]) -> dict[str, Cell]:
        """Expressions, in the types in which they are read: decimals as doubles."""
        shown = ", ".join(f"{text} AS {quoted(name)}" for name, text in texts.items())
        fields = self.schema(f"SELECT {shown} FROM {relation}")
        return {field.name: _cell(texts[field.name], field.type) for field in fields}

    def expression(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """An expression of one row, missing where it fails."""
        check_row_wise(text, what, self.parse, columns)
        return f"TRY({text})"

    def condition(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """A condition on one row, NULL where it fails."""
        check_row_wise(text, what, self.parse, columns)
        return f"TRY(CAST(({text}) AS BOOLEAN))"

    def count(self, relation: str) -> int:
        """Rows of a table, or of a query in parentheses."""
        return int(self._one(f"SELECT COUNT(*) FROM {relation}"))

    def batches(self, query: str, size: int) -> Iterator[Any]:
        """Record batches of a query's result."""
        reader = self._link.sql(query).to_arrow_reader(size)
        try:
            yield from reader
        finally:
            reader.close()

    def parse(self, query: str) -> str:
        """The syntax tree of a query as JSON."""
        return str(self._one("SELECT json_serialize_sql(?)", query))

    def table(self, text: str) -> str | None:
        """A text that is the name of one table or view."""
        return text if self._is_table(text) else None

    def tables(self) -> list[str]:
        """Names of the tables and views of the database."""
        # By another cursor: a query that failed has ended the transaction.
        rows = self._connection.cursor().sql(
            "SELECT table_name FROM duckdb_tables() "
            "UNION SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        )
        return [name for (name,) in rows.fetchall()]

    def _is_table(self, text: str) -> bool:
        tree = json.loads(self.parse(f"SELECT * FROM {text}"))
        if tree.get("error") or len(tree["statements"]) != 1:
            return False
        node = tree["statements"][0]["node"]
        source = node.get("from_table", {})
        is_alone = not any(node.get(part) for part in ("where_clause", "modifiers"))
        return is_alone and source.get("type") == "BASE_TABLE"

    def is_stored_table(self, table: str) -> bool:
        """Whether a table is stored, and no column is computed when it is read."""
        tree = json.loads(self.parse(f"SELECT * FROM {table}"))
        name = tree["statements"][0]["node"]["from_table"]["table_name"].lower()
        tables = self._link.sql(
            "SELECT sql FROM duckdb_tables() WHERE lower(table_name) = ?", params=[name]
        ).fetchall()
        views = self._link.sql(
            "SELECT 1 FROM duckdb_views() WHERE lower(view_name) = ?", params=[name]
        ).fetchall()
        # In any schema: the engine decides which schema is meant.
        is_computed = any("GENERATED ALWAYS" in sql.upper() for (sql,) in tables)
        return bool(tables) and not views and not is_computed

    def is_key(self, text: str, column: str) -> bool:
        """Whether a stored table declares one of its columns unique and not missing."""
        tree = json.loads(self.parse(f"SELECT * FROM {text}"))
        name = tree["statements"][0]["node"]["from_table"]["table_name"].lower()
        rows = self._link.sql(
            "SELECT table_oid, constraint_type, constraint_column_names "
            "FROM duckdb_constraints() WHERE lower(table_name) = ?",
            params=[name],
        ).fetchall()
        tables = self._link.sql(
            "SELECT table_oid FROM duckdb_tables() WHERE lower(table_name) = ?",
            params=[name],
        ).fetchall()
        declared: dict[Any, set[str]] = {oid: set() for (oid,) in tables}
        for oid, kind, names in rows:
            if [one.lower() for one in names] == [column.lower()]:
                declared[oid].add(kind)
        # In any schema, as above.
        return bool(declared) and all(
            "PRIMARY KEY" in kinds or {"UNIQUE", "NOT NULL"} <= kinds
            for kinds in declared.values()
        )

    def shares(self, table: str, n: int) -> list[str]:
        """A single condition: the engine reads with threads."""
        return ["TRUE"]

    def gathered(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries."""
        for query in queries:
            yield from self.batches(query, size)

    def is_stored(self, query: str) -> bool:
        """Whether the transaction covers everything that a query reads."""
        leaves = [node for node in self._plan(query) if not node["children"]]
        return all(_name(node) in _STORED for node in leaves)

    def _plan(self, query: str) -> Iterator[dict[str, Any]]:
        # An optimised plan would depend on the content of the tables.
        self._link.execute("PRAGMA disable_optimizer")
        try:
            rows = self._link.sql(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
        finally:
            self._link.execute("PRAGMA enable_optimizer")
        yield from _nodes(json.loads(rows[0][1]))

    def _now(self) -> Any:
        return self._one("SELECT txid_current()")

    def _one(self, query: str, *given: Any) -> Any:
        """A single cell."""
        return self._link.sql(query, params=list(given)).fetchall()[0][0]


def _cell(text: str, dtype: Any) -> Cell:
    pa = arrow()
    if pa.types.is_decimal(dtype) or dtype == pa.float64():
        return Cell(f"CAST({text} AS DOUBLE)", pa.float64())
    if kind_of(dtype) == "string":
        return Cell(f"CAST({text} AS VARCHAR)", pa.string())
    return Cell(text, dtype)


def _nodes(plan: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in plan:
        yield node
        yield from _nodes(node["children"])


def _name(node: dict[str, Any]) -> str:
    return str(node["name"]).strip()
