"""One part of a source on a worker, and messages to the worker."""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import IntArray
from skdp._quiet import no_warnings
from skdp.exceptions import SourceError
from skdp.io._external import (
    FETCHED,
    Declared,
    Step,
    TableSource,
    names_of,
    reading_through,
    rows_of,
)
from skdp.io._parquet import File, FileState
from skdp.io._reading import Reading, arrow
from skdp.io._session import RowBatch, RowPositions
from skdp.privacy.ledger._allowance import Allowance
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.release._record import PrivacyRecord
from skdp.tables._source import Remote

# ------------------------------------------------------------------ Messages to workers
# A message holds a query and its source, without the table. An estimator's rows are
# public maps of a table's rows. The table stays where it is, and on a worker the
# worker's part replaces it.


# Attributes of fitted steps, inside searches too, that are no longer needed.
_BOOKS = (Allowance, BudgetLedger, PrivacyRecord)


def sent(value: Any) -> bytes:
    """A value as bytes, with the public facts of each table in place of the table."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            if isinstance(value, TableSource):
                return value.handed_over
            return () if isinstance(value, _BOOKS) else None

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def received(value: bytes, table: Callable[..., Any]) -> Any:
    """The value again; `table` makes a table from its public facts."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, facts: Any) -> Any:
            return table(*facts) if facts else None

    return Unpickler(io.BytesIO(value)).load()


# ------------------------------------ WorkerPart: one part on a worker, and its answers
# Workers log what is raised in them, and dashboards show the repr of values. So a
# failure is None here, and no repr shows what a value holds.


# Bytes of a cell, to estimate the time to read a part again.
_CELL = 8


class PartRows(Protocol):
    """The origin of a part's rows."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_bytes(self) -> int:
        """Approximate size of the rows in bytes."""
        ...

    @property
    def n_pieces(self) -> int:
        """Number of pieces in which the rows move."""
        ...

    def batches(
        self, names: tuple[str, ...], size: int, piece: int | None = None
    ) -> Iterator[Any]:
        """Record batches of some columns; rows and order are the same each time."""
        ...

    def state(self) -> bytes:
        """A value that changes with the rows; private."""
        ...


@dataclass(frozen=True, repr=False)
class Piece:
    """Some row groups of a Parquet file that all workers see; they move together.

    Parameters
    ----------
    file : File
    groups : tuple of int
    n_rows : int
    """

    file: File
    groups: tuple[int, ...]
    n_rows: int


def state_of(states: Iterable[FileState]) -> bytes:
    """The state of a part, from those of its files."""
    found = hashlib.blake2b()
    for size, changed, end in states:
        found.update(f"{size} {changed} ".encode() + end)
    return found.digest()


@dataclass(frozen=True, repr=False)
class FileRows:
    """Pieces of Parquet files, one after another.

    Parameters
    ----------
    pieces : tuple of Piece
    n_columns : int
    """

    pieces: tuple[Piece, ...]
    n_columns: int

    @property
    def n_rows(self) -> int:
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def n_pieces(self) -> int:
        return len(self.pieces)

    @property
    def n_bytes(self) -> int:
        return self.n_rows * self.n_columns * _CELL

    @property
    def files(self) -> tuple[File, ...]:
        """The distinct files."""
        return tuple(dict.fromkeys(piece.file for piece in self.pieces))

    def batches(
        self, names: tuple[str, ...], size: int, piece: int | None = None
    ) -> Iterator[Any]:
        for one in self.pieces if piece is None else (self.pieces[piece],):
            yield from one.file.batches(names, size, one.groups)

    def state(self) -> bytes:
        return state_of(file.state() for file in self.files)


class FrameRows:
    """A data frame, which is one partition of a larger one.

    Parameters
    ----------
    frame : DataFrame
    schema : Schema of Arrow
    """

    def __init__(self, frame: Any, schema: Any) -> None:
        self._frame, self._schema = frame, schema
        self.n_rows, self.n_pieces = len(frame), 1
        self.n_bytes = self.n_rows * len(schema) * _CELL

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._frame, self._schema)

    @cached_property
    def _table(self) -> Any:
        pa = arrow()
        columns = [
            _column(self._frame[field.name], field.type) for field in self._schema
        ]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        # One new chunk: a checksum must follow from the cells, but the buffers of a
        # slice hold other cells too until it is copied.
        return table.take(pa.array(np.arange(self.n_rows))).combine_chunks()

    @cached_property
    def _state(self) -> bytes:
        found = hashlib.blake2b()
        for batch in self._table.to_batches():
            found.update(batch.serialize())
        return found.digest()

    def batches(
        self, names: tuple[str, ...], size: int, piece: int | None = None
    ) -> Iterator[Any]:
        yield from self._table.select(list(names)).to_batches(max_chunksize=size)

    def state(self) -> bytes:
        return self._state


def _column(cells: Any, dtype: Any) -> Any:
    """A column of a data frame; cells of another type are missing."""
    pa = arrow()
    try:
        return pa.Array.from_pandas(cells, type=dtype)
    except Exception:  # for the sake of some cells; which shows one by one
        alone = [_cell(cells.iloc[i : i + 1], dtype) for i in range(len(cells))]
        return pa.concat_arrays(alone)


def _cell(cell: Any, dtype: Any) -> Any:
    """A column of one cell, read as it is among cells of the right type."""
    pa = arrow()
    try:
        found = pa.Array.from_pandas(cell, type=dtype)
    except Exception:  # a cell of another type is missing
        return pa.nulls(1, dtype)
    is_whole = isinstance(found, pa.Array)
    return found if is_whole else found.combine_chunks()


@dataclass(frozen=True, eq=False, repr=False)
class PartTable:
    """A part that replaces the table of an estimator's rows.

    Parameters
    ----------
    part : PartRows
    target : str or None
    batch_size : int
    steps : tuple of Step
    n_partitions : int
        Number of places that hold what is kept of all rows.
    memory, disk_room : int
        `memory` and `disk` of `Facts`.
    schema : Schema of Arrow or None, default=None
        For parts that must say how a model reads them.
    names : tuple of str, default=()
        Names of the features, with a schema.
    places : RowPositions or None, default=None
        Positions of the records among the part's rows; None if all rows are records.
    """

    part: PartRows
    target: str | None
    batch_size: int
    steps: tuple[Step, ...]
    n_partitions: int
    memory: int
    disk_room: int
    schema: Any = None
    names: tuple[str, ...] = ()
    places: RowPositions | None = None
    remote: ClassVar[Remote | None] = None
    # Rows of users are never added up on workers.
    groups: ClassVar[None] = None
    max_overcount: ClassVar[float] = 1.0
    # A client asks for sums, which need no order.
    has_fixed_order: ClassVar[bool] = False
    is_permutable: ClassVar[bool] = False

    @property
    def n_samples(self) -> int:
        """Records of the part."""
        return self.part.n_rows if self.places is None else len(self.places)

    def reading(
        self,
        declared: Any = None,
        *,
        refuses_unknown: bool = False,
        allows_missing: bool = False,
    ) -> Reading:
        """How columns are read; see `TableSource.reading`."""
        given = Declared(declared, refuses_unknown, allows_missing)
        return reading_through(self.steps, self.schema, self.names, given)

    def rows(
        self, reading: Reading, also: tuple[str, ...] = ()
    ) -> Iterator[tuple[Any, NDArray[np.bool_], Any]]:
        """One pass; see `TableSource.rows`."""
        found = self.part.batches(names_of(reading, also), FETCHED)
        batches = RowBatch.of(((columns, None) for columns in found), self.batch_size)
        some = self._counted(batches)
        if self.places is not None:
            some = self.places.of(some)
        return rows_of(some, reading, self.steps)

    def kept_rows(self, encoding: Callable[[], Any], n_bytes: float) -> None:
        """None: a worker keeps no encoded rows."""

    def _counted(self, batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        done = 0
        for batch in batches:
            done += len(batch)
            yield batch
        if done != self.part.n_rows:
            raise SourceError("A part has another number of rows than it reported.")


@dataclass(frozen=True, repr=False)
class Answer:
    """The answer of a part. Private.

    Parameters
    ----------
    number : int
        Number of the part.
    question : int
        Number of the question.
    n_rows, n_pieces : int
        Rows and pieces of the part.
    state : bytes
        State of the rows, before and after the question.
    content : Any
    """

    number: int
    question: int
    n_rows: int
    n_pieces: int
    state: bytes
    content: Any


class WorkerPart:
    """Some records of a source, on their worker. Private.

    The part also holds what a query keeps of its rows, until a query of another family.
    A part that moves leaves this behind.

    Parameters
    ----------
    number : int
    rows : PartRows
    """

    def __init__(self, number: int, rows: PartRows) -> None:
        self.number, self.rows = number, rows
        self._reader: tuple[int | None, Any] = (None, None)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.number, self.rows)

    def __sizeof__(self) -> int:
        # A scheduler weighs this against the time to answer on another worker.
        return self.rows.n_bytes

    def answer(self, question: int, request: Request, sent: bytes) -> Answer | None:
        """The answer to a request; None if it failed."""
        with self._lock, no_warnings():
            try:
                before = self.rows.state()
                content = request.content(self, sent)
                if self.rows.state() != before:
                    return None
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # whatever it is, it might quote a value
                return None
        size = self.rows.n_rows, self.rows.n_pieces
        return Answer(self.number, question, *size, before, content)

    def reader(self, family: int, query: Any, source: Any) -> Any:
        """The reader of a family of queries, by its number."""
        if self._reader[0] != family:
            self._reader = (None, None)  # before another one takes its room
            self._reader = (family, query.open(source))
        return self._reader[1]


class Request(Protocol):
    """A question to a part; public, except for the rows that it is about."""

    def content(self, part: WorkerPart, sent: bytes) -> Any:
        """The part's answer. Private."""
        ...


@dataclass(frozen=True)
class StateOf:
    """A request for the state of a part, to see whether it is unchanged."""

    def content(self, part: WorkerPart, sent: bytes) -> None:
        """None: the answer's frame has the state. A table of Arrow."""


@dataclass(frozen=True)
class RowsOf:
    """A request for the rows themselves.

    Parameters
    ----------
    names : tuple of str
        Columns.
    piece : int
        Which piece of the part.
    """

    names: tuple[str, ...]
    piece: int

    def content(self, part: WorkerPart, sent: bytes) -> Any:
        """A table of Arrow."""
        batches = list(part.rows.batches(self.names, FETCHED, self.piece))
        return arrow().Table.from_batches(batches) if batches else None


@dataclass(frozen=True, eq=False, repr=False)
class SumsOf:
    """A request for the whole sums of a query, which is sent with its source.

    Parameters
    ----------
    family : int
        Number of the queries that share what a reader keeps.
    rows : ndarray of int64 or None
        In rising order; None for all.
    """

    family: int
    rows: IntArray | None

    def content(self, part: WorkerPart, sent: bytes) -> Any:
        """A tuple of whole sums."""
        query, source = received(sent, lambda *facts: PartTable(part.rows, *facts))
        return query.whole_sums(part.reader(self.family, query, source), self.rows)


def answered(
    part: WorkerPart | None, question: int, request: Request, sent: bytes
) -> Answer | None:
    """What a worker runs; a plain function, since schedulers send functions."""
    return None if part is None else part.answer(question, request, sent)


def frame_part(number: int, frame: Any, schema: Any) -> WorkerPart | None:
    """A partition of a data frame as a part; None if it is not one."""
    try:
        return WorkerPart(number, FrameRows(frame, schema))
    except Exception:  # as above
        return None
