"""Where boosting starts: one released sum, after a histogram of targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp._floats import FloatArray
from skdp.data import TargetScale
from skdp.ensemble._scale import Scale
from skdp.ensemble._task import BoostingTask
from skdp.privacy._answers import Released
from skdp.queries._leaf_sums import LeafTerms
from skdp.queries._state_sums import StateSums, even_knots
from skdp.solvers._margins import quantiles, shrunk_margins, target_scale
from skdp.solvers._strength import TARGET_INTERVALS
from skdp.solvers._target_base import (
    MEAN_OF_COUNTS,
    posterior_share,
)
from skdp.solvers._worth import share_for

# Prior deviations of a mean of targets, over their unit, and of the share below a
# quantile of the histogram.
_DEVIATION = {"squared": 0.5, "quantile": 0.3}
# Deviations of the noise from which on a share of a class, or a mean of targets, is
# anything but noise, and from which on it is what it says.
_KNOWN_OF_CLASSES, _KNOWN_OF_TARGETS = (2.0, 4.0), (3.0, 5.0)
# Units that a target is farther from the middle than counts for the mean.
_FARTHEST = 1.5
# A unit, which is two deviations, over the half of a width that holds three.
_UNIT = 2 / 3
# Deviation of the noise in a share of targets that is wanted, and shares of mu^2.
_WANTED, _LEAST, _MOST = 0.01, 0.002, 0.1


@dataclass(frozen=True)
class Spread:
    """Where targets are, and a unit of about two deviations; released, or public.

    `targets` is what they are scaled by for a linear model, None: by nothing.
    """

    middle: float = 0.0
    unit: float = 1.0
    targets: TargetScale | None = None

    @classmethod
    def of(cls, released: Released, n_samples: int) -> Spread:
        """Of noisy sums of targets at knots."""
        noisy, noise = released.value / n_samples, released.deviation / n_samples
        found = target_scale(noisy, noise)
        return cls(found.middle, min(_UNIT * found.half, 1.0), found)

    def at(self, level: float, released: Released, n_samples: int) -> Spread:
        """The same with a quantile for the middle."""
        noisy, noise = released.value / n_samples, released.deviation / n_samples
        (middle,) = quantiles(shrunk_margins(noisy, noise), (level,))
        return replace(self, middle=middle)


def target_sums(n_samples: int) -> StateSums:
    """The query for a histogram of the targets."""
    return StateSums(0, n_samples, 0, even_knots(TARGET_INTERVALS))


def share_of_targets(signal: float) -> float:
    """Of mu^2 for n mu of so much, for the histogram."""
    return share_for(_WANTED, signal, _LEAST, _MOST)


def start_terms(task: BoostingTask, unit: float = 1.0) -> LeafTerms:
    """What a record adds to the start; at raw predictions of 0 no class is clipped.

    Records of all labels alike: their weights are known. Of counts the mean is asked
    for, as of the squared loss.
    """
    loss, n_outputs = task.loss, task.n_outputs
    if loss == "quantile":
        level = task.facts.level
        return LeafTerms(loss, 1, max(level, 1 - level), 0.0, task.facts)
    if loss == "logistic":
        return LeafTerms(loss, n_outputs, 0.5, 0.0)
    if loss == "softmax":
        return LeafTerms(loss, n_outputs, math.sqrt(1 - 1 / n_outputs), 0.0)
    return LeafTerms("squared", n_outputs, min(_FARTHEST * unit, 1.0), 0.0)


def start_from(task: BoostingTask, spread: Spread, released: Released) -> FloatArray:
    """Raw predictions of everybody, from the sums of all residuals at the middle."""
    n, facts = task.n_samples, task.facts
    found = start_of(start_terms(task, spread.unit), released, n)
    if task.loss == "quantile":
        step = Scale.of(task, spread.unit, found).step
        return np.asarray(np.clip(spread.middle + step * found, -1.0, 1.0))
    if task.loss == "poisson":
        most, noise = facts.farthest, released.deviation / n
        (mean,) = spread.middle + found + facts.origin
        share = posterior_share(float(mean) / most, noise / most, MEAN_OF_COUNTS)
        return np.asarray(np.log(np.clip([most * share], 0.5 / n, most)))
    if task.loss == "squared":
        mean = spread.middle + found
        return mean * _kept(mean, released.deviation / n, _KNOWN_OF_TARGETS)
    return np.asarray(spread.middle + found)


def start_of(terms: LeafTerms, released: Released, n_samples: int) -> FloatArray:
    """Raw predictions of everybody, from the sums of all residuals at 0."""
    k, noise = terms.n_outputs, released.deviation / n_samples
    mean = -released.value[0, :k] / n_samples
    mean = mean - mean.mean() if k > 1 else mean
    if terms.loss == "logistic":
        mean = mean * _kept(mean, noise, _KNOWN_OF_CLASSES)
    else:
        found = max(float((mean**2).mean()) - noise**2, 0.0)
        variance = _DEVIATION[terms.loss] ** 2 if k == 1 else found
        mean = mean * (variance / max(variance + noise**2, 1e-300))
    if terms.loss in ("squared", "quantile"):
        return mean
    least = min(max(noise, 0.5 / n_samples), 1 / max(k, 2))
    if terms.loss == "logistic":
        share = np.clip(0.5 + mean, least, 1 - least)
        return np.asarray(np.log(share) - np.log1p(-share))
    shares = np.maximum(1 / k + mean, least)
    logs = np.log(shares / shares.sum())
    return np.asarray(logs - logs.mean())


def _kept(mean: FloatArray, noise: float, known: tuple[float, float]) -> FloatArray:
    """Of a mean of one number: nothing near 0, and from where it is known all of it.

    What nobody paid for, even classes or the middle of the bounds, is there otherwise.
    """
    none, all_of_it = known
    if noise == 0:
        return np.ones_like(mean)
    size = np.maximum(np.abs(mean) / noise, 1e-300)
    rising = (size - none) / (all_of_it - none) * all_of_it / size
    return np.asarray(np.clip(rising, 0.0, 1.0))
