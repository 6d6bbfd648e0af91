"""The file behind a ledger: one SQLite database, chained by digests.

Knows how spends are stored and nothing of what they cost. A file is refused by its
bytes before SQLite opens it, appears under its name only when complete, and every
read verifies that it is whole. The schema number is SQLite's ``user_version``. Which
version of skdp wrote a spend stands in a table that version 0.1 neither wrote nor
minds; no digest covers it.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skdp import __version__
from skdp._versions import FIRST_VERSION, check_version
from skdp.exceptions import LedgerError
from skdp.privacy._codec import event_from_json, event_to_json
from skdp.privacy._events import Event

_APPLICATION_ID = 0x736B6470  # "skdp"
_SCHEMA_VERSION = 1
_BUSY_SECONDS = 60.0
_DRAFT = ".skdp-ledger-"
_LEAST_PAGE = 512  # bytes; a database has whole pages
_SCHEMA = """
CREATE TABLE books (
    epsilon REAL NOT NULL, delta REAL NOT NULL, adjacency TEXT NOT NULL,
    unit TEXT NOT NULL, dataset TEXT NOT NULL, allow_nonprivate INTEGER NOT NULL,
    spends INTEGER NOT NULL, head TEXT NOT NULL
);
CREATE TABLE spends (
    id INTEGER PRIMARY KEY, committed_at TEXT NOT NULL, label TEXT NOT NULL,
    epsilon REAL, delta REAL NOT NULL, event TEXT NOT NULL
);
"""
# Made by the first spend that a version with such a table writes.
_VERSIONS = (
    "CREATE TABLE IF NOT EXISTS versions "
    "(since INTEGER NOT NULL, skdp_version TEXT NOT NULL)"
)


@dataclass(frozen=True)
class Terms:
    """The values a ledger was made with, in the order in which they are stored."""

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    dataset: str
    allow_nonprivate: int


@dataclass(frozen=True)
class Spend:
    """One committed event.

    `id` runs from 1, `committed_at` is in UTC, and `label` says what was fitted.
    `epsilon` and `delta` are what the fit asked for; epsilon is inf for a non-private
    event. `skdp_version` is that of the skdp that made the release.
    """

    id: int
    committed_at: str
    label: str
    epsilon: float
    delta: float
    event: Event
    skdp_version: str = FIRST_VERSION


@dataclass(frozen=True)
class Books:
    """Spends in a file.

    `path` is absolute; `terms` are those that the file must have been made with.
    """

    path: str
    terms: Terms

    def read(self) -> list[Spend]:
        """All spends, oldest first.

        Raises `LedgerError` if the file is missing, foreign, damaged or made with other
        terms.
        """
        with self._translated(), closing(_connect(self.path)) as connection:
            connection.execute("BEGIN")
            return self._verified(connection)

    @contextmanager
    def appending(self) -> Iterator[tuple[list[Spend], Writer]]:
        """All spends and a way to add one: one writer at a time, all or nothing."""
        with self._translated(), closing(_connect(self.path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                spends = self._verified(connection)
                yield spends, Writer(connection, len(spends))
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def create(self) -> None:
        """Make the file, complete or not at all; another process may be first."""
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise LedgerError(
                f"The folder of the ledger must exist. Got {folder!r}. Create it first."
            )
        # The file appears under its name only when it is complete, so another
        # process never sees half a ledger; if another was first, its file stands.
        handle, draft = tempfile.mkstemp(prefix=_DRAFT, dir=folder)
        os.close(handle)
        try:
            with closing(sqlite3.connect(draft)) as connection:
                connection.executescript(
                    f"PRAGMA application_id={_APPLICATION_ID};"
                    f"PRAGMA user_version={_SCHEMA_VERSION};" + _SCHEMA
                )
                connection.execute(
                    "INSERT INTO books VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
                    (*astuple(self.terms), _first_link(self.terms)),
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
        """Let SQLite's errors become the ledger's."""
        problem = ""
        try:
            yield
        except sqlite3.Error as error:
            problem = str(error)
        if problem:
            raise LedgerError(
                f"The ledger {self.path!r} cannot be used: {problem}. Nothing was "
                "spent. Wait if another process holds it, else restore a backup."
            )

    def _verified(self, connection: sqlite3.Connection) -> list[Spend]:
        """All spends, after checking that the file is whole and of these terms."""
        books = connection.execute("SELECT * FROM books").fetchall()
        if len(books) != 1:
            raise self._damaged("the table of books does not have one row")
        terms, (count, head) = Terms(*books[0][:6]), books[0][6:]
        if terms != self.terms:
            told = ", ".join(f"{name}={value!r}" for name, value in vars(terms).items())
            raise LedgerError(
                f"The ledger {self.path!r} was made with {told}. Got other values. "
                "Open it with the same values, or choose another path."
            )
        rows = connection.execute("SELECT * FROM spends ORDER BY id").fetchall()
        link, spends = _first_link(terms), []
        versions, version = _versions(connection), FIRST_VERSION
        for number, row in enumerate(rows, start=1):
            link = _next_link(link, row)
            version = versions.get(number, version)
            try:
                check_version("A spend", version)
                event = event_from_json(row[5])
                epsilon = math.inf if row[3] is None else float(row[3])
            except (ValueError, TypeError) as error:
                raise self._damaged(
                    f"spend {number}, of skdp {version}: {error}"
                ) from None
            spends.append(
                Spend(row[0], row[1], row[2], epsilon, row[4], event, version)
            )
        if count != len(rows) or head != link:
            raise self._damaged("the spends do not match their chain of digests")
        return spends

    def _damaged(self, what: str) -> LedgerError:
        return LedgerError(
            f"The ledger {self.path!r} must be unchanged since skdp wrote it. Got a "
            f"damaged or forged file: {what}. It was left untouched; restore a backup, "
            "or use a newer skdp if one wrote it."
        )


@dataclass(frozen=True)
class Writer:
    """Adds one spend inside a transaction."""

    connection: sqlite3.Connection
    count: int

    def append(self, event: Event, epsilon: float, delta: float, label: str) -> None:
        """Add a spend and the next link of the chain."""
        row = (
            self.count + 1,
            datetime.now(UTC).isoformat(timespec="seconds"),
            label,
            epsilon if math.isfinite(epsilon) else None,
            delta,
            event_to_json(event),
        )
        head = self.connection.execute("SELECT head FROM books").fetchone()[0]
        self.connection.execute("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?)", row)
        self.connection.execute(
            "UPDATE books SET spends = ?, head = ?", (row[0], _next_link(head, row))
        )
        self.connection.execute(_VERSIONS)
        if __version__ not in list(_versions(self.connection).values())[-1:]:
            self.connection.execute(
                "INSERT INTO versions VALUES (?, ?)", (row[0], __version__)
            )


def _versions(connection: sqlite3.Connection) -> dict[int, str]:
    """By number of a spend, the version that wrote it and those that follow."""
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    if ("versions",) not in tables:
        return {}
    return dict(connection.execute("SELECT * FROM versions ORDER BY since").fetchall())


def _copy_exclusively(draft: str, path: str) -> None:
    """Write a new file unless one is there; never replaces the books of another."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "wb") as file:
        file.write(Path(draft).read_bytes())
        file.flush()
        os.fsync(file.fileno())


def find_terms(path: str) -> Terms:
    """The terms that an existing file was made with.

    Raises `LedgerError` if the file is missing, foreign or damaged.
    """
    problem, row = "it has no books", None
    try:
        with closing(_connect(path)) as connection:
            row = connection.execute(
                "SELECT epsilon, delta, adjacency, unit, dataset, allow_nonprivate "
                "FROM books"
            ).fetchone()
    except sqlite3.Error as error:
        problem = str(error)
    if row is None:
        raise LedgerError(
            f"The ledger {path!r} cannot be read: {problem}. Restore a backup."
        )
    return Terms(*row)


def ledgers_beside(path: str, dataset: str) -> list[str]:
    """Names of the ledgers in the file's folder that carry this data set label.

    What cannot be read at once is passed over. Files are looked at through SQLite, as
    in `_connect`, and only if they are as long as a database could be.
    """
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            files = [entry for entry in entries if entry.path != path]
    except OSError:
        return []
    return sorted(file.name for file in files if _label_of(file) == dataset)


def _label_of(file: os.DirEntry[str]) -> str | None:
    """The data set label of a ledger; None if the file is none, or is busy."""
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
    """Whether a file has whole pages, and no log, and is no draft of `Books.create`."""
    if file.name.startswith(_DRAFT) or not file.is_file():
        return False
    size = file.stat().st_size
    has_pages = size > 0 and size % _LEAST_PAGE == 0
    return has_pages and not os.path.exists(file.path + "-wal")


def _connect(path: str) -> sqlite3.Connection:
    """A connection to a file that says it is a ledger of this schema.

    The file is looked at through SQLite only: opening and closing it by other means
    would drop the locks that another thread of this process may hold on it (POSIX).
    """
    if not os.path.isfile(path):
        raise LedgerError(
            f"The ledger {path!r} cannot be read: it is no file. Check the path, or "
            "restore the file; a missing ledger is never started anew under a handle "
            "that has used it."
        )
    problem, application, version = "it is empty", 0, 0
    # "rw", also to read: a reader may have to undo what a killed writer left. A file
    # with a write-ahead log is foreign, and SQLite would fold the log into it.
    if os.path.exists(path + "-wal"):
        problem = "it has a write-ahead log"
    else:
        uri = f"{Path(path).as_uri()}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if (application, version) == (_APPLICATION_ID, _SCHEMA_VERSION):
                connection.execute("PRAGMA synchronous=EXTRA")
                return connection
            problem = "it was written by another program"
        except sqlite3.OperationalError:  # busy, or the disk: not the file's fault
            connection.close()
            raise
        except sqlite3.DatabaseError as error:
            problem = str(error)
        connection.close()
    if application == _APPLICATION_ID:
        raise LedgerError(
            f"The ledger {path!r} must have schema version {_SCHEMA_VERSION}. "
            f"Got version {version}. Use the skdp release that wrote it."
        )
    raise LedgerError(
        f"The file {path!r} must be a ledger written by skdp. Got a foreign, empty or "
        f"truncated file: {problem}. It was left untouched; choose another path or "
        "restore a backup."
    )


def _first_link(terms: Terms) -> str:
    return hashlib.sha256(repr(astuple(terms)).encode()).hexdigest()


def _next_link(link: str, row: tuple[Any, ...]) -> str:
    return hashlib.sha256((link + repr(tuple(row))).encode()).hexdigest()
