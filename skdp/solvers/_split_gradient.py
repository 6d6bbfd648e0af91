"""Noisy gradient sums of the features and of the intercept, in queries of their own.

The intercept is one weight of large curvature: a few per cent of the budget find it, at
new weights of the features as often as they change. Asked beside d features it would
make every row longer, and answer for weights that the same step replaces. Proofs:
``docs/proofs/iht.md``.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._floats import FloatArray
from skdp.data import Source
from skdp.objectives import LinearObjective
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseSource
from skdp.queries._gradient_sum import GradientSum, rounding_slack


def split_sensitivity(
    objective: LinearObjective, residual_clip: float, weights_norm: float = math.inf
) -> float:
    """L2 sensitivity of either query at public weights, in exact arithmetic.

    Parameters
    ----------
    objective : LinearObjective
    residual_clip : float in (0, inf]
        Norm to which every record's residual is clipped.
    weights_norm : float in [0, inf], default=inf
        Spectral norm of the released weights, the intercept's included.

    Returns
    -------
    float
        Under ``objective.adjacency``: Lemma 1 of ``docs/proofs/iht.md``.
    """
    one_record = objective.data_norm * min(
        objective.loss.zero_out_bound(objective.row_norm * weights_norm), residual_clip
    )
    return {"zero_out": 1.0, "replace_one": 2.0}[objective.adjacency] * one_record


class SplitGradient:
    """Releases parts of gradient sums with Gaussian noise; each call is one query.

    Parameters
    ----------
    source : Source
        Private.
    objective : LinearObjective
        Its adjacency is the one that the sensitivity is taken under.
    noise : NoiseSource
    residual_clip : float in (0, inf]
        Norm to which every record's residual is clipped.
    """

    def __init__(
        self,
        source: Source,
        objective: LinearObjective,
        noise: NoiseSource,
        residual_clip: float,
    ) -> None:
        self._objective, self._noise = objective, noise
        self._clip, self._largest_block = residual_clip, source.largest_block
        self._sum = GradientSum(source, objective, residual_clip)
        self.noise_scale = 0.0  # largest standard deviation so far

    def of_features(
        self, weights: FloatArray, noise_multiplier: float
    ) -> tuple[FloatArray, float]:
        """The features' rows of the noisy sum, and the noise's deviation."""
        total = self._sum(weights)[: self._objective.n_features]
        return self._release(total, weights, noise_multiplier)

    def of_intercept(self, weights: FloatArray, noise_multiplier: float) -> FloatArray:
        """The intercept's row of the noisy sum, of shape (1, n_outputs)."""
        total = self._sum.of_intercept(weights)
        return self._release(total, weights, noise_multiplier)[0]

    def _release(
        self, total: FloatArray, weights: FloatArray, noise_multiplier: float
    ) -> tuple[FloatArray, float]:
        sensitivity = split_sensitivity(
            self._objective,
            self._clip,
            float(np.linalg.norm(weights, 2)),
        )
        sensitivity += rounding_slack(
            self._objective,
            self._largest_block,
            float(np.linalg.norm(weights)),
        )
        law = LAWS["gaussian"]
        released = law.release(self._noise, total, sensitivity, noise_multiplier)
        sigma = law.scale(sensitivity, noise_multiplier, total.size).sigma
        self.noise_scale = max(self.noise_scale, sigma)
        return released, sigma
