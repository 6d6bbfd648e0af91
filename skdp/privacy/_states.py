"""The filter's states that the entries of a ledger lead to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from skdp.privacy._accounting import Budget
from skdp.privacy._books import Entries, Spend, Terms
from skdp.privacy._charge import Charge
from skdp.privacy._filter import FilterState, Reserve
from skdp.privacy._settled import settled


def start_of(terms: Terms, entries: Entries) -> FilterState:
    """The state before the spends that have charges of their own."""
    cap = Budget(terms.epsilon, terms.delta)
    if entries.schema == 1 and entries.rows:
        return settled(cap, entries.spends())
    balance = entries.balance
    if balance is None:
        return FilterState(cap, Reserve(terms.reserve_epsilon, terms.reserve_delta))
    reserve = Reserve(balance.reserve_epsilon, balance.reserve_delta)
    return FilterState(cap, reserve, balance.charge)


def state_of(terms: Terms, entries: Entries) -> FilterState:
    """The state after all spends."""
    return reduce(FilterState.after, entries.charges, start_of(terms, entries))


def history_of(terms: Terms, entries: Entries) -> Iterator[tuple[Spend, FilterState]]:
    """Every spend, and the state after it."""
    spends = entries.spends()
    n_old = len(spends) - len(entries.charges)
    cap = Budget(terms.epsilon, terms.delta)
    for number in range(n_old):
        yield spends[number], settled(cap, spends[: number + 1])
    state = start_of(terms, entries)
    for spend in spends[n_old:]:
        state = state.after(spend.charge or Charge())
        yield spend, state
