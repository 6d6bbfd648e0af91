"""The filter's states that the entries of a ledger lead to, and whether they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

from skdp.privacy._accounting import Budget
from skdp.privacy._books import Entries, Spend, Terms
from skdp.privacy._charge import Charge
from skdp.privacy._filter import FilterState, Reserve

# Charges found again may differ by rounding, as on another machine.
_ROUNDING = 1e-6


def start_of(terms: Terms) -> FilterState:
    """The state before all spends."""
    reserve = Reserve(terms.reserve_epsilon, terms.reserve_delta)
    return FilterState(Budget(terms.epsilon, terms.delta), reserve)


def state_of(terms: Terms, entries: Entries) -> FilterState:
    """The state after all spends."""
    return reduce(FilterState.after, entries.charges, start_of(terms))


def history_of(terms: Terms, entries: Entries) -> Iterator[tuple[Spend, FilterState]]:
    """Every spend, and the state after it."""
    state = start_of(terms)
    for spend in entries.spends():
        state = state.after(spend.charge)
        yield spend, state


def underpaid(start: FilterState, spends: Iterable[Spend]) -> Spend | None:
    """The first spend that was charged less than its event costs, if any.

    `start` is the state before them. Charges are found anew; a booked one has to cover
    any way to charge the event there: every way is valid, and which of them is tried
    first, or has room, may change as accounting becomes tighter.
    """
    state = start
    for spend in spends:
        booked = spend.charge
        if not _is_enough(booked, state, spend):
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
