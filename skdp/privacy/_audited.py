"""Whoever audits a fit: what a door must know of it.

Within an audit nothing is released: what a fit would hand to its noise is written down
by somebody who has the table anyway. That is for data made up or given up for it, so
nothing of it may be booked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Auditor(Protocol):
    """Who answers in place of the doors that are opened within an audit."""

    def noise(self, seed: int | None) -> Any:
        """What a door draws from."""
        ...

    def answers(self, plan: Any, source: Any, grant: Any, noise: Any) -> Any:
        """What a door hands out; private."""
        ...


# Of this thread alone.
_AUDITOR: ContextVar[Auditor | None] = ContextVar("_AUDITOR", default=None)


def auditor_now() -> Auditor | None:
    """Who audits what is fitted now; None if nobody does."""
    return _AUDITOR.get()


@contextmanager
def audited_by(auditor: Auditor) -> Iterator[None]:
    """All doors that are opened within are the auditor's."""
    token = _AUDITOR.set(auditor)
    try:
        yield
    finally:
        _AUDITOR.reset(token)
