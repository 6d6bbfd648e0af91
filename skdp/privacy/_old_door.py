"""Declare, calibrate, commit: what comes before any mechanism reads data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._adjacency import Relation
from skdp.privacy._door import Ledger
from skdp.privacy._events import Event, NonPrivateEvent
from skdp.privacy._noise import NoiseSource


@dataclass(frozen=True)
class Commitment:
    """An event on the books, and the noise it was declared with.

    Parameters
    ----------
    event : Event
    noise_multiplier : float
        Scale of the noise over the sensitivity; 0.0 without noise.
    may_read : bool
        Whether the mechanism may read its data now: not in a rehearsal, in which it
        answers with a constant.
    """

    event: Event
    noise_multiplier: float
    may_read: bool


def commit(
    declare: Callable[[float], Event] | None,
    budget: Budget,
    *,
    adjacency: Relation,
    ledger: Ledger | None,
    noise: NoiseSource,
    label: str,
) -> Commitment:
    """Calibrate the noise of a release to a budget and put its event on the books.

    Parameters
    ----------
    declare : callable or None
        Maps a noise multiplier to everything that will be released, from public facts
        only. None: no noise at all, with an infinite epsilon.
    budget : Budget
    adjacency : {"replace_one", "zero_out", "rating_value", "user"}
    ledger : BudgetLedger, Allowance or None
    noise : NoiseSource
        From which the noise will be drawn; a seeded one makes the event non-private.
    label : str
        What the books call this release.

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    event: Event = NonPrivateEvent()
    multiplier = 0.0
    if declare is not None:
        multiplier = calibrate(declare, budget)
        if noise.is_private:
            event = declare(multiplier)
    if ledger is not None:
        ledger.commit(event, adjacency=adjacency, budget=budget, label=label)
    may_read = ledger is None or not ledger.is_rehearsal
    return Commitment(event, multiplier, may_read)
