"""`DaskSource`: records on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._floats import IntArray
from skdp.data._source import Elsewhere
from skdp.io._arrow import arrow
from skdp.io._parquet import BATCH_SIZE, check_stored
from skdp.io._part import Request, RowsOf, StateOf, SumsOf
from skdp.io._sent import sent
from skdp.io._session import Snapshot
from skdp.io._table_source import FETCHED, TableSource
from skdp.io.engines._dask_parts import DaskParts, FileParts, FrameParts
from skdp.queries._summed import Summed, Sums, added


class DaskSource(TableSource):
    """Records on the workers of a Dask cluster, which add up their own parts.

    The records are Parquet files that all workers see, or a Dask data frame. Workers
    need skdp; each is sent what a fit asks at released weights, and answers with whole
    numbers, which have the same sum however records are divided. What an estimator must
    have as rows comes to the client part by part. A worker that is lost is replaced by
    another, whose part must have the same checksum. Rows in which a number is missing,
    NaN or infinite, or whose target is, are null records: they contribute exactly
    nothing, and are counted in `n_samples`.

    **Privacy.** Exact sums, without noise, and rows go from workers to the client: the
    scheduler, the workers and the ways between them are trusted as the machine of the
    records is. The number of records, the names and types of columns, and how rows are
    divided into parts are taken as public. See ``docs/large_data.md``.

    Parameters
    ----------
    records : str, path, sequence of these, or DataFrame of dask.dataframe
        Parquet files as in `ParquetSource`, by the names by which workers know them; or
        a data frame, which is computed once for each fit and must be the same when a
        part of it is computed again.
    client : Client of dask.distributed
        Of a scheduler at any address. Never stored with a model.
    target : str or None
        Column of the target; never a feature. None for predictions only.
    n_samples : int
        Declared number of records; public. Compared with the parts' own before a fit.
        With `groups` that of users, and at least that of the parts' own.
    features : sequence of str or None, default=None
        Columns that are features. None: all others.
    columns : mapping, sequence, Range or None, default=None
        Declarations of `skdp.columns`, for an estimator that has none.
    groups : str or None, default=None
        Column of the ids of users, whole numbers or text, for models and steps with
        ``privacy_unit="user"``; never a feature. Then `n_samples` is the declared
        number of users, those without rows among them, and the number of rows is
        private. Rows without an id are null records.
        All rows come to the client then.
    batch_size : int in [1, 2^20], default=16384
        Rows that are worked on at once. Changes no result.

    Raises
    ------
    TypeError
        If there is no client, or one of asynchronous code.
    ValueError
        If files or columns are not as said.

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
        columns: Any = None,
        groups: str | None = None,
        batch_size: int = BATCH_SIZE,
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
        )

    @property
    def assumed_public(self) -> tuple[str, ...]:
        return (*self._parts.assumed_public(self.groups), *super().assumed_public)

    @property
    def elsewhere(self) -> Elsewhere | None:
        return self if self._places is None else None

    @property
    def n_places(self) -> int:
        return self._parts.n_workers if self._places is None else 1

    def sums(self, query: Summed, source: Any, rows: IntArray | None) -> Sums:
        """Whole sums of a query over the records of a source of this table. Private."""
        parts = self._parts
        family = parts.family(source, query)
        # A part without rows has nothing to open; it is asked if it still has none.
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
        """Which rows of each part."""
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
