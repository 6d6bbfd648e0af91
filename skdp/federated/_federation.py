"""`Federation`: records of several owners, as X of estimators."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count
from skdp._quiet import no_warnings
from skdp.exceptions import Refused, SourceError
from skdp.io._external import TableSource
from skdp.io._parquet import BATCH_SIZE
from skdp.io._parts import (
    FrameRows,
    PartTable,
    Request,
    StateOf,
    WorkerPart,
    received,
    sent,
)
from skdp.io._reading import arrow
from skdp.io._session import RowPositions, Session, Snapshot
from skdp.pipeline._walk import private_steps
from skdp.privacy.accounting._events import Event
from skdp.privacy.release._answers import whole_of
from skdp.privacy.release._door import asking, is_rehearsing, owners_now
from skdp.privacy.release._record import PrivacyRecord
from skdp.sums._exact import Summed, Sums, added
from skdp.tables._columns import Columns
from skdp.tables._source import Remote

# -------------------------------------------------- LocalOwners: owners in this process


# With more owners a sum of whole steps could overflow: see
# `NoiseSource.gaussian_share`.
MOST_PARTIES = 512
# Bytes of one number of a message.
WORD = 8


@dataclass(frozen=True)
class Traffic:
    """The rounds of one fit, as each owner answers them; public.

    Parameters
    ----------
    sizes : tuple of int
        How many numbers an owner sends in each round.
        questions : bytes
        Digest of the queries in a rehearsal.
        others : tuple of tuples of int
        The same as `sizes` for other possible runs, between which a search chooses.
    """

    sizes: tuple[int, ...] = ()
    questions: bytes = b""
    others: tuple[tuple[int, ...], ...] = ()

    @property
    def n_rounds(self) -> int:
        return len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """Bytes of all numbers that an owner sends; it receives the same amount."""
        return WORD * sum(self.sizes)


@dataclass(frozen=True, eq=False, repr=False)
class _Sums:
    """A request for whole sums of a query.

    Parameters
    ----------
    family : int
        Number of the queries that share what a reader keeps.
    query : Summed
    readers : dict of int to (int, Any)
        By part: the reader's family, and the reader. Private.
    firsts : tuple of int
        By part: number of records in earlier parts.
    """

    family: int
    query: Any
    readers: dict[int, tuple[int, Any]]
    firsts: tuple[int, ...]

    def content(self, part: WorkerPart, sent: bytes) -> Any:
        """A tuple of whole sums."""
        number, reader = self.readers.get(part.number, (0, None))
        if number != self.family:
            # Released before another reader takes its memory.
            reader = None
            self.readers.pop(part.number, None)
            query, source = received(sent, partial(self._table, part))
            reader = query.open(source)
            self.readers[part.number] = self.family, reader
        return self.query.whole_sums(reader, None)

    def _table(
        self, part: WorkerPart, places: RowPositions | None, *facts: Any
    ) -> PartTable:
        """A source that replaces the table of all owners."""
        table = PartTable(part.rows, *facts)
        if places is None:
            return table
        own = places.within(self.firsts[part.number], part.rows.n_rows)
        return replace(table, places=own)


def _check_travels(query: Any, source: Any) -> None:
    """Refuse what cannot be sent, before anything is charged."""
    try:
        sent((query, source))
    except Exception as error:  # whatever a step of somebody else raises
        raise Refused(
            "The steps that owners run must be picklable, to be sent to them. Got one "
            f"that is not ({type(error).__name__}). Use steps of skdp or scikit-learn. "
            "Nothing was charged or read."
        ) from error


class LocalOwners:
    """Records of some owners, and the number of all owners.

    Parameters
    ----------
    parts : sequence of WorkerPart
        Parts of the owners in this process. Private.
    sizes : sequence of int
        Declared numbers of records of all owners; public.
    n_honest : int
    """

    # How a change of records is noticed; a text for the privacy record of a fit.
    state_kind = "checksums of each owner's records in each of its answers"

    # Seed of a simulation, which makes all draws itself.
    seed: int | None = None

    def __init__(
        self, parts: Sequence[WorkerPart], sizes: Sequence[int], n_honest: int
    ) -> None:
        self.n_parties, self.n_honest = len(sizes), n_honest
        self.n_samples = sum(sizes)
        self._firsts = (0, *accumulate(sizes[:-1]))
        self.traffic = Traffic()
        # Events of the last rehearsal, each with the delta of its budget.
        self.events: list[tuple[Event, float]] = []
        self.session: Session | None = None
        # Reader of the last family of queries, for each part. Private.
        self._readers: dict[int, tuple[int, Any]] = {}
        self._parts = tuple(parts)
        self._states: dict[int, tuple[int, bytes]] = {}
        # Sources and families of queries by number.
        self._families: list[tuple[int, Any, Any]] = []
        self._n_families = self._question = 0

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """A context in which no owner is asked, and `traffic` counts the queries."""
        self.traffic, self.events = Traffic(), []
        with asking(self, rehearses=True):
            yield

    def check_rehearsed(self) -> None:
        """Raise if the rehearsal was not of the fit that all owners agreed on."""

    @contextmanager
    def connected(self) -> Iterator[None]:
        """A context that ends with the readers of rows."""
        try:
            yield
        finally:
            self._families, self._states, self._readers = [], {}, {}

    def charged(self, event: Event, delta: float, ledger: Any) -> None:
        """Record, in a rehearsal, an event that will be charged, and its ledger."""
        self.events.append((event, delta))

    def planned(self, query: Any, source: Any, statement: bytes) -> None:
        """Record, in a rehearsal, a query that will be asked, and its question."""
        _check_travels(query, source)
        before, size = self.traffic, math.prod(query.shape)
        asked = digest_of(before.questions + statement)
        self.traffic = Traffic((*before.sizes, size), asked, before.others)

    def one_of(self, fits: Sequence[Callable[[], Any]]) -> None:
        """Record, in a rehearsal, the fits of which one will come next."""
        before, others, asked = self.traffic, [], self.traffic.questions
        for fit in fits:
            self.traffic = Traffic()
            fit()
            others.append((*before.sizes, *self.traffic.sizes))
            asked = digest_of(asked + self.traffic.questions)
        self.traffic = Traffic(before.sizes, asked, tuple(dict.fromkeys(others)))

    def check(self) -> None:
        """Raise if records here have changed."""
        self._asked(StateOf(), b"")

    def sums(self, query: Summed, source: Any) -> list[Sums]:
        """Whole sums of a query, for each owner here. Private."""
        family = self._family(source, query)
        is_known = all(number == family for number, _ in self._readers.values())
        # A source becomes the source of an owner's part by the same way as if it were
        # sent.
        message = b"" if is_known and self._readers else sent((query, source))
        request = _Sums(family, query, self._readers, self._firsts)
        found: list[Sums] = self._passed(lambda: self._asked(request, message))
        return found

    def answers(self, query: Any, source: Any) -> list[FloatArray]:
        """The exact answer over the records of each owner here. Private."""
        whole = whole_of(query)
        return [whole.from_whole(source, own) for own in self.sums(whole, source)]

    def added(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        """The sum of shares: a simulation has all of them."""
        total: IntArray = sum(shares[1:], shares[0])
        return total

    def _passed(self, ask: Callable[[], Any]) -> Any:
        """The answer within a session; failures lose their text."""
        if self.session is None:
            raise SourceError("Owners are asked within a fit.")
        return self.session.answered(lambda: (self.n_samples, ask()), checks=True)

    def _family(self, source: Any, query: Any) -> int:
        """The number of a query's family over a source."""
        for number, other, family in self._families:
            if other is source and family == query.family:
                return number
        self._n_families += 1
        self._families.append((self._n_families, source, query.family))
        return self._n_families

    def _asked(self, request: Request, message: bytes) -> list[Any]:
        self._question += 1
        found = []
        for part in self._parts:
            answer = part.answer(self._question, request, message)
            if answer is None:
                raise SourceError("An owner could not answer.")
            facts = (answer.n_rows, answer.state)
            if self._states.setdefault(part.number, facts) != facts:
                raise SourceError("An owner's records have changed.")
            found.append(answer.content)
        return found


def digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def pooled(parts: list[Sums]) -> Sums:
    """Whole sums over all of several owners' records."""
    return added(parts)


# --------------------------------------------------------------------------- Federation


_NO_ROWS = (
    "The rows of a federation stay with their owners, and only sums over all rows "
    "are released. Got an operation that reads rows. Predict and score where the "
    "rows are; fit with an estimator and solver that need sums over all rows only."
)


class Federation(TableSource):
    """Records of several owners, fitted without pooling them.

    Each owner adds up its records and its share of the noise. A fit sees only the sum
    over all owners, which is the noisy sum over the pooled table. Every estimator whose
    fit needs only sums over all records with Gaussian noise accepts a federation as X.
    Each fit is rehearsed first, without records, and an impossible fit is refused
    before anything is charged.

    `simulated` makes a federation of tables in this process; for real owners, who keep
    their tables to themselves, see ``docs/guide/several_owners.md``.

    **Privacy.** A model is as private as it states against everyone except the owner of
    the record, as long as `n_honest` owners, the owner of the record among them, draw
    their share of the noise and keep it secret. The number of records of each owner and
    the names and types of columns are taken as public. Records at different owners
    count as different persons: a person with records at two owners is two persons. See
    ``docs/proofs/owners.md``.

    Parameters
    ----------
    owners : LocalOwners
        Made by `simulated`, or by a plan among real owners.
    schema : Schema of Arrow
        Columns of all owners' tables.
    target : str or None
        Column of the target.
    columns : mapping, sequence, Range or None
        Declarations of `skdp.columns`, for an estimator that has none.

    Attributes
    ----------
    shape : (int, int)
        Numbers of records of all owners, and of features.
    traffic : Traffic
        Rounds, and bytes that each owner sent, of the last fit or rehearsal.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLogisticRegression
    >>> from skdp.federated import Federation
    >>> rng = np.random.default_rng(0)
    >>> tables = []
    >>> for _ in range(3):
    ...     X = rng.uniform(-1, 1, size=(500, 2)) / 2
    ...     tables.append((X, (X[:, 0] > 0).astype(int)))
    >>> federation = Federation.simulated(tables, n_honest=2)
    >>> federation
    Federation(3 parties, 2 of them trusted, 1,500 records, 2 features)
    >>> model = DPLogisticRegression(epsilon=1.0, classes=[0, 1]).fit(federation)
    >>> model.coef_.shape
    (1, 2)
    """

    is_ordered = False
    has_fixed_order = True
    is_shared = True

    def __init__(
        self,
        owners: LocalOwners,
        schema: Any,
        *,
        target: str | None,
        columns: Columns | None,
    ) -> None:
        self.owners, self._given_schema = owners, schema
        self._has_names = True  # whether the owners' tables have names of columns
        super().__init__(
            target=target,
            n_samples=owners.n_samples,
            features=None,
            columns=columns,
            batch_size=BATCH_SIZE,
            # Who starts a fit does not decide what owners write to their disks.
            disk=0,
        )

    @classmethod
    def simulated(
        cls,
        parties: Sequence[tuple[Any, Any]],
        *,
        n_honest: int | None = None,
        columns: Any = None,
    ) -> Self:
        """A federation of tables in this process, to try a fit without real owners.

        Sums and noise are the same as among real owners, but there are no messages:
        this process sees all tables.

        Parameters
        ----------
        parties : sequence of (X, y)
            Tables of 2 to 512 owners. Each X is an array or data frame with
            the same columns, at least one row, and each y has a target for each row.
        n_honest : int in [1, n_parties - 1] or None, default=None
            Owners trusted to draw their share of the noise. None: all but one, since
            an owner who sees the model knows its own share. The noise has variance
            ``n_parties / n_honest`` times that of one fit on the pooled table.
        columns : mapping, sequence, Range or None, default=None
            Declarations of `skdp.columns`, for an estimator that has none.

        Returns
        -------
        Federation

        Raises
        ------
        TypeError, ValueError
            If parties are not as described.
        """
        tables = [_frame(party) for party in parties]
        n_honest = checked_honest(n_honest, len(tables))
        schema = _common_schema([frame for frame, _ in tables])
        parts = [
            WorkerPart(number, FrameRows(frame, schema))
            for number, (frame, _) in enumerate(tables)
        ]
        owners = LocalOwners(parts, [len(frame) for frame, _ in tables], n_honest)
        found = cls(owners, schema, target=tables[0][1], columns=columns)
        found._has_names = any(isinstance(X, pd.DataFrame) for X, _ in parties)
        return found

    # ------------------------------------------------------------------ public facts

    def __repr__(self) -> str:
        n, d = self.shape
        owners = self.owners
        return (
            f"Federation({owners.n_parties} parties, {owners.n_honest} of them "
            f"trusted, {n:,} records, {d} features)"
        )

    @property
    def traffic(self) -> Traffic:
        """Rounds, and bytes that each owner sent, of the last fit."""
        return self.owners.traffic

    @property
    def assumed_public(self) -> tuple[str, ...]:
        owners = self.owners
        return (
            f"that {owners.n_honest} of {owners.n_parties} owners, the record's owner "
            "included, draw their share of the noise and keep it secret",
            "the number of records of each owner",
            *super().assumed_public,
        )

    # --------------------------------------------------------------------- estimators

    def during(
        self, call: Callable[[], Any], label: str = "", is_asked: bool = True
    ) -> Any:
        """The result of a call that asks the owners, after a rehearsal without them.

        Raises
        ------
        Refused
            If the owners cannot answer a query. Nothing was charged or read.
        """
        # Inside a fit of these owners; a fit of another thread is refused below.
        if owners_now() is self.owners:
            return super().during(call, label, is_asked)
        with asking(self.owners):
            with self._rehearsal():
                super().during(call)
            self.owners.check_rehearsed()
            return super().during(call, label, is_asked)

    def fit(self, model: Any) -> Any:
        """Fit a model of several steps as one.

        All steps are rehearsed before the first one is charged; ``pipeline.fit``
        rehearses and charges one step after another.

        Parameters
        ----------
        model : estimator or Pipeline

        Returns
        -------
        estimator
            The model, fitted.

        Raises
        ------
        Refused
            If owners cannot answer a query of a step. Nothing was charged.
        """
        with asking(self.owners):
            with self._rehearsal():
                super().during(lambda: clone(model).fit(self))
            self.owners.check_rehearsed()
            super().during(lambda: model.fit(self))
        return model

    def rehearse(self, model: Any) -> Any:
        """Rehearse a fit without the owners, to learn its privacy record and `traffic`.

        No owner is asked, and nothing is charged.

        Parameters
        ----------
        model : estimator or Pipeline
            Not fitted, and not changed.

        Returns
        -------
        estimator

        Raises
        ------
        Refused
            If owners cannot answer a query of the fit.
        """
        with self._rehearsal():
            fitted = super().during(lambda: clone(model).fit(self))
        for _, step in private_steps(fitted):
            step.privacy_ = _of_nothing(step.privacy_)
        return fitted

    @contextmanager
    def _rehearsal(self) -> Iterator[None]:
        """A context in which questions are checked, and no owner is asked."""
        with self.owners.rehearsing(), no_warnings():
            yield

    def _accept(self, session: Session) -> None:
        super()._accept(session)
        self.owners.session = session

    @property
    def handed_over(self) -> tuple[Any, ...]:
        return self._places, *super().handed_over, self._schema, self._names

    @property
    def remote(self) -> Remote | None:
        return self

    def sums(self, query: Summed, source: Any, rows: IntArray | None) -> Sums:
        """Whole sums over the records of all owners here. Private."""
        if rows is not None:
            raise Refused(_NO_ROWS)
        return pooled(self.owners.sums(query, source))

    def sample_row(self, declared: Any = None) -> Any:
        shown = super().sample_row(declared)
        is_frame = isinstance(shown, pd.DataFrame) and self._has_names
        return shown if is_frame or self._steps else shown.to_numpy()

    def rows(self, reading: Any, also: tuple[str, ...] = ()) -> NoReturn:
        raise Refused(_NO_ROWS)

    def predict_to(
        self, model: Any, path: Any, *, keys: Sequence[str], method: str = "predict"
    ) -> NoReturn:
        raise Refused(_NO_ROWS)

    def _opened_schema(self) -> Any:
        return self._given_schema

    def _taken(self) -> Snapshot:
        return _Unchanged(self.owners)

    def _count(self) -> int:
        return self.owners.n_samples

    def _connected(self) -> AbstractContextManager[None]:
        return self.owners.connected()

    def _scan(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
        raise Refused(_NO_ROWS)


def _of_nothing(record: PrivacyRecord) -> PrivacyRecord:
    """The record of a rehearsal, which must not look like the record of a release."""
    return replace(
        record,
        is_private=False,
        reason="A rehearsal: nothing was asked, charged or released.",
        risk="",
        ledger="",
        dataset="",
    )


class _Unchanged:
    """Check that the owners' records are unchanged."""

    def __init__(self, owners: LocalOwners) -> None:
        self._owners = owners

    @property
    def kind(self) -> str:
        """Text for the privacy record; public."""
        return self._owners.state_kind

    def check(self) -> None:
        if not is_rehearsing():
            self._owners.check()


def checked_honest(n_honest: int | None, n_parties: int) -> int:
    """Number of trusted owners; an error if every reader of the model were one."""
    if not 2 <= n_parties <= MOST_PARTIES:
        raise ValueError(
            f"A federation must have from 2 to {MOST_PARTIES} parties. Got "
            f"{n_parties}. Fit a single table as it is."
        )
    if n_honest is None:
        return n_parties - 1
    n_honest = check_count("n_honest", n_honest)
    if n_honest >= n_parties:
        raise ValueError(
            "The 'n_honest' parameter must be at most the number of parties less one: "
            "each party sees the model, knows its own share of the noise, and can take "
            f"it away. Got {n_honest} of {n_parties}. Use {n_parties - 1}."
        )
    return n_honest


def _frame(party: Any) -> tuple[pd.DataFrame, str]:
    """One owner's table with its target, and the target's name."""
    if not (isinstance(party, tuple) and len(party) == 2):
        raise TypeError(
            "Each of the 'parties' must be a pair (X, y). Got an instance of "
            f"{type(party).__name__}. Pass [(X1, y1), (X2, y2)]."
        )
    X, y = party
    if not isinstance(X, pd.DataFrame):
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.dtype.kind not in "biuf":
            raise TypeError(
                "Each X of the 'parties' must be a dense array of numbers with two "
                f"dimensions, or a data frame. Got an instance of {type(X).__name__}."
            )
        X = pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])])
    targets = np.asarray(y)
    if not len(X) or targets.shape != (len(X),):
        raise ValueError(
            "Each of the 'parties' must have at least one row, and a target for each "
            "row. Got another. Leave out parties without rows."
        )
    target = "y" if "y" not in X.columns else "target of the federation"
    frame = X.reset_index(drop=True)
    frame[target] = pd.Series(targets)
    return frame, target


def _common_schema(frames: list[pd.DataFrame]) -> Any:
    """Names and types of columns that all owners have, from the types alone."""
    pa = arrow()
    schemas = [
        pa.Schema.from_pandas(frame.iloc[:0], preserve_index=False) for frame in frames
    ]
    plain = [
        pa.schema([(field.name, _plain(frame, field)) for field in schema])
        for frame, schema in zip(frames, schemas, strict=True)
    ]
    if any(schema != plain[0] for schema in plain):
        raise ValueError(
            "All parties must have the same columns of the same types. Got others. "
            "Give all tables the same columns, in one order."
        )
    return plain[0]


def _plain(frame: pd.DataFrame, field: Any) -> Any:
    """Text, where pandas has objects or categories of text."""
    pa = arrow()
    dtype = field.type
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return pa.string() if pa.types.is_null(dtype) else dtype
