"""`ParquetSource`: records in Parquet files."""

from __future__ import annotations

import glob
import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import SourceError
from skdp.io._external import FETCHED, TableSource
from skdp.io._reading import arrow
from skdp.io._session import Snapshot, refused
from skdp.tables._columns import Columns
from skdp.tables._source import MEMORY

# Rows of a batch: with a few dozen columns they fit a cache.
BATCH_SIZE = 1 << 14


class ParquetSource(TableSource):
    """Records in Parquet files, read block by block.

    Only the columns that are needed are read, from memory-mapped files, one file and
    row group after the other. Rows in which a number or the target is missing, NaN or
    infinite are null records: they contribute exactly nothing, and are counted in
    `n_samples`. A value of a declared column may be missing if the declaration says so.

    **Privacy.** The number of records, the names and types of columns, the list of
    files, and how rows are divided into files and row groups are taken as public; with
    `groups` the number of users is public, and neither the number of rows nor how they
    are divided. Sizes and checksums of the files' ends are compared before each pass
    and at the end, and never leave memory. See ``docs/guide/large_tables.md``.

    Parameters
    ----------
    files : str, path, or sequence of these
        A file, a folder (with ``key=value`` folders inside as columns), a pattern such
        as ``"claims/*.parquet"``, or a list in the order in which rows count.
    target : str or None
        Column of the target; never a feature. None for predictions only.
    n_samples : int
        Declared number of records; public. Compared with the rows of the files before a
        fit. With `groups` the number of users, at least as large as the number in the
        files.
    features : sequence of str or None, default=None
        Columns that are features. None: all others.
    columns : mapping, sequence, Range or None, default=None
        Declarations of `skdp.columns`, for an estimator that has none.
    groups : str or None, default=None
        Column of the ids of users, whole numbers or text, for models and steps with
        ``privacy_unit="user"``; never a feature. Then `n_samples` is the declared
        number of users, including users without rows, and the number of rows is
        private. Rows without an id are null records.
    batch_size : int in [1, 2^20], default=16384
        Number of rows that are read at once. It changes no result.
    memory : int, default=2^30
        Bytes of rows that may be kept in memory after the first reading; see
        ``docs/guide/large_tables.md``. It changes no result.
    disk : int or None, default=None
        Bytes of rows that may be written to a temporary file, if `memory` is too
        small for them. None: half of what is free. 0: no file; rows that need more than
        `memory` are read anew in every pass of a model. It changes no result.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPLogisticRegression
    >>> from skdp.io import ParquetSource
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.uniform(-0.5, 0.5, (2000, 3)), columns=["a", "b", "c"])
    >>> folder = getfixture("tmp_path")
    >>> table["y"] = (table["a"] > 0).astype(int)
    >>> table.to_parquet(folder / "part-0.parquet")
    >>> source = ParquetSource(
    ...     folder, target="y", n_samples=2000, columns=(-0.5, 0.5)
    ... )
    >>> source
    ParquetSource(2,000 records, 3 features)
    >>> model = DPLogisticRegression(epsilon=1.0, classes=[0, 1]).fit(source)
    >>> model.n_features_in_
    3
    """

    is_ordered = True
    has_fixed_order = True

    def __init__(
        self,
        files: Any,
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
        self._files = listed(files)
        check_stored(groups, self._files)
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

    def _opened_schema(self) -> Any:
        return schema_of(self._files)

    def _taken(self) -> Snapshot:
        return _FileSnapshot.of(self._files)

    def _count(self) -> int:
        return sum(file.n_rows() for file in self._files)

    def _scan(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
        for file in self._files:
            for batch in file.batches(names, max(FETCHED, self.batch_size)):
                yield batch, None


UNREADABLE = (
    "The 'files' argument must name Parquet files that can be read. Got others. Check "
    "the paths."
)


def schema_of(files: tuple[File, ...]) -> Any:
    """The columns of files, which must all have the same."""
    found = [refused(file.schema, UNREADABLE) for file in files]
    wanted = found[0]
    for schema in found:
        if not schema.equals(wanted, check_metadata=False):
            raise ValueError(
                "The files of a source must have the same columns of the same "
                "types. Got different ones. Write all files with the same columns."
            )
    return arrow().schema(list(wanted))


def check_stored(groups: str | None, files: tuple[File, ...]) -> None:
    """Refuse ids in names of folders, which may be read as numbers: 7 is then 007."""
    if any(name == groups for file in files for name, _ in file.keys):
        raise ValueError(
            "The 'groups' argument must name a column within the files. Got one of "
            f"their folders, {groups!r}. Write ids into the files."
        )


def _opened(place: Any) -> Any:
    """A Parquet file at a path, or in a mapped file."""
    arrow()
    from pyarrow import parquet

    return parquet.ParquetFile(place, memory_map=True)


# Size, time of the last change, and a checksum of the end.
FileState = tuple[int, int, bytes]


@dataclass(frozen=True)
class File:
    """One file, and the values that the names of its folders hold.

    Parameters
    ----------
    path : str
    keys : tuple of (str, str)
    """

    path: str
    keys: tuple[tuple[str, str], ...] = ()

    def schema(self) -> Any:
        """Columns of the file and of its folders."""
        pa = arrow()
        with _opened(self.path) as file:
            fields = list(file.schema_arrow)
        keys = [
            pa.field(name, pa.scalar(_value(text)).type) for name, text in self.keys
        ]
        own = {name for name, _ in self.keys}
        return pa.schema([one for one in fields if one.name not in own] + keys)

    def n_rows(self) -> int:
        """Number of rows, from the file's footer."""
        with _opened(self.path) as file:
            return int(file.metadata.num_rows)

    def group_sizes(self) -> list[int]:
        """Rows of each row group, from the file's footer."""
        with _opened(self.path) as file:
            ends = file.metadata
            return [ends.row_group(i).num_rows for i in range(ends.num_row_groups)]

    def batches(
        self, names: tuple[str, ...], size: int, groups: Sequence[int] | None = None
    ) -> Iterator[Any]:
        """All row groups once, in their order, or some of them on one thread."""
        pa = arrow()
        keys = {name: _value(text) for name, text in self.keys}
        own = [name for name in names if name not in keys]
        with open(self.path, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with _opened(pa.BufferReader(pa.py_buffer(pages))) as rows:
            for batch in rows.iter_batches(
                batch_size=size,
                row_groups=groups,
                columns=own,
                use_threads=groups is None,
            ):
                if hasattr(mmap, "MADV_DONTNEED"):
                    # Pages that were read would count as memory until the end.
                    pages.madvise(mmap.MADV_DONTNEED)
                n = batch.num_rows
                yield pa.record_batch(
                    [
                        pa.repeat(pa.scalar(keys[name]), n)
                        if name in keys
                        else batch.column(name)
                        for name in names
                    ],
                    names=list(names),
                )

    def state(self) -> FileState:
        """Size, time of the last change, and a checksum of the end; private."""
        facts = os.stat(self.path)
        with open(self.path, "rb") as file:
            file.seek(-8, os.SEEK_END)
            length = int.from_bytes(file.read(8)[:4], "little")
            file.seek(-(length + 8), os.SEEK_END)
            end = file.read()
        return facts.st_size, facts.st_mtime_ns, hashlib.blake2b(end).digest()


@dataclass(frozen=True, repr=False)
class _FileSnapshot:
    """The state of the files at one time; compared in memory only."""

    files: tuple[File, ...]
    states: tuple[FileState, ...]
    kind = "sizes, times and checksums of Parquet files before each reading and after"

    @classmethod
    def of(cls, files: tuple[File, ...]) -> _FileSnapshot:
        """The current state."""
        states = refused(lambda: tuple(file.state() for file in files), UNREADABLE)
        return cls(files, states)

    def check(self) -> None:
        """Raise if the files have changed."""
        if tuple(file.state() for file in self.files) != self.states:
            raise SourceError("The files changed.")


def _value(text: str) -> Any:
    """The value in the name of a folder: a number if it is one, else text."""
    try:
        return int(text)
    except ValueError:
        return text


def listed(files: Any) -> tuple[File, ...]:
    """Files in the order in which their rows count."""
    is_one = isinstance(files, (str, os.PathLike))
    found = [one for given in ([files] if is_one else files) for one in _found(given)]
    paths = [os.path.realpath(one.path) for one in found]
    if not found or len(set(paths)) < len(paths):
        raise ValueError(
            "The 'files' argument must name at least one Parquet file, each of them "
            f"once. Got {len(found)}. Check the path or the pattern."
        )
    return tuple(found)


def _found(given: Any) -> list[File]:
    path = Path(os.fspath(given))
    if path.is_dir():
        return [_in_folder(file, path) for file in sorted(path.rglob("*.parquet"))]
    if path.exists():
        return [File(str(path))]
    return [File(name) for name in sorted(glob.glob(str(path), recursive=True))]


def _in_folder(file: Path, folder: Path) -> File:
    parts = file.relative_to(folder).parts[:-1]
    pairs = [part.partition("=") for part in parts if "=" in part]
    return File(str(file), tuple((name, value) for name, _, value in pairs))
