r"""The privacy filter of ledgers that version 0.1 wrote; for their spends only.

A ledger goes on where it stopped, by the rule of `skdp.privacy._filter`. This one never
changes, nor does what it charges for sampled events (`_first_epsilon`); it has two
phases:

1. Before the first event with a Gaussian square, epsilons and deltas add up (basic
   composition is a valid filter [1]_). An event without such a square, a Poisson
   sample or a black box, is one (epsilon, delta)-DP release here: at its fit's delta.
2. From the first event with Gaussian noise on, what is left of the cap, (epsilon',
   delta'), is turned into mu' once, and the squares mu_i^2 add up to at most mu'^2
   (the filter for Gaussian differential privacy [2]_, [3]_). A pure event now counts
   with the smallest mu that dominates it, and an event that none dominates without a
   delta beside it is refused: this filter has no place for such a delta.

The pure parts of the event that opens phase 2 are charged to either, whichever leaves
more. An event with a square that would open phase 2 beyond the cap is still charged to
phase 1 if it fits there: objective perturbation is dominated by a mu well above what it
costs alone.

Phase 2 is, given the outputs of phase 1, (epsilon', delta')-DP, and so the last step of
a basic composition within the cap (``docs/proofs/accounting.md``).

References
----------
.. [1] Rogers, Roth, Ullman and Vadhan (2016). Privacy odometers and filters:
   pay-as-you-go composition. NeurIPS. https://arxiv.org/abs/1605.08294
.. [2] Koskela, Tobaben and Honkela (2023). Individual privacy accounting with
   Gaussian differential privacy. ICLR, Theorem 8. https://arxiv.org/abs/2209.15596
.. [3] Smith and Thakurta (2022). Fully adaptive composition for Gaussian
   differential privacy. https://arxiv.org/abs/2210.17520
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Literal, cast

from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event
from skdp.privacy._first_epsilon import first_epsilon
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu, mu_pure_epsilon

# Three fits at 0.1 must fit a cap of 0.3 although the doubles add up to more: sums may
# pass the cap by this relative amount. In phase 2 the margin of gaussian_mu (1e-7)
# more than covers it; in phase 1 the cap holds up to it (docs/known_weaknesses.md).
_ROUNDING = 1e-10
# Less than this is left as good as nothing; a Budget may not ask for less either.
_LEAST_EPSILON = 1e-6


@dataclass(frozen=True)
class FilterState:
    """What has been charged so far.

    `pure_epsilon` and `delta` are sums over phase 1, `mu_squared` over phase 2,
    positive once that has begun. `is_void` once a non-private event has been booked.
    """

    cap: Budget
    pure_epsilon: float = 0.0
    mu_squared: float = 0.0
    is_void: bool = False
    delta: float = 0.0

    def charged(self, event: Event, delta: float = 0.0) -> FilterState:
        """The state after `event`, whether or not the cap allows it.

        `delta`, which its fit asked for, is that at which the event is charged if it
        has to be one (epsilon, delta)-DP release.
        """
        if math.isinf(event.pure_epsilon):
            return replace(self, is_void=True)
        if self.mu_squared > 0:
            return replace(self, mu_squared=self.mu_squared + event.gdp_mu_squared)
        if event.mu_squared == 0:
            return self._with_box(event.pure_epsilon, event.box_delta)
        opened = replace(
            self,
            pure_epsilon=self.pure_epsilon + event.pure_epsilon,
            mu_squared=event.mu_squared,
        )
        has_square = math.isfinite(event.gdp_mu_squared)
        if has_square and event.pure_epsilon > 0:
            # Epsilons of many selections add up to far more than their squares.
            in_squares = replace(self, mu_squared=event.gdp_mu_squared)
            opened = min(opened, in_squares, key=FilterState.spent_epsilon)
        if has_square and opened._verdict() is None:
            return opened
        alone = _epsilon_alone(cast(Hashable, event), delta)
        box = self._with_box(alone, delta)
        return opened if has_square and box._verdict() is not None else box

    def has_no_place_for(self, event: Event) -> bool:
        """Whether phase 2 has begun and a private event has no square to be charged."""
        is_private = math.isfinite(event.pure_epsilon)
        return self.mu_squared > 0 and is_private and math.isinf(event.gdp_mu_squared)

    def _with_box(self, epsilon: float, delta: float) -> FilterState:
        return replace(
            self,
            pure_epsilon=self.pure_epsilon + epsilon,
            delta=self.delta + delta,
        )

    def exhausted(self) -> Literal["epsilon", "delta"] | None:
        """Which part of the cap the charges exceed, if any."""
        return self._verdict()

    def _verdict(self) -> Literal["epsilon", "delta"] | None:
        if self.delta * (1 - _ROUNDING) > self.cap.delta:
            return "delta"
        if self.pure_epsilon * (1 - _ROUNDING) > self.cap.epsilon:
            # Without a delta no epsilon is enough for what is not pure.
            return "delta" if math.isinf(self.pure_epsilon) else "epsilon"
        if self.mu_squared == 0:
            return None
        if self.delta_left() == 0:
            return "delta"
        if self.mu_squared * (1 - _ROUNDING) > self.mu_left() ** 2:
            return "epsilon"
        return None

    def mu_left(self) -> float:
        """The mu of phase 2 as a whole."""
        left = self.cap.epsilon - self.pure_epsilon
        return gaussian_mu(left, self.delta_left()) if left >= _LEAST_EPSILON else 0.0

    def delta_left(self) -> float:
        """The delta of phase 2, and of one more fit."""
        return max(0.0, self.cap.delta - self.delta)

    def spent_epsilon(self) -> float:
        """Epsilon at the cap's delta if these charges had been fixed in advance."""
        if self.is_void:
            return math.inf
        return self.pure_epsilon + gaussian_epsilon(
            math.sqrt(self.mu_squared), self.delta_left()
        )

    def remaining_epsilon(self) -> float:
        """Largest epsilon, at `delta_left`, of one more fit that the cap allows.

        In phase 2 of Gaussian noise, which is what its squares are made for.
        """
        if self.is_void:
            return 0.0
        left = max(0.0, self.cap.epsilon - self.pure_epsilon)
        if self.mu_squared == 0:
            return left
        # Rounded down, so that asking for exactly this much is not refused.
        return gaussian_epsilon(self.mu_unspent(), self.delta_left()) * (1 - 1e-5)

    def remaining_pure_epsilon(self) -> float:
        """Largest epsilon of one more pure event that the cap allows."""
        if self.mu_squared == 0 or self.is_void:
            return self.remaining_epsilon()
        return mu_pure_epsilon(self.mu_unspent()) * (1 - 1e-5)

    def mu_unspent(self) -> float:
        """The mu that one more event of phase 2 may have."""
        return math.sqrt(max(0.0, self.mu_left() ** 2 - self.mu_squared))


def filter_state(
    cap: Budget, events: Iterable[Event], deltas: Iterable[float] = ()
) -> FilterState:
    """The state after a sequence of committed events, and their fits' deltas."""
    state = FilterState(cap)
    for event, delta in zip_longest(events, deltas, fillvalue=0.0):
        state = state.charged(cast(Event, event), delta)
    return state


@lru_cache(maxsize=4096)
def _epsilon_alone(event: Hashable, delta: float) -> float:
    """Epsilon of one event; kept, since the books are read again for every fit."""
    return first_epsilon(cast(Event, event), delta)
