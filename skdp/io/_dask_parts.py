"""Parts of a source on the workers of a Dask cluster: asked together, counted once.

Every answer says of which part and to which question it is, how many rows that part
has, and a checksum. A task that ran twice gives the same answer, and one is taken; a
part that was lost is read anew, and must be what it was.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from skdp.exceptions import SourceError
from skdp.io._arrow import arrow
from skdp.io._parquet import UNREADABLE, File, listed, schema_of
from skdp.io._part import (
    Answer,
    FileRows,
    Part,
    Request,
    StateOf,
    answered,
    frame_part,
)
from skdp.io._session import refused

# Rows of a part of files: enough to be worth a task, and few enough to move.
_PART_ROWS = 1 << 18
# Bytes from which on what is sent goes to each worker once.
_LARGE = 1 << 16
# Seconds without any worker, twice, after which none is waited for.
_PATIENCE = 30.0


class DaskParts(ABC):
    """Parts, and the answers of all of them.

    Parameters
    ----------
    client : Client of dask.distributed
    """

    # In words, for the record of a fit.
    kind: str
    has_fixed_order: bool
    # Beyond `kind`.
    assumed_public: tuple[str, ...] = ()
    schema: Any

    def __init__(self, client: Any) -> None:
        self._client = client
        self._parts: list[Any] = []  # futures
        self._workers: list[str] = []
        self._session, self._question = "", 0
        # Rows and state of each part, as first told. Private.
        self._known: dict[int, tuple[int, bytes]] = {}
        # Sources and families of queries, by number.
        self._families: list[tuple[Any, Any]] = []

    @abstractmethod
    def _opened(self) -> list[Any]:
        """Futures of the parts, in the order in which their rows count."""

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Parts stay on their workers as long."""
        self._session = uuid.uuid4().hex
        try:
            self._workers = sorted(self._client.nthreads())
            self._parts = self._opened()
            yield
        finally:
            for part in self._parts:
                part.release()
            self._parts, self._families = [], []

    def check(self) -> None:
        """Raise if a part is not as it was."""
        self.answers(StateOf())

    @property
    def n_rows(self) -> int:
        """Of all parts; they have been asked."""
        return sum(n for n, _ in self._known.values())

    @property
    def starts(self) -> list[int]:
        """Numbers of rows before each part, and of all."""
        sizes = [self._known[number][0] for number in range(len(self._parts))]
        return list(accumulate(sizes, initial=0))

    def family(self, source: Any, query: Any) -> int:
        """The number of a query's family over a source."""
        for number, (other, family) in enumerate(self._families):
            if other is source and family == query.family:
                return number
        self._families.append((source, query.family))
        return len(self._families) - 1

    def answers(
        self, request: Request | Sequence[Request], sent: bytes = b""
    ) -> list[Any]:
        """What all parts answer, in their order: one request for all, or one each."""
        n = len(self._parts)
        each = list(request) if isinstance(request, Sequence) else [request] * n
        self._question += 1
        given = self._shared(sent)
        asked = [self._asked(i, each[i], given) for i in range(n)]
        return self._checked(self._gathered(asked), range(n))

    def in_turn(self, request: Request) -> Iterator[Any]:
        """What parts answer, one after the other; a few are asked ahead."""
        self._question += 1
        ahead: deque[tuple[int, Any]] = deque()
        for number in range(len(self._parts)):
            ahead.append((number, self._asked(number, request, b"")))
            if len(ahead) > len(self._workers):
                yield self._next(ahead)
        while ahead:
            yield self._next(ahead)

    def _next(self, ahead: deque[tuple[int, Any]]) -> Any:
        number, future = ahead.popleft()
        (content,) = self._checked(self._gathered([future]), range(number, number + 1))
        return content

    def _shared(self, sent: bytes) -> Any:
        if len(sent) < _LARGE:
            return sent
        return self._client.scatter(sent, broadcast=True, hash=False)

    def _asked(self, number: int, request: Request, sent: Any) -> Any:
        """A future of one part's answer, where the part is if it can be."""
        part = self._parts[number]
        key = f"skdp-{self._session}-{self._question}-{number}"
        place = self._place(number)
        return self._client.submit(
            answered, part, self._question, request, sent, key=key, pure=False, **place
        )

    def _place(self, number: int) -> dict[str, Any]:
        """Where a part should be; elsewhere if that worker is gone."""
        return {}

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

    def _checked(self, answers: list[Any], numbers: range) -> list[Any]:
        """Contents by number: each part once, of this question, and as it was."""
        found: dict[int, Any] = {}
        for answer in answers:
            if not isinstance(answer, Answer) or answer.number in found:
                raise SourceError("A part failed, or was told twice.")
            state = answer.n_rows, answer.state
            is_same = self._known.setdefault(answer.number, state) == state
            if answer.question != self._question or not is_same:
                raise SourceError("A part is not as it was.")
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
        As workers know them.
    """

    kind = "sizes, times and checksums of Parquet files in each answer of a worker"
    has_fixed_order = True

    def __init__(self, client: Any, files: Any) -> None:
        super().__init__(client)
        found = client.submit(_described, files, pure=False).result()
        if isinstance(found, ValueError):
            raise found
        self.schema, self._rows, states = found
        for number, (rows, state) in enumerate(zip(self._rows, states, strict=True)):
            self._known[number] = rows.n_rows, state

    def _opened(self) -> list[Any]:
        return [
            self._client.submit(
                Part,
                number,
                rows,
                key=f"skdp-{self._session}-part-{number}",
                pure=False,
                **self._place(number),
            )
            for number, rows in enumerate(self._rows)
        ]

    def _place(self, number: int) -> dict[str, Any]:
        if not self._workers:
            return {}
        worker = self._workers[number % len(self._workers)]
        return {"workers": [worker], "allow_other_workers": True}


def _described(files: Any) -> Any:
    """On a worker: the schema, the parts, and their states; or what is wrong."""
    try:
        found = listed(files)
        schema = schema_of(found)
        parts = refused(
            lambda: [
                FileRows(file, groups, n_rows, len(schema))
                for file in found
                for groups, n_rows in _grouped(file)
            ],
            UNREADABLE,
        )
        states = refused(lambda: [rows.state() for rows in parts], UNREADABLE)
        return schema, parts, states
    except ValueError as error:
        return ValueError(str(error))


def _grouped(file: File) -> Iterator[tuple[tuple[int, ...], int]]:
    """Row groups of a file that make a part, with its number of rows."""
    groups: list[int] = []
    n_rows = 0
    for number, size in enumerate(file.group_sizes()):
        groups.append(number)
        n_rows += size
        if n_rows >= _PART_ROWS:
            yield tuple(groups), n_rows
            groups, n_rows = [], 0
    if groups:
        yield tuple(groups), n_rows


class FrameParts(DaskParts):
    """Partitions of a Dask data frame, computed once for a session.

    Parameters
    ----------
    client : Client of dask.distributed
    frame : DataFrame of dask.dataframe
    """

    kind = "checksums of the partitions of a Dask data frame in each answer of a worker"
    has_fixed_order = False
    assumed_public = (
        "that each row of the Dask data frame is one record, that its number of rows "
        "depends on no record, and that no record makes its tasks fail",
    )

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
    """Names and Arrow types of a data frame's columns, by its types alone."""
    import pandas as pd

    pa = arrow()
    empty = pd.DataFrame(
        {name: pd.Series([], dtype=dtype) for name, dtype in frame.dtypes.items()}
    )
    plain = pa.Schema.from_pandas(empty, preserve_index=False)
    return pa.schema([(field.name, _type_of(field.type)) for field in plain])


def _type_of(dtype: Any) -> Any:
    """Text where pandas says objects or categories of text."""
    pa = arrow()
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return pa.string() if pa.types.is_null(dtype) else dtype
