"""The users of a source: ids are counted once, and looked up in each pass.

An id is a whole number or a text, exactly as it is stored. A row without an id belongs
to no user, and is a null record. Everything here is private except the number of users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import FloatArray, IntArray
from skdp._users import number_of
from skdp.exceptions import SourceError
from skdp.io._reading import arrow, as_bytes, cells, is_exact, kind_of, numbers
from skdp.sums._record_sums import places_of_users
from skdp.tables._memory import MOST_ROWS_OF_A_USER, places_of_own


def check_groups(dtype: Any, name: str) -> None:
    """Refuse a column whose cells are no ids.

    Raises
    ------
    ValueError
    """
    if not is_exact(dtype):
        raise ValueError(
            "The 'groups' argument must name a column of whole numbers or text. Got "
            f"{name!r}, which is read as {dtype}. Store ids as text, or as whole "
            "numbers of at most 64 bits: other types may be rounded, which would make "
            "two users one."
        )


class UserIds:
    """The users of a source, and how many rows each has.

    Held for a session: about 40 bytes for each id that is a number, 150 for a text.

    Parameters
    ----------
    ids : Array of Arrow
        Distinct ids, none missing.
    counts : ndarray of int of shape (n_users,)
    """

    def __init__(self, ids: Any, counts: IntArray) -> None:
        keys = _as_keys(ids)
        self._index = pd.Index(keys, dtype=keys.dtype)
        # The last entry stands for rows without a user.
        self.counts = np.append(counts, 0).astype(np.int64)
        self.n_users = len(counts)
        self.has_many = bool((counts > MOST_ROWS_OF_A_USER).any())

    @classmethod
    def counted(cls, columns: Iterable[Any]) -> UserIds:
        """Users from all rows, one Arrow column at a time."""
        import pyarrow.compute as pc

        parts: list[Any] = []
        n_known = n_new = 0
        for column in columns:
            found = pc.value_counts(_plain(column).drop_null())
            parts.append(arrow().table({"id": found.field(0), "n": found.field(1)}))
            n_new += len(found)
            # Merged from time to time only, since most ids occur again.
            if n_new > n_known:
                parts, n_new = [_added(parts)], 0
                n_known = len(parts[0])
        if not parts:
            return cls(arrow().array([], arrow().int64()), np.zeros(0, dtype=np.int64))
        total = _added(parts)
        return cls(total["id"].combine_chunks(), total["n"].to_numpy())

    def codes(self, column: Any) -> IntArray:
        """The number of each row's user; `n_users` for a row without a user."""
        if kind_of(column.type) == "string":
            # Each distinct text once: a look-up takes longer than finding equal texts.
            words = _plain(column).dictionary_encode()
            known = np.append(self._known(words.dictionary), self.n_users)
            places = words.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return np.asarray(known[places])
        found = np.full(len(column), self.n_users)
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        found[is_there] = self._known(column.drop_null())
        return found

    def _known(self, ids: Any) -> IntArray:
        """Numbers of users, by their ids."""
        known: IntArray = self._index.get_indexer(_as_keys(ids)).astype(np.int64)
        if (known < 0).any():
            raise SourceError("Some user ids were not there when ids were first read.")
        return known

    def slots(self, n_slots: int) -> IntArray:
        """Bucket of each user, one of `n_slots`, by the id alone."""
        return np.asarray(self._numbers % np.uint64(n_slots), dtype=np.int64)

    @cached_property
    def _numbers(self) -> NDArray[np.uint64]:
        own = map(number_of, self._index.tolist())
        return np.fromiter(own, dtype=np.uint64, count=self.n_users)

    @cached_property
    def places(self) -> IntArray:
        """Position of each user's rows in scores; the last entry is for no user."""
        return np.append(places_of_users(self._index.tolist()), 0)


def _added(parts: list[Any]) -> Any:
    """Counts with equal ids merged."""
    found = arrow().concat_tables(parts).group_by("id", use_threads=False)
    total = found.aggregate([("n", "sum")])
    return arrow().table({"id": total["id"], "n": total["n_sum"]})


def _plain(column: Any) -> Any:
    """Ids as whole numbers, or as the bytes of texts."""
    return as_bytes(column) if kind_of(column.type) == "string" else column


def _as_keys(ids: Any) -> Any:
    """Ids as look-up keys; whole numbers never pass through floats."""
    if arrow().types.is_integer(ids.type):
        return ids.to_numpy(zero_copy_only=False)
    return np.array([*ids.to_pylist(), None], dtype=object)[:-1]


class KeptUserRows(Protocol):
    """Decides in one pass which rows count of users with many rows."""

    def those(self, codes: IntArray, rows: Rows) -> NDArray[np.bool_]:
        """Whether each row counts; `codes` are the rows' users, all with many rows."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows as they were read, and which of them are records.

    Parameters
    ----------
    columns : RecordBatch of Arrow
    is_present : ndarray of bool of shape (n_rows,)
    """

    columns: Any
    is_present: NDArray[np.bool_]

    def at(self, places: NDArray[np.intp]) -> Rows:
        """The rows at these positions."""
        return Rows(self.columns.take(arrow().array(places)), self.is_present[places])

    def digests(self) -> list[bytes]:
        """Digest of each row, from its cells alone: equal rows have equal digests."""
        columns = [_words(column) for column in self.columns.columns]
        words = np.column_stack([self.is_present, *columns]).astype(np.int64)
        return [_digest(row) for row in words]


def _digest(cells: Any) -> bytes:
    return blake2b(cells, digest_size=16).digest()


def _words(column: Any) -> IntArray:
    """Cells as whole numbers; each follows from one cell, and nothing raises."""
    kind = kind_of(column.type)
    if kind in ("number", "boolean"):
        found = numbers(column).astype(np.float64)
        found[np.isnan(found)] = np.nan  # of many, one
        return np.asarray(found.view(np.int64))
    if kind == "string":
        texts = as_bytes(column).dictionary_encode()
        known = [_digest(text) for text in texts.dictionary.to_pylist()]
        each = np.frombuffer(b"".join([*known, bytes(16)]), dtype=np.int64)
        places = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(each.reshape(-1, 2)[places])
    if kind == "other":  # of which nothing is read
        return np.zeros(len(column), dtype=np.int64)
    found, is_missing = cells(column, None)
    return np.column_stack([np.asarray(found).view(np.int64), is_missing])


class FirstRows:
    """The first rows count, if rows have an order that no other user changes."""

    def __init__(self, n_users: int) -> None:
        self._seen = np.zeros(n_users, dtype=np.int64)

    def those(self, codes: IntArray, rows: Rows) -> NDArray[np.bool_]:
        """Whether each row is among its user's first rows."""
        places = self._seen[codes] + places_of_own(codes)
        np.add.at(self._seen, codes, 1)
        return np.asarray(places < MOST_ROWS_OF_A_USER)


@dataclass(frozen=True, eq=False)
class LeastRows:
    """The rows with the smallest digests count, if rows have no order.

    Rows with the same digest have the same cells, so that it does not matter which of
    them are read first.

    Parameters
    ----------
    last : mapping of int to (bytes, int)
        For each user, by number: the largest digest that counts, and how many rows with
        this digest count.
    seen : Counter
        Rows with the largest digest so far.
    """

    last: dict[int, tuple[bytes, int]]
    seen: Counter[int]

    @classmethod
    def found(cls, passed: Iterator[tuple[IntArray, Rows]]) -> LeastRows:
        """The limits, from a pass over the rows of users with many."""
        least: dict[int, list[bytes]] = {}
        for codes, rows in passed:
            for code, digest in zip(codes.tolist(), rows.digests(), strict=True):
                own = least.setdefault(code, [])
                own.append(digest)
                if len(own) > 2 * MOST_ROWS_OF_A_USER:
                    own[:] = sorted(own)[:MOST_ROWS_OF_A_USER]
        last = {}
        for code, own in least.items():
            own = sorted(own)[:MOST_ROWS_OF_A_USER]
            last[code] = own[-1], own.count(own[-1])
        return cls(last, Counter())

    def anew(self) -> LeastRows:
        """A copy of the limits for another pass, with no rows counted yet."""
        return replace(self, seen=Counter())

    def those(self, codes: IntArray, rows: Rows) -> NDArray[np.bool_]:
        own = zip(codes.tolist(), rows.digests(), strict=True)
        found = [self._counts(code, digest) for code, digest in own]
        return np.array(found, dtype=bool)

    def _counts(self, code: int, digest: bytes) -> bool:
        last, times = self.last[code]
        if digest != last:
            return digest < last
        self.seen[code] += 1
        return self.seen[code] <= times


@dataclass(frozen=True, eq=False)
class UserShares:
    """Weights of rows, in one pass.

    Parameters
    ----------
    users : UserIds
    name : str
        Name of the column of ids.
    kept : KeptUserRows or None
        None if no user has many rows.
    """

    users: UserIds
    name: str
    kept: KeptUserRows | None

    def codes(self, rows: Rows) -> IntArray:
        """The number of each row's user; `n_users` for a row without a user."""
        return self.users.codes(rows.columns.column(self.name))

    def of(self, rows: Rows, codes: IntArray) -> FloatArray:
        """Weight of each row: 1 over the number of its user's rows that count, or 0.

        Null records are among a user's rows, and add nothing.
        """
        counts = self.users.counts[codes]
        shares = 1 / np.clip(counts, 1, MOST_ROWS_OF_A_USER)
        shares[~rows.is_present | (counts == 0)] = 0.0
        if self.kept is not None:
            places = many(counts)
            those = self.kept.those(codes[places], rows.at(places))
            shares[places[~those]] = 0.0
        return shares


# A pass over a source: rows, which of them are present, and columns as read.
Passed = Iterator[tuple[Any, NDArray[np.bool_], Any]]


@dataclass(frozen=True, eq=False)
class SharesOfPasses:
    """Weights of rows, in each pass over the same columns.

    Parameters
    ----------
    users : UserIds
    name : str
        Name of the column of ids.
    has_order : bool
        Whether rows have an order that no other user changes.
    read : callable
        Makes another pass; called if users have many rows and the rows have no order.
    """

    users: UserIds
    name: str
    has_order: bool
    read: Callable[[], Passed]

    def anew(self) -> UserShares:
        """The weights for the next pass."""
        return UserShares(self.users, self.name, self._kept())

    def _kept(self) -> KeptUserRows | None:
        if not self.users.has_many:
            return None
        return FirstRows(self.users.n_users) if self.has_order else self._least.anew()

    @cached_property
    def _least(self) -> LeastRows:
        return LeastRows.found(self._of_many())

    def _of_many(self) -> Iterator[tuple[IntArray, Rows]]:
        """One pass over the rows of users with many rows, and the rows' users."""
        for _, is_present, columns in self.read():
            codes = self.users.codes(columns.column(self.name))
            places = many(self.users.counts[codes])
            yield codes[places], Rows(columns, is_present).at(places)


def many(counts: IntArray) -> NDArray[np.intp]:
    """Positions of rows whose users have more rows than can count."""
    return np.flatnonzero(counts > MOST_ROWS_OF_A_USER)
