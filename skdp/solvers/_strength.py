"""How much a budget can tell of so many records, and what it pays for first answers.

Public facts only.
"""

from __future__ import annotations

import math

from skdp.privacy import Budget
from skdp.privacy._gaussian import gaussian_mu
from skdp.solvers._worth import share_for

# Relations in which what is taken away is replaced.
_EXCHANGES = ("replace_one", "replace_user")
# Delta at which a pure budget is compared with the others, by rules only.
TYPICAL_DELTA = 1e-6
# Below this strength an answer about weights tells nothing.
_WORTH_ASKING = 15.0
# Deviation of the noise in a gain, over what a gain is clipped to.
_WANTED_GAIN = 0.012
_LEAST_OF_GAINS, _MOST_OF_GAINS = 0.005, 0.15
# Between knots at which targets of a regression are summed; with more of them what
# noise leaves at far knots hides the rest.
TARGET_INTERVALS = 32


def strength_of(n_samples: float, budget: Budget, adjacency: str) -> float:
    """Records times mu, in units of records that are left out; public facts."""
    if not budget.is_finite:
        return math.inf
    mu = gaussian_mu(budget.epsilon, budget.delta or TYPICAL_DELTA)
    return n_samples * mu * (0.5 if adjacency in _EXCHANGES else 1.0)


def share_of_gains(strength: float) -> float:
    """Of mu squared, for what weights are worth; 0: it is not asked."""
    if strength < _WORTH_ASKING:
        return 0.0
    return share_for(_WANTED_GAIN, strength, _LEAST_OF_GAINS, _MOST_OF_GAINS)
