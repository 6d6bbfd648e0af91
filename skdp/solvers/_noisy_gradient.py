"""The noisy gradient query that every iterative solver asks.

One release of the gradient sum at released weights: clipped rows and residuals, a
weighted intercept, the sensitivity *at these weights* plus what floating point adds,
and noise of a given multiplier. Proofs: ``docs/proofs/noisy_gd.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.data import Source
from skdp.objectives import LinearObjective
from skdp.privacy._laws import NoiseLaw
from skdp.privacy._noise import NoiseSource
from skdp.queries._gradient_sum import GradientSum, query_sensitivity, rounding_slack

# Released weights are kept in a box of this size in units of 1 / data_norm, far beyond
# any useful model and far from overflow: predictions of finite rows stay finite.
_FARTHEST = 1e50


def farthest_weight(objective: LinearObjective) -> float:
    """Half the side of the box in which released weights are kept."""
    return _FARTHEST / objective.data_norm


def boxed(released: FloatArray, limit: float) -> FloatArray:
    """Post-processing that keeps a diverging run finite."""
    return np.clip(released, -limit, limit)


class NoisyGradient:
    """Releases gradient sums; each call is one noisy query.

    Parameters
    ----------
    source : Source
        Private.
    objective : LinearObjective
        Its adjacency is the one that the sensitivity is taken under.
    noise : NoiseSource
    law : NoiseLaw
        For an L2 sensitivity.
    residual_clip : float in (0, inf], default=inf
        Norm to which every record's residual is clipped.
    intercept_weight : float in (0, 1], default=1.0
        Factor on the intercept's part of every query, undone after the noise.
    """

    def __init__(
        self,
        source: Source,
        objective: LinearObjective,
        noise: NoiseSource,
        law: NoiseLaw,
        *,
        residual_clip: float = math.inf,
        intercept_weight: float = 1.0,
    ) -> None:
        self._objective, self._noise, self._law = objective, noise, law
        self._clip, self._intercept_weight = residual_clip, intercept_weight
        self._largest_block = source.largest_block
        self._sum = GradientSum(source, objective, residual_clip)
        self._shape = np.ones((objective.n_columns, 1))
        if objective.fit_intercept:
            self._shape[-1] = intercept_weight
        self.noise_scale = 0.0  # largest standard deviation so far

    def __call__(
        self,
        weights: FloatArray,
        noise_multiplier: float,
        rows: NDArray[np.int64] | None = None,
    ) -> FloatArray:
        """Noisy gradient sum at released weights; over the records `rows` if given."""
        counted = weights / self._shape
        norm = float(np.linalg.norm(counted, 2))
        length = float(np.linalg.norm(counted))  # what raw predictions err by
        # Which rows stand beside a chosen one is not public.
        moved = 1 if rows is None else self._objective.n_samples
        sensitivity = query_sensitivity(
            self._objective, self._clip, norm, self._intercept_weight
        )
        sensitivity += rounding_slack(
            self._objective, self._largest_block, length, moved
        )
        released = self._law.release(
            self._noise,
            self._shape * self._sum(weights, rows),
            sensitivity,
            noise_multiplier,
        )
        scale = self._law.scale(sensitivity, noise_multiplier, weights.size)
        self.noise_scale = max(self.noise_scale, scale.sigma)
        return released / self._shape
