"""Rows of a source as solvers see them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skdp._arrays import IntArray
from skdp._input import canonical_csr
from skdp.io._external import TableSource, applied
from skdp.io._external_users import Passed, Rows, SharesOfPasses
from skdp.io._reading import Reading, Targets
from skdp.sums._adder import present_rows
from skdp.tables._source import Block, Facts, KeptRows, Remote, Room, Source

# Converts rows of a table of allowed cells to a solver's rows.
Encode = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class StreamRows:
    """Rows that have not been read, which estimators hold in place of an array.

    Parameters
    ----------
    table : TableSource
    reading : Reading
    encode : callable
        Encodes each row by itself.
    n_features : int
    dtype : dtype
    is_sparse : bool
    shown : ndarray or CSR
        The encoded sample row.
    is_as_read : bool, default=False
        Whether `encode` changes nothing.
    row_bytes : float, default=inf
        As in `Facts`.
    """

    table: TableSource
    reading: Reading
    encode: Encode
    n_features: int
    dtype: Any = field(default_factory=lambda: np.dtype(np.float64))
    is_sparse: bool = False
    shown: Any = None
    is_as_read: bool = False
    row_bytes: float = math.inf

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records, as declared, and of features."""
        return self.table.n_samples, self.n_features

    def __len__(self) -> int:
        return self.table.n_samples

    def encoded(self, rows: Any) -> Any:
        """Encoded rows whose positions in memory are valid.

        A step of another library may return CSR with indices outside of the array.
        """
        made = self.encode(rows)
        return canonical_csr(made) if issparse(made) else made

    def with_targets(self, targets: Targets | None) -> StreamSource:
        """A source for solvers; nothing is read yet."""
        return StreamSource(self, targets)


def check_kind(table: TableSource, kind: str, what: str) -> None:
    """Refuse a target that is stored in another type than declared."""
    stored = table.target_kind()
    if stored != kind:
        raise ValueError(
            f"{what} must be of the kind that the target {table.target!r} is stored "
            f"as. Got {kind} for {stored}. Declare labels of that kind, or store the "
            "target in the right type."
        )


# Bytes of an index of CSR, and of the target and presence of a row.
_INDEX_BYTES, _BESIDE_BYTES = 8, 9


class StreamSource(Source):
    """A source whose rows are read anew at every pass.

    Parameters
    ----------
    rows : StreamRows
    targets : Targets or None
        None: zeros.
    """

    def __init__(self, rows: StreamRows, targets: Targets | None) -> None:
        self.rows, self.targets = rows, targets
        n_samples, n_features = rows.shape
        is_of_users = rows.table.groups is not None
        # Even for a part without records; how many rows users have is private.
        most = rows.table.batch_size
        if not is_of_users:
            most = max(min(most, n_samples), 1)
        self.facts = Facts(
            n_samples=n_samples,
            n_features=n_features,
            largest_block=most,
            is_row_major=not rows.is_sparse,
            # Another reading may have other blocks: nothing that is kept of one may be
            # reused.
            is_stable=False,
            holds_rows=False,
            is_of_users=is_of_users,
            max_overcount=rows.table.max_overcount,
            n_partitions=1 if is_of_users else rows.table.n_partitions,
            row_bytes=rows.row_bytes,
            memory=rows.table.memory,
            disk=rows.table.disk_room,
            # Rows of users have no order.
            is_ordered=rows.table.has_fixed_order and not is_of_users,
            is_permutable=rows.table.is_permutable,
        )
        self._shares: SharesOfPasses | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # On arrival, the number of records is that of the local table.
        return type(self), (self.rows, self.targets)

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if they are read here.

        Rows of users are read here, since only here the rows' weights are known.
        """
        return None if self.facts.is_of_users else self.rows.table.remote

    def nothing(self) -> Block:
        shape, dtype = (0, self.n_features), self.rows.dtype
        kind = csr_array if self.rows.is_sparse else np.empty
        return Block(kind(shape, dtype=dtype), np.empty(0))

    def permuted(self, key: str) -> StreamSource:
        """The same records in the order of a keyed permutation of their ids."""
        table = self.rows.table.permuted(key)
        return StreamSource(replace(self.rows, table=table), self.targets)

    def blocks(self) -> Iterator[Block]:
        """One pass over the records."""
        kept = self.rows.table.kept_rows(lambda: self._encoding, self._n_bytes)
        yield from self._encoded() if kept is None else kept.passed(self._encoded)

    @cached_property
    def _encoding(self) -> Any:
        """A value that is equal for equal readings, encodings and targets; public."""
        rows = self.rows
        try:
            return joblib.hash((rows.reading, rows.encode, rows.dtype, self.targets))
        except Exception:  # an object that cannot be pickled is equal to itself only
            return object()

    @property
    def _n_bytes(self) -> float:
        """Largest memory of all records, encoded; public."""
        size = np.dtype(self.rows.dtype).itemsize
        of_row = float(self.n_features * size)
        if self.rows.is_sparse:
            # Each entry takes two bytes or more of the row on its grid.
            entries = min(self.facts.row_bytes / 2, self.n_features)
            of_row = entries * (size + _INDEX_BYTES) + _INDEX_BYTES
        return self.n_samples * (of_row + _BESIDE_BYTES)

    def _encoded(self) -> Iterator[Block]:
        table, targets = self.rows.table, self.targets
        shares = None if table.groups is None else self._of_users(table.groups).anew()
        for found, is_present, columns in self._read():
            present: NDArray[Any] | None = None
            users: IntArray | None = None
            if shares is not None:
                rows = Rows(columns, is_present)
                users = shares.codes(rows)
                present = shares.of(rows, users)
            made, is_present = applied(
                self.rows.encoded, found, is_present, self.rows.shown
            )
            X = as_rows(made, self.rows.dtype)
            y = np.zeros(len(is_present))
            if targets is not None:
                y, is_known = targets(columns.column(table.target))
                is_present = is_present & is_known
            if present is None:
                present = is_present
            else:
                present[~is_present] = 0.0
            yield Block(*_nulled(X, y, is_present), present, users)

    def _read(self) -> Passed:
        """One pass over the rows of the table."""
        table, targets = self.rows.table, self.targets
        also = [table.target] if targets is not None else []
        named = tuple(name for name in (*also, table.groups) if name is not None)
        return table.rows(self.rows.reading, named)

    def _of_users(self, groups: str) -> SharesOfPasses:
        """Weights of the rows of users."""
        if self._shares is None:
            table = self.rows.table
            self._shares = SharesOfPasses(
                table.users, groups, table.has_fixed_order, self._read
            )
        return self._shares


def as_rows(X: Any, dtype: Any) -> Any:
    """Rows in a solver's form: a row-major array of a dtype, or CSR."""
    if isinstance(X, pd.DataFrame):
        X = X.to_numpy()
    if issparse(X):
        return X.tocsr()
    return np.ascontiguousarray(X, dtype=dtype)


def _nulled(X: Any, y: Any, is_present: Any) -> tuple[Any, Any]:
    """Rows with zeros for null records: only finite numbers may reach sums."""
    if is_present.all():
        return X, y
    y = np.where(is_present, y, 0.0)
    if issparse(X):
        keep = np.repeat(is_present, np.diff(X.indptr))
        return csr_array((X.data * keep, X.indices, X.indptr), shape=X.shape), y
    X = X.copy()
    X[~is_present] = 0
    return X, y


class PresentOnly(Source):
    """The records of a source that are not null records; for ``epsilon=inf`` only.

    Blocks of the first pass are kept for later passes if there is room for all.

    Parameters
    ----------
    source : Source
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: KeptRows[Block] = KeptRows(
            Room(source.facts.memory, source.facts.disk)
        )
        self.facts = replace(source.facts, is_stable=False, holds_rows=False)

    @property
    def remote(self) -> Remote | None:
        return self._source.remote

    def nothing(self) -> Block:
        return self._source.nothing()

    def blocks(self) -> Iterator[Block]:
        """Blocks without null records."""
        yield from self._kept.passed(self._read)

    def _read(self) -> Iterator[Block]:
        for block in self._source.blocks():
            yield present_rows(block)
