"""`BudgetLedger`: the books of one data set, in one SQLite file.

The handle holds only the values it was made with and opens a connection per call,
so copies made by ``clone``, pickling or workers all keep the same books.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skdp._validation import check_bool, check_positive
from skdp.exceptions import BudgetExceeded, LedgerError
from skdp.privacy._accounting import Budget, epsilon_of
from skdp.privacy._adjacency import Adjacency, check_adjacency
from skdp.privacy._codec import event_from_json, event_to_json
from skdp.privacy._events import Event
from skdp.privacy._filter import FilterState, filter_state

if TYPE_CHECKING:
    import pandas as pd

_APPLICATION_ID = 0x736B6470  # "skdp"
_SCHEMA_VERSION = 1
_SQLITE_HEADER = b"SQLite format 3\x00"
_BUSY_SECONDS = 60.0
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


@dataclass(frozen=True)
class Spend:
    """One committed event.

    Parameters
    ----------
    id : int
        Running number from 1.
    committed_at : str
        UTC time of the commit.
    label : str
        What was fitted.
    epsilon, delta : float
        The budget the fit asked for; epsilon is inf for a non-private event.
    event : Event
    """

    id: int
    committed_at: str
    label: str
    epsilon: float
    delta: float
    event: Event


class BudgetLedger:
    """A cap on everything fitted to one data set, kept in a file.

    Every fit that carries this ledger commits its event to the file before it reads
    the data; a fit that would pass the cap raises `BudgetExceeded` and reads nothing.
    Spends are never refunded. The cap holds for adaptively chosen fits, by the
    privacy filter of ``docs/privacy_guarantee.md``.

    The ledger covers **fitted models only**. ``score()``, cross-validation scores and
    a choice made from them read raw data and are not private.

    Parameters
    ----------
    path : str or path-like
        The file; created if it does not exist. Copies of the handle share it.
    epsilon : float in (0, inf)
        Cap on the privacy loss of all fits together.
    delta : float in [0, 1)
        With 0 only pure fits are possible.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Fits under another adjacency are refused.
    unit : str, default="record"
        What one row stands for. Fits for another unit are refused.
    dataset : str, default=""
        A name for the data set; never computed from the data.
    allow_nonprivate : bool, default=False
        Whether seeded fits and ``epsilon=inf`` are booked, as infinite events, rather
        than refused. The total is inf from the first one on.

    Raises
    ------
    LedgerError
        If the file is no ledger, is damaged, or was made with other values. It is
        left untouched.

    Examples
    --------
    >>> import tempfile, os
    >>> from skdp.privacy import Budget, BudgetLedger, GaussianEvent
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = BudgetLedger(
    ...     os.path.join(folder.name, "study.db"), epsilon=3.0, delta=1e-6
    ... )
    >>> ledger.commit(
    ...     GaussianEvent(4.3), adjacency="replace_one", budget=Budget(1.0, 1e-6),
    ...     label="first model",
    ... )
    >>> round(ledger.spent().epsilon, 2), round(ledger.remaining().epsilon, 2)
    (0.98, 2.78)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = "replace_one",
        unit: str = "record",
        dataset: str = "",
        allow_nonprivate: bool = False,
    ) -> None:
        self.path = _check_path(path)
        self.epsilon = check_positive("epsilon", epsilon, remedy="A ledger is a cap.")
        self.delta = Budget(self.epsilon, delta).delta
        self.adjacency = check_adjacency(adjacency)
        self.unit = _check_text("unit", unit)
        self.dataset = _check_text("dataset", dataset)
        self.allow_nonprivate = check_bool("allow_nonprivate", allow_nonprivate)
        if not os.path.exists(self.path):
            self._create()
        self._read()

    @property
    def cap(self) -> Budget:
        """The (epsilon, delta) that all fits together stay within."""
        return Budget(self.epsilon, self.delta)

    def commit(
        self, event: Event, *, adjacency: Adjacency, budget: Budget, label: str
    ) -> None:
        """Put an event on the books, durably, or raise and change nothing.

        Parameters
        ----------
        event : Event
        adjacency : {"replace_one", "zero_out"}
            The relation for which the event was declared.
        budget : Budget
            What the fit asked for; informative.
        label : str
            Name of what is fitted.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow the event.
        ValueError
            If the event is of another adjacency, or non-private and refused.
        LedgerError
            If the file cannot be read as this ledger.
        """
        self.check_accepts(adjacency=adjacency, is_private=_is_private(event))
        with self._transaction() as connection:
            state, spends = self._verified(connection)
            after = state.charged(event)
            exhausted = after.exhausted()
            if exhausted is not None and _is_private(event):
                raise BudgetExceeded(
                    f"The ledger {self.path!r} refuses {label}: {exhausted} ran out. "
                    f"The cap is epsilon={self.epsilon:g}, delta={self.delta:g} "
                    f"({self.adjacency}, unit {self.unit}); the fit asks for "
                    f"epsilon={budget.epsilon:g}, delta={budget.delta:g}, and one "
                    f"more fit may cost at most epsilon={state.remaining_epsilon():.4g}"
                    ". Nothing was read or spent. Ask for less, or start a new ledger "
                    "if more may be spent on these data.",
                    ledger=self.path,
                    exhausted=exhausted,
                )
            self._append(connection, spends, event, budget, label)

    def check_accepts(self, *, adjacency: Adjacency, is_private: bool) -> None:
        """Raise ValueError if a fit of this kind could never be booked here."""
        if adjacency != self.adjacency:
            raise ValueError(
                f"The ledger {self.path!r} keeps books under "
                f"adjacency={self.adjacency!r}. Got a fit with adjacency={adjacency!r}."
                " Use one ledger for each adjacency."
            )
        if not is_private and not self.allow_nonprivate:
            raise ValueError(
                f"The ledger {self.path!r} books private fits only. Got a fit with a "
                "random_state or with epsilon=inf, which is not private. Remove them, "
                "or make the ledger with allow_nonprivate=True, which makes its total "
                "infinite."
            )

    def spends(self) -> list[Spend]:
        """All committed events, oldest first."""
        return self._read()[1]

    def spent(self) -> _Amount:
        """What the fits so far cost, had they been fixed in advance.

        Returns
        -------
        object with `epsilon` and `delta`
            At the cap's delta. For adaptively chosen fits the guarantee is the cap.
        """
        return _Amount(self._read()[0].spent_epsilon(), self.delta)

    def remaining(self) -> _Amount:
        """The largest (epsilon, delta) of one more fit that the cap allows."""
        return _Amount(self._read()[0].remaining_epsilon(), self.delta)

    def to_frame(self) -> pd.DataFrame:
        """The books as a table.

        Returns
        -------
        DataFrame
            One row per fit: number, time, label, epsilon and delta asked for, the
            event as JSON, its epsilon alone and the running total at the cap's delta.
        """
        import pandas as pd

        rows, state = [], FilterState(self.cap)
        for spend in self.spends():
            state = state.charged(spend.event)
            rows.append(
                {
                    "id": spend.id,
                    "committed_at": spend.committed_at,
                    "label": spend.label,
                    "epsilon": spend.epsilon,
                    "delta": spend.delta,
                    "event": event_to_json(spend.event),
                    "epsilon_alone": epsilon_of(spend.event, self.delta),
                    "epsilon_total": state.spent_epsilon(),
                }
            )
        columns = ["id", "committed_at", "label", "epsilon", "delta", "event"]
        columns += ["epsilon_alone", "epsilon_total"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        text = (
            f"BudgetLedger({self.path!r}, epsilon={self.epsilon:g}, "
            f"delta={self.delta:g}, adjacency={self.adjacency!r}, unit={self.unit!r}"
        )
        text += f", dataset={self.dataset!r}" if self.dataset else ""
        text += ", allow_nonprivate=True" if self.allow_nonprivate else ""
        try:
            state, spends = self._read()
        except (LedgerError, OSError):
            return f"{text}): unreadable"
        return (
            f"{text}): {len(spends)} fits, epsilon {state.spent_epsilon():.4g} spent, "
            f"{state.remaining_epsilon():.4g} left for one more; fitted models only, "
            "not scores"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BudgetLedger) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def _meta(self) -> tuple[Any, ...]:
        return (
            self.epsilon,
            self.delta,
            self.adjacency,
            self.unit,
            self.dataset,
            int(self.allow_nonprivate),
        )

    def _create(self) -> None:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise LedgerError(
                f"The folder of the ledger must exist. Got {folder!r}. Create it first."
            )
        # The file appears under its name only when it is complete, so another
        # process never sees half a ledger; if another was first, its file stands.
        handle, draft = tempfile.mkstemp(prefix=".skdp-ledger-", dir=folder)
        os.close(handle)
        try:
            with closing(sqlite3.connect(draft)) as connection:
                connection.executescript(
                    f"PRAGMA application_id={_APPLICATION_ID};"
                    f"PRAGMA user_version={_SCHEMA_VERSION};" + _SCHEMA
                )
                connection.execute(
                    "INSERT INTO books VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
                    (*self._meta(), _first_link(self._meta())),
                )
                connection.commit()
            try:
                os.link(draft, self.path)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                if not os.path.exists(self.path):
                    os.rename(draft, self.path)
        finally:
            if os.path.exists(draft):
                os.unlink(draft)

    def _connect(self) -> sqlite3.Connection:
        _check_header(self.path)
        # "rw", also to read: a reader may have to undo what a killed writer left.
        connection = sqlite3.connect(
            f"{Path(self.path).as_uri()}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
        )
        connection.execute("PRAGMA synchronous=EXTRA")
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time; everything or nothing; durable at the end."""
        with self._translated(), closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _read(self) -> tuple[FilterState, list[Spend]]:
        with self._translated(), closing(self._connect()) as connection:
            connection.execute("BEGIN")
            return self._verified(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
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

    def _verified(
        self, connection: sqlite3.Connection
    ) -> tuple[FilterState, list[Spend]]:
        """All spends, after checking that the books are whole and this handle's."""
        books = connection.execute("SELECT * FROM books").fetchall()
        if len(books) != 1:
            raise self._damaged("the table of books does not have one row")
        meta, (count, head) = tuple(books[0][:6]), books[0][6:]
        if meta != self._meta():
            names = ["epsilon", "delta", "adjacency", "unit", "dataset"]
            names += ["allow_nonprivate"]
            told = ", ".join(f"{n}={v!r}" for n, v in zip(names, meta, strict=True))
            raise LedgerError(
                f"The ledger {self.path!r} was made with {told}. Got other values. "
                "Open it with the same values, or choose another path."
            )
        rows = connection.execute("SELECT * FROM spends ORDER BY id").fetchall()
        link, spends = _first_link(meta), []
        for number, row in enumerate(rows, start=1):
            link = _next_link(link, row)
            try:
                event = event_from_json(row[5])
            except (ValueError, TypeError) as error:
                raise self._damaged(f"spend {number}: {error}") from None
            epsilon = math.inf if row[3] is None else float(row[3])
            spends.append(Spend(row[0], row[1], row[2], epsilon, row[4], event))
        if count != len(rows) or head != link:
            raise self._damaged("the spends do not match their chain of digests")
        return filter_state(self.cap, (spend.event for spend in spends)), spends

    def _damaged(self, what: str) -> LedgerError:
        return LedgerError(
            f"The ledger {self.path!r} must be unchanged since skdp wrote it. Got a "
            f"damaged or forged file: {what}. It was left untouched; restore a backup."
        )

    def _append(
        self,
        connection: sqlite3.Connection,
        spends: list[Spend],
        event: Event,
        budget: Budget,
        label: str,
    ) -> None:
        row = (
            len(spends) + 1,
            datetime.now(UTC).isoformat(timespec="seconds"),
            label,
            budget.epsilon if math.isfinite(budget.epsilon) else None,
            budget.delta,
            event_to_json(event),
        )
        head = connection.execute("SELECT head FROM books").fetchone()[0]
        connection.execute("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?)", row)
        connection.execute(
            "UPDATE books SET spends = ?, head = ?", (row[0], _next_link(head, row))
        )


def open_ledger(path: str | os.PathLike[str]) -> BudgetLedger:
    """The handle for an existing file, with the values it was made with.

    Raises
    ------
    LedgerError
        If the file is missing, foreign or damaged.
    """
    name = _check_path(path)
    _check_header(name)
    try:
        with closing(sqlite3.connect(f"{Path(name).as_uri()}?mode=ro", uri=True)) as c:
            meta = c.execute(
                "SELECT epsilon, delta, adjacency, unit, dataset, allow_nonprivate "
                "FROM books"
            ).fetchone()
    except sqlite3.Error as error:
        meta, problem = None, str(error)
    else:
        problem = "it has no books"
    if meta is None:
        raise LedgerError(
            f"The ledger {name!r} cannot be read: {problem}. Restore a backup."
        )
    epsilon, delta, adjacency, unit, dataset, allow_nonprivate = meta
    return BudgetLedger(
        name,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        unit=unit,
        dataset=dataset,
        allow_nonprivate=bool(allow_nonprivate),
    )


@dataclass(frozen=True)
class _Amount:
    """An amount of privacy loss; unlike a `Budget` it may be zero."""

    epsilon: float
    delta: float


def _check_header(path: str) -> None:
    """Refuse foreign and truncated files by their bytes, without opening them."""
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError as error:
        raise LedgerError(
            f"The ledger {path!r} cannot be read: {error.strerror}. Check the "
            "path, or restore the file; a missing ledger is never started anew "
            "under a handle that has used it."
        ) from None
    application = int.from_bytes(header[68:72], "big")
    if (
        len(header) < 100
        or not header.startswith(_SQLITE_HEADER)
        or application != _APPLICATION_ID
    ):
        raise LedgerError(
            f"The file {path!r} must be a ledger written by skdp. Got a "
            "foreign, empty or truncated file. It was left untouched; choose "
            "another path or restore a backup."
        )
    version = int.from_bytes(header[60:64], "big")
    if version != _SCHEMA_VERSION:
        raise LedgerError(
            f"The ledger {path!r} must have schema version {_SCHEMA_VERSION}. "
            f"Got version {version}. Use the skdp release that wrote it."
        )


def _is_private(event: Event) -> bool:
    return math.isfinite(event.pure_epsilon)


def _first_link(meta: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(meta).encode()).hexdigest()


def _next_link(link: str, row: tuple[Any, ...]) -> str:
    return hashlib.sha256((link + repr(tuple(row))).encode()).hexdigest()


def _check_path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise TypeError(
            "The 'path' parameter must be the name of a file. "
            f"Got an instance of {type(path).__name__}."
        )
    name = os.fspath(path)
    if not isinstance(name, str) or name.startswith((":memory:", "file:")):
        raise ValueError(
            f"The 'path' parameter must be the name of a file. Got {name!r}. A ledger "
            "in memory would not survive clone, workers or a restart."
        )
    return os.path.abspath(name)


def _check_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(
        f"The {name!r} parameter must be a string. "
        f"Got an instance of {type(value).__name__}."
    )
