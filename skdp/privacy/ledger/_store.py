"""The SQLite file of a ledger, and the filter states of its entries."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

from skdp._configured import check_version
from skdp._version import __version__
from skdp.exceptions import LedgerError
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._codec import event_from_json, event_to_json
from skdp.privacy.accounting._events import Event
from skdp.privacy.ledger._filter import Charge, FilterState

# ---------------------------------------------------------- The SQLite file of a ledger
# The store writes and reads spends and their charges; it does not compute charges. A
# file appears under its name only when it is complete, and every read verifies it by a
# chain of digests of the entries. The schema number is SQLite's ``user_version``. A
# separate table has the version of skdp that wrote each spend; no digest covers it.


_APPLICATION_ID = 0x736B6470  # "skdp"
_SCHEMA_VERSION = 2
_BUSY_SECONDS = 60.0
_DRAFT = ".skdp-ledger-"
_LEAST_PAGE = 512  # bytes; a database has whole pages
_SCHEMA = """
CREATE TABLE books (
    epsilon REAL NOT NULL, delta REAL NOT NULL, adjacency TEXT NOT NULL,
    unit TEXT NOT NULL, dataset TEXT NOT NULL, allow_nonprivate INTEGER NOT NULL,
    spends INTEGER NOT NULL, head TEXT NOT NULL,
    reserve_epsilon REAL, reserve_delta REAL
);
CREATE TABLE spends (
    id INTEGER PRIMARY KEY, committed_at TEXT NOT NULL, label TEXT NOT NULL,
    epsilon REAL, delta REAL NOT NULL, event TEXT NOT NULL, charge TEXT
);
"""
# SQLite's error if a read-only connection finds a write that was not finished.
_HALF_WRITTEN = "SQLITE_READONLY_ROLLBACK"
_UNDO = "Open it once with BudgetLedger.open, which undoes the unfinished write."
# Parts of a charge, in the order of its fields.
_NUMBERS = ("epsilon", "delta", "mu_squared")
# Number of columns of the tables "books" and "spends".
_BOOKS_WIDTH, _SPENDS_WIDTH = 10, 7
_TABLES = {("table", name) for name in ("books", "spends", "versions")}
# A table of files of 1.0.0rc1 for spends of 0.1; it must be empty.
_CARRIED = ("table", "carried")
# Created by the first spend.
_VERSIONS = (
    "CREATE TABLE IF NOT EXISTS versions "
    "(since INTEGER NOT NULL, skdp_version TEXT NOT NULL)"
)


@dataclass(frozen=True)
class LedgerTerms:
    """The values with which a ledger was made, in the order of storage."""

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    dataset: str
    allow_nonprivate: int
    reserve_epsilon: float
    reserve_delta: float


@dataclass(frozen=True)
class Spend:
    """One committed event.

    `id` counts from 1, `committed_at` is in UTC, and `label` names the fitted object.
    `epsilon` and `delta` are what the fit asked for; epsilon is inf for a non-private
    event. `skdp_version` is the version of skdp that made the release. `charge` is what
    the ledger was charged for the event.
    """

    id: int
    committed_at: str
    label: str
    epsilon: float
    delta: float
    event: Event
    skdp_version: str
    charge: Charge


@dataclass(frozen=True)
class LedgerEntries:
    """The content of a verified file; events are parsed when they are needed.

    `head` is the last digest of the chain.
    """

    path: str
    rows: tuple[tuple[Any, ...], ...]
    charges: tuple[Charge, ...]
    versions: dict[int, str]
    head: str

    def spends(self) -> list[Spend]:
        """All spends, the oldest first; raises `LedgerError` if one is unreadable."""
        spends, version = [], ""
        for row, charge in zip(self.rows, self.charges, strict=True):
            version = self.versions.get(row[0], version)
            try:
                event = event_from_json(row[5])
                epsilon = math.inf if row[3] is None else float(row[3])
            except (ValueError, TypeError) as error:
                what = f"spend {row[0]}, of skdp {version}: {error}"
                raise _damaged(self.path, what) from None
            facts = (*row[:3], epsilon, row[4], event, version, charge)
            spends.append(Spend(*facts))
        return spends

    @property
    def last_version(self) -> str:
        """The version of skdp that made the last spend, which must exist."""
        return list(self.versions.values())[-1]


@dataclass(frozen=True)
class SpendStore:
    """Spends in a file.

    `path` is absolute, and the file must have been made with `terms`. A `read_only`
    store never writes, and does not undo the unfinished write of a killed process.
    """

    path: str
    terms: LedgerTerms
    read_only: bool = False

    def read(self) -> LedgerEntries:
        """All entries, oldest first.

        Raises `LedgerError` if the file is missing, damaged, not a ledger, or made with
        other terms.
        """
        with self._translated(), closing(self._connection()) as connection:
            connection.execute("BEGIN")
            return self._verified(connection)

    def _connection(self) -> sqlite3.Connection:
        return _connect(self.path, self.read_only)

    @contextmanager
    def appending(self) -> Iterator[tuple[LedgerEntries, Writer]]:
        """All entries and a way to add one: one writer at a time, all or nothing."""
        with self._translated(), closing(_connect(self.path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                entries = self._verified(connection)
                yield entries, Writer(self.path, connection, len(entries.rows))
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def create(self) -> None:
        """Create the complete file, unless another process has created it meanwhile."""
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise LedgerError(
                f"The folder of the ledger must exist. Got {folder!r}. Create it first."
            )
        # The file gets its name only when it is complete, so that no other process sees
        # an incomplete ledger. A file that another process has created is kept.
        handle, draft = tempfile.mkstemp(prefix=_DRAFT, dir=folder)
        os.close(handle)
        try:
            with closing(sqlite3.connect(draft)) as connection:
                connection.executescript(
                    f"PRAGMA application_id={_APPLICATION_ID};"
                    f"PRAGMA user_version={_SCHEMA_VERSION};" + _SCHEMA
                )
                connection.execute(
                    "INSERT INTO books VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
                    _books_row(self.terms),
                )
                connection.commit()
            try:
                os.link(draft, self.path)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links: claim the name first
                _copy_exclusively(draft, self.path)
        finally:
            if os.path.exists(draft):
                os.unlink(draft)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate SQLite's errors into the ledger's errors."""
        problem = ""
        try:
            yield
        except sqlite3.Error as error:
            problem = str(error)
        if problem:
            raise LedgerError(
                f"The ledger {self.path!r} cannot be used: {problem}. Nothing was "
                "spent. Wait if another process uses it; otherwise restore a backup."
            )

    def _verified(self, connection: sqlite3.Connection) -> LedgerEntries:
        """All entries, after checking that the file is whole and has these terms."""
        if _holds_more(connection):
            raise _damaged(self.path, "it has other tables than a ledger")
        books = connection.execute("SELECT * FROM books").fetchall()
        if len(books) != 1:
            raise _damaged(self.path, "the table 'books' does not have one row")
        terms = _terms_of(self.path, books[0])
        if terms != self.terms:
            given = vars(self.terms)
            both = [(k, v, given[k]) for k, v in vars(terms).items() if v != given[k]]
            made = ", ".join(f"{name}={value!r}" for name, value, _ in both)
            got = ", ".join(f"{name}={value!r}" for name, _, value in both)
            raise LedgerError(
                f"The ledger {self.path!r} was made with {made}. Got {got}. Use "
                "BudgetLedger.open(path), which takes the values of the file, or "
                "choose another path."
            )
        rows = connection.execute("SELECT * FROM spends ORDER BY id").fetchall()
        count, head = books[0][6:8]
        link = _first_link(books[0])
        for row in rows:
            if len(row) != _SPENDS_WIDTH:
                raise _damaged(self.path, "a spend has another number of columns")
            link = _next_link(link, row)
        if count != len(rows) or head != link:
            what = "the spends do not match their chain of digests"
            raise _damaged(self.path, what)
        versions = _versions(connection)
        if rows and next(iter(versions), None) != 1:
            raise _damaged(self.path, "its first spend names no version of skdp")
        try:
            charges = tuple(_charge_from(row[6]) for row in rows)
            for version in versions.values():
                check_version("A spend", version)
        except (ValueError, TypeError, OverflowError) as error:
            raise _damaged(self.path, str(error)) from None
        return LedgerEntries(self.path, tuple(rows), charges, versions, head)


@dataclass(frozen=True)
class Writer:
    """Adds one spend inside a transaction."""

    path: str
    connection: sqlite3.Connection
    count: int

    def append(
        self, event: Event, epsilon: float, delta: float, label: str, charge: Charge
    ) -> None:
        """Add a spend, its charge, and the next link of the chain.

        Raises `LedgerError` if the file does not contain the written values afterwards.
        """
        row = (
            self.count + 1,
            datetime.now(UTC).isoformat(timespec="seconds"),
            label,
            epsilon if math.isfinite(epsilon) else None,
            delta,
            event_to_json(event),
            _charge_text(charge),
        )
        self.connection.execute("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self.connection.execute("UPDATE books SET spends = ?", (row[0],))
        head = self._link(row)
        self.connection.execute(_VERSIONS)
        if __version__ not in list(_versions(self.connection).values())[-1:]:
            self.connection.execute(
                "INSERT INTO versions VALUES (?, ?)", (row[0], __version__)
            )
        self._check_written(row, head)

    def _link(self, row: tuple[Any, ...]) -> str:
        (head,) = self.connection.execute("SELECT head FROM books").fetchone()
        link = _next_link(head, row)
        self.connection.execute("UPDATE books SET head = ?", (link,))
        return link

    def _check_written(self, row: tuple[Any, ...], head: str) -> None:
        last = "SELECT * FROM spends ORDER BY id DESC LIMIT 1"
        held = self.connection.execute(last).fetchone()
        books = self.connection.execute("SELECT spends, head FROM books").fetchall()
        if held != row or books != [(row[0], head)]:
            raise _damaged(self.path, "it does not contain what was written to it")


def _charge_text(charge: Charge) -> str:
    values: dict[str, Any] = {"is_void": True}
    if not charge.is_void:
        values = {name: getattr(charge, name) for name in _NUMBERS}
    return json.dumps(values, sort_keys=True, allow_nan=False)


# Fits of the same public facts have the same text.
@lru_cache(maxsize=4096)
def _charge_from(text: str) -> Charge:
    values = _object_of(text)
    if set(values) == {"is_void"} and values["is_void"] is True:
        return Charge(is_void=True)
    if set(values) != set(_NUMBERS):
        raise ValueError("a charge does not have the required fields")
    found = [values[name] for name in _NUMBERS]
    # The comparison also refuses NaN.
    if not all(type(value) in (int, float) and value >= 0 for value in found):
        raise ValueError("a field of a charge is negative or not a number")
    epsilon, delta, mu_squared = map(float, found)
    return Charge(epsilon, delta, mu_squared)


def _object_of(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except RecursionError:
        values = None
    if not isinstance(values, dict):
        raise ValueError("a charge is not a JSON object")
    return values


def _holds_more(connection: sqlite3.Connection) -> bool:
    """Whether the file has more than a ledger's tables, such as a trigger."""
    held = set(connection.execute("SELECT type, name FROM sqlite_master").fetchall())
    if _CARRIED in held and connection.execute("SELECT * FROM carried").fetchone():
        return True
    return not _TABLES >= held - {_CARRIED}


def _versions(connection: sqlite3.Connection) -> dict[int, str]:
    """Version of skdp by the number of the first spend that it wrote."""
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    if ("versions",) not in tables:
        return {}
    return dict(connection.execute("SELECT * FROM versions ORDER BY since").fetchall())


def _copy_exclusively(draft: str, path: str) -> None:
    """Write a new file unless it exists; never replaces another process's ledger."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "wb") as file:
        file.write(Path(draft).read_bytes())
        file.flush()
        os.fsync(file.fileno())


def find_terms(path: str, *, read_only: bool = False) -> LedgerTerms:
    """The terms with which an existing file was made.

    Raises `LedgerError` if the file is missing, foreign or damaged.
    """
    problem, row, remedy = "its table 'books' is empty", None, "Restore a backup."
    try:
        with closing(_connect(path, read_only)) as connection:
            row = connection.execute("SELECT * FROM books").fetchone()
    except sqlite3.Error as error:
        problem = str(error)
        if getattr(error, "sqlite_errorname", "") == _HALF_WRITTEN:
            problem, remedy = "a process was killed while it wrote to it", _UNDO
    if row is None:
        raise LedgerError(f"The ledger {path!r} cannot be read: {problem}. {remedy}")
    return _terms_of(path, row)


def _terms_of(path: str, row: tuple[Any, ...]) -> LedgerTerms:
    """The terms in a row of the table "books"."""
    if len(row) != _BOOKS_WIDTH:
        raise _damaged(path, "its table 'books' has another number of columns")
    return LedgerTerms(*row[:6], *row[8:])


def _books_row(terms: LedgerTerms) -> tuple[Any, ...]:
    values = astuple(terms)
    row = (*values[:6], 0, "", *values[6:])
    return (*values[:6], _first_link(row), *values[6:])


def ledgers_beside(path: str, dataset: str) -> list[str]:
    """Names of other ledgers in the folder of `path` with this data set label.

    The name that is most similar to that of `path` comes first. Files that cannot be
    read immediately are skipped. Files are read through SQLite only, as in `_connect`,
    and only if they have a possible size of a database.
    """
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            files = [entry for entry in entries if entry.path != path]
    except OSError:
        return []
    names = sorted(file.name for file in files if _label_of(file) == dataset)
    likeness = SequenceMatcher(b=os.path.basename(path))

    def unlike(name: str) -> float:
        likeness.set_seq1(name)
        return -likeness.ratio()

    return sorted(names, key=unlike)


def _label_of(file: os.DirEntry[str]) -> str | None:
    """The data set label of a ledger; None if the file is not a ledger, or is busy."""
    try:
        if not _may_be_ledger(file):
            return None
        uri = f"{Path(file.path).as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=0.0)) as connection:
            (found,) = connection.execute("PRAGMA application_id").fetchone()
            if found != _APPLICATION_ID:
                return None
            (label,) = connection.execute("SELECT dataset FROM books").fetchone()
            return str(label)
    except (sqlite3.Error, OSError, TypeError):
        return None


def _may_be_ledger(file: os.DirEntry[str]) -> bool:
    """Whether a file has whole pages and no log, and is not a draft of `create`."""
    if file.name.startswith(_DRAFT) or not file.is_file():
        return False
    size = file.stat().st_size
    has_pages = size > 0 and size % _LEAST_PAGE == 0
    return has_pages and not os.path.exists(file.path + "-wal")


def _connect(path: str, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that is marked as a ledger of this schema.

    The file is read through SQLite only: opening and closing it by other means would
    drop the locks that another thread of this process may hold on it (POSIX).
    """
    if not os.path.isfile(path):
        raise LedgerError(
            f"The ledger {path!r} cannot be read: it is not a file. Check the path, or "
            "restore the file. A BudgetLedger that has used a file never creates it "
            "again."
        )
    problem, application, version = "it is empty", 0, 0
    # Mode "rw" also for reading, because a reader may have to undo the unfinished write
    # of a killed process, which fails with "ro". skdp writes no file with a write-ahead
    # log, which SQLite would merge into the file.
    if os.path.exists(path + "-wal"):
        problem = "it has a write-ahead log"
    else:
        uri = f"{Path(path).as_uri()}?mode={'ro' if read_only else 'rw'}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application == _APPLICATION_ID and version == _SCHEMA_VERSION:
                connection.execute("PRAGMA synchronous=EXTRA")
                return connection
            problem = "it was written by another program"
        except sqlite3.OperationalError:  # busy, or the disk: the file may be whole
            connection.close()
            raise
        except sqlite3.DatabaseError as error:
            problem = str(error)
        connection.close()
    if application == _APPLICATION_ID:
        raise LedgerError(
            f"The ledger {path!r} must have the schema version {_SCHEMA_VERSION}. Got "
            f"version {version}. Use the release of skdp that wrote it. A new ledger "
            "would not include the budget spent in this one."
        )
    raise LedgerError(
        f"The file {path!r} must be a ledger written by skdp. Got an empty, truncated "
        f"or foreign file: {problem}. It was left unchanged; choose "
        "another path or restore a backup."
    )


def _damaged(path: str, what: str) -> LedgerError:
    return LedgerError(
        f"The ledger {path!r} must be unchanged since skdp wrote it. Got a damaged or "
        f"forged file: {what}. It was left unchanged; restore a backup, or use a newer "
        "version of skdp if that wrote it."
    )


def _first_link(books: tuple[Any, ...]) -> str:
    """First link of the chain, from the terms in a row of the table "books"."""
    terms = (*books[:6], *books[8:])
    return hashlib.sha256(repr(terms).encode()).hexdigest()


def _next_link(link: str, row: tuple[Any, ...]) -> str:
    return hashlib.sha256((link + repr(tuple(row))).encode()).hexdigest()


# -------------------------------------------------- Filter states of a ledger's entries


# Recomputed charges may differ by rounding, as on another machine.
_ROUNDING = 1e-6


def start_of(terms: LedgerTerms) -> FilterState:
    """The state before all spends."""
    reserve = Charge(terms.reserve_epsilon, terms.reserve_delta)
    return FilterState(Budget(terms.epsilon, terms.delta), reserve)


def state_of(terms: LedgerTerms, entries: LedgerEntries) -> FilterState:
    """The state after all spends."""
    return reduce(FilterState.after, entries.charges, start_of(terms))


def history_of(
    terms: LedgerTerms, entries: LedgerEntries
) -> Iterator[tuple[Spend, FilterState]]:
    """Every spend, and the state after it."""
    state = start_of(terms)
    for spend in entries.spends():
        state = state.after(spend.charge)
        yield spend, state


def underpaid(start: FilterState, spends: Iterable[Spend]) -> Spend | None:
    """The first spend whose charge is less than the cost of its event, if any.

    `start` is the state before all spends. Charges are computed again. A stored charge
    must cover at least one way to charge the event in its state: all ways are valid,
    and which of them is tried first, or has room, may change as accounting improves.
    """
    state = start
    for spend in spends:
        charged = spend.charge
        if not _is_enough(charged, state, spend):
            return spend
        state = state.after(charged)
        if not charged.is_void and state.exhausted() is not None:
            return spend
    return None


def _is_enough(charged: Charge, state: FilterState, spend: Spend) -> bool:
    return any(_covers(charged, way) for way in state.ways(spend.event, spend.delta))


def _covers(charged: Charge, found: Charge) -> bool:
    if found.is_void or charged.is_void:
        return charged.is_void
    more = 1 + _ROUNDING
    return (
        charged.epsilon * more >= found.epsilon
        and charged.delta * more >= found.delta
        and charged.mu_squared * more >= found.mu_squared
    )
