"""Owners who are processes: one of them here, or none at the coordinator."""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from skdp._floats import IntArray
from skdp.exceptions import BudgetExceeded, Refused
from skdp.federated._hub import Hub
from skdp.federated._keys import Key
from skdp.federated._line import Line
from skdp.federated._local import LocalOwners, digest_of
from skdp.federated._plan import FederationPlan
from skdp.io._parquet import UNREADABLE, File
from skdp.io._part import FileRows, Part, Piece
from skdp.io._session import refused
from skdp.privacy import BudgetLedger, Event

# Seconds after which a fit ends in which somebody is silent.
PATIENCE = 60.0


class _Remote(LocalOwners):
    """What an owner and the coordinator have in common: a plan that binds them.

    Parameters
    ----------
    plan : FederationPlan
    parts : list of Part
    """

    state_kind = "size, time and end of each owner's file in each of its answers"

    def __init__(self, plan: FederationPlan, parts: list[Part]) -> None:
        super().__init__(parts, plan.sample_counts, plan.n_honest)
        self._plan, self.seed = plan, plan.seed
        self._heard = b""  # digest of all questions and totals so far

    def added(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        # Rows depend on totals that the question does not tell, of steps before.
        asked = digest_of(self._heard + statement)
        total: IntArray = self._passed(lambda: self._summed(asked, shares))
        self._heard = digest_of(asked + np.asarray(total).astype("<i8").tobytes())
        return total

    @abstractmethod
    def _summed(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        """The sum of all owners' shares."""

    def check_rehearsed(self) -> None:
        if self.traffic != self._plan.traffic:
            raise Refused(
                "The plan must have the rounds and the questions that its fit has. Got "
                "others. Use one version of skdp, and one kind of machine, for all "
                "parties, and make the plan anew. Nothing was booked or read."
            )


class PartyOwners(_Remote):
    """An owner with its own records.

    Parameters
    ----------
    plan : FederationPlan
    part : Part
    line : Line
    ledger : BudgetLedger
    """

    def __init__(
        self, plan: FederationPlan, part: Part, line: Line, ledger: BudgetLedger
    ) -> None:
        super().__init__(plan, [part])
        self._line, self._ledger = line, ledger

    def books(self, event: Event, delta: float, ledger: Any) -> None:
        # Wherever in a model a private step is: none is asked for nothing.
        if ledger != self._ledger:
            raise Refused(
                "A plan must book all of its events in the ledger of a party. Got one "
                "that would be booked elsewhere. Ask for another plan. Nothing was "
                "booked or read."
            )
        super().books(event, delta, ledger)

    def check_rehearsed(self) -> None:
        super().check_rehearsed()
        # Before anybody books: who cannot take part does not come.
        if self._ledger.admits(self.events):
            self._line.join()
        elif len(self.events) > 1:
            raise BudgetExceeded(
                "The ledger must have room for all steps of a plan. Got less. Ask for "
                "a plan with a smaller epsilon. Nothing was booked or read.",
                ledger=self._ledger.path,
                exhausted="epsilon",
            )
        # A single event is refused by the ledger itself, which says what would fit.

    def _summed(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        (share,) = shares
        return self._line.added(statement, share)


class CoordinatorOwners(_Remote):
    """All owners, as one without records sees them.

    Parameters
    ----------
    plan : FederationPlan
    hub : Hub
    """

    def __init__(self, plan: FederationPlan, hub: Hub) -> None:
        super().__init__(plan, [])
        self._hub = hub

    def check_rehearsed(self) -> None:
        super().check_rehearsed()
        self._hub.open()

    def _summed(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        return self._hub.added(statement)


def coordinate(
    plan: FederationPlan,
    key: Key,
    *,
    patience: float = PATIENCE,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """Fit a plan's model among its parties, without any record.

    Parameters
    ----------
    plan : FederationPlan
    key : Key
        The coordinator's.
    patience : float, default=60.0
        Seconds after which the fit ends in which a party is silent.
    tls : ssl.SSLContext or None, default=None
        With the coordinator's certificate, if the plan is encrypted.

    Returns
    -------
    estimator
        Fitted, with `privacy_`.

    Raises
    ------
    ValueError
        If the key or `tls` is not that of the plan. Nothing was asked.
    SourceError
        If the parties did not come, and nobody booked anything; or if one of them broke
        the rules, and what they booked stays on their books.
    """
    if key.public != plan.coordinator_key:
        raise ValueError(
            "The key must be that of the plan's coordinator. Got another. Use the key "
            "that the plan was made with."
        )
    plan.check_tls(tls, verifies=False)
    hub = Hub(plan, key, patience, tls)
    try:
        model = plan.federation(CoordinatorOwners(plan, hub)).fit(plan.model())
        hub.finish()
    finally:
        hub.hang_up()
    return model


def serve(
    plan: FederationPlan,
    key: Key,
    data: str | Path,
    ledger: BudgetLedger,
    *,
    patience: float = PATIENCE,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """Take part in a plan with one's own records, and book it in one's own ledger.

    The fit is rehearsed; when all parties have come it is booked, and only then are
    records read and rounds answered.

    Parameters
    ----------
    plan : FederationPlan
        As approved.
    key : Key
        This party's.
    data : path
        A Parquet file with the plan's columns, and as many rows as it says.
    ledger : BudgetLedger
        This party's.
    patience : float, default=60.0
        Seconds after which the fit ends in which nothing comes.
    tls : ssl.SSLContext or None, default=None
        That knows the coordinator's certificate, if the plan is encrypted.

    Returns
    -------
    estimator
        Fitted: the same model as all parties have.

    Raises
    ------
    Refused, TypeError, ValueError
        If the plan, the key, the ledger, `tls` or the data are not as said. Nothing
        was booked.
    BudgetExceeded
        From the ledger. Nothing was read.
    SourceError
        If not all came in time, and nothing was booked; or if the fit ended early, and
        it stays on the books.
    """
    if not isinstance(ledger, BudgetLedger):
        raise TypeError(
            "The 'ledger' parameter must be a BudgetLedger: a party books what its "
            f"records are asked. Got an instance of {type(ledger).__name__}. Use "
            "BudgetLedger.open(path) for a ledger that exists."
        )
    number = plan.number(key.public)
    part = Part(number, _file_rows(plan, number, data))
    plan.check_tls(tls, verifies=True)
    line = Line(plan, number, key, patience, tls)
    owners = PartyOwners(plan, part, line, ledger)
    with _left(line):
        return plan.federation(owners).fit(plan.model(ledger))


@contextmanager
def _left(line: Line) -> Iterator[None]:
    try:
        yield
    finally:
        line.leave()


def _file_rows(plan: FederationPlan, number: int, data: str | Path) -> FileRows:
    """The party's rows, if they are as the plan says."""
    file = File(str(data))
    schema = refused(file.schema, UNREADABLE)
    found = {field.name: str(field.type) for field in schema}
    wanted = dict(plan.features)
    n_rows = refused(file.n_rows, UNREADABLE)
    is_same = all(found.get(name) == kind for name, kind in wanted.items())
    if not is_same or n_rows != plan.parties[number].n_samples:
        raise ValueError(
            "A party's file must have the plan's columns of the plan's types, and as "
            "many rows as the plan says. Got another. Ask for another plan, or write "
            "the file anew. Nothing was booked."
        )
    groups = tuple(range(len(file.group_sizes())))
    return FileRows((Piece(file, groups, n_rows),), len(wanted))
