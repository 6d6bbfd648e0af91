r"""The privacy filter that makes a ledger's cap hold for adaptively chosen fits.

When each fit may depend on the results of earlier ones, composition theorems for
parameters fixed in advance do not apply; a *filter*, a stopping rule fixed in advance,
does. Of a cap (epsilon, delta) some epsilon c and some delta d are set aside when the
ledger is made. Each event is charged a triple (`Charge`): a share of c, a share of d,
and a mu; the squares of the mus may add up to mu'^2, mu' the largest mu for which
mu-GDP implies (epsilon - c, delta - d)-DP. The three sums do not depend on the order of
the events, and no path can trade one for another.

Until the first square is charged, nothing is said of squares yet, and the whole cap is
there for epsilons and deltas, by basic composition [1]_: what has no squares, and what
the squares have no room for, is charged as one (epsilon, delta)-DP release. Where they
have passed c or d by the time of the first square, that is what is set aside from then
on, and for good.

The proof is from first principles (``docs/proofs/accounting.md``); for squares alone
the filter is that of [2]_ and [3]_.

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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from skdp.privacy._accounting import Budget
from skdp.privacy._charge import NOTHING, Charge, sum_of
from skdp.privacy._charges import in_squares, is_release, release
from skdp.privacy._events import Event
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu, mu_pure_epsilon

Part = Literal["epsilon", "delta"]

# Three fits at 0.1 must fit a cap of 0.3 although the doubles add up to more: sums may
# pass what they are held against by this relative amount. Of squares the margin of
# gaussian_mu (1e-7) more than covers it; of epsilons and deltas the cap holds up to it
# (docs/known_weaknesses.md).
_ROUNDING = 1e-10
# Less than this is left as good as nothing; a Budget may not ask for less either.
_LEAST_EPSILON = 1e-6
# What is told to be left is rounded down, so that asking for so much is not refused.
_TOLD = 1 - 1e-5


@dataclass(frozen=True)
class Reserve:
    """What is set aside of a cap, for what does not add up in squares."""

    epsilon: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True)
class FilterState:
    """What has been charged so far, and what is set aside.

    `spent` has the three sums. `reserve` is in force once squares have been charged;
    before, it is the least that will be.
    """

    cap: Budget
    reserve: Reserve
    spent: Charge = NOTHING

    @classmethod
    def of(cls, cap: Budget) -> FilterState:
        """Nothing charged, and half of delta set aside."""
        return cls(cap, Reserve(0.0, cap.delta / 2))

    def charged(self, event: Event, delta: float = 0.0) -> FilterState:
        """The state after `event`, whether or not the cap allows it."""
        return self.after(self.charge_of(event, delta))

    def after(self, charge: Charge) -> FilterState:
        """The state after a charge, whether or not the cap allows it."""
        if charge.is_void:
            return replace(self, spent=replace(self.spent, is_void=True))
        spent = sum_of((self.spent, charge))
        is_first = self.spent.mu_squared == 0 < spent.mu_squared
        reserve = self._reserve_at(spent) if is_first else self.reserve
        return type(self)(self.cap, reserve, spent)

    def charge_of(self, event: Event, delta: float = 0.0) -> Charge:
        """What `event` is charged here: the first way that there is room for.

        Depends on what is on the books and on public facts of the event. `delta`, which
        its fit asked for, is that at which it is charged as a release.
        """
        first = None
        for way in self.ways(event, delta):
            if way.is_void or self.after(way).exhausted() is None:
                return way
            first = first or way
        return first or Charge(math.inf)

    def in_squares(self, event: Event, delta: float = 0.0) -> Charge | None:
        """What `event` would be charged in squares, if that is known."""
        ways = self._in_squares(event, delta, self.whole, (False, True))
        return ways[0] if ways else None

    def exhausted(self) -> Part | None:
        """Which part of the cap the charges exceed, if any."""
        limit = self._limit
        # Asked so that what is no number is refused.
        if not self.spent.delta * (1 - _ROUNDING) <= limit.delta:
            return "delta"
        if not self.spent.epsilon * (1 - _ROUNDING) <= limit.epsilon:
            # Without a delta no epsilon is enough for what is not pure.
            return "delta" if math.isinf(self.spent.epsilon) else "epsilon"
        if not self.spent.mu_squared * (1 - _ROUNDING) <= limit.mu_squared:
            return "epsilon" if self.reserve.delta < self.cap.delta else "delta"
        return None

    @property
    def is_open(self) -> bool:
        """Whether squares have been charged, so that the set-asides are in force."""
        return self.spent.mu_squared > 0

    @property
    def whole(self) -> Charge:
        """What may be charged in all, were squares charged now; 0 where it is gone."""
        limit, spent = self._limits_of_squares, self.spent
        return Charge(
            limit.epsilon if limit.epsilon > spent.epsilon else 0.0,
            limit.delta if limit.delta > spent.delta else 0.0,
            limit.mu_squared,
        )

    @property
    def room(self) -> Charge:
        """What may be charged yet, were squares charged now."""
        limit, spent = self._limits_of_squares, self.spent
        return Charge(
            max(0.0, limit.epsilon - spent.epsilon),
            max(0.0, limit.delta - spent.delta),
            max(0.0, limit.mu_squared - spent.mu_squared),
        )

    @property
    def room_for_releases(self) -> Charge:
        """The epsilon and delta that one more release may cost."""
        limit = self._limit
        return Charge(
            max(0.0, limit.epsilon - self.spent.epsilon),
            max(0.0, limit.delta - self.spent.delta),
        )

    def spent_epsilon(self) -> float:
        """Epsilon at the cap's delta if these charges had been fixed in advance."""
        if self.spent.is_void:
            return math.inf
        mu = math.sqrt(self.spent.mu_squared)
        return self.spent.epsilon + gaussian_epsilon(mu, self.delta_left())

    def delta_left(self) -> float:
        """The delta that no release has been charged."""
        return max(0.0, self.cap.delta - self.spent.delta)

    def remaining_epsilon(self) -> float:
        """Largest epsilon, at `delta_left`, of one more fit that the cap allows.

        Of Gaussian noise once squares have been charged, and of any before.
        """
        if self.spent.is_void:
            return 0.0
        if not self.is_open:
            return self.room_for_releases.epsilon
        mu = math.sqrt(self.room.mu_squared)
        return gaussian_epsilon(mu, self.delta_left()) * _TOLD

    def remaining_pure_epsilon(self) -> float:
        """Largest epsilon of one more pure event that the cap allows."""
        if self.spent.is_void or not self.is_open:
            return self.remaining_epsilon()
        in_squares = mu_pure_epsilon(math.sqrt(self.room.mu_squared)) * _TOLD
        return max(self.room_for_releases.epsilon, in_squares)

    @property
    def _limit(self) -> Charge:
        if self.is_open:
            return self._limits_of_squares
        return Charge(self.cap.epsilon, self.cap.delta)

    @property
    def _limits_of_squares(self) -> Charge:
        reserve = self.reserve if self.is_open else self._reserve_at(self.spent)
        left = self.cap.epsilon - reserve.epsilon
        delta = max(0.0, self.cap.delta - reserve.delta)
        mu = gaussian_mu(left, delta) if left >= _LEAST_EPSILON else 0.0
        return Charge(reserve.epsilon, reserve.delta, mu**2)

    def _reserve_at(self, spent: Charge) -> Reserve:
        """What is set aside if the first square is charged now."""
        return Reserve(
            max(self.reserve.epsilon, spent.epsilon),
            max(self.reserve.delta, spent.delta),
        )

    def ways(self, event: Event, delta: float) -> Iterator[Charge]:
        """Valid charges of an event, the one to be preferred first."""
        if math.isinf(event.pure_epsilon):
            yield Charge(is_void=True)
        elif is_release(event):
            yield release(event, delta)
            yield from self._in_squares(event, delta, self.whole, (True,))
        else:
            yield from self._in_squares(event, delta, self.whole, (False, True))
            yield from self._in_squares(event, delta, self.room, (False, True))
            yield release(event, delta)

    def _in_squares(
        self, event: Event, delta: float, whole: Charge, pure: tuple[bool, ...]
    ) -> list[Charge]:
        ways = [in_squares(event, delta, whole, pure_in_squares=x) for x in pure]
        known = {way: None for way in ways if way is not None}
        # Without pure parts there is one way, and dearness takes time.
        return sorted(known, key=self._dearness) if len(known) > 1 else list(known)

    def _dearness(self, way: Charge) -> float:
        """How much of what there is a charge takes."""
        if self.is_open:
            return way.share_of(self.whole)
        return self.after(way).spent_epsilon()
