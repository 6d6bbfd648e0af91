"""What a ledger says when it has no room for a fit: what was asked, what would fit.

All of it follows from the books and from public facts of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from skdp.privacy._accounting import Budget
from skdp.privacy._charge import Charge
from skdp.privacy._charges import release
from skdp.privacy._events import Event
from skdp.privacy._filter import FilterState, Part, Reserve

# Set-asides of epsilon that are tried, as shares of the cap.
_TRIED = tuple(i / 15 for i in range(15))
# Books for which the search for a set-aside would take long are not searched.
MOST_SEARCHED, _MOST_KINDS = 300, 4
# Digits of a set-aside that is named.
_DIGITS = 4


def told(
    state: FilterState, event: Event, budget: Budget, exhausted: Part, kept: str
) -> str:
    """What ran out, what was asked for and what would fit; `kept` says what books."""
    return (
        f"{exhausted} ran out. The cap is epsilon={state.cap.epsilon:g}, delta="
        f"{state.cap.delta:g} ({kept}); the fit asks for epsilon={budget.epsilon:g}, "
        f"delta={budget.delta:g}, and {_what_would_fit(state, event, budget.delta)}. "
        "Nothing was read or spent. Ask for less, or start a new ledger if more may be "
        "spent on these data."
    )


def _what_would_fit(state: FilterState, event: Event, delta: float) -> str:
    """What one more fit may cost, in the unit in which the event was refused."""
    most = f"epsilon={state.remaining_epsilon():.4g}, delta={state.delta_left():.4g}"
    if not state.is_open:
        return f"one more fit, with any noise, may cost at most {most}"
    left = state.room
    return (
        f"since noise adds up in squares here, {_counted(state, event, delta)}; "
        f"mu={math.sqrt(left.mu_squared):.4g} is left, for one more fit of at most "
        f"{most} with Gaussian noise, or epsilon="
        f"{state.remaining_pure_epsilon():.4g} if it is pure; of what was set aside, "
        f"epsilon={left.epsilon:.4g} and delta={left.delta:.4g} are left"
    )


def _counted(state: FilterState, event: Event, delta: float) -> str:
    found = state.in_squares(event, delta)
    if found is None:
        alone = release(event, delta)
        return f"it counts as {_named(alone)} of what was set aside"
    return f"it counts as {_named(found)}"


def _named(charge: Charge) -> str:
    """A charge in words, without the parts that are 0."""
    parts = [f"mu={math.sqrt(charge.mu_squared):.4g}"] * (charge.mu_squared > 0)
    parts += [f"epsilon={charge.epsilon:.4g}"] * (charge.epsilon > 0)
    parts += [f"delta={charge.delta:.4g}"] * (charge.delta > 0)
    return " with ".join([parts[0], " and ".join(parts[1:])][: len(parts)])


def sufficient_reserve(
    cap: Budget, booked: Sequence[tuple[Event, float]], event: Event, delta: float
) -> Reserve | None:
    """Set-asides with which a ledger would have had room for all of these events.

    `booked` has events and the deltas of their fits. None if none is found; long books
    are not searched.
    """
    kinds = {event for event, _ in booked}
    if len(booked) > MOST_SEARCHED or len(kinds) > _MOST_KINDS:
        return None
    wanted = [*booked, (event, delta)]
    for reserve in _candidates(cap, event, delta):
        state = FilterState(cap, reserve)
        for one, at in wanted:
            state = state.charged(one, at)
            if state.exhausted() is not None:
                break
        else:
            return reserve
    return None


def _candidates(cap: Budget, event: Event, delta: float) -> Iterator[Reserve]:
    """Set-asides worth trying, the smaller ones of epsilon first."""
    alone = release(event, delta)
    deltas = [cap.delta / 2, 0.0]
    epsilons = [share * cap.epsilon for share in _TRIED]
    if alone.is_finite and alone.epsilon < cap.epsilon:
        epsilons.append(alone.epsilon)
    if 0 < alone.delta < cap.delta:
        deltas.append(alone.delta)
    for epsilon in sorted(map(_rounded_up, epsilons)):
        for at in deltas:
            if epsilon < cap.epsilon:
                yield Reserve(epsilon, at)


def _rounded_up(value: float) -> float:
    """The next number of few digits."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{_DIGITS}g}")
