"""`SqlSource`: records in a table, a view or a query of a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._checks import check_bool, check_count, similar_to
from skdp._configured import Registry
from skdp.io._duckdb import DuckDB
from skdp.io._engine import Cell, Engine, quoted
from skdp.io._external import FETCHED, TableSource, no_column
from skdp.io._parquet import BATCH_SIZE
from skdp.io._reading import arrow, is_exact
from skdp.io._session import Session, Snapshot, refused
from skdp.tables._columns import Columns
from skdp.tables._source import MEMORY

# What makes an engine of a connection, by the package of the connection; None if it is
# of another kind.
ENGINES: Registry[Callable[[Any], Engine | None]] = Registry(
    "skdp.engines", {"duckdb": DuckDB, "_duckdb": DuckDB}
)
_MOST_READERS = 64
# A name without quotes, with its schema or without; and words that are no names.
_TABLE = re.compile(r"\s*\w+(\.\w+)*\s*")
_WORD = re.compile(r"\s*[^\W\d]\w*\s*")
_CONSTANTS = {"true", "false", "null"}
# Column of a reading that says which rows are records.
_IS_RECORD = "is a record"
_ONE_RECORD = (
    "that each row of the query is one record, that the number of rows depends on no "
    "record, and that no record makes the query fail"
)
_OWN_ROWS = (
    "that a user's rows in the query's result, and their contents, depend on no other "
    "user, and that no record makes the query fail"
)
_OWN_ID = "that the id of a record depends on no other value of any record"
_STORE = (
    "Temporary and registered tables are visible in their connection only: store them."
)
UNREADABLE = (
    "The table or query must be one that the database can read. Got another. Check "
    f"the names. {_STORE}"
)


class SqlSource(TableSource):
    """Records in DuckDB, PostgreSQL or Spark, read block by block.

    Every reading of one fit is in one transaction; Spark has none, and copies the table
    once for each fit. Rows in which a number or the target is missing, NaN or infinite,
    and rows that fail `where`, are null records: they contribute exactly nothing, and
    are counted in `n_samples`.

    **Privacy.** The number of rows, the names and types of columns, and the texts of
    the query and its expressions are taken as public. See
    ``docs/guide/large_tables.md``.

    Parameters
    ----------
    connection : DuckDBPyConnection, Connection of ADBC to PostgreSQL, or SparkSession
        Readings open another connection to the same database, and leave this one alone.
        Never stored with a model.
    table : str
        A table, a view, or a query (not for Spark).
    target : str or None
        Column of the target, or an SQL expression of the columns of one row; never a
        feature. None for predictions only. In PostgreSQL and Spark expressions are
        columns or conditions.
    n_samples : int
        Declared number of rows, without `where`; public. Compared with COUNT(*). With
        `groups` the number of users, at least as large as the number in the table.
    features : sequence of str, mapping of str to str, or None, default=None
        Columns that are features; a mapping gives SQL expressions of the columns of one
        row by name. Where an expression fails, its value is missing. None: all columns
        except the target.
    columns : mapping, sequence, Range or None, default=None
        Declarations of `skdp.columns`, for an estimator that has none.
    groups : str or None, default=None
        Column of the ids of users, whole numbers or text, for models and steps with
        ``privacy_unit="user"``; never a feature. Then `n_samples` is the declared
        number of users, including users without rows, and the number of rows is
        private. Rows without an id are null records.
    where : str or None, default=None
        SQL condition on the columns of one row.
    order_by : str or None, default=None
        Column with a different value in each row, by which predictions are ordered.
    record_id : str or None, default=None
        Column of whole numbers or text that the table declares unique and not missing
        (a primary key), and whose values depend on no other value of a record. Solvers
        that visit the records in a random order (`bolt_on`) need it. It is not a
        feature.
    one_record_per_row : bool, default=False
        True states that each row of a query is one record, that the number of rows
        depends on no record, and that no record makes the query fail. Needed for all
        queries and views, and for tables with computed columns;
        ``privacy_.assumed_public`` repeats it.
    batch_size : int in [1, 2^20], default=16384
        Number of rows that are read at once. It changes no result.
    memory : int, default=2^30
        Bytes of rows that may be kept in memory after the first reading; see
        ``docs/guide/large_tables.md``. It changes no result.
    disk : int or None, default=None
        Bytes of rows that may be written to a temporary file, if `memory` is too
        small for them. None: half of what is free. 0: no file; rows that need more than
        `memory` are read anew in every pass of a model. It changes no result.
    n_readers : int in [1, 64], default=1
        Number of connections that read parts of a PostgreSQL table at the same time,
        all in one snapshot. It changes no result. Ordered readings have one reader;
        DuckDB and Spark manage their threads or workers themselves.

    Examples
    --------
    >>> import duckdb
    >>> from skdp import DPLogisticRegression
    >>> from skdp.io import SqlSource
    >>> study = duckdb.connect()
    >>> _ = study.execute(
    ...     "CREATE TABLE visits AS SELECT i % 73 + 17 AS age, i % 2 AS ill "
    ...     "FROM range(2000) AS t(i)"
    ... )
    >>> source = SqlSource(
    ...     study, "visits", target="ill", n_samples=2000, where="age < 80"
    ... )
    >>> model = DPLogisticRegression(
    ...     epsilon=1.0, columns={"age": (17, 90)}, classes=[0, 1]
    ... ).fit(source)
    >>> model.privacy_.n_samples
    2000
    """

    is_ordered = False
    has_fixed_order = False

    def __init__(
        self,
        connection: Any,
        table: str,
        *,
        target: str | None,
        n_samples: int,
        features: Sequence[str] | Mapping[str, str] | None = None,
        columns: Columns | None = None,
        groups: str | None = None,
        where: str | None = None,
        order_by: str | None = None,
        record_id: str | None = None,
        one_record_per_row: bool = False,
        batch_size: int = BATCH_SIZE,
        memory: int = MEMORY,
        disk: int | None = None,
        n_readers: int = 1,
    ) -> None:
        arrow()
        self._n_readers = check_count("n_readers", n_readers, high=_MOST_READERS)
        self._engine = _engine_of(connection)
        self._order = order_by
        self._id, self._id_text, self._order_text = record_id, "", ""
        self._is_declared = check_bool("one_record_per_row", one_record_per_row)
        with self._engine.transaction():
            self._relation = self._checked_relation(table)
            self._check_engine()
            self._cells = refused(self._own, UNREADABLE)
            self._condition = None if where is None else self._checked(where)
            if record_id is not None:
                _check_of_records(groups)
                self._check_id(record_id, table)
                self.is_permutable = True
            target = self._made(target, features)
            super().__init__(
                target=target,
                n_samples=n_samples,
                features=None if features is None else list(features),
                columns=columns,
                groups=groups,
                batch_size=batch_size,
                memory=memory,
                disk=disk,
            )
        self._check_order()

    @property
    def assumed_public(self) -> tuple[str, ...]:
        facts = super().assumed_public
        facts += self._engine.assumed
        if self._is_declared:
            facts += (_ONE_RECORD if self.groups is None else _OWN_ROWS,)
        return facts if self._id is None else (*facts, _OWN_ID)

    def _accept(self, session: Session) -> None:
        super()._accept(session)
        if self._id is not None:
            self._check_id(self._id, self._relation)

    def permuted(self, key: str) -> Self:
        if self._id is None:
            return super().permuted(key)
        other = self._copied()
        # If two digests were equal, the id decides.
        own = self._id_text
        order = f"md5('{key}' || CAST({own} AS VARCHAR)), {own}"
        # And the column itself, if long ids are read in part.
        other._order_text = f"{order}, {quoted(self._id)}"
        return other

    def _check_id(self, name: str, table: str) -> None:
        """Refuse a column that is not an id although its type allows it."""
        engine, known = self._engine, self._cells.get(name)
        if known is None:
            raise ValueError(no_column("record_id", name, list(self._cells)))
        is_id = (
            is_exact(known.dtype)
            and self._relation == refused(lambda: engine.table(table), UNREADABLE)
            and refused(lambda: engine.is_stored_table(self._relation), UNREADABLE)
            and refused(lambda: engine.is_key(self._relation, name), UNREADABLE)
        )
        if not is_id:
            raise ValueError(
                "The 'record_id' argument must name a column of whole numbers or text "
                "that a stored table declares unique and not missing. Got "
                f"{name!r}. Declare it PRIMARY KEY, or UNIQUE and NOT NULL."
            )
        self._id_text = known.text

    def _features(self, given: Sequence[str] | None) -> tuple[str, ...]:
        if given is None:
            others = (self.target, self._id, self.groups)
            given = [name for name in self._schema.names if name not in others]
        if self._id is not None and self._id in (self.target, *given):
            raise ValueError(
                "The 'record_id' must be neither the target nor a feature. Got "
                f"{self._id!r}. Leave it out of them."
            )
        return super()._features(given)

    def _checked_relation(self, table: str) -> str:
        """The name of a table, or a query in parentheses."""
        engine = self._engine
        try:
            named = refused(lambda: engine.table(table), UNREADABLE)
            if named is None and _TABLE.fullmatch(table):
                raise ValueError(UNREADABLE)
            relation = named or f"({table.strip().rstrip(';')}) AS records"
            query = f"SELECT * FROM {relation}"
            is_stored = refused(lambda: engine.is_stored(query), UNREADABLE)
        except ValueError:
            raise ValueError(self._unreadable(table)) from None
        if not is_stored:
            raise ValueError(
                "The table or query must read tables that the database stores, so that "
                "a transaction holds them still. Got files, functions, tables of other "
                "databases or objects of Python. Store them as a table, or use "
                "ParquetSource for files."
            )
        is_plain = named is not None and refused(
            lambda: engine.is_stored_table(named), UNREADABLE
        )
        if not is_plain and not self._is_declared:
            raise ValueError(
                "The table must be one that the database stores, without computed "
                "columns. Got a view, a query or another table, which may do more than "
                "give one row for each record. Use features= for expressions and "
                "where= for a filter; for others pass one_record_per_row=True if each "
                "row is one record, the number of rows depends on no record, and no "
                "record makes it fail."
            )
        return relation

    def _unreadable(self, table: str) -> str:
        """What is wrong with a table or a query; of a name, the most similar one."""
        if not _TABLE.fullmatch(table):
            return UNREADABLE
        try:
            known = self._engine.tables()
        except Exception:  # a remedy only: the error says enough without it
            known = []
        if table in known:
            return UNREADABLE
        return (
            "The 'table' argument must name a table or view of the database. Got "
            f"{table!r}, which it cannot read.{similar_to(table, known)} {_STORE}"
        )

    def _check_engine(self) -> None:
        """Refuse what the engine cannot do, before anything is read."""
        if self._n_readers == 1:
            return
        engine, relation = self._engine, self._relation
        is_table = refused(lambda: engine.is_stored_table(relation), UNREADABLE)
        if not is_table or len(engine.shares(relation, self._n_readers)) == 1:
            raise ValueError(
                "The 'n_readers' argument must be 1 unless the source is a table that "
                f"PostgreSQL stores. Got {self._n_readers}. Leave it out: the other "
                "engines manage their threads or workers themselves, and views and "
                "queries are read by one connection."
            )

    def _own(self) -> dict[str, Cell]:
        """The columns of the table or query."""
        names = self._engine.schema(f"SELECT * FROM {self._relation}").names
        return self._engine.cells(self._relation, {n: quoted(n) for n in names})

    def _checked(self, where: str) -> str:
        """The condition, if the database can read it."""
        engine = self._engine
        found = engine.condition(where, "The 'where' argument", self._cells)
        refused(
            lambda: engine.schema(f"SELECT {found} AS r FROM {self._relation}"),
            UNREADABLE,
        )
        return found

    def _made(self, target: str | None, features: Any) -> str | None:
        """Make cells from the expressions; the name of the target."""
        engine, own = self._engine, self._cells
        made = dict(features) if isinstance(features, Mapping) else {}
        for text in made.values():
            _check_word("features", text, own)
        if target is not None and target not in own and target not in made:
            _check_word("target", target, own)
            made["target"], target = target, "target"
        most = engine.dialect.longest_name
        if any(len(name.encode("utf-8", "replace")) > most for name in made):
            raise ValueError(
                f"The names in 'features' must have at most {most} bytes, since the "
                "database cuts longer names. Got a longer one. Shorten it."
            )
        texts = {
            name: engine.expression(text, f"The expression {name!r}", own)
            for name, text in made.items()
        }
        if texts:
            cells = refused(lambda: engine.cells(self._relation, texts), UNREADABLE)
            kept = {name: cell for name, cell in own.items() if name not in cells}
            self._cells = kept | cells
        return target

    def _check_order(self) -> None:
        if self._order is not None and self._order not in self._schema.names:
            raise ValueError(no_column("order_by", self._order, self._schema.names))
        self.is_ordered = self._order is not None

    def _opened_schema(self) -> Any:
        fields = [(name, cell.dtype) for name, cell in self._cells.items()]
        return arrow().schema(fields)

    def _taken(self) -> Snapshot:
        return _Transaction(self._engine)

    def _count(self) -> int:
        return self._engine.count(self._relation)

    def _connected(self) -> AbstractContextManager[None]:
        return self._engine.transaction()

    def _scan(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
        for batch in self._fetched(names, max(FETCHED, self.batch_size)):
            if self._condition is None:
                yield batch, None
                continue
            is_record = batch.column(len(names)).to_numpy(zero_copy_only=False)
            yield batch.select(list(names)), np.asarray(is_record, dtype=bool)

    def _fetched(self, names: tuple[str, ...], size: int) -> Iterator[Any]:
        """Record batches, in the order of the source if it has one."""
        engine, in_order = self._engine, self._order_text or self._order
        if self._n_readers == 1 or in_order:
            return engine.batches(self._query(names), size)
        shares = engine.shares(self._relation, self._n_readers)
        return engine.gathered([self._query(names, share) for share in shares], size)

    def _is_record(self) -> str:
        """The condition by which a row is a record."""
        if self._condition is None:
            return "TRUE"
        return f"COALESCE({self._condition}, FALSE)"

    def _query(self, names: tuple[str, ...], share: str = "") -> str:
        shown = [f"{self._cells[name].text} AS {quoted(name)}" for name in names]
        if self._condition is not None:
            shown.append(f"{self._is_record()} AS {quoted(_IS_RECORD)}")
        order = self._order_text
        if not order and self._order is not None:
            order = self._cells[self._order].text
        order = order and f" ORDER BY {order}"
        some = share and f" WHERE {share}"
        return f"SELECT {', '.join(shown)} FROM {self._relation}{some}{order}"


@dataclass(frozen=True, repr=False)
class _Transaction:
    """The transaction of the current reading."""

    engine: Engine

    @property
    def kind(self) -> str:
        return self.engine.snapshot

    def check(self) -> None:
        """Raise if it has ended."""
        self.engine.check()


def _check_word(argument: str, text: str, names: Collection[str]) -> None:
    """Refuse a single word that names no column; engines may ignore its case."""
    known = {name.lower() for name in names}
    if _WORD.fullmatch(text) and text.strip().lower() not in known | _CONSTANTS:
        raise ValueError(no_column(argument, text, list(names)))


def _check_of_records(groups: str | None) -> None:
    if groups is not None:
        raise ValueError(
            "The 'record_id' must be left out with 'groups': no solver goes through "
            f"the rows of users in an order. Got groups={groups!r}."
        )


def _engine_of(connection: Any) -> Engine:
    maker = type(connection).__module__.partition(".")[0]
    engine = ENGINES[maker](connection) if maker in ENGINES else None
    if engine is not None:
        return engine
    raise TypeError(
        "The 'connection' argument must be a connection of DuckDB, or of ADBC to "
        "PostgreSQL, or a SparkSession (without Spark Connect). Got an instance of "
        f"{type(connection).__name__}. Use duckdb.connect(path), "
        "adbc_driver_postgresql.dbapi.connect(uri), or SparkSession.builder."
    )
