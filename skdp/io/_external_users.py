"""Whose each row of a source is: ids are counted once, and looked up in each pass.

An id is a whole number or a text, to the last bit as it is stored. A row without one
is nobody's, and a null record. All here is private but for the number of users.
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
            "numbers of at most 64 bits: others may be rounded, so that users merge."
        )


class UserIds:
    """The users of a source, and how many rows each has.

    Held for a session: some 40 bytes an id that is a number, 150 one that is a text.

    Parameters
    ----------
    ids : Array of Arrow
        Each once, none missing.
    counts : ndarray of int of shape (n_users,)
    """

    def __init__(self, ids: Any, counts: IntArray) -> None:
        keys = _as_keys(ids)
        self._index = pd.Index(keys, dtype=keys.dtype)
        # The last one is nobody.
        self.counts = np.append(counts, 0).astype(np.int64)
        self.n_users = len(counts)
        self.has_many = bool((counts > MOST_ROWS_OF_A_USER).any())

    @classmethod
    def counted(cls, columns: Iterable[Any]) -> UserIds:
        """Of all rows, a column of Arrow at a time."""
        import pyarrow.compute as pc

        parts: list[Any] = []
        n_known = n_new = 0
        for column in columns:
            found = pc.value_counts(_plain(column).drop_null())
            parts.append(arrow().table({"id": found.field(0), "n": found.field(1)}))
            n_new += len(found)
            # As they come, since most ids come again; and not at every turn.
            if n_new > n_known:
                parts, n_new = [_added(parts)], 0
                n_known = len(parts[0])
        if not parts:
            return cls(arrow().array([], arrow().int64()), np.zeros(0, dtype=np.int64))
        total = _added(parts)
        return cls(total["id"].combine_chunks(), total["n"].to_numpy())

    def codes(self, column: Any) -> IntArray:
        """The number of each row's user; `n_users` of nobody."""
        if kind_of(column.type) == "string":
            # Each text once: it takes longer to look up than to find among its like.
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
            raise SourceError("Some users were not there before.")
        return known

    def slots(self, n_slots: int) -> IntArray:
        """Of each user one of so many, by the id alone."""
        return np.asarray(self._numbers % np.uint64(n_slots), dtype=np.int64)

    @cached_property
    def _numbers(self) -> NDArray[np.uint64]:
        own = map(number_of, self._index.tolist())
        return np.fromiter(own, dtype=np.uint64, count=self.n_users)

    @cached_property
    def places(self) -> IntArray:
        """Where rows of each user are asked about in scores; the last one is nobody."""
        return np.append(places_of_users(self._index.tolist()), 0)


def _added(parts: list[Any]) -> Any:
    """Counts of the same ids as one."""
    found = arrow().concat_tables(parts).group_by("id", use_threads=False)
    total = found.aggregate([("n", "sum")])
    return arrow().table({"id": total["id"], "n": total["n_sum"]})


def _plain(column: Any) -> Any:
    """Ids as whole numbers, or as the bytes of texts."""
    return as_bytes(column) if kind_of(column.type) == "string" else column


def _as_keys(ids: Any) -> Any:
    """Ids as they are looked up; whole numbers never pass through floats."""
    if arrow().types.is_integer(ids.type):
        return ids.to_numpy(zero_copy_only=False)
    return np.array([*ids.to_pylist(), None], dtype=object)[:-1]


class KeptUserRows(Protocol):
    """Which rows count of users with many, in one pass."""

    def those(self, codes: IntArray, rows: Rows) -> NDArray[np.bool_]:
        """Of some rows, all of users with many, by the numbers of their users."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows as they came, and which of them are records.

    Parameters
    ----------
    columns : RecordBatch of Arrow
    is_present : ndarray of bool of shape (n_rows,)
    """

    columns: Any
    is_present: NDArray[np.bool_]

    def at(self, places: NDArray[np.intp]) -> Rows:
        """Some of them."""
        return Rows(self.columns.take(arrow().array(places)), self.is_present[places])

    def digests(self) -> list[bytes]:
        """Of each row, by its own cells alone: rows that read alike have the same."""
        columns = [_words(column) for column in self.columns.columns]
        words = np.column_stack([self.is_present, *columns]).astype(np.int64)
        return [_digest(row) for row in words]


def _digest(cells: Any) -> bytes:
    return blake2b(cells, digest_size=16).digest()


def _words(column: Any) -> IntArray:
    """Cells as they are read, in whole numbers; each by itself, and nothing raises."""
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
    """The first ones, where rows have an order that no other user changes."""

    def __init__(self, n_users: int) -> None:
        self._seen = np.zeros(n_users, dtype=np.int64)

    def those(self, codes: IntArray, rows: Rows) -> NDArray[np.bool_]:
        """Which count."""
        places = self._seen[codes] + places_of_own(codes)
        np.add.at(self._seen, codes, 1)
        return np.asarray(places < MOST_ROWS_OF_A_USER)


@dataclass(frozen=True, eq=False)
class LeastRows:
    """Those with the smallest digests, where rows have no order.

    Rows of one digest read alike, so that it does not matter which of them come first.

    Parameters
    ----------
    last : mapping of int to (bytes, int)
        By the number of a user the largest digest that counts, and how often.
    seen : Counter
        Rows of that digest so far.
    """

    last: dict[int, tuple[bytes, int]]
    seen: Counter[int]

    @classmethod
    def found(cls, passed: Iterator[tuple[IntArray, Rows]]) -> LeastRows:
        """By a pass over the rows of users with many."""
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
        """For another pass."""
        return replace(self, seen=Counter())

    def those(self, codes: IntArray, rows: Rows) -> NDArray[np.bool_]:
        """Which count."""
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
    """With which shares rows count, in one pass.

    Parameters
    ----------
    users : UserIds
    name : str
        Of the column of ids.
    kept : Kept or None
        None if no user has many rows.
    """

    users: UserIds
    name: str
    kept: KeptUserRows | None

    def codes(self, rows: Rows) -> IntArray:
        """The number of each row's user; `n_users` of nobody."""
        return self.users.codes(rows.columns.column(self.name))

    def of(self, rows: Rows, codes: IntArray) -> FloatArray:
        """Of each row 1 over those that count of its user, or 0.

        Null records are among a user's rows, and count nothing.
        """
        counts = self.users.counts[codes]
        shares = 1 / np.clip(counts, 1, MOST_ROWS_OF_A_USER)
        shares[~rows.is_present | (counts == 0)] = 0.0
        if self.kept is not None:
            places = many(counts)
            those = self.kept.those(codes[places], rows.at(places))
            shares[places[~those]] = 0.0
        return shares


# What one pass over a source shows: rows, which are present, and columns as they came.
Passed = Iterator[tuple[Any, NDArray[np.bool_], Any]]


@dataclass(frozen=True, eq=False)
class SharesOfPasses:
    """With which shares rows count, pass by pass over the same columns.

    Parameters
    ----------
    users : UserIds
    name : str
        Of the column of ids.
    has_order : bool
        Whether rows have an order that no other user changes.
    read : callable
        Another pass; called if users have many rows and these have no order.
    """

    users: UserIds
    name: str
    has_order: bool
    read: Callable[[], Passed]

    def anew(self) -> UserShares:
        """For the next pass."""
        return UserShares(self.users, self.name, self._kept())

    def _kept(self) -> KeptUserRows | None:
        if not self.users.has_many:
            return None
        return FirstRows(self.users.n_users) if self.has_order else self._least.anew()

    @cached_property
    def _least(self) -> LeastRows:
        return LeastRows.found(self._of_many())

    def _of_many(self) -> Iterator[tuple[IntArray, Rows]]:
        """One pass over the rows of users that have many, and whose they are."""
        for _, is_present, columns in self.read():
            codes = self.users.codes(columns.column(self.name))
            places = many(self.users.counts[codes])
            yield codes[places], Rows(columns, is_present).at(places)


def many(counts: IntArray) -> NDArray[np.intp]:
    """Places of rows whose users have more than can count."""
    return np.flatnonzero(counts > MOST_ROWS_OF_A_USER)
