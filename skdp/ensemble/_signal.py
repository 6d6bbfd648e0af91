"""Noise against signal of boosted trees, from the public facts of a fit."""

from __future__ import annotations

import math

from skdp._forecast import Signal
from skdp.ensemble._newton_boosting import NewtonBoosting
from skdp.ensemble._task import BoostingTask
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import LAWS, deviation_once

# Leaves of the coarsest tree that would tell anything.
_LEAVES = 8
# Columns that may share the trees without a loss that shows; more of them divide the
# trees, and noise counts with the root of their number over this. With 23 and 40
# columns and ratios of 0.78 and 0.58 without that factor models had no skill.
_COLUMNS = 8
# Of the two-sided derivative of a loss by a raw prediction, where that tells nothing.
_CURVATURE = {"logistic": 0.25, "squared": 1.0, "poisson": 1.0, "quantile": 1.0}
_SCALE = {
    "logistic": 1.0,
    "softmax": 1.0,
    "squared": 1 / 3,
    "poisson": 1 / 3,
    "quantile": 1 / 3,
}
# Up to which ratio models are close to those without privacy, and from which on noise
# leaves a constant one (docs/boosting.md).
_LITTLE_TO, _CONSTANT_FROM = 0.01, 1.0


def signal_of(solver: NewtonBoosting, task: BoostingTask, budget: Budget) -> Signal:
    """Noise in a leaf of a tree that has the whole budget, for a finite epsilon."""
    deviation = deviation_once(LAWS["gaussian"], budget, 1)
    k = task.n_outputs
    curvature = _CURVATURE.get(task.loss, (k - 1) / k**2)
    curvature *= task.facts.typical_weight
    noise = solver.terms(task).bound().under(task.adjacency) * deviation
    noise *= math.sqrt(max(1.0, len(task.columns.n_bins) / _COLUMNS))
    return Signal(
        coefficient_noise=noise * _LEAVES / (task.n_samples * curvature),
        coefficient_scale=_SCALE[task.loss],
        n_records=task.n_samples,
        little_to=_LITTLE_TO,
        constant_from=_CONSTANT_FROM,
    )
