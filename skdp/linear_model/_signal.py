r"""Noise against signal of linear models, from the public facts of an objective.

Rows are taken to spread evenly over all directions and targets to be explained well,
so that a model is not said to be hopeless that is not.
"""

from __future__ import annotations

import math

from skdp._forecast import Signal
from skdp.losses import SquaredLoss
from skdp.losses._base import Loss
from skdp.losses._weighted import typical_curvature
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import LAWS, deviation_once
from skdp.queries._gradient_sum import sensitivity_for_rules
from skdp.solvers._auto import FEW_MOMENTS
from skdp.solvers._centred_descent_rules import (
    least_strength,
    pure_strength_of,
)
from skdp.solvers._strength import strength_of

# Ratios from which on noise leaves a constant model (benchmarks/dominating_noise.py).
# Which features are found is decided sooner than what their coefficients are. For
# delta = 0 solvers stop no sooner where noise is large: benchmarks/hard_edges.py.
_DENSE, _PURE, _SPARSE = 10.0, 4.0, 3.0
# The same of squared errors with delta = 0, by second moments and by one minimisation:
# of ccpp, protein_casp and wine_quality_white (declared columns, 300 to 10,000 records)
# weights were better than the constant below 1.1 and 0.6, and worse from 3.2 and 1.7
# on (benchmarks/hard_edges.py squares).
_PURE_MOMENTS, _PURE_SQUARES = 2.0, 0.6
# Strength at which noise counts as much as signal: at 2,000, where by this there is
# little noise, tables of declared columns come close to models without privacy.
_ALIKE = 600.0
# Strength at which half of what a model without privacy gains is reached, over the
# strength below which the constant is taken: 140 with one output. Settled on the six
# tables of the default (benchmarks/forecast_score.py): with 100 or 200 the mean error
# of a score is .120 or .130, with 140 .116. A second constant, an exponent, lowers it
# to .114, and the number of columns does not.
_HALF = 2.8


def signal_of(objective: LinearObjective, budget: Budget) -> Signal:
    """Noise and scale of a coefficient, for a finite epsilon."""
    if objective.n_nonzero is None:
        return _dense(objective, budget)
    return _sparse(objective, objective.n_nonzero, budget)


def signal_of_centred(objective: LinearObjective, budget: Budget) -> Signal:
    """The same of the default for declared columns: its strength says it all."""
    unit = objective.loss.raw_unit
    strength = strength_of(objective.n_telling, budget, objective.adjacency)
    return Signal(
        coefficient_noise=unit * _ALIKE / strength,
        coefficient_scale=unit,
        n_records=objective.n_samples,
        constant_from=_ALIKE / least_strength(objective.loss),
    )


def half_at(signal: Signal) -> float:
    """Noise over scale at which half of the gain is reached, of the default."""
    return signal.constant_from / _HALF


def _dense(objective: LinearObjective, budget: Budget) -> Signal:
    loss, data_norm = objective.loss, objective.data_norm
    size = objective.n_columns * loss.n_outputs
    law = LAWS["spherical" if budget.delta == 0 else "gaussian"]
    deviation = deviation_once(law, budget, size)
    curvature = _curvature(loss) * data_norm**2 / objective.n_features
    noise = _sensitivity(objective) * deviation / (objective.n_samples * curvature)
    scale = loss.raw_unit / data_norm
    line = _DENSE if budget.delta > 0 else _PURE
    if budget.delta == 0 and isinstance(loss, SquaredLoss):
        is_few = objective.n_features <= FEW_MOMENTS
        line = _PURE_MOMENTS if is_few else _PURE_SQUARES
    if budget.delta == 0:
        # However few the columns are, a count has noise too.
        few = least_strength(loss) / pure_strength_of(objective, budget)
        noise = max(noise, line * few * scale)
    return Signal(
        coefficient_noise=noise,
        coefficient_scale=scale,
        n_records=objective.n_samples,
        constant_from=line,
    )


def _sparse(objective: LinearObjective, k: int, budget: Budget) -> Signal:
    r"""The largest noise in d features against k of them that matter alike.

    With entries of size e in every row, ``w = unit / (e sqrt(k))`` for each of them,
    and its gradient is ``n h w e^2``. The noise of one query is that of an entry times
    sqrt(k) for k selections, or of a row of m entries: sqrt(m) times as much.
    """
    loss, d = objective.loss, objective.n_features
    is_pure = budget.delta == 0
    level = 2 * math.log(d + 1)
    if is_pure:  # selections add up, and share epsilon with the values
        spread, deviation = k * level, 1 / budget.epsilon
    else:
        entries = min(objective.full_entries, d)
        spread = math.sqrt(min(entries, k) * level)
        deviation = deviation_once(LAWS["gaussian"], budget, 1)
    entry = objective.entry_bound
    record = _sensitivity(objective) / objective.data_norm
    curvature = _curvature(loss)
    noise = record * deviation * spread / (objective.n_samples * curvature)
    return Signal(
        coefficient_noise=noise / entry,
        coefficient_scale=loss.raw_unit / (entry * math.sqrt(k)),
        n_records=objective.n_samples,
        constant_from=_SPARSE,
    )


def _curvature(loss: Loss) -> float:
    """Of a record, on average; of numbers at most 1, however sharp a kink may be."""
    bend = typical_curvature(loss)
    return min(bend, 1.0) if loss.form.is_of_numbers else bend


def _sensitivity(objective: LinearObjective) -> float:
    """Of one sum of gradients, with the clip of residuals that noise calls for.

    Squared residuals count with their bound: solvers clip them further, but lose as
    much of large targets as they save in noise.
    """
    loss = objective.loss
    clip = math.inf if isinstance(loss, SquaredLoss) else loss.noisy_clip
    return sensitivity_for_rules(objective, clip)
