"""Whoever audits a fit: what a door must know of it.

Within an audit nothing is released: what a fit would hand to its noise is written down
by somebody who has the table anyway. That is for data made up or given up for it, so
nothing of it may be booked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
