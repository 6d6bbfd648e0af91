"""Where trees of counts or of a quantile start: a histogram of targets, and a sum.

Other losses start where linear models do (`skdp.solvers._target_base`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skdp._floats import FloatArray
from skdp.ensemble._scale import Scale
from skdp.ensemble._task import BoostingTask
from skdp.privacy._answers import Released
from skdp.queries._leaf_sums import LeafTerms
from skdp.queries._state_sums import StateSums, even_knots
from skdp.solvers._margins import quantiles, shrunk_margins, target_scale
from skdp.solvers._strength import share_for
from skdp.solvers._target_base import (
    MEAN_OF_COUNTS,
    posterior_share,
)

# Prior deviation of the share below a quantile of the histogram.
_DEVIATION = 0.3
# Knots of the histogram of targets: with more of them what noise leaves at far knots
# hides the rest.
_INTERVALS = 32
# Units that a target is farther from the middle than counts for the mean.
_FARTHEST = 1.5
# A unit, which is two deviations, over the half of a width that holds three.
_UNIT = 2 / 3
# Deviation of the noise in a share of targets that is wanted, and shares of mu^2.
_WANTED, _LEAST, _MOST = 0.01, 0.002, 0.1


@dataclass(frozen=True)
class Spread:
    """Where targets are, and a unit of about two deviations; released, or public."""

    middle: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, released: Released, n_samples: int) -> Spread:
        """Of noisy sums of targets at knots."""
        noisy, noise = released.value / n_samples, released.deviation / n_samples
        middle, half = target_scale(noisy, noise)
        return cls(middle, min(_UNIT * half, 1.0))

    def at(self, level: float, released: Released, n_samples: int) -> Spread:
        """The same with a quantile for the middle."""
        noisy, noise = released.value / n_samples, released.deviation / n_samples
        (middle,) = quantiles(shrunk_margins(noisy, noise), (level,))
        return replace(self, middle=middle)


def target_sums(n_samples: int) -> StateSums:
    """The query for a histogram of the targets."""
    return StateSums(0, n_samples, 0, even_knots(_INTERVALS))


def share_of_targets(signal: float) -> float:
    """Of mu^2 for n mu of so much, for the histogram."""
    return share_for(_WANTED, signal, _LEAST, _MOST)


def start_terms(task: BoostingTask, unit: float = 1.0) -> LeafTerms:
    """What a record adds to the start: of counts as of the squared loss, for a mean."""
    if task.loss == "quantile":
        level = task.facts.level
        return LeafTerms(task.loss, 1, max(level, 1 - level), 0.0, task.facts)
    return LeafTerms("squared", task.n_outputs, min(_FARTHEST * unit, 1.0), 0.0)


def start_from(task: BoostingTask, spread: Spread, released: Released) -> FloatArray:
    """Raw predictions of everybody, from the sums of all residuals at the middle."""
    n, facts = task.n_samples, task.facts
    noise = released.deviation / n
    residual = -released.value[0, :1] / n
    if task.loss == "quantile":
        kept = _DEVIATION**2 / max(_DEVIATION**2 + noise**2, 1e-300)
        step = Scale.of(task, spread.unit, residual).step
        moved = spread.middle + step * kept * residual
        return np.asarray(np.clip(moved, -1.0, 1.0))
    most = facts.farthest
    (mean,) = spread.middle + residual + facts.origin
    share = posterior_share(float(mean) / most, noise / most, MEAN_OF_COUNTS)
    return np.asarray(np.log(np.clip([most * share], 0.5 / n, most)))
