"""`Stream`: a fit that is paid for at its first part and goes on with the others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from threading import RLock
from typing import Any, NoReturn, SupportsIndex
from weakref import WeakKeyDictionary

import numpy as np

from skdp.data._arriving import Arriving
from skdp.exceptions import Refused, StreamOverError
from skdp.objectives._linear import LinearObjective
from skdp.papers._ftrl import FTRL
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import is_of_users
from skdp.privacy._answers import Answers
from skdp.privacy._audited import auditor_now
from skdp.privacy._door import Door, Ledger
from skdp.privacy._events import ComposedEvent
from skdp.privacy._owners import owners_now
from skdp.solvers._base import Solution

# What later parts cost: the first one has paid for all.
PAID = ComposedEvent(())


class Stream:
    """The right to ask about the parts of a stream, each once.

    It holds answers, and with them sums over records: so it can be neither copied nor
    stored, and a forked process has none.

    Parameters
    ----------
    answers : Answers
    arriving : Arriving
    walking : iterator of Solution
        What is released after each part.
    objective : LinearObjective
        Of all parts.
    solver : FTRL
    begun_with : dict of str to object
        Parameters of the estimator, which must stay as they are.
    """

    def __init__(
        self,
        answers: Answers,
        arriving: Arriving,
        walking: Iterator[Solution],
        objective: LinearObjective,
        solver: FTRL,
        begun_with: dict[str, Any],
    ) -> None:
        self.answers, self._arriving, self._walking = answers, arriving, walking
        self.objective, self.n_taken = objective, 0
        self.n_parts = solver.n_parts
        self._auditor = auditor_now()
        # A dict or list that was given may be changed in place.
        self.begun_with = deepcopy(begun_with)
        self.part_size = solver.parts(objective).size
        # Names the stream in the books: when it began.
        self.name = f"{time.time_ns():x}"
        self.lock = RLock()

    def check_takes(self, n_samples: int) -> None:
        """Refuse a part that cannot be answered about; nothing was read.

        Raises
        ------
        StreamOverError, ValueError, Refused
        """
        if owners_now() is not None:
            raise Refused(
                "The parts of a stream must be of one owner, since past sums are held "
                "in one place. Got a part of several owners. Nothing was read."
            )
        if auditor_now() is not self._auditor:
            raise ValueError(
                "A stream must go on within the audit that it was begun in. Got an "
                "audit that has begun or ended since. Begin another stream. Nothing "
                "was read."
            )
        if self.n_taken == self.n_parts:
            raise StreamOverError(
                "A stream has as many parts as were declared. Got one more than "
                f"n_parts={self.n_parts}. Clone the estimator for another stream, "
                "which is another release. Nothing was read."
            )
        if n_samples > self.part_size:
            units = "users" if is_of_users(self.objective.adjacency) else "records"
            raise ValueError(
                f"A part of a stream must have at most as many {units} as the first "
                f"one, {self.part_size}. Got {n_samples}. Give what is left over with "
                "the next part. Nothing was read."
            )

    def take(self, part: Any, books: Books) -> Solution:
        """What is released after one part more.

        Raises
        ------
        StreamOverError, ValueError
            As `check_takes` does.
        """
        with self.lock, np.errstate(all="ignore"):
            self.check_takes(part.n_samples)
            if self.n_taken:
                books.book(f"part {self.n_taken + 1} of {self.n_parts} of {self.name}")
            self.n_taken += 1
            self._arriving.give(part)
            return next(self._walking)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "A stream must stay where its records are answered about: a copy would go "
            "on with the same noise. Store the fitted model."
        )


@dataclass(frozen=True)
class Books:
    """Where later parts are noted down, which cost nothing more.

    Parameters
    ----------
    ledger : Ledger or None
    adjacency : str
    budget : Budget
    estimator : str
    """

    ledger: Ledger | None
    adjacency: Any
    budget: Budget
    estimator: str

    def book(self, what: str) -> None:
        """Put a part on the books."""
        if self.ledger is not None:
            self.ledger.commit(
                PAID,
                adjacency=self.adjacency,
                budget=self.budget,
                label=f"{self.estimator}: {what}",
            )


def begun(
    solver: FTRL,
    first: Any,
    objective: LinearObjective,
    door: Door,
    *,
    name: str,
    begun_with: dict[str, Any],
) -> Stream:
    """A stream whose event is on the books; none of its parts has been read.

    Parameters
    ----------
    first : Source
        The first part.
    objective : LinearObjective
        Of all parts.
    name : str
        Of the estimator.
    begun_with : dict of str to object
        Its parameters.

    Raises
    ------
    BudgetExceeded
    """
    arriving = Arriving(first, solver.n_parts)
    label = f"{name}(solver={solver.named!r}): {solver.n_parts} parts of a stream"
    answers = door.commit(solver.plan(objective), arriving, label=label)
    walking = solver.walking(answers, objective)
    return Stream(answers, arriving, walking, objective, solver, begun_with)


# Streams, with the weights that their last parts have released. Not attributes of their
# estimators, which are copied, stored and shown.
_LIVE: WeakKeyDictionary[Any, tuple[Stream, Any]] = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIVE.clear)


def keep(estimator: Any, stream: Stream) -> None:
    """Let an estimator go on with a stream, until another fit gives it weights."""
    _LIVE[estimator] = stream, estimator.coef_


@contextmanager
def one_part(estimator: Any) -> Iterator[None]:
    """Give one part, alone; if what is released of it is lost, so is the stream.

    The estimator is then as it was before the part, which looks as if it could be
    given again: its records would be in two parts.
    """
    before = stream_of(estimator)
    with nullcontext() if before is None else before.lock:
        n_taken = 0 if before is None else before.n_taken
        try:
            yield
        except BaseException:
            now = stream_of(estimator)
            if now is not before or (now is not None and now.n_taken > n_taken):
                _LIVE.pop(estimator, None)
            raise


def stream_of(estimator: Any) -> Stream | None:
    """The stream that an estimator can go on with."""
    stream, weights = _LIVE.get(estimator, (None, None))
    return stream if getattr(estimator, "coef_", None) is weights else None
