"""Shares of a budget for the parts of one plan."""

from __future__ import annotations

import math

from skdp.privacy._accounting import Budget
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu

_LEAST_EPSILON = 1e-6


def cost_of(budget: Budget) -> float:
    """Of a Gaussian budget mu, of a pure one epsilon."""
    if budget.delta == 0:
        return budget.epsilon
    return gaussian_mu(budget.epsilon, budget.delta)


def part_of(budget: Budget, share: float) -> Budget:
    """A share of mu^2 at the same delta, or of epsilon."""
    if budget.delta == 0:
        return Budget(max(share * budget.epsilon, _LEAST_EPSILON), 0.0)
    epsilon = gaussian_epsilon(math.sqrt(share) * cost_of(budget), budget.delta)
    return Budget(max(epsilon, _LEAST_EPSILON), budget.delta)
