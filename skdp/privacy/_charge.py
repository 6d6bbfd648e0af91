r"""What a release is charged: a share of epsilon, a share of delta, and a mu.

A charge (a, d, mu) is *valid* for a release if, in both orders of every pair of
neighbours and for every real e, the hockey-stick divergence of the release is at most

    T(e) = d + (1 - d) gd(mu, e - a),

gd(mu, .) that of mu-GDP: "with probability d everything is shown, else the loss is
a + N(mu^2/2, mu^2)". Charges of adaptively chosen releases add up
(``docs/proofs/accounting.md``).

For a release of which only a bound on delta at every e >= 0 is known, in both orders,
`least_charge` finds the least multiple of some set-asides that is valid. With the
divergence in the other order, h(-e) = 1 - exp(-e) + exp(-e) h'(e), all real e are
covered by two conditions at e >= 0. On a grid from 0 they are checked between points
with the bound at the left one and T at the right one; beyond the last point the bound
is at most what T has there at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.privacy._gaussian import gaussian_deltas_below, smallest

Array = NDArray[np.float64]
Profile = Callable[[Array], Array]

# Points of the grid, evenly spaced and by equal ratios.
_EVEN, _BY_RATIO = 2000, 5000
_LEAST_RATIO = 1e-4
# No release is charged a smaller share of the set-asides.
_LEAST_SHARE = 1e-9
# The share of the set-aside delta at which a grid may end, and how much a profile has
# to fall from there for the grid to go on.
_LEAST_DELTA, _FALL = 1e-5, 0.999
# Beyond this a loss is hopeless, and exponentials lose digits.
_MOST_LOSS = 500.0


@dataclass(frozen=True)
class Charge:
    """A share of epsilon, a share of delta, and mu squared.

    `is_void` of a release that is not private; then the numbers mean nothing.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    mu_squared: float = 0.0
    is_void: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether any cap could have room for it."""
        return math.isfinite(self.epsilon) and math.isfinite(self.mu_squared)

    def times(self, share: float) -> Charge:
        return Charge(share * self.epsilon, share * self.delta, share * self.mu_squared)

    def share_of(self, whole: Charge) -> float:
        """The largest of the three shares that this is of a whole."""
        return max(
            _share(self.epsilon, whole.epsilon),
            _share(self.delta, whole.delta),
            _share(self.mu_squared, whole.mu_squared),
        )


NOTHING = Charge()


def sum_of(charges: Iterable[Charge]) -> Charge:
    """What releases are charged together, whoever chose the later ones."""
    parts = list(charges)
    return Charge(
        math.fsum(part.epsilon for part in parts),
        math.fsum(part.delta for part in parts),
        math.fsum(part.mu_squared for part in parts),
        any(part.is_void for part in parts),
    )


def largest_of(charges: Iterable[Charge]) -> Charge:
    """A charge that is valid if any one of these is."""
    parts = list(charges)
    return Charge(
        max(part.epsilon for part in parts),
        max(part.delta for part in parts),
        max(part.mu_squared for part in parts),
        any(part.is_void for part in parts),
    )


def least_charge(profile: Profile, whole: Charge) -> Charge | None:
    """The least multiple of some set-asides that is valid for a release.

    Parameters
    ----------
    profile : callable
        Bound on delta, in both orders, at increasing epsilons of 0 or more.
    whole : Charge
        The set-asides, or what is left of them. Its delta is above 0.

    Returns
    -------
    Charge or None
        None if it would be more than the whole.
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
    kept, lost = math.exp(-charge.epsilon), -math.expm1(-charge.epsilon)
    right = grid[1:]
    above = shown + (1 - shown) * gaussian_deltas_below(mu, right - charge.epsilon)
    below = gaussian_deltas_below(mu, right + charge.epsilon)
    below = lost + kept * (shown + (1 - shown) * below)
    ends = min(shown, lost + kept * shown)
    # Sums of numbers below 1 are rounded by less than this.
    least = np.append(np.minimum(above, below), ends) * (1 - 1e-14)
    return bool(np.all(bounds <= least))


def _grid(profile: Profile, delta: float) -> Array:
    """From 0 to where the profile hardly matters, or the loss is hopeless."""
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
