"""What ``solver="auto"`` does with rows that are not centred; the rules.

Noise that a table wants and who learns nothing can bear, targets that are scaled first,
and weights that are shrunk to what they are worth. Public facts only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from skdp._configured import Given
from skdp.losses._weighted import typical_curvature
from skdp.objectives import Expected, LinearObjective
from skdp.privacy import Budget
from skdp.solvers._auto import Chosen, first_that_can
from skdp.solvers._budget_parts import part_of
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._scaled_targets import ScaledTargets
from skdp.solvers._shrunken import Shrunken
from skdp.solvers._strength import (
    TARGET_INTERVALS,
    is_worth_asking,
    share_of_gains,
    share_of_targets,
    strength_of,
)

Rule = Callable[[LinearObjective, Budget], Chosen]

# From this strength on a descent stops where tables want it; sooner below it, where a
# table without any signal would otherwise lose more than answers can tell.
# It is so much times the fourth root of the number of features.
_FULL = 35.0
# Where there are as many features as records, texts above all, rows lie in few
# directions or cannot be learned: less noise is better for both.
_WIDE = 0.5
_SQUARED = 0.7


def is_free(objective: LinearObjective, budget: Budget) -> bool:
    """Whether weights may be shrunk, and rows and targets moved: nobody asked more."""
    is_plain = objective.alpha == 0 and objective.n_nonzero is None
    return is_plain and objective.fit_intercept and budget.delta > 0


def as_they_come(
    objective: LinearObjective, budget: Budget, *, has_ledger: bool = False
) -> Chosen:
    """The solver for rows as they are, planned.

    Raises `Refused` if no solver can do it.
    """
    if not is_free(objective, budget):
        return first_that_can(objective, budget, has_ledger=has_ledger)
    strength = strength_of(objective.n_telling, budget, objective.adjacency)
    rule = partial(first_that_can, has_ledger=has_ledger)
    noise = _noise(objective, strength)
    if not objective.loss.form.moves_with_targets:
        objective = replace(objective, expected=Expected(noise=noise))
        return tried(rule, objective, budget, strength)
    noise = _SQUARED * noise**2
    objective = replace(objective, expected=Expected(noise=noise))
    if not is_worth_asking(strength):
        return rule(objective, budget)
    share = share_of_targets(strength)
    inner = tried(rule, objective, part_of(budget, 1 - share), strength)
    facts: Given = {
        "inner": inner.solver,
        "share": share,
        "n_intervals": TARGET_INTERVALS,
    }
    return Chosen(ScaledTargets.planned(facts, objective, budget), inner.reason)


def _noise(objective: LinearObjective, strength: float) -> float:
    """Admitted in a unit row's prediction, over what tables want."""
    noise = min(1.0, strength / (_FULL * objective.n_features**0.25))
    is_wide = objective.n_features >= objective.n_samples
    return float(_WIDE * noise if is_wide else noise)


def tried(
    rule: Rule,
    objective: LinearObjective,
    budget: Budget,
    strength: float,
    *,
    flattens: bool = True,
) -> Chosen:
    """What a rule chooses, shrunk to what it is worth where that can be asked.

    `strength` is that of the whole budget.
    """
    share = share_of_gains(strength)
    chosen = rule(objective, part_of(budget, 1 - share) if share else budget)
    if not share or not chosen.solver.adds_in_squares({}):
        return rule(objective, budget)
    facts: Given = {
        "inner": chosen.solver,
        "share": share,
        "leverage": leverage(objective, budget),
        "flattens": flattens,
    }
    reason = f"{chosen.reason}; shrunk to what the weights are worth"
    return Chosen(Shrunken.planned(facts, objective, budget), reason)


def leverage(objective: LinearObjective, budget: Budget) -> float:
    r"""Part that a record's own residual has in its raw prediction after a descent.

    Of a direction of curvature h a share of ``1 - exp(-h s)`` is learned in a flow time
    s, and a record's part in it is one in n. Rows are taken to spread evenly where
    nothing is expected of them.
    """
    loss, rule = objective.loss, FlowTime.of(objective, budget)
    flow = rule.flow(*rule.clip_and_weight(None, None))
    even = np.full(objective.n_features, 1 / objective.n_features)
    spread = np.array(objective.expected.spectrum or even) * objective.data_norm**2
    bend = typical_curvature(loss)
    learned = float(np.sum(-np.expm1(-bend * spread * flow)))
    return learned / (bend * objective.n_samples)
