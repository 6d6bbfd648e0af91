"""`DaskSource`: records on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import IntArray
from skdp._quiet import no_warnings
from skdp.exceptions import SourceError
from skdp.io._external import FETCHED, TableSource
from skdp.io._parquet import (
    BATCH_SIZE,
    UNREADABLE,
    File,
    check_stored,
    listed,
    schema_of,
)
from skdp.io._parts import (
    Answer,
    FileRows,
    Piece,
    Request,
    RowsOf,
    StateOf,
    SumsOf,
    WorkerPart,
    answered,
    frame_part,
    sent,
    state_of,
)
from skdp.io._reading import arrow
from skdp.io._session import Snapshot, refused
from skdp.sums._exact import Summed, Sums, added
from skdp.tables._columns import Columns
from skdp.tables._source import MEMORY, Remote

# ----------------------------------------------- Parts on the workers of a Dask cluster
# All parts are asked together, and each is counted once. An answer names its part and
# its question, the part's number of rows, and a checksum. A task that ran twice gives
# the same answer, and one of them is taken. A part that was lost is read again, and
# must be unchanged.


# Rows of a piece of a file: enough to be worth a task, and few enough to move.
_PIECE = 1 << 17
# More parts even out differences between workers; every part of a pass takes a task.
_PARTS_PER_THREAD = 2
# A message of at least this many bytes goes to each worker once.
_LARGE = 1 << 16
_NO_WORKERS = (
    "The client of a DaskSource must be connected to a scheduler with workers. Got "
    "none. Start workers, or make the source anew with another client."
)
# After two waits of this many seconds without any worker, the fit ends.
_PATIENCE = 30.0


def workers_of(client: Any) -> list[str]:
    """Addresses of workers, or an error if there are none."""
    found = sorted(refused(client.nthreads, _NO_WORKERS))
    if not found:
        raise ValueError(_NO_WORKERS)
    return found


class Known(NamedTuple):
    """Facts of a part that do not change. Private."""

    n_rows: int
    n_pieces: int
    state: bytes


class DaskParts(ABC):
    """The parts of a source, and the answers of all parts.

    Parameters
    ----------
    client : Client of dask.distributed
    """

    # Text for the privacy record of a fit.
    kind: str
    has_fixed_order: bool
    files: tuple[File, ...] = ()
    schema: Any

    def __init__(self, client: Any) -> None:
        self._client = client
        self._parts: list[Any] = []  # futures
        self._workers: list[str] = []
        self._session, self._question = "", 0
        # Facts of each part as first answered. Private.
        self._known: dict[int, Known] = {}
        # Sources and families of queries, by number.
        self._families: list[tuple[Any, Any]] = []

    @abstractmethod
    def _opened(self) -> list[Any]:
        """Futures of the parts, in the order of their rows."""

    def assumed_public(self, groups: str | None) -> tuple[str, ...]:
        """Assumptions of a guarantee beyond `kind`, for records or users."""
        return ()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """A context within which parts stay on their workers."""
        self._session = uuid.uuid4().hex
        try:
            self._workers = workers_of(self._client)
            self._parts = refused(self._opened, _NO_WORKERS)
            yield
        finally:
            for part in self._parts:
                part.release()
            self._parts, self._families = [], []

    def check(self) -> None:
        """Raise if a part has changed."""
        self.answers([StateOf()] * len(self._parts))

    @property
    def n_workers(self) -> int:
        """Number of workers when the session began, at least one."""
        return max(len(self._workers), 1)

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts, which have been asked."""
        return self.starts[-1]

    @property
    def starts(self) -> list[int]:
        """Numbers of rows before each part, and of all parts."""
        sizes = [self._known[number].n_rows for number in range(len(self._parts))]
        return list(accumulate(sizes, initial=0))

    def family(self, source: Any, query: Any) -> int:
        """The number of a query's family over a source."""
        for number, (other, family) in enumerate(self._families):
            if other is source and family == query.family:
                return number
        self._families.append((source, query.family))
        return len(self._families) - 1

    def answers(self, requests: Sequence[Request], sent: bytes = b"") -> list[Any]:
        """The answers of all parts, in their order, to one request each."""
        numbers = range(len(self._parts))
        self._question += 1
        asked = self._asked(numbers, requests, sent)
        return self._checked(self._gathered(asked), numbers)

    def in_turn(self, request: Callable[[int], Request]) -> Iterator[Any]:
        """The parts' answers piece by piece, in their order; a few are asked ahead.

        Parameters
        ----------
        request : callable
            Gives the request for the piece of a number.
        """
        ahead: deque[tuple[int, int, Any]] = deque()
        for number in range(len(self._parts)):
            for piece in range(self._known[number].n_pieces):
                self._question += 1
                (asked,) = self._asked([number], [request(piece)], b"")
                ahead.append((number, self._question, asked))
                if len(ahead) > len(self._workers):
                    yield self._next(*ahead.popleft())
        while ahead:
            yield self._next(*ahead.popleft())

    def _next(self, number: int, question: int, asked: Any) -> Any:
        return self._checked(self._gathered([asked]), [number], question)[0]

    def _asked(
        self, numbers: Sequence[int], requests: Sequence[Request], sent: bytes
    ) -> list[Any]:
        """Futures of answers; tasks go where their parts are."""
        n, question = len(numbers), self._question
        # Dask warns of large requests, whose size reveals the size of a secret sample.
        with no_warnings():
            futures: list[Any] = self._client.map(
                answered,
                [self._parts[number] for number in numbers],
                [question] * n,
                requests,
                [self._shared(sent)] * n,
                key=[f"skdp-{self._session}-{question}-{number}" for number in numbers],
                pure=False,
            )
        return futures

    def _shared(self, sent: bytes) -> Any:
        """The message; a large one goes to each worker once."""
        if len(sent) < _LARGE:
            return sent
        return self._client.scatter(sent, broadcast=True, hash=False)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        from distributed import wait

        n_misses = 0
        while n_misses < 2:
            try:
                wait(futures, timeout=_PATIENCE)  # type: ignore[no-untyped-call]  # theirs
            except TimeoutError:
                n_misses = 0 if self._client.nthreads() else n_misses + 1
            else:
                found: list[Any] = self._client.gather(futures)
                return found
        raise SourceError("No worker is left.")

    def _checked(
        self, answers: list[Any], numbers: Sequence[int], question: int | None = None
    ) -> list[Any]:
        """Contents by number: each part once, for this question, and unchanged."""
        question = self._question if question is None else question
        found: dict[int, Any] = {}
        for answer in answers:
            if not isinstance(answer, Answer) or answer.number in found:
                raise SourceError("A part failed, or was reported twice.")
            facts = Known(answer.n_rows, answer.n_pieces, answer.state)
            is_same = self._known.setdefault(answer.number, facts) == facts
            if answer.question != question or not is_same:
                raise SourceError("A part has changed.")
            found[answer.number] = answer.content
        if set(found) != set(numbers):
            raise SourceError("A part is missing.")
        return [found[number] for number in numbers]


class FileParts(DaskParts):
    """Row groups of Parquet files that all workers see.

    Parameters
    ----------
    client : Client of dask.distributed
    files : str, path, or sequence of these
        Names by which workers find them.
    """

    kind = "sizes, times and checksums of Parquet files in each answer of a worker"
    has_fixed_order = True

    def __init__(self, client: Any, files: Any) -> None:
        super().__init__(client)
        workers_of(client)
        found = refused(
            lambda: client.submit(_described, files, pure=False).result(), UNREADABLE
        )
        if isinstance(found, ValueError):
            raise found
        self.schema, self._pieces, self._states = found
        self.files = tuple(self._states)

    def _opened(self) -> list[Any]:
        n = _PARTS_PER_THREAD * sum(self._client.nthreads().values())
        parts = [
            FileRows(pieces, len(self.schema)) for pieces in _divided(self._pieces, n)
        ]
        self._known = {
            number: Known(
                rows.n_rows,
                rows.n_pieces,
                state_of(self._states[file] for file in rows.files),
            )
            for number, rows in enumerate(parts)
        }
        # Dask places parts by their size. A part that must be on one worker would wait
        # for it forever if all workers were lost at once and others came.
        return [
            self._client.submit(
                WorkerPart,
                number,
                rows,
                key=f"skdp-{self._session}-part-{number}",
                pure=False,
            )
            for number, rows in enumerate(parts)
        ]


def _divided(pieces: list[Piece], n_parts: int) -> Iterator[tuple[Piece, ...]]:
    """At most this many runs of pieces, with about equally many rows."""
    n_rows = sum(piece.n_rows for piece in pieces)
    run: list[Piece] = []
    done = n_runs = 0
    for piece in pieces:
        run.append(piece)
        done += piece.n_rows
        if done * n_parts >= (n_runs + 1) * n_rows:
            yield tuple(run)
            run, n_runs = [], done * n_parts // max(n_rows, 1)
    if run:
        yield tuple(run)


def _described(files: Any) -> Any:
    """On a worker: schema, pieces and states of the files, or a problem."""
    try:
        found = listed(files)
        schema = schema_of(found)
        pieces = refused(
            lambda: [one for file in found for one in _cut(file)], UNREADABLE
        )
        states = refused(lambda: {file: file.state() for file in found}, UNREADABLE)
        return schema, pieces, states
    except ValueError as error:
        return ValueError(str(error))


def _cut(file: File) -> Iterator[Piece]:
    """A file in pieces of whole row groups."""
    groups: list[int] = []
    n_rows = 0
    for number, size in enumerate(file.group_sizes()):
        groups.append(number)
        n_rows += size
        if n_rows >= _PIECE:
            yield Piece(file, tuple(groups), n_rows)
            groups, n_rows = [], 0
    if groups:
        yield Piece(file, tuple(groups), n_rows)


_ONE_RECORD = (
    "that each row of the Dask data frame is one record, that its number of rows "
    "depends on no record, and that no record makes its tasks fail"
)
_OWN_ROWS = (
    "that a user's rows in the Dask data frame, and their contents, depend on no other "
    "user, and that no record makes its tasks fail"
)


class FrameParts(DaskParts):
    """Partitions of a Dask data frame, computed once for a session.

    Parameters
    ----------
    client : Client of dask.distributed
    frame : DataFrame of dask.dataframe
    """

    kind = "checksums of the partitions of a Dask data frame in each answer of a worker"
    has_fixed_order = False

    def __init__(self, client: Any, frame: Any) -> None:
        super().__init__(client)
        self._frame = frame
        names = list(frame.columns)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(
                "The columns of a Dask data frame must have names that are strings. "
                "Got others. Rename them: frame.rename(columns=str)."
            )
        self.schema = _schema(frame)

    def assumed_public(self, groups: str | None) -> tuple[str, ...]:
        return (_ONE_RECORD if groups is None else _OWN_ROWS,)

    def _opened(self) -> list[Any]:
        self._known = {}
        partitions = self._client.compute(self._frame.to_delayed())
        return [
            self._client.submit(
                frame_part,
                number,
                partition,
                self.schema,
                key=f"skdp-{self._session}-part-{number}",
                pure=False,
            )
            for number, partition in enumerate(partitions)
        ]


def _schema(frame: Any) -> Any:
    """Names and Arrow types of a data frame's columns, from its types alone."""
    import pandas as pd

    pa = arrow()
    empty = pd.DataFrame(
        {name: pd.Series([], dtype=dtype) for name, dtype in frame.dtypes.items()}
    )
    plain = pa.Schema.from_pandas(empty, preserve_index=False)
    return pa.schema([(field.name, _type_of(field.type)) for field in plain])


def _type_of(dtype: Any) -> Any:
    """Text, where pandas has objects or categories of text."""
    pa = arrow()
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return pa.string() if pa.types.is_null(dtype) else dtype


# --------------------------------------------------------------------------- DaskSource


class DaskSource(TableSource):
    """Records on a Dask cluster; each worker adds up its part of them.

    The records are Parquet files that all workers see, or a Dask data frame. Workers
    need skdp. A fit sends them queries at released weights, and they answer with whole
    numbers, which have the same sum however records are divided. If an estimator needs
    the rows themselves, they are sent to the client part by part. A lost worker is
    replaced by another, whose part must have the same checksum. Rows in which a number
    or the target is missing, NaN or infinite are null records: they contribute exactly
    nothing, and are counted in `n_samples`.

    **Privacy.** Exact sums, without noise, and rows go from workers to the client: the
    scheduler, the workers and the connections between them are trusted like the machine
    with the records. The number of records, the names and types of columns, and how
    rows are divided into parts are taken as public. See ``docs/guide/large_tables.md``.

    Parameters
    ----------
    records : str, path, sequence of these, or DataFrame of dask.dataframe
        Parquet files as in `ParquetSource`, by the paths that workers see; or a data
        frame, which is computed once for each fit and must be the same when a part of
        it is computed again.
    client : Client of dask.distributed
        Client of a scheduler at any address. Never stored with a model.
    target : str or None
        Column of the target; never a feature. None for predictions only.
    n_samples : int
        Declared number of records; public. Compared with the rows of all parts before a
        fit. With `groups` the number of users, at least as large as the number in the
        parts.
    features : sequence of str or None, default=None
        Columns that are features. None: all others.
    columns : mapping, sequence, Range or None, default=None
        Declarations of `skdp.columns`, for an estimator that has none.
    groups : str or None, default=None
        Column of the ids of users, whole numbers or text, for models and steps with
        ``privacy_unit="user"``; never a feature. Then `n_samples` is the declared
        number of users, including users without rows, and the number of rows is
        private. Rows without an id are null records. All rows are then sent to the
        client.
    batch_size : int in [1, 2^20], default=16384
        Number of rows that are processed at once. It changes no result.
    memory : int, default=2^30
        Bytes of rows that may be kept in memory after the first reading by each
        worker; see ``docs/guide/large_tables.md``. It changes no result.
    disk : int or None, default=None
        Bytes of rows that each worker may write to a temporary file if `memory` is too
        small for them. None: half of what is free on the client's disk. 0: no file;
        rows that need more than `memory` are read anew in every pass of a model. It
        changes no result.

    Raises
    ------
    TypeError
        If the client is missing or asynchronous.
        ValueError
        If files or columns are not as described.

    Examples
    --------
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> from skdp import DPLogisticRegression
    >>> from skdp.io import DaskSource
    >>> source = DaskSource(  # doctest: +SKIP
    ...     "claims/*.parquet",
    ...     Client("tcp://scheduler:8786"),
    ...     target="paid",
    ...     n_samples=80_000_000,
    ... )
    >>> model = DPLogisticRegression(  # doctest: +SKIP
    ...     epsilon=1.0, columns={"age": (17, 90)}, classes=[0, 1]
    ... ).fit(source)
    """

    is_ordered = True

    def __init__(
        self,
        records: Any,
        client: Any,
        *,
        target: str | None,
        n_samples: int,
        features: Sequence[str] | None = None,
        columns: Columns | None = None,
        groups: str | None = None,
        batch_size: int = BATCH_SIZE,
        memory: int = MEMORY,
        disk: int | None = None,
    ) -> None:
        arrow()
        _check_client(client)
        self._parts = _parts_of(records, client)
        check_stored(groups, self._parts.files)
        self.has_fixed_order = self._parts.has_fixed_order
        super().__init__(
            target=target,
            n_samples=n_samples,
            features=features,
            columns=columns,
            groups=groups,
            batch_size=batch_size,
            memory=memory,
            disk=disk,
        )

    @property
    def assumed_public(self) -> tuple[str, ...]:
        return (*self._parts.assumed_public(self.groups), *super().assumed_public)

    @property
    def remote(self) -> Remote | None:
        return self if self._places is None else None

    @property
    def n_partitions(self) -> int:
        return self._parts.n_workers if self._places is None else 1

    def sums(self, query: Summed, source: Any, rows: IntArray | None) -> Sums:
        """Whole sums of a query over the records of a source of this table. Private."""
        parts = self._parts
        family = parts.family(source, query)
        # A part without rows has nothing to open; it is asked whether it is still
        # empty.
        asked: list[Request] = [
            SumsOf(family, own) if size else StateOf()
            for own, size in zip(
                self._divided(rows), np.diff(parts.starts), strict=True
            )
        ]
        message = sent((query, source))

        def ask() -> tuple[int, Sums]:
            found = parts.answers(asked, message)
            return parts.n_rows, added([sums for sums in found if sums is not None])

        (session,) = self._reads
        total: Sums = session.answered(ask, checks=True)
        return total

    def _divided(self, rows: IntArray | None) -> list[IntArray | None]:
        """The chosen rows of each part."""
        starts = self._parts.starts
        if rows is None:
            return [None] * (len(starts) - 1)
        places = np.searchsorted(rows, starts)
        return [
            rows[first:last] - start
            for first, last, start in zip(places, places[1:], starts, strict=False)
        ]

    def _opened_schema(self) -> Any:
        return self._parts.schema

    def _taken(self) -> Snapshot:
        return self._parts

    def _count(self) -> int:
        return self._parts.n_rows

    def _connected(self) -> AbstractContextManager[None]:
        return self._parts.connected()

    def _scan(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
        for table in self._parts.in_turn(lambda piece: RowsOf(names, piece)):
            for batch in () if table is None else table.to_batches(FETCHED):
                yield batch, None


def _check_client(client: Any) -> None:
    # By name: Dask need not be installed for other sources.
    is_client = type(client).__module__.partition(".")[0] == "distributed"
    if not is_client or not hasattr(client, "scatter") or client.asynchronous:
        raise TypeError(
            "The 'client' argument must be a Client of dask.distributed, and not an "
            f"asynchronous one. Got an instance of {type(client).__name__}. Use "
            "Client(address), or Client() for a cluster on this machine."
        )


def _parts_of(records: Any, client: Any) -> DaskParts:
    if type(records).__module__.partition(".")[0] in ("dask", "dask_expr"):
        return FrameParts(client, records)
    return FileParts(client, records)
