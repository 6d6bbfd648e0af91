"""Spark as an engine of `SqlSource`: one copy for each reading, batches of Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from skdp.exceptions import SourceError
from skdp.io._engine import LONGEST_TEXT, Cell, Dialect, quoted
from skdp.io._reading import arrow, kind_of
from skdp.io.engines._conditions import column_of, condition_of

# Name of the copied table in a separate session.
_RECORDS = "records_of_skdp"
_PART = r'(?:"(?:[^"\x00]|"")+"|`(?:[^`\x00]|``)+`|[^\W\d]\w*)'
_NAME = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")
# Formats that fix the type of each column and the number of rows, whatever they hold.
_STORED = {"delta", "iceberg", "orc", "parquet"}
# Settings that must not change: which expressions fail, the meaning of constants, and
# the time zone of dates. Also, Spark turns a sum of many columns into one method that
# is too long for Java to compile: it would be interpreted.
_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
}
# Types in Spark's words; all other types are read as text.
_TYPES = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
    "date": "date32",
    "string": "string",
}
_MOMENTS = ("timestamp", "timestamp_ntz")
# Texts and names as in the standard, and types that have other names in Spark.
_SPELLED = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")
    |(?P<double>\bDOUBLE\ PRECISION\b)|(?P<varchar>\bVARCHAR\b)""",
    re.VERBOSE,
)


class Spark:
    """A session of Spark, as a source uses it.

    Readings open another session in the same application, so that the user's is left
    alone; its temporary views are therefore not seen, but global ones are. Spark has no
    transactions: each reading copies the table once, within the cluster, and no part of
    a copy is ever computed again: a lost part ends the reading.

    Parameters
    ----------
    session : SparkSession
        A classic session, not Spark Connect.
    """

    # Texts for the privacy record of a fit.
    snapshot = "a copy that Spark makes once before the fit and recomputes no part of"
    assumed = (
        "that a part of the table that Spark computes twice while copying it is the "
        "same both times, and that no record makes Spark fail while it reads the table",
    )
    dialect = Dialect()

    def __init__(self, session: Any) -> None:
        self._session = session
        self._place = (
            session.catalog.currentCatalog(),
            session.catalog.currentDatabase(),
        )
        self._own: Any = None
        self._name: str | None = None
        self._copy: Any = None

    # ----------------------------------------------------------------------- the copy

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A context within which all reads see one copy."""
        if self._own is not None:
            yield
            return
        try:
            self._own = _new_session(self._session)
            self._settle()
            if self._name is not None:
                self._show(self._own.table(self._name))
            yield
        finally:
            copy, self._copy, self._own = self._copy, None, None
            if copy is not None:
                _removed(copy)

    def _settle(self) -> None:
        for name, to in _SETTINGS.items():
            self._own.conf.set(name, to)
        catalog, database = self._place
        self._own.catalog.setCurrentCatalog(catalog)
        self._own.catalog.setCurrentDatabase(database)

    def _show(self, records: Any) -> None:
        """Bind the name of the records to a data set."""
        records.createOrReplaceTempView(_RECORDS)

    def check(self) -> None:
        """Raise if there is no complete copy."""
        if self._own is None:
            raise SourceError("The reading has ended.")
        if self._copy is not None and not _is_whole(self._copy):
            raise SourceError("Parts of the copy are lost.")

    # ------------------------------------------------------------------------- tables

    def table(self, text: str) -> str | None:
        """The name in this session of the table or view that a text names."""
        text = text.strip()
        if not _NAME.fullmatch(text):
            return None
        self._name = _spelled(text)
        self._show(self._own.table(self._name))
        return _RECORDS

    def tables(self) -> list[str]:
        """Names of the tables and views of the current database."""
        return [table.name for table in self._own.catalog.listTables()]

    def is_stored(self, query: str) -> bool:
        """Whether the query is a name, whose table or view is copied."""
        return self._name is not None

    def is_stored_table(self, table: str) -> bool:
        """Whether the text names a table in a format of typed columns."""
        rows = self._own.sql(f"DESCRIBE TABLE EXTENDED {self._name}").collect()
        told = {row[0]: row[1] for row in rows}
        is_view = str(told.get("Type", "VIEW")).upper().endswith("VIEW")
        return not is_view and str(told.get("Provider")).lower() in _STORED

    def is_key(self, table: str, column: str) -> bool:
        """Never: Spark does not enforce the uniqueness that it declares."""
        return False

    # ------------------------------------------------------------------------ columns

    def schema(self, query: str) -> Any:
        """Names and Arrow types of a query's columns."""
        fields = self._asked(query).schema.fields
        return arrow().schema([(f.name, _type(_word(f))) for f in fields])

    def cells(self, relation: str, texts: Mapping[str, str]) -> dict[str, Cell]:
        """Expressions in the types and forms in which they are read."""
        shown = ", ".join(f"{text} AS {quoted(name)}" for name, text in texts.items())
        fields = self._asked(f"SELECT {shown} FROM {relation}").schema.fields
        return {field.name: _cell(texts[field.name], _word(field)) for field in fields}

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
        """Rows of the copy, which the first count of a reading makes."""
        if self._copy is None:
            self._copy = self._asked(f"SELECT * FROM {relation}").localCheckpoint()
            self._show(self._copy)
        (found,) = self._asked(f"SELECT COUNT(*) FROM {relation}").collect()[0]
        return int(found)

    def batches(self, query: str, size: int) -> Iterator[Any]:
        """Record batches of a query's result, part by part."""
        ipc = arrow().ipc
        self._own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(size))
        packed = self._asked(query).mapInArrow(_packing(), "batch BINARY")
        for (message,) in packed.toLocalIterator():
            with closing(ipc.open_stream(message)) as reader:
                yield from reader

    def shares(self, table: str, n: int) -> list[str]:
        """A single condition: the engine reads with workers."""
        return ["TRUE"]

    def gathered(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries."""
        for query in queries:
            yield from self.batches(query, size)

    def _asked(self, query: str) -> Any:
        return self._own.sql(_spelled(query))


def _new_session(session: Any) -> Any:
    """Another session; pyspark would bind the user's `RDD.toDF` to it."""
    from pyspark import RDD

    bound = getattr(RDD, "toDF", None)
    try:
        return session.newSession()
    finally:
        if bound is not None:
            RDD.toDF = bound


def engine_of(session: Any) -> Spark | None:
    """The engine of a classic session; None for Spark Connect, which holds no copy."""
    is_classic = hasattr(session, "newSession") and hasattr(session, "_jsparkSession")
    return Spark(session) if is_classic else None


def _plan(copy: Any) -> Any:
    """The data set of a copy's parts, to which there is no public access."""
    return copy._jdf.queryExecution().analyzed().rdd()


def _is_whole(copy: Any) -> bool:
    return bool(_plan(copy).getStorageLevel().isValid())


def _removed(copy: Any) -> None:
    """Free the memory and the disk of a copy."""
    _plan(copy).unpersist(False)


def _packing() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function that packs batches on workers, which need pyarrow and no skdp."""

    def packed(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, batch.schema) as stream:
                stream.write_batch(batch)
            message = pa.array([out.getvalue().to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([message], ["batch"])

    return packed


def _word(field: Any) -> str:
    """Spark's name of the type of a column."""
    return str(field.dataType.simpleString())


def _type(word: str) -> Any:
    pa = arrow()
    if word in _MOMENTS:
        return pa.timestamp("us")
    if word.startswith("decimal"):
        return pa.float64()
    return getattr(pa, _TYPES.get(word, "string"))()


def _cell(text: str, word: str) -> Cell:
    """A column, in a form and a type in which each of its values can be read."""
    dtype = _type(word)
    if word.startswith("decimal"):
        return Cell(f"CAST({text} AS DOUBLE PRECISION)", dtype)
    if word == "date":
        # A remote date has no moment in time, and its cast fails.
        within = f"{text} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
        return Cell(f"CASE WHEN {within} THEN {text} END", dtype)
    if kind_of(dtype) == "date":
        # From year 1 to year 9999, as in Python.
        first, last = "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"
        moment = f"CAST({text} AS TIMESTAMP_NTZ)"
        within = (
            f"{moment} BETWEEN CAST({first} AS TIMESTAMP_NTZ) "
            f"AND CAST({last} AS TIMESTAMP_NTZ)"
        )
        shown = moment if word in _MOMENTS else text
        return Cell(f"CASE WHEN {within} THEN {shown} END", dtype)
    if kind_of(dtype) == "string":
        # No longer than a batch has room for.
        return Cell(f"left(CAST({text} AS VARCHAR), {LONGEST_TEXT})", dtype)
    return Cell(text, dtype)


def _spelled(query: str) -> str:
    """A standard query in Spark's syntax."""
    return _SPELLED.sub(_respelled, query)


def _respelled(found: re.Match[str]) -> str:
    if found["text"]:
        inner = found["text"][1:-1].replace("''", "'")
        return "'" + inner.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if found["name"]:
        inner = found["name"][1:-1].replace('""', '"')
        return "`" + inner.replace("`", "``") + "`"
    return "DOUBLE" if found["double"] else "STRING"
