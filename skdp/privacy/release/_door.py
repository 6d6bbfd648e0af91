"""`Door`: plan, calibrate, commit, ask. Privacy depends on the order of these steps."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from skdp.exceptions import PlanUsedUpError
from skdp.privacy.accounting._calibrate import Budget, calibrate
from skdp.privacy.accounting._events import Event, NonPrivateEvent
from skdp.privacy.accounting._relations import Relation, is_of_users
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import (
    Answers,
    ExactAnswers,
    Grant,
    LocalAnswers,
    RehearsedAnswers,
)
from skdp.privacy.release._plan import Draws, DrawsOf, Plan
from skdp.privacy.release._shared import (
    Owners,
    SharedAnswers,
    check_shared,
)
from skdp.tables._source import LEAST_PART, Records, has_room

# ----------------------------------------------------------------- The auditor of a fit
# Within an audit nothing is released: the auditor, who has the table anyway, records
# the exact answers to which a fit would add noise. An audit uses data that were made up
# or given up for it, so an audited fit may not be charged to a ledger.


T = TypeVar("T")


class Auditor(Protocol):
    """Replaces the answers of all doors that are opened within an audit."""

    def noise(self, seed: int | None) -> Any:
        """The noise source of a door."""
        ...

    def answers(self, plan: Any, source: Any, grant: Any, noise: Any) -> Any:
        """The answers that a door returns; private."""
        ...


@dataclass
class _Audit:
    """An audit, valid only in the process and thread that started it, until it ends."""

    auditor: Auditor
    place: tuple[int, int]
    is_over: bool = False


# Tasks, threads and forks may hold copies of this context after the audit has ended.
_AUDIT: ContextVar[_Audit | None] = ContextVar("_AUDIT", default=None)


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def auditor_now() -> Auditor | None:
    """The auditor of fits in this thread; None without an audit."""
    audit = _AUDIT.get()
    if audit is None or audit.is_over or audit.place != _here():
        return None
    return audit.auditor


@contextmanager
def audited_by(auditor: Auditor) -> Iterator[None]:
    """Let the auditor replace the answers of all doors opened within the context.

    An interrupt between two steps of this function may leave the audit open. `audited`
    avoids this.
    """
    audit = _Audit(auditor, _here())
    token = _AUDIT.set(audit)
    try:
        yield
    finally:
        audit.is_over = True
        _AUDIT.reset(token)


def audited(auditor: Auditor, work: Callable[[], T]) -> T:
    """Run `work`, with answers of all its doors replaced by the auditor.

    `work` runs in a separate context, so that no interrupt at any point can leave the
    auditor in the caller's context.
    """
    audit, context = _Audit(auditor, _here()), copy_context()
    try:
        context.run(_AUDIT.set, audit)
        return context.run(work)
    finally:
        audit.is_over = True


# -------------------------------------------------------- Several owners of the records
# Within `asking`, every release uses the records of these owners. A query that cannot
# be added up over the owners is refused before anything is charged.


# Owners of the records that are queried, and whether in rehearsal; per context.
_OWNERS: ContextVar[tuple[Owners | None, bool]] = ContextVar(
    "_OWNERS", default=(None, False)
)


def owners_now() -> Owners | None:
    """Owners of the queried records; None if the records are in this process."""
    return _OWNERS.get()[0]


def is_rehearsing() -> bool:
    """Whether this is a rehearsal: no owner is asked, and nothing is sent."""
    return _OWNERS.get()[1]


@contextmanager
def asking(owners: Owners, *, rehearses: bool = False) -> Iterator[None]:
    """Let all releases within the context use the records of these owners."""
    token = _OWNERS.set((owners, rehearses))
    try:
        yield
    finally:
        _OWNERS.reset(token)


# ----------------------------------------------------------------------------- The door
# The order of its steps is the privacy argument: declare, calibrate, commit, ask.


class Ledger(Protocol):
    """Accepts an event before its data are read.

    There are two implementations: `BudgetLedger`, and the `Allowance` of one trial of a
    search, which has committed its event already.
    """

    path: str
    dataset: str
    unit: str

    @property
    def is_rehearsal(self) -> bool:
        """Whether events are only noted, so that no data may be read."""
        ...

    def check_accepts(self, *, adjacency: Relation, is_private: bool) -> None:
        """Raise if this ledger can never accept a release of this kind."""
        ...

    def commit(
        self, event: Event, *, adjacency: Relation, budget: Budget, label: str
    ) -> None:
        """Commit an event, or raise and change nothing."""
        ...


class Door:
    """The only place where a release is declared, calibrated, committed and answered.

    The door holds the noise source from the start, and allows queries only after the
    event is committed.

    Parameters
    ----------
    budget : Budget
    adjacency : str
    ledger : BudgetLedger, Allowance or None
    random_state : int or None
        None draws from the operating system. A seed makes the event non-private.

    Attributes
    ----------
    budget : Budget
    draws : Draws
        Random orders and counts from the same stream as the noise.
    is_private : bool
        Whether nobody can reproduce the noise.
    relation : str
    """

    def __init__(
        self,
        budget: Budget,
        *,
        adjacency: Relation,
        ledger: Ledger | None,
        random_state: int | None,
    ) -> None:
        self.budget, self.relation, self._ledger = budget, adjacency, ledger
        # In a rehearsal the event is only noted, and no data may be read.
        self._notes_only = ledger is not None and ledger.is_rehearsal
        self._auditor = auditor_now()
        self._noise = (
            NoiseSource(random_state)
            if self._auditor is None
            else self._auditor.noise(random_state)
        )
        self._is_open = True
        self.is_private = self._noise.is_private
        self.draws: Draws = DrawsOf(self._noise)

    def public_seed(self, below: int = 2**32) -> int:
        """A public seed, for random draws that need not be secret.

        With several owners it is the seed of their plan, so that all make the same
        draws.

        Parameters
        ----------
        below : int in [1, 2^32], default=2^32
        """
        owners = owners_now()
        if owners is not None and owners.seed is not None:
            return owners.seed % below
        return int(self.draws.integers(below, 1)[0])

    def commit(self, plan: Plan | None, source: Any, *, label: str) -> Answers:
        """Calibrate a plan's noise to the budget, and commit its event to the ledger.

        Parameters
        ----------
        plan : Plan or None
            All queries of the release, from public facts only. With an infinite epsilon
            there is no noise, and None allows any query.
        source : Records
            Private. No record is read before the event is committed.
        label : str
            Name of the release in the ledger.

        Returns
        -------
        Answers
            Constants in a rehearsal.

        Raises
        ------
        BudgetExceeded
            From the ledger; no record was read and nothing was spent.
        PlanUsedUpError
            If a plan has been committed with this door before.
        ValueError
            If there is no plan although epsilon is finite, if an audited fit has a
            ledger, or if an audit has begun or ended since the door was opened.
        Refused
            If the records belong to several owners and these cannot answer the plan.
        """
        owners = owners_now()
        self._check(plan, source, owners)
        event, multiplier = self._calibrated(plan)
        self._book(event, source, owners, label)
        self._is_open = False
        grant = Grant(event, multiplier, self.relation, source.facts.max_overcount)
        return self._answers(plan, source, owners, grant)

    def _check(self, plan: Plan | None, source: Any, owners: Owners | None) -> None:
        """Raise if public facts forbid the release; nothing is charged or read."""
        if not self._is_open:
            raise PlanUsedUpError(
                "A door must be used for one release only. Got a second plan. Open "
                "another door. Nothing was read."
            )
        if plan is None and self.budget.is_finite:
            raise ValueError(
                "A release must have a plan. Got None with a finite epsilon. Declare "
                "all queries in a plan, or use epsilon=inf."
            )
        _check_unit(self.relation, source)
        if auditor_now() is not self._auditor:
            raise ValueError(
                "A door must be used within the audit in which it was opened. Got an "
                "audit that has begun or ended since. Open another door. Nothing was "
                "read."
            )
        if self._auditor is not None and (owners is not None or self._is_charged):
            raise ValueError(
                "An audited fit must have no ledger and records of one owner. Got a "
                "ledger or several owners. Audit without them, on made-up data. "
                "Nothing was read."
            )
        if owners is not None:
            check_shared(plan if self.budget.is_finite else None, source, owners)

    def _calibrated(self, plan: Plan | None) -> tuple[Event, float]:
        """The event of a plan, and the least noise multiplier within the budget."""
        if plan is None or not self.budget.is_finite:
            return NonPrivateEvent(), 0.0
        declare = partial(plan.event, relation=self.relation)
        multiplier = calibrate(declare, self.budget)
        # A person who knows the seed can subtract the noise.
        return declare(multiplier) if self.is_private else NonPrivateEvent(), multiplier

    def _book(
        self, event: Event, source: Any, owners: Owners | None, label: str
    ) -> None:
        """Commit an event to the ledger, or note it in a rehearsal."""
        if owners is not None and is_rehearsing() and not self._notes_only:
            # The allowance of a trial has been paid for by its search.
            if self._ledger is None or self._is_charged:
                owners.charged(event, self.budget.delta, self._ledger)
            return
        if not self._notes_only:
            _check_room(source)
        if self._ledger is not None:
            self._ledger.commit(
                event, adjacency=self.relation, budget=self.budget, label=label
            )

    def _answers(
        self, plan: Plan | None, source: Any, owners: Owners | None, grant: Grant
    ) -> Answers:
        """The object that answers queries, for this kind of fit."""
        if self._notes_only:
            return RehearsedAnswers(plan or _NOTHING, source, grant)
        if plan is None or not self.budget.is_finite:
            return ExactAnswers(plan or _NOTHING, source, grant)
        if owners is not None:
            noise = None if is_rehearsing() else self._noise
            return SharedAnswers(plan, source, grant, owners, noise)
        if self._auditor is not None:
            answers: Answers = self._auditor.answers(plan, source, grant, self._noise)
            return answers
        return LocalAnswers(plan, source, grant, self._noise)

    @property
    def _is_charged(self) -> bool:
        # A ledger has a file; the allowance of a trial has none.
        return self._ledger is not None and bool(self._ledger.path)


def _check_unit(relation: Relation, source: Records) -> None:
    """Raise if the adjacency protects users and the source has none, or the reverse."""
    if is_of_users(relation) != source.facts.is_of_users:
        raise ValueError(
            f"The source of a release under {relation!r} must have the ids of users if "
            "the adjacency protects users, and no ids if it protects records. Got the "
            "opposite. Change privacy_unit or the source. Nothing was read."
        )


def _check_room(source: Records) -> None:
    """Raise if a part has so few users that sums over it might not be exact."""
    times = source.facts.max_overcount
    if times == 1.0:
        return
    n_declared = round(source.n_samples * times)
    if not has_room(source.n_samples, n_declared):
        raise ValueError(
            f"A part of a source must have at least {LEAST_PART:.0%} of the declared "
            f"users for a fit. Got {source.n_samples} of {n_declared} users. Use a "
            "larger part, or make a source of fewer users. Nothing was read."
        )


_NOTHING = Plan(())
