"""`Door`: plan, calibrate, commit, ask. Privacy rests on the order of the steps."""

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
from skdp.privacy.ledger._allowance import Allowance
from skdp.privacy.noise._draws import Draws, DrawsOf
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import (
    Answers,
    ExactAnswers,
    Grant,
    LocalAnswers,
    NoiselessRehearsal,
    RehearsedAnswers,
)
from skdp.privacy.release._plan import Plan
from skdp.privacy.release._shared import (
    RehearsedShares,
    SharedAnswers,
    check_shared,
    is_rehearsing,
    owners_now,
)
from skdp.tables._source import LEAST_PART, has_room, holds_users, max_overcount

# ---------------------------------- Whoever audits a fit: what a door must know of it
# Within an audit nothing is released: what a fit would hand to its noise is written
# down by somebody who has the table anyway. That is for data made up or given up for
# it, so nothing of it may be booked.


T = TypeVar("T")


class Auditor(Protocol):
    """Who answers in place of the doors that are opened within an audit."""

    def noise(self, seed: int | None) -> Any:
        """What a door draws from."""
        ...

    def answers(self, plan: Any, source: Any, grant: Any, noise: Any) -> Any:
        """What a door hands out; private."""
        ...


@dataclass
class _Audit:
    """An audit, which is where it was begun, until it is over."""

    auditor: Auditor
    place: tuple[int, int]
    is_over: bool = False


# Tasks, threads and forks may have copies that outlive the audit.
_AUDIT: ContextVar[_Audit | None] = ContextVar("_AUDIT", default=None)


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def auditor_now() -> Auditor | None:
    """Who audits what is fitted now, in this thread; None if nobody does."""
    audit = _AUDIT.get()
    if audit is None or audit.is_over or audit.place != _here():
        return None
    return audit.auditor


@contextmanager
def audited_by(auditor: Auditor) -> Iterator[None]:
    """All doors that are opened within are the auditor's.

    An interrupt between two of its steps may leave it open: see `audited`.
    """
    audit = _Audit(auditor, _here())
    token = _AUDIT.set(audit)
    try:
        yield
    finally:
        audit.is_over = True
        _AUDIT.reset(token)


def audited(auditor: Auditor, work: Callable[[], T]) -> T:
    """Do some work of which all doors are the auditor's.

    It is done in a context of its own, so that no interrupt, wherever it comes, leaves
    the caller's with an auditor.
    """
    audit, context = _Audit(auditor, _here()), copy_context()
    try:
        context.run(_AUDIT.set, audit)
        return context.run(work)
    finally:
        audit.is_over = True


# ------------------------------------------------------------------------------------
# Door: declare, calibrate, commit, ask. The order of its steps is the argument


class Ledger(Protocol):
    """Books that an event is put on before its data are read.

    `BudgetLedger` is one; the other is the `Allowance` of a trial within a search whose
    own event is on the books already.
    """

    path: str
    dataset: str
    unit: str

    @property
    def is_rehearsal(self) -> bool:
        """Whether events are only noted down, so that no data may be read."""
        ...

    def check_accepts(self, *, adjacency: Relation, is_private: bool) -> None:
        """Raise if a release of this kind could never be booked here."""
        ...

    def commit(
        self, event: Event, *, adjacency: Relation, budget: Budget, label: str
    ) -> None:
        """Put an event on the books, or raise and change nothing."""
        ...


class Door:
    """Where a release is declared, calibrated, booked, and answered: the only one.

    It holds the entropy from the start, and hands out the right to ask after the event
    is on the books.

    Parameters
    ----------
    budget : Budget
    adjacency : str
    ledger : BudgetLedger, Allowance or None
    random_state : int or None
        None draws from the operating system. A seed makes the event non-private.

    Attributes
    ----------
    draws : Draws
        Orders and counts from the same stream; no noise.
    is_private : bool
        Whether the noise cannot be reproduced.
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
        self._budget, self.relation, self._ledger = budget, adjacency, ledger
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
        """A seed of draws that hide nothing; public.

        Of several owners it is that of their plan, so that all draw the same.

        Parameters
        ----------
        below : int in [1, 2^32], default=2^32
        """
        owners = owners_now()
        if owners is not None and owners.seed is not None:
            return owners.seed % below
        return int(self.draws.integers(below, 1)[0])

    def commit(self, plan: Plan | None, source: Any, *, label: str) -> Answers:
        """Calibrate the noise of a plan to the budget and put its event on the books.

        Parameters
        ----------
        plan : Plan or None
            Everything that will be asked, from public facts only. With an infinite
            epsilon there is no noise, and None lets everything be asked.
        source : Records
            Private. Nothing is read from it before the event is on the books.
        label : str
            What the books call this release.

        Returns
        -------
        Answers
            In a rehearsal they are constants.

        Raises
        ------
        BudgetExceeded
            From the ledger; nothing was read or spent.
        PlanUsedUpError
            If a plan has been committed here before.
        ValueError
            If there is no plan for a finite epsilon, if what is audited is on books, or
            if the door was opened within another audit, or within none.
        Refused
            If the records are of several owners who cannot answer such a plan.
        """
        if not self._is_open:
            raise PlanUsedUpError(
                "A door must be passed once: its record is of one release. Got a "
                "second plan. Open another door. Nothing was read."
            )
        is_finite = self._budget.is_finite
        if plan is None and is_finite:
            raise ValueError(
                "A release must have a plan. Got None with a finite epsilon. Declare "
                "what will be asked, or use epsilon=inf."
            )
        _check_unit(self.relation, source)
        if auditor_now() is not self._auditor:
            raise ValueError(
                "A door must be passed within the audit that it was opened in. Got an "
                "audit that has begun or ended since. Open another door. Nothing was "
                "read."
            )
        owners = owners_now()
        if self._auditor is not None and (owners is not None or self._is_booked):
            raise ValueError(
                "What is audited must be on no books and of one owner. Got a ledger or "
                "several owners. Audit without them, on data made up for it. Nothing "
                "was read."
            )
        if owners is not None:
            check_shared(plan if is_finite else None, source, owners)
        event: Event = NonPrivateEvent()
        multiplier = 0.0
        if plan is not None and is_finite:
            declare = partial(plan.event, relation=self.relation)
            multiplier = calibrate(declare, self._budget)
            # Whoever knows the seed can take the noise away.
            if self.is_private:
                event = declare(multiplier)
        notes_only = self._ledger is not None and self._ledger.is_rehearsal
        if owners is not None and is_rehearsing() and plan and not notes_only:
            self._is_open = False
            # A trial's search has paid for it.
            if not isinstance(self._ledger, Allowance):
                owners.books(event, self._budget.delta, self._ledger)
            grant = Grant(event, multiplier, self.relation, max_overcount(source))
            return RehearsedShares(plan, source, grant, owners)
        if not notes_only:
            _check_room(source)
        if self._ledger is not None:
            self._ledger.commit(
                event, adjacency=self.relation, budget=self._budget, label=label
            )
        self._is_open = False
        grant = Grant(event, multiplier, self.relation, max_overcount(source))
        if notes_only:
            if plan is None or not is_finite:
                return NoiselessRehearsal(plan or _NOTHING, source, grant)
            return RehearsedAnswers(plan, source, grant)
        if plan is None or not is_finite:
            return ExactAnswers(plan or _NOTHING, source, grant)
        if owners is not None:
            return SharedAnswers(plan, source, grant, owners, self._noise)
        if self._auditor is not None:
            answers: Answers = self._auditor.answers(plan, source, grant, self._noise)
            return answers
        return LocalAnswers(plan, source, grant, self._noise)

    @property
    def _is_booked(self) -> bool:
        # The books of a trial within a search have no file.
        return self._ledger is not None and bool(self._ledger.path)


def _check_unit(relation: Relation, source: Any) -> None:
    """Refuse users whose rows are not known to be theirs, and records with users."""
    if is_of_users(relation) != holds_users(source):
        raise ValueError(
            f"A release under {relation!r} must be of records, or of users whose rows "
            "are known to be theirs, as the relation says. Got the other. Nothing was "
            "read."
        )


def _check_room(source: Any) -> None:
    """Refuse a part of users in which sums of all there may be might not be exact."""
    times = max_overcount(source)
    if times == 1.0:
        return
    n_declared = round(source.n_samples * times)
    if not has_room(source.n_samples, n_declared):
        raise ValueError(
            f"A part of a source of users must be of at least {LEAST_PART:.0%} of the "
            f"declared users to be fitted to. Got {source.n_samples} of {n_declared}. "
            "Take a larger part, or make a source of fewer users. Nothing was read."
        )


_NOTHING = Plan(())
