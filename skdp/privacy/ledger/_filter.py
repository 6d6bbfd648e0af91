"""The privacy filter that keeps adaptively chosen fits within a ledger's cap."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from skdp.privacy.accounting._calibrate import Budget, epsilon_of
from skdp.privacy.accounting._events import (
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    SelectionEvent,
)
from skdp.privacy.accounting._gaussian import (
    gaussian_deltas_below,
    gaussian_epsilon,
    gaussian_mu,
    mu_pure_epsilon,
    pure_mu,
    smallest,
)

# ---------------------------------------------------------- Valid charges for a release
# A charge consists of a part of epsilon, a part of delta, and a mu. A charge (a, d, mu)
# is *valid* for a release if, in both orders of every pair of
# neighbours and for every real e, the hockey-stick divergence of the release is at most
#
#     T(e) = d + (1 - d) gd(mu, e - a),
#
# where gd(mu, .) is the divergence of mu-GDP: "with probability d everything is shown,
# else the loss is a + N(mu^2/2, mu^2)". Charges of adaptively chosen releases add up
# (``docs/proofs/accounting.md``).
#
# If for a release only a bound on delta at every e >= 0 is known, in both orders,
# `least_charge` finds the smallest valid multiple of the reserve. If the
# bound is at most T(e) for every e >= 0, the charge is valid for all real e (Lemma 11
# there). This is checked on a grid from 0: between two points, the bound at the left
# point is compared with T at the right point; beyond the last point, the bound is
# compared with d, the limit of T.


Array = NDArray[np.float64]
Profile = Callable[[Array], Array]

# Number of evenly spaced grid points, and of points with equal ratios.
_EVEN, _BY_RATIO = 2000, 5000
_LEAST_RATIO = 1e-4
# Smallest fraction of the set-asides that a release is charged.
_LEAST_SHARE = 1e-9
# The fraction of the set-aside delta at which a grid may end, and how much a profile
# must fall from there for the grid to continue.
_LEAST_DELTA, _FALL = 1e-5, 0.999
# A larger loss gives no privacy, and exponentials lose digits.
_MOST_LOSS = 500.0


@dataclass(frozen=True)
class Charge:
    """A part of epsilon, a part of delta, and mu squared.

    `is_void` marks a release that is not private, whose numbers have no meaning.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    mu_squared: float = 0.0
    is_void: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether some cap could have room for the charge."""
        return math.isfinite(self.epsilon) and math.isfinite(self.mu_squared)

    def times(self, share: float) -> Charge:
        return Charge(share * self.epsilon, share * self.delta, share * self.mu_squared)

    def share_of(self, whole: Charge) -> float:
        """The largest of the three ratios of this charge to `whole`."""
        return max(
            _share(self.epsilon, whole.epsilon),
            _share(self.delta, whole.delta),
            _share(self.mu_squared, whole.mu_squared),
        )


NOTHING = Charge()


def sum_of(charges: Iterable[Charge]) -> Charge:
    """The charge of several releases together, even if later ones were adaptive."""
    return _joined(math.fsum, charges)


def largest_of(charges: Iterable[Charge]) -> Charge:
    """A charge that is valid if at least one of these charges is."""
    return _joined(max, charges)


def _joined(join: Callable[[list[float]], float], charges: Iterable[Charge]) -> Charge:
    parts = list(charges)
    return Charge(
        join([part.epsilon for part in parts]),
        join([part.delta for part in parts]),
        join([part.mu_squared for part in parts]),
        any(part.is_void for part in parts),
    )


def least_charge(profile: Profile, whole: Charge) -> Charge | None:
    """The smallest multiple of the reserve that is a valid charge.

    Parameters
    ----------
    profile : callable
        Bound on delta, in both orders, at increasing epsilons of 0 or more.
    whole : Charge
        The reserve, or the rest of them, with a delta above 0.

    Returns
    -------
    Charge or None
        None if the charge would exceed `whole`.
    """
    if whole.delta <= 0 or whole.mu_squared <= 0:
        return None
    grid = _grid(profile, whole.delta)
    bounds = profile(grid)

    def is_enough(share: float) -> bool:
        return share >= 2 or is_valid(whole.times(share), grid, bounds)

    share = smallest(is_enough, _LEAST_SHARE)
    return whole.times(share) if share <= 1 else None


def is_valid(charge: Charge, grid: Array, bounds: Array) -> bool:
    """Whether a charge is valid for a release with these bounds on delta.

    `grid` increases from 0; `bounds` hold at its points, in both orders.
    """
    mu, shown = math.sqrt(charge.mu_squared), charge.delta
    right = grid[1:]
    rest = gaussian_deltas_below(mu, right - charge.epsilon)
    least = np.append(shown + (1 - shown) * rest, shown)
    # Rounding of sums of numbers below 1 is smaller than this.
    return bool(np.all(bounds <= least * (1 - 1e-14)))


def _grid(profile: Profile, delta: float) -> Array:
    """Points from 0 to where the profile is negligible, or the loss too large."""
    end, last = 1e-3, 1.0
    while end < _MOST_LOSS:
        found = float(profile(np.array([end]))[0])
        is_small = found <= _LEAST_DELTA * delta
        if found <= _LEAST_SHARE * delta or (is_small and found > _FALL * last):
            break
        end, last = min(1.2 * end, _MOST_LOSS), found
    even = np.linspace(0.0, end, _EVEN)
    return np.union1d(even, np.geomspace(_LEAST_RATIO * end, end, _BY_RATIO))


def _share(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole > 0 else math.inf


# ------------------------------------------------------------------ Charges of an event
# There are several ways to charge an event, and each gives a valid charge. As a
# *release* an event is charged its epsilon at some delta. In *squares* each leaf is
# charged separately: Gaussian noise is charged its mu; samples and objective
# perturbation are charged the smallest valid multiple of the reserve; pure
# parts and black boxes are charged either a part of epsilon or their mu; the best of a
# secret number of trials, which has no good mu, is charged its epsilon at a part of
# delta. All charges are known before the data are read. Proofs are in
# ``docs/proofs/accounting.md``.


# Bound on the relative error of `log_deltas`, added to round up.
_LOG_ERROR = 1e-8
# Largest mass that a composition may leave out, as a fraction of the set-aside delta.
_TRUNCATED = 1e-2


def release(event: Event, delta: float) -> Charge:
    """The charge of an event as one (epsilon, delta)-DP release.

    `delta` is the delta of its epsilon, unless the parts have deltas.
    """
    if event.mu_squared == 0:
        return Charge(event.pure_epsilon, event.box_delta)
    return Charge(_epsilon_alone(cast(Hashable, event), delta), delta)


def is_release(event: Event) -> bool:
    """Whether no part of an event has a mu whose square adds up."""
    return all(
        leaf.mu_squared == 0 or isinstance(leaf, SelectionEvent)
        for leaf in event.leaves
    )


def in_squares(
    event: Event, delta: float, whole: Charge, *, pure_in_squares: bool
) -> Charge | None:
    """The charge of an event leaf by leaf.

    Parameters
    ----------
    event : Event
    delta : 0 or float in [1e-50, 1)
        Divided among the searches with secret trials in the event.
    whole : Charge
        The reserve, of which a part without a mu is charged a multiple.
    pure_in_squares : bool
        Whether pure parts are charged a mu, or a part of epsilon.

    Returns
    -------
    Charge or None
        None if some part has no charge.
    """
    parts = list(_parts(event, delta, whole, pure_in_squares))
    known = [part for part in parts if part is not None and part.is_finite]
    return sum_of(known) if len(known) == len(parts) else None


def _parts(
    event: Event, delta: float, whole: Charge, pure_in_squares: bool
) -> Iterator[Charge | None]:
    sampled = tuple(x for x in event.leaves if isinstance(x, PoissonGaussianEvent))
    if sampled:
        yield _of_sampled(sampled, whole)
    searches = sum(isinstance(leaf, SelectionEvent) for leaf in event.leaves)
    for leaf in event.leaves:
        if isinstance(leaf, PoissonGaussianEvent):
            continue
        if isinstance(leaf, SelectionEvent) and isinstance(leaf.trial, GaussianEvent):
            yield Charge(leaf.epsilon(delta / searches), delta / searches)
        elif isinstance(leaf, ObjectiveEvent):
            yield _of_objective(leaf, whole)
        elif isinstance(leaf, ParallelEvent):
            yield _of_parallel(leaf, delta, whole, pure_in_squares)
        else:
            yield _of_leaf(leaf, pure_in_squares)


def _of_leaf(leaf: Event, pure_in_squares: bool) -> Charge:
    """The charge by closed forms; a black box's delta is charged in either way."""
    if leaf.mu_squared == 0 and not pure_in_squares:
        return Charge(leaf.pure_epsilon, leaf.box_delta)
    if isinstance(leaf, EpsilonDeltaEvent):
        squares = leaf.count * pure_mu(leaf.epsilon) ** 2
        return Charge(0.0, leaf.box_delta, squares)
    return Charge(0.0, 0.0, leaf.gdp_mu_squared)


def _of_parallel(
    leaf: ParallelEvent, delta: float, whole: Charge, pure_in_squares: bool
) -> Charge | None:
    """The largest charge of the parts, since a record is in only one of the sets."""
    parts = [
        in_squares(part, delta, whole, pure_in_squares=pure_in_squares)
        for part in leaf.parts
    ]
    known = [part for part in parts if part is not None]
    return largest_of(known) if len(known) == len(parts) else None


@lru_cache(maxsize=1024)
def _of_sampled(leaves: tuple[Event, ...], whole: Charge) -> Charge | None:
    if whole.delta <= 0:
        return None
    # A power of ten, so that few profiles are cached for all possible set-asides.
    least = 10.0 ** math.floor(math.log10(whole.delta * _TRUNCATED))
    profile = _profile_of_sampled(leaves, max(least, 1e-50))
    return None if profile is None else least_charge(profile, whole)


@lru_cache(maxsize=16)
def _profile_of_sampled(leaves: tuple[Event, ...], least: float) -> Profile | None:
    # Imported here, because dp-accounting takes a second to import.
    from skdp.privacy.accounting._pld import pld_profile

    return pld_profile(leaves, least)


@lru_cache(maxsize=1024)
def _of_objective(leaf: ObjectiveEvent, whole: Charge) -> Charge:
    """The charge by the dominating mu, or a smaller multiple of the reserve."""

    def profile(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(np.minimum(leaf.loss.log_deltas(epsilons) + _LOG_ERROR, 0.0))

    alone = Charge(0.0, 0.0, leaf.mu_squared)
    shared = least_charge(profile, whole)
    ways = [alone] if shared is None else [alone, shared]
    return min(ways, key=lambda way: way.share_of(whole))


@lru_cache(maxsize=4096)
def _epsilon_alone(event: Hashable, delta: float) -> float:
    """Cached, since a refusal needs the same epsilon again."""
    return epsilon_of(cast(Event, event), delta)


# ------------------------------------------------------------------- The privacy filter
# If fits may depend on the results of earlier ones, composition theorems for parameters
# fixed in advance do not apply. A *filter* does, which is a stopping rule fixed in
# advance. When the ledger is made, an epsilon c and a delta d of the cap (epsilon,
# delta) are reserved. Each event is charged a triple (`Charge`): a part of c, a part
# of d, and a mu. The squares of the mus may add up to mu'^2, where mu' is the largest
# mu for which mu-GDP implies (epsilon - c, delta - d)-DP. The three sums do not depend
# on the order of the events, and none of them can be exchanged for another.
#
# Before the first square is charged, the bound on squares is not used, and the whole
# cap is available for epsilons and deltas, by basic composition [1]_. Events without
# squares, and events for which the squares have no room, are charged as one (epsilon,
# delta)-DP release. If the sums of these charges exceed c or d when the first square is
# charged, these larger sums are reserved from then on.
#
# The proof is from first principles (``docs/proofs/accounting.md``). With squares only,
# the filter is that of [2]_ and [3]_.
#
# References:
# .. [1] Rogers, Roth, Ullman and Vadhan (2016). Privacy odometers and filters:
#    pay-as-you-go composition. NeurIPS. https://arxiv.org/abs/1605.08294
# .. [2] Koskela, Tobaben and Honkela (2023). Individual privacy accounting with
#    Gaussian differential privacy. ICLR, Theorem 8. https://arxiv.org/abs/2209.15596
# .. [3] Smith and Thakurta (2022). Fully adaptive composition for Gaussian
#    differential privacy. https://arxiv.org/abs/2210.17520


Part = Literal["epsilon", "delta"]

# Three fits at 0.1 must fit a cap of 0.3, although the doubles add up to more. So sums
# may exceed their limits by this relative amount. For squares, the margin of
# gaussian_mu (1e-7) more than covers the excess; for epsilons and deltas, the cap holds
# up to this excess (docs/guide/before_you_sign.md).
_ROUNDING = 1e-10
# A smaller remaining epsilon counts as 0, since a Budget cannot ask for less.
_LEAST_EPSILON = 1e-6
# The reported remainder is rounded down, so that a fit that asks for it is accepted.
_TOLD = 1 - 1e-5


@dataclass(frozen=True)
class FilterState:
    """The charges so far, and the reserve.

    `spent` has the three sums. `reserve` is the epsilon and the delta reserved for
    charges that do not add up in squares. It is in force once squares have been
    charged; before that, it is the minimum of the amounts that will be reserved.
    """

    cap: Budget
    reserve: Charge
    spent: Charge = NOTHING

    @classmethod
    def of(cls, cap: Budget) -> FilterState:
        """Nothing charged, and half of delta reserved."""
        return cls(cap, Charge(0.0, cap.delta / 2))

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
        """The charge of `event` in this state: the first way that has room.

        The charge depends on the ledger's entries and on public facts of the event.
        `delta`, which the fit asked for, is the delta of a charge as a release.
        """
        first = None
        for way in self.ways(event, delta):
            if way.is_void or self.after(way).exhausted() is None:
                return way
            first = first or way
        return first or Charge(math.inf)

    def in_squares(self, event: Event, delta: float = 0.0) -> Charge | None:
        """The charge of `event` in squares, or None if unknown."""
        ways = self._in_squares(event, delta, self.whole, (False, True))
        return ways[0] if ways else None

    def exhausted(self) -> Part | None:
        """The part of the cap that the charges exceed, or None."""
        limit = self._limit
        # The comparisons also refuse NaN.
        if not self.spent.delta * (1 - _ROUNDING) <= limit.delta:
            return "delta"
        if not self.spent.epsilon * (1 - _ROUNDING) <= limit.epsilon:
            # Without a delta no epsilon is enough for an event that is not pure.
            return "delta" if math.isinf(self.spent.epsilon) else "epsilon"
        if not self.spent.mu_squared * (1 - _ROUNDING) <= limit.mu_squared:
            return "epsilon" if self.reserve.delta < self.cap.delta else "delta"
        return None

    @property
    def is_open(self) -> bool:
        """Whether squares have been charged, so that `reserve` is in force."""
        return self.spent.mu_squared > 0

    @property
    def whole(self) -> Charge:
        """The limits if squares are charged now; 0 for a limit that is used up."""
        limit, spent = self._limits_of_squares, self.spent
        return Charge(
            limit.epsilon if limit.epsilon > spent.epsilon else 0.0,
            limit.delta if limit.delta > spent.delta else 0.0,
            limit.mu_squared,
        )

    @property
    def room(self) -> Charge:
        """The remaining charges if squares are charged now."""
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

        For Gaussian noise once squares have been charged, and for any noise before.
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

    def _reserve_at(self, spent: Charge) -> Charge:
        """The reserve if the first square is charged now."""
        return Charge(
            max(self.reserve.epsilon, spent.epsilon),
            max(self.reserve.delta, spent.delta),
        )

    def ways(self, event: Event, delta: float) -> Iterator[Charge]:
        """Valid charges of an event, in order of preference."""
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
        # Without pure parts there is one way; sorting would cost time.
        return sorted(known, key=self._dearness) if len(known) > 1 else list(known)

    def _dearness(self, way: Charge) -> float:
        """The fraction of the available cap that a charge takes."""
        if self.is_open:
            return way.share_of(self.whole)
        return self.after(way).spent_epsilon()
