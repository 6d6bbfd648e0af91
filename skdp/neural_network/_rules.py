"""Defaults of networks: public facts only, few of them, and flat around their best.

They were chosen once, on records of training parts that were held out
(docs/networks.md). What counts is n mu, the number of records over the deviation of the
noise that hides one of them.
"""

from __future__ import annotations

import math
from typing import Any

from skdp._configured import Given
from skdp.exceptions import Refused
from skdp.losses._weighted import typical_weight
from skdp.objectives._network import NetworkObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import is_of_users
from skdp.privacy._gaussian import gaussian_mu
from skdp.solvers._strength import strength_of

# Norm of the longest rows as the first layer has them, beside the 1 of the biases.
INPUT_NORM = 6.0
# Of a joint gradient, in the loss's units: most are shorter in the end, so that
# probabilities stay what they are; at 1 they were too sure.
_CLIP = 4.0
# Of a step, in the loss's units and over its curvature in one output.
_STEP = 0.25
# Losses that are not convex are flat almost everywhere: their steps are no shorter than
# if they were curved as the log-loss is.
_NOT_CONVEX = 0.25
# With convolutions, whose weights act at many positions, steps are shorter.
_WITH_FILTERS = 1 / 3
TAIL, LAST_STEP = 0.5, 0.1
ADAM_STEP = 0.01
# Records up to which all are read at every step, and as many as are read above.
_FEW_RECORDS, _BATCH = 8192, 4096
# Steps at n mu of so much, by its root, within limits, the upper one up to twice as far
# where momentum makes the way long.
_STEPS, _SIGNAL, _FEWEST, _MOST = 200, 3000.0, 30, 400
# n mu below which steps are shorter, and, for each output, above which momentum makes
# the way longer.
_WEAK_SIGNAL, _STRONG_SIGNAL = 500.0, 4500.0
_MOST_MOMENTUM = 0.9
# Without noise.
_EXACT_STEPS = 300


def signal_of(objective: NetworkObjective, budget: Budget) -> float:
    """N mu, half of it where a record is exchanged for another.

    Of weighted labels n is how many of the heaviest are expected to tell.
    """
    n_telling = objective.n_samples * typical_weight(objective.loss)
    return strength_of(n_telling, budget, objective.adjacency)


def n_steps_of(objective: NetworkObjective, budget: Budget) -> int:
    """The root of n mu, between 30 and 400, or up to 760 with momentum."""
    if not budget.is_finite:
        return _EXACT_STEPS
    wanted = _STEPS * math.sqrt(signal_of(objective, budget) / _SIGNAL)
    most = _MOST * (1 + momentum_of(objective, budget))
    return round(min(max(wanted, _FEWEST), most))


def gradient_clip_of(objective: NetworkObjective, budget: Budget) -> float:
    """A few units of the loss; none without noise."""
    return _CLIP * _unit_of(objective) if budget.is_finite else math.inf


def momentum_of(objective: NetworkObjective, budget: Budget) -> float:
    """So much that the way is longer in proportion to n mu, up to ten times."""
    strong = _STRONG_SIGNAL * objective.loss.n_outputs
    unused = 1 - strong / signal_of(objective, budget)
    return min(max(0.0, unused), _MOST_MOMENTUM)


def step_size_of(objective: NetworkObjective, budget: Budget, momentum: float) -> float:
    """Over the curvature of the loss in an output; less of it where noise is strong.

    With another momentum than by rule the way remains as long.
    """
    loss = objective.loss
    curvature = loss.curvature_trace / loss.n_outputs
    if not loss.is_convex:
        curvature = min(curvature, _NOT_CONVEX)
    curvature *= typical_weight(loss)
    step = _STEP * (_WITH_FILTERS if objective.convolutions else 1.0)
    weak = min(1.0, signal_of(objective, budget) / _WEAK_SIGNAL)
    same_way = (1 - momentum) / (1 - momentum_of(objective, budget))
    return step / (curvature * _unit_of(objective)) * weak * same_way


def _unit_of(objective: NetworkObjective) -> float:
    """Of raw predictions; 1 for targets without bounds."""
    unit = objective.loss.raw_unit
    return unit if math.isfinite(unit) else 1.0


def batch_size_of(
    given: Given, objective: NetworkObjective, budget: Budget, rest: dict[str, Any]
) -> int:
    """Expected records in a sample, as given or by rule; no more than there are.

    Raises
    ------
    Refused
        Of samples of users, of whom some rows would be drawn and others not.
    """
    n = objective.n_samples
    if not budget.is_finite:
        return n  # without noise all records are read at each step
    by_rule = n
    if n > _FEW_RECORDS and not is_of_users(objective.adjacency):
        by_rule = _sample_by_rule(n, budget, rest)
    size = min(int(given.get("batch_size", by_rule)), n)
    if size < n and is_of_users(objective.adjacency):
        raise Refused(
            "A batch_size below the number of users needs privacy_unit='record': a "
            f"sample of rows would have some of a user's and not others. Got {size}. "
            "Leave it out."
        )
    return size


def _sample_by_rule(n: int, budget: Budget, rest: dict[str, Any]) -> int:
    # mu is about rate * sqrt(n_steps) / multiplier, which should not fall below 1.
    mu = gaussian_mu(budget.epsilon, budget.delta)
    rate = min(1.0, mu / math.sqrt(rest["n_steps"]))
    return max(_BATCH, math.ceil(rate * n))
