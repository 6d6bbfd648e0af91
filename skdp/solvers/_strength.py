"""How much a budget can tell of so many records, and what it pays for first answers.

Public facts only.
"""

from __future__ import annotations

import math

from skdp.privacy import Budget
from skdp.privacy._gaussian import gaussian_mu

# Relations in which what is taken away is replaced.
_EXCHANGES = ("replace_one", "replace_user")
# Delta at which a pure budget is compared with the others, by rules only.
TYPICAL_DELTA = 1e-6


def strength_of(n_samples: float, budget: Budget, adjacency: str) -> float:
    """Records times mu, in units of records that are left out; public facts."""
    if not budget.is_finite:
        return math.inf
    mu = gaussian_mu(budget.epsilon, budget.delta or TYPICAL_DELTA)
    return n_samples * mu * (0.5 if adjacency in _EXCHANGES else 1.0)


def share_for(
    wanted: float, strength: float, least: float, most: float, number: int = 1
) -> float:
    """Of mu squared, for so much noise in each of so many sums, within limits.

    Noise in a sum is over the number of records.
    """
    return min(max(number / (wanted * strength) ** 2, least), most)
