"""Books that were kept by the rule of version 0.1, and books that are looked over.

What spends of schema 1 were charged is added up by their own rule, `_two_phases`, and
taken over as it is. In its first phase epsilons and deltas were summed: the filter goes
on with what is left of the cap, half of whose delta is set aside. In its second phase
squares were summed, beside what the first had taken: only the rest of these squares is
left, and nothing is set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skdp.privacy._accounting import Budget
from skdp.privacy._books import Spend
from skdp.privacy._charge import Charge
from skdp.privacy._filter import FilterState, Reserve
from skdp.privacy._two_phases import filter_state

# Charges found again may differ by rounding, as on another machine.
_ROUNDING = 1e-6


def settled(cap: Budget, spends: Sequence[Spend]) -> FilterState:
    """The state after spends that were booked by version 0.1."""
    old = filter_state(
        cap, (spend.event for spend in spends), (spend.delta for spend in spends)
    )
    reserved = old.delta if old.mu_squared > 0 else old.delta + old.delta_left() / 2
    return FilterState(
        cap,
        Reserve(old.pure_epsilon, reserved),
        Charge(old.pure_epsilon, old.delta, old.mu_squared, old.is_void),
    )


def is_carried_whole(found: FilterState, wanted: FilterState) -> bool:
    """Whether a balance is what `settled` finds, up to rounding."""
    more = 1 + _ROUNDING
    return (
        _covers(found.spent, wanted.spent)
        and found.reserve.epsilon <= wanted.reserve.epsilon * more
        and wanted.reserve.epsilon <= found.reserve.epsilon * more
        and found.reserve.delta <= wanted.reserve.delta * more
        and wanted.reserve.delta <= found.reserve.delta * more
    )


def underpaid(start: FilterState, spends: Iterable[Spend]) -> Spend | None:
    """The first spend that was charged less than its event costs, if any.

    `start` is the state before them. Charges are found anew; a booked one has to cover
    any way to charge the event there: every way is valid, and which of them is tried
    first, or has room, may change as accounting becomes tighter.
    """
    state = start
    for spend in spends:
        booked = spend.charge
        if booked is None or not _is_enough(booked, state, spend):
            return spend
        state = state.after(booked)
        if not booked.is_void and state.exhausted() is not None:
            return spend
    return None


def _is_enough(booked: Charge, state: FilterState, spend: Spend) -> bool:
    return any(_covers(booked, way) for way in state.ways(spend.event, spend.delta))


def _covers(booked: Charge, found: Charge) -> bool:
    if found.is_void or booked.is_void:
        return booked.is_void
    more = 1 + _ROUNDING
    return (
        booked.epsilon * more >= found.epsilon
        and booked.delta * more >= found.delta
        and booked.mu_squared * more >= found.mu_squared
    )
