"""How far one record can move the weights of permutation-based gradient descent.

The exact recursion over the updates; no closed form of the literature is used
(``docs/proofs/bolt_on.md``, Theorem 1; what the closed forms miss: ``docs/errata.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray
from skdp.objectives._linear import LinearObjective
from skdp.papers._permutation_recursion import what_is_left

# How far a computed projection, or an average of such, may be outside of the ball.
_PROJECTION = 1 + 1e-7
# Updates from which on compiled code makes up for the time to load it.
_WORTH_COMPILING = 10_000


@dataclass(frozen=True)
class Updates:
    """Public facts of a run.

    `steps`, of shape (n_passes, updates_per_pass), are step sizes; `shares`, of sum 1,
    weights with which the iterates enter the release. Every sum of gradients is divided
    by `batch_size`, however short the batch; every iterate is projected to the ball of
    `radius`.
    """

    steps: FloatArray
    shares: FloatArray
    batch_size: int
    radius: float = math.inf


@dataclass(frozen=True)
class Rounding:
    """Bounds on what floating point adds.

    It adds `of_gradient` to a mean gradient, in its norm, `of_weights` to the rest of
    one update, in the norm of the weights, and `of_average` to the sum of the averaged
    iterates.
    """

    of_gradient: float = 0.0
    of_weights: float = 0.0
    of_average: float = 0.0


def exact_sensitivity(
    updates: Updates,
    change: float,
    *,
    smoothness: float,
    strength: float,
    reshuffle: bool = False,
    rounding: Rounding | None = None,
) -> float:
    """Bound on the L2 distance of the averaged weights of two neighbours.

    Attained by linear losses for every schedule, batch size and average.

    Parameters
    ----------
    change : float
        By how much exchanging one record can change a sum of gradients of the data at
        any weights; the regulariser is no part of it.
    smoothness, strength : float
        Bounds on the curvature of every record's regularised loss, from above and
        from below.
    reshuffle : bool, default=False
        Whether every pass takes a new order, so that a record may meet the most
        sensitive update of each.
    rounding : Rounding or None, default=None
        None: exact arithmetic.

    Returns
    -------
    float
        Under the adjacency that `change` was taken for.
    """
    steps, loop = updates.steps, what_is_left
    if steps.size >= _WORTH_COMPILING:
        # Imported here, because numba takes half a second to import.
        from skdp.papers._permutation_kernel import compiled_what_is_left as loop
    with np.errstate(over="ignore", invalid="ignore"):  # refused steps
        left = loop(steps.ravel(), updates.shares.ravel(), smoothness, strength)
    left = left.reshape(steps.shape)
    met = change / updates.batch_size * steps * left
    if reshuffle:
        total = float(met.max(axis=1).sum())
    else:
        total = float(met.sum(axis=0).max())
    if rounding is not None:
        errors = float(np.vdot(left, steps)) * rounding.of_gradient
        errors += float(left.sum()) * rounding.of_weights
        total += 2 * (errors + rounding.of_average)
        # The recursion's own rounding.
        total *= 1 + (8 * steps.size + 64) * UNIT_ROUNDOFF
    return min(total, 2 * updates.radius * _PROJECTION)


def farthest_iterate(updates: Updates, objective: LinearObjective) -> float:
    """Bound on the norm of every iterate (proof page, Lemma 2)."""
    steps = updates.steps
    gradient = objective.row_norm * objective.loss.zero_out_bound(math.inf)
    farthest = float(steps.sum()) * gradient
    if objective.alpha > 0 and float(steps.max()) * objective.alpha <= 1:
        farthest = min(farthest, gradient / objective.alpha)
    return min(1.01 * farthest, updates.radius * _PROJECTION)


def rounding_of(
    updates: Updates, objective: LinearObjective, farthest: float
) -> Rounding:
    """What floating point adds, at iterates within `farthest` (proof page, Lemma 4)."""
    d, size = objective.n_columns, objective.n_columns * objective.loss.n_outputs
    norm = objective.row_norm
    record = norm * objective.loss.zero_out_bound(math.inf)
    summed = (updates.batch_size + d + objective.loss.n_outputs + 64) * record
    raw = norm * farthest + 2 * objective.loss.raw_unit
    moved = objective.loss.smoothness * norm * (2 * d + 32) * raw
    kept = 2.0 if objective.alpha == 0 else 8.0
    if math.isfinite(updates.radius):
        kept += size + 16
    is_average = float(updates.shares.max()) < 1
    averaged = updates.steps.size + 2.0 if is_average else 0.0
    return Rounding(
        of_gradient=UNIT_ROUNDOFF * (summed + moved),
        of_weights=UNIT_ROUNDOFF * kept * farthest,
        of_average=UNIT_ROUNDOFF * averaged * farthest,
    )
