"""`Federation`: records of several owners, as X of estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from skdp._floats import IntArray
from skdp._quiet import no_warnings
from skdp._validation import check_count
from skdp.data._source import Elsewhere
from skdp.exceptions import Refused
from skdp.federated._local import MOST_PARTIES, LocalOwners, Traffic, pooled
from skdp.io._arrow import arrow
from skdp.io._parquet import BATCH_SIZE
from skdp.io._part import FrameRows, Part
from skdp.io._session import Session, Snapshot
from skdp.io._table_source import TableSource
from skdp.pipeline._walk import private_steps
from skdp.privacy import PrivacyRecord
from skdp.privacy._owners import asking, is_rehearsing, owners_now
from skdp.queries._summed import Summed, Sums

_NO_ROWS = (
    "The rows of a federation stay with their owners, who add up sums of them only. "
    "Got what must read rows. Predict and score where the rows are; fit with an "
    "estimator and solver of full sums."
)


class Federation(TableSource):
    """Records of several owners who show nobody their sums.

    Each owner adds up its own records and its own share of the noise, and the sum over
    all owners, which is what a fit sees, is that of the pooled table with noise. Every
    estimator whose fit asks for sums over all records with Gaussian noise takes a
    federation as X; each fit is rehearsed first, without any record, and what cannot be
    done is refused before anything is booked.

    `simulated` makes one of tables in this process; for owners who trust nobody with
    their table see ``docs/federated.md``.

    **Privacy.** A model is as private as it says against everyone but the owner of a
    record itself, as long as `n_honest` owners, that of the record among them, draw
    their share of the noise and tell nobody. Numbers of records of each owner, the
    names and types of columns are taken as public, and each owner's records as its own:
    a person with records at two owners is two persons.
    See ``docs/proofs/federated.md``.

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
        self, owners: LocalOwners, schema: Any, *, target: str | None, columns: Any
    ) -> None:
        self.owners, self._given_schema = owners, schema
        self._has_names = True  # whether the owners' tables have names of columns
        super().__init__(
            target=target,
            n_samples=owners.n_samples,
            features=None,
            columns=columns,
            batch_size=BATCH_SIZE,
        )

    @classmethod
    def simulated(
        cls,
        parties: Sequence[tuple[Any, Any]],
        *,
        n_honest: int | None = None,
        columns: Any = None,
    ) -> Self:
        """A federation of tables in this process, to see what owners would get.

        The same sums and noise as among real owners, without messages: whoever runs
        this sees all tables.

        Parameters
        ----------
        parties : sequence of (X, y)
            Of at least two owners, at most 512. Each X is an array or data frame with
            the same columns, at least one row, and each y has a target for each row.
        n_honest : int in [1, n_parties - 1] or None, default=None
            Owners trusted to draw their share of the noise. None: all but one, since
            whoever sees the model knows its own share. The variance of the noise is
            ``n_parties / n_honest`` times that of one fit on the pooled table.
        columns : mapping, sequence, Range or None, default=None
            Declarations of `skdp.columns`, for an estimator that has none.

        Returns
        -------
        Federation

        Raises
        ------
        TypeError, ValueError
            If parties are not as said.
        """
        tables = [_frame(party) for party in parties]
        n_honest = checked_honest(n_honest, len(tables))
        schema = _common_schema([frame for frame, _ in tables])
        parts = [
            Part(number, FrameRows(frame, schema))
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
            f"that {owners.n_honest} of {owners.n_parties} owners, that of the record "
            "among them, draw their share of the noise and tell nobody",
            "the number of records of each owner",
            *super().assumed_public,
        )

    # --------------------------------------------------------------------- estimators

    def during(self, call: Callable[[], Any], label: str = "") -> Any:
        """The result of a call that asks the owners; rehearsed without them first.

        Raises
        ------
        Refused
            If the owners cannot answer what is asked. Nothing was booked or read.
        """
        # Within a fit of theirs; another thread's is told apart, and refused below.
        if owners_now() is self.owners:
            return super().during(call, label)
        with asking(self.owners):
            with self._rehearsal():
                super().during(call)
            self.owners.check_rehearsed()
            return super().during(call, label)

    def fit(self, model: Any) -> Any:
        """Fit a model of several steps as one.

        All steps are rehearsed before the first is booked, which ``pipeline.fit``
        does for each step by itself.

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
            If owners cannot answer what one of the steps asks. Nothing was booked.
        """
        with asking(self.owners):
            with self._rehearsal():
                super().during(lambda: clone(model).fit(self))
            self.owners.check_rehearsed()
            super().during(lambda: model.fit(self))
        return model

    def rehearse(self, model: Any) -> Any:
        """What a fit would make of answers of zero: its record, and `traffic`.

        Nobody is asked, and nothing is booked.

        Parameters
        ----------
        model : estimator or Pipeline
            Not fitted; stays so.

        Returns
        -------
        estimator

        Raises
        ------
        Refused
            If owners cannot answer what the fit asks.
        """
        with self._rehearsal():
            fitted = super().during(lambda: clone(model).fit(self))
        for _, step in private_steps(fitted):
            step.privacy_ = _of_nothing(step.privacy_)
        return fitted

    @contextmanager
    def _rehearsal(self) -> Iterator[None]:
        """Questions are looked at, and nobody hears of them."""
        with self.owners.rehearsing(), no_warnings():
            yield

    def _accept(self, session: Session) -> None:
        super()._accept(session)
        self.owners.session = session

    @property
    def facts(self) -> tuple[Any, ...]:
        return self._places, *super().facts, self._schema, self._names

    @property
    def elsewhere(self) -> Elsewhere | None:
        return self

    def sums(self, query: Summed, source: Any, rows: IntArray | None) -> Sums:
        """Whole sums over the records of all owners here. Private."""
        if rows is not None:
            raise Refused(_NO_ROWS)
        return pooled(self.owners.sums(query, source))

    def stand_in(self, declared: Any = None) -> Any:
        shown = super().stand_in(declared)
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
    """A record of what was not released, which must not be shown for one that was."""
    return replace(
        record,
        is_private=False,
        reason="A rehearsal: nothing was asked, booked or released.",
        risk="",
        ledger="",
        dataset="",
    )


class _Unchanged:
    """Whether the owners' records are as they were."""

    def __init__(self, owners: LocalOwners) -> None:
        self._owners = owners

    @property
    def kind(self) -> str:
        """In words, for the record; public."""
        return self._owners.state_kind

    def check(self) -> None:
        if not is_rehearsing():
            self._owners.check()


def checked_honest(n_honest: int | None, n_parties: int) -> int:
    """How many owners are trusted, or an error if the model's readers would be."""
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
    """Names and types of columns that all owners have; of the types alone."""
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
    """Text where pandas says objects or categories of text."""
    pa = arrow()
    dtype = field.type
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return pa.string() if pa.types.is_null(dtype) else dtype
