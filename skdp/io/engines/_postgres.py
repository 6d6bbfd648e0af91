"""PostgreSQL as an engine: one snapshot, read by several connections."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from queue import Full, Queue
from typing import Any

from skdp.exceptions import SourceError
from skdp.io._engine import LONGEST_TEXT, Cell, Dialect, quoted
from skdp.io._reading import arrow, kind_of
from skdp.io.engines._conditions import column_of, condition_of

# ----------------------------------------------------- Parallel readers of one snapshot
# Each of several connections reads a share of one table.


# Number of batches that each reader may be ahead of the consumer.
_AHEAD = 2
# Seconds after which a blocked reader checks whether it should stop.
_PATIENCE = 0.1


def pages_from(first: int, end: int | None) -> str:
    """The condition that a row is in a run of pages; without `end` it is open."""
    parts = [f"ctid >= '({first},0)'"] if first else []
    if end is not None:
        parts.append(f"ctid < '({end},0)'")
    return " AND ".join(parts) or "TRUE"


class Readers:
    """Connections of one snapshot, opened when they are first asked for.

    Parameters
    ----------
    opened : callable
        Opens one more engine in the snapshot of the transaction.
    """

    def __init__(self, opened: Callable[[], PostgreSQL]) -> None:
        self._opened = opened
        self._engines: list[PostgreSQL] = []

    def batches(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries, one connection each, in order of arrival.

        If one query fails, all fail: no query is repeated.
        """
        while len(self._engines) < len(queries):
            self._engines.append(self._opened())
        waiting: Queue[Any] = Queue(_AHEAD * len(queries))
        stopped = threading.Event()
        threads = [
            threading.Thread(
                target=_read, args=(engine, query, size, waiting, stopped), daemon=True
            )
            for engine, query in zip(self._engines, queries, strict=False)
        ]
        for thread in threads:
            thread.start()
        try:
            n_ended = 0
            while n_ended < len(threads):
                found = waiting.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    n_ended += 1
                else:
                    yield found
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    def check(self) -> None:
        """Raise if a connection is not in its first transaction."""
        for engine in self._engines:
            engine.check()

    def close(self) -> None:
        """Close all connections."""
        engines, self._engines = self._engines, []
        for engine in engines:
            engine.leave()


def _read(
    engine: PostgreSQL,
    query: str,
    size: int,
    waiting: Queue[Any],
    stopped: threading.Event,
) -> None:
    """The work of one reader: it hands over batches and then None, or its failure."""
    try:
        for batch in engine.batches(query, size):
            if not _put(batch, waiting, stopped):
                return
        last: Any = None
    except BaseException as error:
        # The consumer gets any failure; a session hides its text.
        last = error
    _put(last, waiting, stopped)


def _put(found: Any, waiting: Queue[Any], stopped: threading.Event) -> bool:
    """Hand a batch over, unless the consumer has stopped."""
    while not stopped.is_set():
        try:
            waiting.put(found, timeout=_PATIENCE)
            return True
        except Full:
            continue
    return False


# --------------------------------------------------------------- PostgreSQL: the engine


# Leaves of a plan that are stored tables of the database. Other leaves are tables of
# other servers, functions, and samples.
_STORED = {
    "Bitmap Index Scan",
    "CTE Scan",
    "Index Only Scan",
    "Index Scan",
    "Seq Scan",
    "Tid Range Scan",
    "Tid Scan",
}
# Encodings whose texts can all be shown in UTF8, with Python's names; a text in another
# encoding may end the query.
ENCODINGS = {"UTF8": "utf-8", "LATIN1": "latin-1"}
_NAME = re.compile(
    r'(?:"(?:[^"\x00]|"")+"|[^\W\d]\w*)(?:\.(?:"(?:[^"\x00]|"")+"|[^\W\d]\w*))?'
)
# Settings that a session must not change: which texts can be shown, the meaning of
# constants, notices and time limits that reveal records, and which rows are seen.
_SETTINGS = {
    "client_encoding": "UTF8",
    "client_min_messages": "error",
    "datestyle": "ISO, YMD",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "lock_timeout": "0",
    "row_security": "off",  # an error where rows would be left out
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_timeout": "0",
    "transform_null_equals": "off",
}
# Types whose every value is a number or has a text that does not fail: true and false,
# whole numbers, doubles, decimals, texts of several kinds, dates with and without a
# time, and uuid. The text of a value of another type may be longer than any text can
# be, or fail.
_TYPES = (
    16,
    20,
    21,
    23,
    700,
    701,
    1700,
    18,
    19,
    25,
    1042,
    1043,
    1082,
    1114,
    1184,
    2950,
)
# Servers cut names to this many bytes, in default builds.
_DIALECT = Dialect(longest_name=63)
_NUMERIC = {b"ADBC:postgresql:typname": b"numeric"}.items()


def engine_of(connection: Any) -> PostgreSQL | None:
    """The engine of a connection of ADBC; None if it is to another database."""
    is_postgresql = connection.adbc_get_info().get("vendor_name") == "PostgreSQL"
    return PostgreSQL(connection) if is_postgresql else None


class PostgreSQL:
    """A connection to PostgreSQL, as a source uses it.

    Readings open another connection to the same database, so that the user's is left
    alone; its temporary tables are therefore not seen. They are in one read-only
    transaction at the level of repeatable read. From the first count on, tables are
    locked against truncation and most other changes that a snapshot does not hide; an
    attached partition shows in the number of rows.

    Parameters
    ----------
    connection : Connection of adbc_driver_postgresql.dbapi
    """

    # Text for the privacy record of a fit.
    snapshot = (
        "the snapshot of one transaction of PostgreSQL before each reading and after"
    )
    assumed = ()

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._link: Any = None
        self._state: Any = None
        self._readers = Readers(self._joined)
        self.dialect = _DIALECT

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A context within which all reads see one state."""
        if self._link is not None:
            yield
            return
        self._link = self._connection.adbc_clone()
        try:
            self._begin()
            self._state = self._now()
            yield
        finally:
            self._readers.close()
            self.leave()

    def leave(self) -> None:
        """End the transaction with its connection."""
        link, self._link = self._link, None
        link.close()

    def _begin(self, snapshot: str = "", access: str = "READ ONLY") -> None:
        """Fix the settings of a session; the connection has begun a transaction.

        It uses a snapshot that another connection exported, if there is one.
        """
        self._run(f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, {access}")
        if snapshot:
            self._run(f"SET TRANSACTION SNAPSHOT {_literal(snapshot)}")
        self._settle()

    def _settle(self) -> None:
        values = ", ".join(f"('{name}', '{to}')" for name, to in _SETTINGS.items())
        self.row(
            "SELECT count(set_config(known.name, own.value, true)) FROM "
            f"(VALUES {values}) AS own (name, value) "
            "JOIN pg_catalog.pg_settings AS known ON lower(known.name) = own.name"
        )
        # pg_catalog comes before other schemas with functions and operators of the same
        # name.
        self.row(
            "SELECT set_config('search_path', concat_ws(', ', 'pg_catalog', "
            "nullif(current_setting('search_path'), '')), true)"
        )
        (encoding,) = self.row("SELECT current_setting('server_encoding')")
        if isinstance(encoding, bytes):
            raise ValueError(
                "The connection must be made without quote_all_identifiers, with which "
                "ADBC takes texts for bytes. Got it. Reset it for the user or the "
                "database, or connect with options=-cquote_all_identifiers=off."
            )
        if encoding not in ENCODINGS:
            raise ValueError(
                "The database must be encoded as UTF8 or LATIN1, whose texts can all "
                f"be read. Got {encoding}. Copy the table into a database with "
                "ENCODING 'UTF8'."
            )

    def check(self) -> None:
        """Raise if the transaction is not the one that began."""
        if self._link is None or self._now() != self._state:
            raise SourceError("The transaction has ended.")
        self._readers.check()

    def _now(self) -> Any:
        return self.row(
            "SELECT pg_backend_pid(), CAST(transaction_timestamp() AS text), "
            "CAST(txid_current_snapshot() AS text), "
            "current_setting('transaction_isolation')"
        )

    # ------------------------------------------------------------------------- tables

    def table(self, text: str) -> str | None:
        """The full name of the table or view that a text names."""
        text = text.strip()
        if not _NAME.fullmatch(text):
            return None
        found = self.row(
            "SELECT max(format('%I.%I', s.nspname, t.relname)) "
            "FROM pg_catalog.pg_class AS t "
            "JOIN pg_catalog.pg_namespace AS s ON s.oid = t.relnamespace "
            f"WHERE t.oid = to_regclass({_literal(text)})"
        )
        name: str | None = found[0]
        return name

    def tables(self) -> list[str]:
        """Names of the tables and views that need no schema."""
        (names,) = self.row(
            "SELECT string_agg(relname, E'\\n') FROM pg_catalog.pg_class WHERE relkind "
            "IN ('r', 'p', 'v', 'm') AND pg_catalog.pg_table_is_visible(oid)"
        )
        return (names or "").split("\n")

    def is_stored_table(self, table: str) -> bool:
        """Whether a table is stored, and no column is computed when it is read."""
        (kind, n_made) = self.row(
            "SELECT max(CAST(t.relkind AS text)), count(c.attgenerated) FILTER "
            "(WHERE c.attgenerated NOT IN ('', 's')) "
            "FROM pg_catalog.pg_class AS t "
            "JOIN pg_catalog.pg_attribute AS c ON c.attrelid = t.oid "
            f"WHERE t.oid = to_regclass({_literal(table)})"
        )
        return kind in ("r", "p") and n_made == 0

    def is_key(self, table: str, column: str) -> bool:
        """Whether a table declares one of its columns unique and not missing."""
        (found,) = self.row(_is_key(_literal(table), _literal(column)))
        return bool(found)

    def is_stored(self, query: str) -> bool:
        """Whether the transaction covers everything that a query reads."""
        with self._asked(f"EXPLAIN (FORMAT JSON) {query}", is_copied=False) as cursor:
            (plan,) = cursor.fetchone()
        found = json.loads(plan) if isinstance(plan, str) else plan
        return all(_is_stored(node) for node in _nodes(found[0]["Plan"]))

    # ------------------------------------------------------------------------ columns

    def schema(self, query: str) -> Any:
        """Names and Arrow types of a query's columns."""
        with (
            self._asked(f"SELECT * FROM ({query}) AS r LIMIT 0") as cursor,
            closing(cursor.fetch_record_batch()) as reader,
        ):
            return reader.schema

    def cells(self, relation: str, texts: Mapping[str, str]) -> dict[str, Cell]:
        """Expressions in forms that fail for no value: unreadable values are missing.

        Expressions of types with unreadable values are left out.
        """
        readable = self._readable(relation, texts)
        texts = {name: text for name, text in texts.items() if name in readable}
        if not texts:
            return {}
        shown = ", ".join(f"{text} AS {quoted(name)}" for name, text in texts.items())
        fields = self.schema(f"SELECT {shown} FROM {relation}")
        return {field.name: _cell(texts[field.name], field) for field in fields}

    def _readable(self, relation: str, texts: Mapping[str, str]) -> set[str]:
        """Names of expressions whose type has a text or a number for every value."""
        types = self.row(
            "SELECT "
            + ", ".join(
                f"CAST(CAST(pg_typeof((SELECT {text} FROM {relation} LIMIT 0)) AS oid) "
                "AS bigint)"
                for text in texts.values()
            )
        )
        plain = ", ".join(map(str, _TYPES))
        (found,) = self.row(
            "SELECT string_agg(CAST(CAST(t.oid AS bigint) AS text), ' ') "
            "FROM pg_catalog.pg_type AS t WHERE t.oid IN "
            f"({', '.join(map(str, set(types)))}) AND (t.oid IN ({plain}) "
            f"OR t.typtype = 'd' AND t.typbasetype IN ({plain}) "
            # With a user-defined cast the text of an enumeration could fail.
            "OR t.typtype = 'e' AND NOT EXISTS (SELECT FROM pg_catalog.pg_cast AS c "
            "WHERE c.castsource = t.oid))"
        )
        known = set(map(int, (found or "").split()))
        return {name for name, oid in zip(texts, types, strict=True) if oid in known}

    def expression(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """A column, or a condition."""
        name = column_of(text, columns)
        if name is not None:
            return columns[name].text
        return condition_of(text, what, columns)

    def condition(self, text: str, what: str, columns: Mapping[str, Cell]) -> str:
        """A condition, or a column of true and false."""
        return condition_of(text, what, columns)

    # ----------------------------------------------------------------------- answers

    def count(self, relation: str) -> int:
        """Rows of a table, or of a query in parentheses."""
        return int(self.row(f"SELECT COUNT(*) FROM {relation}")[0])

    def row(self, query: str) -> tuple[Any, ...]:
        """The only row of a query's result."""
        with self._asked(query) as cursor:
            found: tuple[Any, ...] = cursor.fetchone()
        return found

    def batches(self, query: str, size: int) -> Iterator[Any]:
        """Record batches of a query's result, in the driver's batch size."""
        with (
            self._asked(query) as cursor,
            closing(cursor.fetch_record_batch()) as reader,
        ):
            yield from reader

    # ----------------------------------------------------- connections beside this one

    def shares(self, table: str, n: int) -> list[str]:
        """Conditions on the rows of a stored table; each row meets exactly one.

        The shares are runs of pages, and the last share has all remaining pages: an
        estimate of the number of pages affects only how evenly the work is divided.
        """
        found = f"to_regclass({_literal(table)})"
        (n_pages,) = self.row(
            f"SELECT greatest(pg_relation_size({found}), (SELECT "
            f"max(pg_relation_size(relid)) FROM pg_partition_tree({found}))) "
            "/ CAST(current_setting('block_size') AS bigint)"
        )
        ends = [int(n_pages) * (i + 1) // n for i in range(n - 1)]
        starts = [0, *ends]
        return [pages_from(*share) for share in zip(starts, [*ends, None], strict=True)]

    def gathered(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries at once, in any order."""
        yield from self._readers.batches(queries, size)

    def _joined(self, access: str = "READ ONLY") -> PostgreSQL:
        """One more connection that sees the same snapshot."""
        (snapshot,) = self.row("SELECT pg_export_snapshot()")
        other = PostgreSQL(self._connection)
        other._link = self._connection.adbc_clone()
        try:
            other._begin(snapshot, access)
            other._state = other._now()
            if other._state[2] != self._state[2]:
                raise SourceError("The snapshot is another one.")
        except BaseException:
            other.leave()
            raise
        return other

    def _run(self, statement: str) -> None:
        with self._asked(statement):
            pass

    @contextmanager
    def _asked(self, query: str, *, is_copied: bool = True) -> Iterator[Any]:
        """A cursor with the answer; a result that cannot be copied comes row by row."""
        with closing(self._link.cursor()) as cursor:
            if not is_copied:
                cursor.adbc_statement.set_options(
                    **{"adbc.postgresql.use_copy": "false"}
                )
            cursor.execute(query)
            yield cursor


def _is_key(table: str, column: str) -> str:
    """A query that tells whether a column is always unique and never missing.

    Parameters
    ----------
    table, column : str
        Names, as literals.
    """
    return (
        "SELECT count(*) > 0 FROM pg_catalog.pg_index AS i "
        "JOIN pg_catalog.pg_attribute AS a "
        "ON a.attrelid = i.indrelid AND i.indkey[0] = a.attnum "
        f"WHERE i.indrelid = to_regclass({table}) AND a.attname = {column} "
        "AND a.attnotnull AND a.attgenerated = '' AND i.indisunique "
        "AND i.indimmediate AND i.indisvalid AND i.indnkeyatts = 1 "
        "AND i.indpred IS NULL AND i.indexprs IS NULL "
        # Tables that inherit from the table are read with it, and have separate
        # indexes.
        "AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h "
        "JOIN pg_catalog.pg_class AS t ON t.oid = h.inhparent "
        "WHERE t.oid = i.indrelid AND t.relkind <> 'p') "
        # From version 18 on a constraint may be declared without a check of the
        # existing rows.
        "AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint AS c "
        "WHERE c.conrelid = i.indrelid AND c.contype = 'n' "
        "AND a.attnum = ANY (c.conkey) AND NOT c.convalidated)"
    )


def _cell(text: str, field: Any) -> Cell:
    """A column in a form and a type in which each of its values can be read."""
    pa, kind = arrow(), kind_of(field.type)
    if _NUMERIC <= (field.metadata or {}).items():
        return Cell(_double(text), pa.float64())
    if kind == "date":
        # From year 1 to year 9999, as in Python, and so that no date is infinite.
        first, last = "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"
        within = f"{text} BETWEEN {first} AND {last}"
        return Cell(f"CASE WHEN {within} THEN {text} END", field.type)
    if kind in ("number", "boolean"):
        return Cell(text, field.type)
    # As bytes, which any collation can order and none refuses, and no longer than any
    # row has room for.
    cut = f"left(CAST({text} AS text), {LONGEST_TEXT})"
    return Cell(f'{cut} COLLATE "C"', pa.string())


def _double(text: str) -> str:
    """A decimal number as a double; 0 if too small for one, missing if too large."""
    as_double = f"CAST({text} AS DOUBLE PRECISION)"
    as_double = f"CASE WHEN abs({text}) < 1e-307 THEN 0 ELSE {as_double} END"
    return f"CASE WHEN abs({text}) < 1.7e308 THEN {as_double} END"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_stored(node: dict[str, Any]) -> bool:
    """Whether a step of a plan reads stored tables only, and no function's rows."""
    kind = node["Node Type"]
    if kind == "Result" and not node.get("Plans"):
        return node.get("One-Time Filter") == "false"  # no rows at all
    return kind != "ProjectSet" and (bool(node.get("Plans")) or kind in _STORED)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
