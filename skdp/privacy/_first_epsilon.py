"""What an event cost by the accounting of version 0.1; for the spends of its ledgers.

Sampled events under replace_one cost more then: both steps of an exchange, to the null
record and from it, had half of epsilon and the larger profile of both orders. What was
charged so has to stay as it was, since later events of the same ledger were admitted,
and charged in one way rather than another, because of it. All other events cost what
they cost now.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from typing import cast

from skdp.privacy._accounting import closed_epsilon, epsilon_of, simple
from skdp.privacy._events import ComposedEvent, Event, PoissonGaussianEvent
from skdp.privacy._search_events import ParallelEvent, SelectionEvent


def first_epsilon(event: Event, delta: float) -> float:
    """`epsilon_of` as version 0.1 had it.

    Parameters
    ----------
    event : Event
    delta : 0 or float in [1e-50, 1)

    Returns
    -------
    float in [0, inf]
    """
    leaves = event.leaves
    chosen = [leaf for leaf in leaves if isinstance(leaf, SelectionEvent)]
    if chosen:
        others = tuple(x for x in leaves if not isinstance(x, SelectionEvent))
        share = delta / (len(chosen) + bool(others))
        total = math.fsum(leaf.epsilon(share) for leaf in chosen)
        return total + (first_epsilon(ComposedEvent(others), share) if others else 0.0)
    if len(leaves) == 1 and isinstance(leaves[0], ParallelEvent):
        return max(first_epsilon(part, delta) for part in leaves[0].parts)
    if not any(map(_is_exchanged, leaves)):
        return epsilon_of(event, delta)
    return _composed_epsilon(event, delta)


def _is_exchanged(leaf: Event) -> bool:
    return isinstance(leaf, PoissonGaussianEvent) and leaf.adjacency == "replace_one"


def _composed_epsilon(event: Event, delta: float) -> float:
    closed = closed_epsilon(event, delta)
    if math.isinf(event.pure_epsilon) or delta == 0:
        return closed
    known = [simple(leaf) for leaf in event.leaves]
    if None in known:
        return closed
    return min(closed, _numeric_epsilon(cast(Hashable, tuple(known)), delta))


@lru_cache(maxsize=1024)
def _numeric_epsilon(leaves: Hashable, delta: float) -> float:
    # Imported here, because what it rests on takes a second to import.
    from skdp.privacy._pld import halved_group_epsilon, pld_epsilon

    events = cast(tuple[Event, ...], leaves)
    return pld_epsilon(events, delta, exchange=halved_group_epsilon)
