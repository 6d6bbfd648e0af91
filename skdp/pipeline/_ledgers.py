"""What the ledgers of steps say to them, beside the total of a report.

The total composes steps that are fixed in advance. A ledger has to hold whatever comes
next, so that it charges each event on its own, and keeps what it sets aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skdp.exceptions import LedgerError
from skdp.pipeline._total import is_gaussian, mu_of
from skdp.pipeline._walk import Leaf, costs
from skdp.privacy import BudgetLedger, Event, GaussianEvent, PureEvent
from skdp.privacy._step import StepPrivacy


def words_of_ledgers(leaves: Sequence[Leaf]) -> tuple[str, ...]:
    """One sentence for each ledger that private steps carry and that can be read."""
    ledgers: list[BudgetLedger] = []
    for leaf in leaves:
        ledger = getattr(leaf.step, "ledger", None)
        if isinstance(ledger, BudgetLedger) and ledger not in ledgers:
            ledgers.append(ledger)
    return tuple(word for ledger in ledgers for word in _words(ledger, leaves))


def _words(ledger: BudgetLedger, leaves: Sequence[Leaf]) -> Iterator[str]:
    own = [leaf for leaf in leaves if getattr(leaf.step, "ledger", None) == ledger]
    said = [privacy for leaf in own if (privacy := leaf.privacy) and costs(privacy)]
    try:
        if said:
            yield f"The ledger {ledger.path!r} {_sentence(ledger, said)}."
    except (LedgerError, OSError):
        return


def _sentence(ledger: BudgetLedger, said: Sequence[StepPrivacy]) -> str:
    if all(privacy.event is not None for privacy in said):
        spent = ledger.spent()
        return (
            f"has spent epsilon {spent.epsilon:.4g} at delta {spent.delta:g} with all "
            "of its releases; it charges each on its own, which may be more than the "
            "total of these steps, since later ones may depend on earlier ones"
        )
    planned = [_event_of(privacy) for privacy in said if privacy.event is None]
    known = [(event, delta) for event, delta in planned if event is not None]
    if len(known) < len(planned):
        return (
            "charges these steps by their events, known when they are fitted, which "
            "may be more than the total, since later ones may depend on earlier ones"
        )
    if ledger.admits(known):
        return "has room for these steps"
    return (
        "has no room for all of these steps: it keeps "
        f"epsilon={ledger.reserve_epsilon:g} and delta={ledger.reserve_delta:g} for "
        "what does not add up in squares, beside what is spent"
    )


def _event_of(privacy: StepPrivacy) -> tuple[Event | None, float]:
    """The event that a planned step will have at most, if its budget says so much."""
    if is_gaussian(privacy):
        return GaussianEvent(1 / mu_of(privacy)), privacy.delta
    if privacy.delta == 0:
        return PureEvent(privacy.epsilon), 0.0
    return None, privacy.delta
