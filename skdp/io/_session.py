"""One reading of a source: a snapshot, batches, positions of rows and of users."""

from __future__ import annotations

import math
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import IntArray
from skdp.exceptions import READ_FAILED, SourceError
from skdp.io._external_users import UserIds
from skdp.io._reading import arrow
from skdp.tables._source import NO_ROOM, UNLIMITED, KeptRows, Room

# ------------------------------------- Session: snapshot, passes, failures without data
# Once records have been read, every failure of a fit gives one constant message, which
# reveals nothing about the cause, the place or the number of records concerned.


_INTERRUPTED = (
    "Interrupted while a source was being read. What was committed stays in the ledger."
)
# Seconds until the first line of progress within one pass; the time between two lines
# is the time since the start of the pass.
_PATIENCE = 10.0


class Snapshot(Protocol):
    """The state of a source when it was made; never shown, never stored."""

    @property
    def kind(self) -> str:
        """Text on the kind of snapshot, for the privacy record; public."""
        ...

    def check(self) -> None:
        """Raise any exception if the state has changed."""
        ...


class Session:
    """One reading of a source, of any number of passes, by one estimator.

    Parameters
    ----------
    snapshot : Snapshot
    label : str
        Name of the reader; empty to print nothing.
    is_asked : bool, default=True
        Whether to print lines in every pass. In the first pass only otherwise, on the
        standard error: solvers report their steps.

    Attributes
    ----------
    n_rows : int
        Rows of every pass, as counted before the first pass.
    users : UserIds or None
        Users of the rows, counted at the same time; None for a source of records.
        Private, and then `n_rows` is private too.
    """

    users: UserIds | None = None
    _cells: KeptCells | None = None
    _rows: tuple[Any, KeptRows[Any]] | None = None
    _keeps_rows = False

    def __init__(
        self, snapshot: Snapshot, label: str = "", is_asked: bool = True
    ) -> None:
        self.snapshot, self._label, self._is_asked = snapshot, label, is_asked
        self.n_rows = 0
        self.has_read = False
        self._n_passes = 0
        self._is_broken = False
        self._thread = threading.get_ident()

    def check_own(self) -> None:
        """Refuse another thread, whose passes would mix with this thread's."""
        if threading.get_ident() != self._thread:
            raise ValueError(
                "A source must be read by one estimator at a time. Got two. Make a "
                "source for each thread."
            )

    def keep_cells(self, schema: Any, names: tuple[str, ...], room: Room) -> None:
        """Keep cells from the next pass on, and these columns with them.

        `room` is that of cells and encoded rows together.
        """
        is_of_users = self.users is not None
        self._cells = KeptCells(schema, names, self.n_rows, is_of_users, room)

    def keep_rows(self) -> None:
        """Keep encoded rows as well: the fits of this session are public."""
        self._keeps_rows = True

    def forget(self) -> None:
        """Keep nothing: an error's frames hold this object."""
        self._cells, self._rows = None, None

    def has_room(self, n_bytes: float) -> bool:
        """Whether encoded rows of at most this many bytes are kept; public."""
        cells = self._cells
        if not self._keeps_rows or cells is None or self.users is not None:
            return False  # the number of rows of users is private
        # In memory only: encoding rows anew costs less than a disk of their size.
        return n_bytes <= cells.room.memory - cells.n_bytes

    def kept_rows(self, key: Any) -> KeptRows[Any]:
        """Where rows of one encoding are kept, until there is another.

        Equal keys stand for the same rows in the same encoding.
        """
        self.check_unbroken()
        if self._rows is None or self._rows[0] != key:
            self._rows = None  # before another takes its room
            self._rows = key, KeptRows(UNLIMITED)
        return self._rows[1]

    def passed(
        self,
        names: tuple[str, ...],
        order: str,
        read: Callable[[tuple[str, ...]], Iterator[RowBatch]],
    ) -> Iterator[RowBatch]:
        """One pass over some columns, of kept cells if there are any.

        Parameters
        ----------
        names : tuple of str
        order : str
            Name of the order of the rows; cells are kept in one order.
        read : callable
            Reads columns.
        """
        self.check_unbroken()
        if self._cells is None:
            yield from self.counted(read(names))
        else:
            yield from self._cells.passed(
                names, order, lambda known: self.counted(read(known))
            )

    def counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """One pass that checks the snapshot and the number of rows."""
        with self._pass():
            # The number of rows of users is private.
            is_shown = self._is_asked or self._n_passes == 1
            label = self._label if is_shown and self.users is None else ""
            stream = sys.stdout if self._is_asked else sys.stderr
            done, clock = 0, _Clock(label, self._n_passes, self.n_rows, stream)
            for batch in batches:
                done += len(batch)
                if done > self.n_rows:
                    raise SourceError(READ_FAILED)
                yield batch
                clock.show(done)
            if done < self.n_rows:
                raise SourceError(READ_FAILED)

    def answered(
        self, ask: Callable[[], tuple[int, Any]], *, checks: bool = False
    ) -> Any:
        """One pass where the records are; `ask` also counts its rows.

        If `checks`, `ask` also checks the snapshot.
        """
        with self._pass(is_checked=checks):
            n_rows, answer = ask()
            if n_rows != self.n_rows:
                raise SourceError(READ_FAILED)
            return answer

    @contextmanager
    def _pass(self, *, is_checked: bool = False) -> Iterator[None]:
        """Remember a failure: code that catches it must not continue the session."""
        self.has_read = True
        self._n_passes += 1
        self.check_unbroken()
        try:
            if not is_checked:
                self.snapshot.check()
            yield
        except GeneratorExit:  # whoever reads wants no more
            raise
        except BaseException:
            self._is_broken = True
            raise

    def check_unbroken(self) -> None:
        """Raise if a pass has failed."""
        if self._is_broken:
            raise SourceError(READ_FAILED)

    def told(self, problem: BaseException) -> BaseException:
        """The exception that is raised in place of a problem, without its text."""
        if not self.has_read:
            return problem
        if isinstance(problem, KeyboardInterrupt):
            return KeyboardInterrupt(_INTERRUPTED)
        if isinstance(problem, SystemExit):
            return SystemExit(1)  # a driver might exit with a text
        # Drivers raise more than exceptions: a panic of Rust is not an Exception.
        return SourceError(READ_FAILED)


class _Clock:
    """Prints the progress of a pass, from public row counts and the clock."""

    def __init__(self, label: str, number: int, n_samples: int, stream: Any) -> None:
        self._label, self._number, self._n_samples = label, number, n_samples
        self._stream, self._start, self._next = stream, monotonic(), _PATIENCE

    def show(self, done: int) -> None:
        """Print a line if one is due."""
        taken = monotonic() - self._start
        if not self._label or taken < self._next:
            return
        self._next = max(2 * taken, _PATIENCE)
        told = (
            f"{done:,} of {self._n_samples:,} rows, "
            f"{taken * (self._n_samples / done - 1):.0f} s left in this pass at "
            f"{done / max(taken, 1e-9):.0f} rows a second"
        )
        print(
            f"[{self._label}] pass {self._number}: {told}",
            file=self._stream,
            flush=True,
        )


def refused(call: Callable[[], Any], message: str) -> Any:
    """The result of a call; an exception becomes a message without its text."""
    is_refused = False
    try:
        return call()
    except Exception:  # whatever it is, it might quote a value
        is_refused = True
    # Outside of the handler, so that the first error is not carried along.
    if is_refused:
        raise ValueError(message)


# ----------------------------------------------------------------------------- RowBatch


class RowBatch:
    """A record batch, and which of its rows are records."""

    def __init__(self, columns: Any, is_record: NDArray[np.bool_] | None) -> None:
        self.columns, self.is_record = columns, is_record

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @classmethod
    def of(
        cls, scanned: Iterator[tuple[Any, NDArray[np.bool_] | None]], size: int
    ) -> Iterator[Self]:
        """Batches of at most this many rows."""
        for columns, is_record in scanned:
            for start in range(0, columns.num_rows, size):
                part = columns.slice(start, size)
                own = None if is_record is None else is_record[start : start + size]
                yield cls(part, own)

    def __reduce__(self) -> tuple[Any, ...]:
        # A slice of a batch would take all buffers of the batch along.
        sink = arrow().BufferOutputStream()
        with arrow().ipc.new_stream(sink, self.columns.schema) as stream:
            stream.write_batch(self.columns)
        return _row_batch, (pickle.PickleBuffer(sink.getvalue()), self.is_record)

    @property
    def n_bytes(self) -> int:
        """Memory of the cells, without memory that batches share."""
        beside = 0 if self.is_record is None else self.is_record.nbytes
        return int(self.columns.nbytes + beside)

    def at(self, places: NDArray[np.int64]) -> RowBatch:
        own = None if self.is_record is None else self.is_record[places]
        return RowBatch(self.columns.take(places), own)

    def select(self, names: tuple[str, ...]) -> RowBatch:
        """The same rows with some of the columns, in this order."""
        return RowBatch(self.columns.select(list(names)), self.is_record)

    def compact(self) -> RowBatch:
        """The same rows with each distinct text stored once."""
        columns = [
            column.dictionary_encode() if _is_text(column.type) else column
            for column in self.columns.columns
        ]
        names = self.columns.schema.names
        return RowBatch(arrow().record_batch(columns, names=names), self.is_record)


def _row_batch(stream: Any, is_record: Any) -> RowBatch:
    """A batch whose cells are parts of a stream of Arrow."""
    reader = arrow().ipc.open_stream(arrow().py_buffer(stream))
    return RowBatch(reader.read_next_batch(), is_record)


# ------------------------------------------------ KeptCells: one reading for many fits
# A search reads a table as often as all of its fits and scores together. Cells are kept
# as they were read: they have the same bits for every candidate, however it encodes
# them, and which cells are kept says nothing about which candidates were tried.


# Bytes of a cell of text, which is the number of a distinct text of its batch, and of a
# row beside its cells.
_TEXT_BYTES, _ROW_BYTES = 4, 1


class KeptCells:
    """Cells of one pass over a source, for later passes of the same session. Private.

    Of records they are kept if there is room for them by the number of rows and the
    types of columns, which are public. The number of rows of users is private: theirs
    are kept as long as they have room, which time, memory and the disk may reveal, and
    nothing else does.

    Parameters
    ----------
    schema : Schema of Arrow
    names : tuple of str
        Columns that every pass reads.
    n_rows : int
    is_of_users : bool
    room : Room
    """

    def __init__(
        self,
        schema: Any,
        names: tuple[str, ...],
        n_rows: int,
        is_of_users: bool,
        room: Room,
    ) -> None:
        self.room = room
        self._schema, self._names, self._n_rows = schema, names, n_rows
        self._is_of_users, self._order = is_of_users, ""
        self._kept: KeptRows[RowBatch] | None = None

    def passed(
        self,
        names: tuple[str, ...],
        order: str,
        read: Callable[[tuple[str, ...]], Iterator[RowBatch]],
    ) -> Iterator[RowBatch]:
        """One pass; columns that are not kept are read together with those that are.

        The parameters are those of `Session.passed`.
        """
        kept = self._kept if self._order == order else None
        if kept is None or not set(names) <= set(self._names):
            wanted = tuple(dict.fromkeys((*names, *self._names)))
            room = self._room_for(wanted)
            if room == NO_ROOM:
                return read(names)
            self._kept = None  # before another takes its room
            kept = self._kept = KeptRows(room)
            self._names, self._order = wanted, order
        known = self._names
        # A generator: `map` would end quietly if a batch raised StopIteration.
        some = kept.passed(lambda: (batch.compact() for batch in read(known)))
        return (batch.select(names) for batch in some)

    @property
    def n_bytes(self) -> float:
        """Memory of the kept cells of records; public."""
        return 0.0 if self._kept is None else self._bytes_of(self._names)

    def _room_for(self, names: tuple[str, ...]) -> Room:
        """Where columns are kept; public."""
        if self._is_of_users:
            return self.room
        return self.room.for_all(self._bytes_of(names))

    def _bytes_of(self, names: tuple[str, ...]) -> float:
        types = [self._schema.field(name).type for name in names]
        return self._n_rows * (_ROW_BYTES + sum(map(_bytes_of, types)))


def _is_text(dtype: Any) -> bool:
    types = arrow().types
    return bool(types.is_string(dtype) or types.is_large_string(dtype))


def _bytes_of(dtype: Any) -> float:
    """Bytes of a kept cell of an Arrow type; inf if its cells decide. Public."""
    if _is_text(dtype):
        return _TEXT_BYTES
    try:
        return float(dtype.bit_width / 8)
    except ValueError:
        return math.inf


# ------------------------------------------- RowPositions: parts of a source of records


NO_POSITIONS = (
    "A source must have a fixed order to be divided, since records are divided by "
    "their places, which no other record may change. Got one without order. Use a "
    "ParquetSource, a DaskSource of files, or an SqlSource with record_id=."
)


class RowPositions:
    """Some positions among the rows of a source; public. It holds one bit for each row.

    Parameters
    ----------
    is_in : ndarray of bool of shape (n_rows,)
    """

    def __init__(self, is_in: NDArray[np.bool_]) -> None:
        self._bits, self._n_rows = np.packbits(is_in), len(is_in)
        self._size = int(np.count_nonzero(is_in))

    def __len__(self) -> int:
        return self._size

    @classmethod
    def all(cls, n_rows: int) -> Self:
        return cls(np.ones(n_rows, dtype=bool))

    def taking(self, positions: NDArray[np.int64] | slice) -> RowPositions:
        """The positions of some rows of this part."""
        is_in = np.zeros(self._n_rows, dtype=bool)
        if len(self) < self._n_rows:
            positions = self._places(0, self._n_rows)[positions]
        is_in[positions] = True
        return RowPositions(is_in)

    def within(self, first: int, n_rows: int) -> RowPositions:
        """The positions within a run of rows, counted from the first of them."""
        is_in = np.zeros(n_rows, dtype=bool)
        is_in[self._places(first, first + n_rows)] = True
        return RowPositions(is_in)

    def of(self, batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """The rows of this part, from one pass over the whole source."""
        start = 0
        for batch in batches:
            places = self._places(start, start + len(batch))
            start += len(batch)
            if len(places):
                yield batch.at(places)

    def _places(self, start: int, stop: int) -> NDArray[np.int64]:
        """Positions of this part within a range of rows, counted from its start."""
        first = start // 8
        bits = np.unpackbits(self._bits[first : -(-stop // 8)])
        return np.flatnonzero(bits[start - 8 * first : stop - 8 * first])


# ---------------------------------------------- UserBuckets: parts of a source of users


class UserBuckets:
    """Some of the buckets of users; a user's bucket follows from the id alone.

    There are as many buckets as declared users. A bucket has any number of users: none,
    one, or several who stay together. So no user's rows, nor their number or absence,
    can move another user to another part, as ranks among the present ids would.

    Parameters
    ----------
    ids : str
        Name of the column.
    chosen : ndarray of int
        Distinct buckets, drawn without regard to the data.
    n_slots : int
        Public.
    """

    def __init__(self, ids: str, chosen: IntArray, n_slots: int) -> None:
        self.ids, self._chosen, self._n_slots = ids, chosen, n_slots

    def __len__(self) -> int:
        return len(self._chosen)

    @classmethod
    def all(cls, ids: str, n_slots: int) -> UserBuckets:
        return cls(ids, np.arange(n_slots), n_slots)

    def taking(self, positions: NDArray[np.int64] | slice) -> UserBuckets:
        """The buckets at some positions among these."""
        return UserBuckets(self.ids, self._chosen[positions], self._n_slots)

    def of(self, batches: Iterator[RowBatch], users: UserIds) -> Iterator[RowBatch]:
        """The rows of users in these buckets, from one pass over the whole source.

        Parameters
        ----------
        users : UserIds
            Users of the whole source.
        """
        is_chosen = np.zeros(self._n_slots, dtype=bool)
        is_chosen[self._chosen] = True
        # Rows without a user are in no part.
        is_in = np.append(is_chosen[users.slots(self._n_slots)], False)
        for batch in batches:
            codes = users.codes(batch.columns.column(self.ids))
            places = np.flatnonzero(is_in[codes])
            if len(places):
                yield batch.at(places)
