"""The largest budgets with which candidates stay within what a search pays for."""

from __future__ import annotations

import math
from typing import Any

from sklearn.base import clone

from skdp.model_selection._candidates import Prepared, steps_of
from skdp.model_selection._rehearsal import rehearse
from skdp.pipeline._budget import set_budget_in_place
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Relation
from skdp.privacy._allowance import Strength, cost_over
from skdp.privacy._events import ComposedEvent, PureEvent
from skdp.privacy._gaussian import gaussian_epsilon

# Inner epsilons are set this much below what the search paid for, for rounding.
_MARGIN = 1e-6
_MOST_REHEARSALS = 12


def prepare(
    model: Any,
    strength: Strength,
    X: Any,
    y: Any,
    delta: float,
    adjacency: Relation,
) -> Prepared:
    """Give a candidate the largest budget whose events cost no more than `strength`.

    Gaussian steps take exactly what there is. Others, such as objective perturbation,
    are charged by the mu that dominates them, so their epsilon is lowered until that
    fits.
    """
    budget = _budget_for(strength, delta)
    scale = 1.0
    for _ in range(_MOST_REHEARSALS):
        ready = clone(model)
        for step in steps_of(ready) if delta > 0 else ():
            step._be_one_of_several()
        set_budget_in_place(ready, Budget(budget.epsilon * scale, delta))
        if all(map(_costs_what_it_says, steps_of(ready))):
            return Prepared(ready, strength)
        _, events = rehearse(ready, X, y, adjacency)
        excess = cost_over(ComposedEvent(events), strength)
        if excess <= 1:
            return Prepared(ready, strength)
        if math.isinf(excess):  # no mu dominates it, at any epsilon
            break
        scale /= min(excess * (1 + _MARGIN), 8.0)
    raise ValueError(
        f"A candidate cannot be fitted at the cost of {strength}. Got a solver "
        "whose noise does not add up in squares. Use solver='noisy_gd' or 'auto'."
    )


def _costs_what_it_says(step: Any) -> bool:
    """Whether its epsilon is its cost, and no number of records makes it refuse."""
    solver = getattr(step, "solver", "noisy_gd")
    is_plain = solver == "noisy_gd" and not getattr(step, "solver_params", None)
    return is_plain and step.step_privacy().adds_in_squares


def _budget_for(strength: Strength, delta: float) -> Budget:
    if isinstance(strength, PureEvent):
        epsilon = strength.pure_epsilon
    else:
        epsilon = gaussian_epsilon(math.sqrt(strength.mu_squared), delta)
    if epsilon < 2e-6:
        raise ValueError(
            "The 'epsilon' parameter of a search must leave each fit at least 1e-6. "
            f"Got {epsilon:.3g} for each. Use fewer candidates, a larger epsilon, or a "
            "smaller delta."
        )
    return Budget(min(epsilon, 1e8) * (1 - _MARGIN), delta)
