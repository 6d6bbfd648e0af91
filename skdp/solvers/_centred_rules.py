"""What a descent on centred rows of declared columns expects, and how it is chosen.

Public facts only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from skdp._floats import FloatArray
from skdp.losses import Loss
from skdp.objectives import Expected, LinearObjective
from skdp.privacy import Budget
from skdp.solvers._auto import FEW_STEPS
from skdp.solvers._base import Solver
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gd import NoisyGD

# Deviation of the noise in a share of the records that is worth paying for.
_WANTED = 0.01
_LEAST_SHARE, _MOST_SHARE = 0.002, 0.1
# Below this strength over the root of the columns nothing is released.
_WORTH_RELEASING = 120.0
# Noise in a unit row's prediction at which a descent stops, over the default: less,
# since centred rows spend none of it on what all rows share.
_ADMITTED, _ADMITTED_SQUARED = 0.5, 0.35
# Deviation of what is to be learned, in units of the loss; of decisions the more the
# sharper answers about the weights are, which take back what was too much.
_SIGNAL, _FAR_MORE, _MOST_SIGNAL = 1.5, 100.0, 3.0
_SIGNAL_SQUARED = 0.5
# With several outputs from this strength on.
_WORTH_SEVERAL, _ADMITTED_SEVERAL = 100.0, 1.0
_LEAST_DIRECTION = 1e-6
# By how much less rows spread in directions that columns leave which go together.
_TOGETHER = 30.0
# Intervals of the finest level of a curve, below so many records times mu in tables of
# so many columns; with more columns each has a smaller part of a row's norm.
_COLUMNS = 10
_INTERVALS = ((250.0, 4), (875.0, 8), (3_000.0, 16), (10_500.0, 32), (math.inf, 64))


def curve_intervals(strength: float, n_columns: int) -> int:
    """How fine the noise of a budget lets curves of so many columns be."""
    size = strength * _COLUMNS / n_columns
    return next(count for below, count in _INTERVALS if size <= below)


def spectrum_of(parts: Iterable[FloatArray]) -> tuple[float, ...]:
    """Shares of rows' squared norm in orthogonal directions, were columns even.

    Columns that go together leave other directions, in which rows hardly spread: as
    many of them are taken to be there.

    Parameters
    ----------
    parts : iterable of ndarray of shape (n_states, n_features)
        The features of the states of which a record is in one.
    """
    found = []
    for part in parts:
        centred = part - part.mean(axis=0)
        found.append(np.linalg.svd(centred, compute_uv=False) ** 2 / len(part))
    shares = np.concatenate(found)
    shares = shares[shares > _LEAST_DIRECTION * shares.max()]
    shares = np.concatenate([shares, shares / _TOGETHER])
    return tuple((shares / shares.sum()).tolist())


def expected_of(loss: Loss, strength: float, spectrum: tuple[float, ...]) -> Expected:
    """Of centred rows at n mu of so much."""
    if loss.n_outputs > 1:
        several = strength >= _WORTH_SEVERAL
        return Expected(noise=_ADMITTED_SEVERAL if several else _ADMITTED)
    if loss.form.moves_with_targets:
        return Expected(
            noise=_ADMITTED_SQUARED, signal=_SIGNAL_SQUARED, spectrum=spectrum
        )
    signal = min(_SIGNAL + strength / _FAR_MORE, _MOST_SIGNAL)
    return Expected(noise=_ADMITTED, signal=signal, spectrum=spectrum)


def share_of_states(
    strength: float, n_parts: int, n_columns: int, n_intervals: int
) -> tuple[float, bool]:
    """Of mu squared, for the first release, and whether it is of the columns."""
    wanted = (n_parts + (n_intervals > 0)) / (_WANTED * strength) ** 2
    if wanted <= _MOST_SHARE or strength >= _WORTH_RELEASING * math.sqrt(n_columns):
        return min(max(wanted, _LEAST_SHARE), _MOST_SHARE), True
    if not n_intervals:
        return 0.0, False
    return min(max(1 / (_WANTED * strength) ** 2, _LEAST_SHARE), _MOST_SHARE), False


def by_rule(objective: LinearObjective, budget: Budget) -> Solver:
    """The solver of gradients for centred rows, planned."""
    rule = FlowTime.of(objective, budget)
    clip, weight = rule.clip_and_weight(None, None)
    steps = rule.wanted_steps(rule.flow(clip, weight))
    is_accelerated = objective.loss.n_outputs == 1 and objective.loss.is_convex
    if is_accelerated and steps < FEW_STEPS:
        return Nesterov.planned({}, objective, budget)
    return NoisyGD.planned({}, objective, budget)
