"""How far one record can move the weights of permutation-based gradient descent.

The exact recursion over the updates; no closed form of the literature is used
(``docs/proofs/bolt_on.md``, Theorem 1; what the closed forms miss: ``docs/errata.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.solvers._base import FloatArray

_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Updates:
    """Public facts of a run that its sensitivity depends on.

    Parameters
    ----------
    steps : ndarray of shape (n_passes, updates_per_pass)
        Step sizes.
    shares : ndarray, same shape
        Weights, of sum 1, with which the iterates enter the release.
    batch_size : int
        What every sum of gradients is divided by, however short the batch.
    smoothness, strength : float
        Bounds on the curvature of every record's regularised loss, from above and
        from below.
    reshuffle : bool, default=False
        Whether every pass takes a new order, so that a record may meet the
        most sensitive update of each.
    """

    steps: FloatArray
    shares: FloatArray
    batch_size: int
    smoothness: float
    strength: float
    reshuffle: bool = False


@dataclass(frozen=True)
class Rounding:
    """Bounds on what floating point adds to one update.

    Parameters
    ----------
    of_gradient : float
        Error of a mean gradient, in its norm.
    of_weights : float
        Error of the rest of an update, in the norm of the weights.
    of_average : float
        Error of the sum of the averaged iterates.
    """

    of_gradient: float = 0.0
    of_weights: float = 0.0
    of_average: float = 0.0


def exact_sensitivity(
    updates: Updates,
    change: float,
    *,
    radius: float = math.inf,
    rounding: Rounding | None = None,
) -> float:
    """Bound on the L2 distance of the averaged weights of two neighbours.

    Exact for linear losses: attained for every schedule, batch size and average.

    Parameters
    ----------
    updates : Updates
    change : float
        By how much exchanging one record can change a sum of gradients of the data at
        any weights; the regulariser is no part of it.
    radius : float in (0, inf], default=inf
        Of the ball to which every iterate is projected.
    rounding : Rounding or None, default=None
        None: exact arithmetic.

    Returns
    -------
    float
        Under the adjacency that `change` was taken for.
    """
    # Imported here, because numba takes half a second to import.
    from skdp.solvers._permutation_kernel import what_is_left

    steps, shares = updates.steps, updates.shares
    left = what_is_left(
        steps.ravel(), shares.ravel(), updates.smoothness, updates.strength
    ).reshape(steps.shape)
    met = change / updates.batch_size * steps * left
    if updates.reshuffle:
        total = float(met.max(axis=1).sum())
    else:
        total = float(met.sum(axis=0).max())
    if rounding is not None:
        errors = steps * rounding.of_gradient + rounding.of_weights
        total += 2 * (float(np.vdot(left, errors)) + rounding.of_average)
        # The recursion's own rounding.
        total *= 1 + (8 * steps.size + 64) * _UNIT_ROUNDOFF
    return min(total, 2 * radius * (1 + 1e-9))
