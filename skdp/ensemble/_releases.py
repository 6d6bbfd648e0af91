"""Start, shares of codes and values of leaves from noisy sums; post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.ensemble._losses import MEANS, RULES, BoostingTask, Scale
from skdp.ensemble._trees import CodedColumns
from skdp.losses._regression import QuantileLoss, ShiftedPoissonLoss
from skdp.privacy.release._answers import Released
from skdp.solvers._default_rules import SideQuestion
from skdp.solvers._target_base import (
    MEAN_OF_COUNTS,
    posterior_share,
)
from skdp.sums._counts import CodeCounts, StateSums, even_knots
from skdp.sums._histogram import ReleasedHistogram
from skdp.sums._leaves import LeafTerms

# -------------------------------------------------------- Start of counts and quantiles
# A histogram of targets and a sum give it. Other losses start where linear models do
# (`skdp.solvers._target_base`).


# Prior deviation of the share below a quantile of the histogram.
_DEVIATION = 0.3
# Knots of the histogram of targets: with more knots, noise at far knots hides the rest.
_INTERVALS = 32
# Clip of a target's distance from the middle for the mean, in units.
_FARTHEST = 1.5
# A unit, which is two deviations, over half of a width that holds three.
_UNIT = 2 / 3
# The histogram of the targets; the noise is that in the proportion at a knot.
TARGETS = SideQuestion(0.01, 0.002, 0.1)


@dataclass(frozen=True)
class Spread:
    """Location of targets, and a unit of about two deviations; released or public."""

    middle: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, targets: ReleasedHistogram, level: float | None) -> Spread:
        """The spread of shares at knots; `level`: with a quantile as the middle."""
        middle, half = targets.middle_and_half()
        if level is not None:
            (middle,) = targets.quantiles(level)
        return cls(middle, min(_UNIT * half, 1.0))


def target_sums(n_samples: int) -> StateSums:
    """The query for a histogram of the targets."""
    return StateSums(0, n_samples, 0, even_knots(_INTERVALS))


def start_terms(task: BoostingTask, unit: float = 1.0) -> LeafTerms:
    """What a record adds to the start; counts use the squared loss, for a mean."""
    if isinstance(task.loss, QuantileLoss):
        return LeafTerms(task.loss, max(task.loss.sides), 0.0)
    return LeafTerms(MEANS, min(_FARTHEST * unit, 1.0), 0.0)


def start_from(task: BoostingTask, spread: Spread, released: Released) -> FloatArray:
    """Raw predictions of the start, from the sums of all residuals at the middle."""
    n, loss = task.n_samples, task.loss
    noise = released.deviation / n
    residual = -released.value[0, :1] / n
    if not isinstance(loss, ShiftedPoissonLoss):
        kept = _DEVIATION**2 / max(_DEVIATION**2 + noise**2, 1e-300)
        step = Scale.of(task, spread.unit, residual).step
        moved = spread.middle + step * kept * residual
        return np.asarray(np.clip(moved, -1.0, 1.0))
    most = loss.largest
    (mean,) = spread.middle + residual + loss.origin
    share = posterior_share(float(mean) / most, noise / most, MEAN_OF_COUNTS)
    return np.asarray(np.log(np.clip([most * share], 0.5 / n, most)))


# ---------------------------------------------- Shares of codes from their noisy counts
# Post-processing.


# Weight of equal shares in the shares of codes, at least, so that each may be cut.
_LEAST_EVEN = 0.05


def counts_of(columns: CodedColumns, *, of_all: bool = False) -> CodeCounts:
    """The query for the counts of all columns, or of ordered columns.

    Cuts of other columns do not depend on counts.
    """
    asked = tuple(j for j, is_so in enumerate(columns.is_ordered) if is_so or of_all)
    return CodeCounts(asked, tuple(columns.n_bins[j] for j in asked))


def shares_of(
    columns: CodedColumns, asked: CodeCounts, released: Released
) -> FloatArray:
    """Share of each code of each column; equal shares in columns without an order.

    Counts weigh less, the more their noise exceeds an equal share of the records.
    """
    noisy = ReleasedHistogram(released.value, released.deviation).split(asked.n_bins)
    by_column = dict(zip(asked.columns, noisy, strict=True))
    return np.concatenate(
        [
            _shares(by_column[j]) if is_ordered else np.full(size, 1 / size)
            for j, (size, is_ordered) in enumerate(
                zip(columns.n_bins, columns.is_ordered, strict=True)
            )
        ]
    )


def margins_of(
    asked: CodeCounts, released: Released, n_samples: int
) -> dict[int, FloatArray]:
    """Shares of the records with each code, by column."""
    noisy = ReleasedHistogram.of(released, n_samples).split(asked.n_bins)
    shares = (each.shares for each in noisy)
    return dict(zip(asked.columns, shares, strict=True))


def _shares(noisy: ReleasedHistogram) -> FloatArray:
    size = len(noisy.counts)
    above = np.maximum(noisy.counts, 0.0)
    total = max(float(above.sum()), 1.0)
    even = min(max(_LEAST_EVEN, noisy.deviation * size / total), 1.0)
    return np.asarray((1 - even) * above / total + even / size)


# ------------------------------------ LeafSteps: values of leaves from their noisy sums
# Post-processing.


# Least curvature over the deviation of its noise; a smaller one would give long steps.
_LEAST_CURVATURE = 0.5
# Learning rate below which the noise in steps averages out over many trees.
_AVERAGED = 0.1


class LeafSteps:
    """Shrunk Newton steps of tree after tree.

    With a learning rate below 1 a step is one of many that correct each other, so that
    the noise in it counts as that of an average. Steps that are still too bold are
    shrunk at the end, by the gain of all trees.

    Parameters
    ----------
    terms : LeafTerms
    learning_rate : float
    scale : Scale
    prior : float, default=1.0
        Factor of the prior variance of a step.
    """

    def __init__(
        self, terms: LeafTerms, learning_rate: float, scale: Scale, prior: float = 1.0
    ) -> None:
        self._terms, self._rate, self._scale = terms, learning_rate, scale
        rules = RULES[terms.loss.form]
        self._box = rules.box * scale.raw * learning_rate
        self._variance = prior * rules.variance * scale.raw**2
        # Noise is drawn afresh for each tree and so averages out; the sample does not.
        self._averaged = min(learning_rate / _AVERAGED, 1.0)
        self._curvature, self._noise = np.zeros(terms.n_outputs), 0.0

    @property
    def signal(self) -> FloatArray:
        """Curvature of all records over the noise in a leaf's sum: (n_outputs,).

        The mean over the trees so far; a record's step is in units of raw predictions.
        """
        total = np.maximum(self._curvature, 0.0)
        if len(total) > 1:
            total = total * (1 - total / max(total.sum(), 1e-300))
        noise = self._scale.step * self._terms.weight * self._noise
        return np.asarray(total / noise if noise > 0 else 0.0 * total)

    def next(
        self, released: Released, is_reached: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """Values and deviations of their noise, of shape (n_leaves, n_outputs).

        They are 0 in leaves that no record can reach.
        """
        noise = released.deviation
        k = self._terms.n_outputs
        self._curvature += released.value[is_reached, k:].sum(axis=0)
        self._noise += noise
        sums, curvature = self._read(released.value[is_reached], noise)
        step = self._scale.step
        doubt = self._scale.sampling * curvature
        explained = doubt + self._averaged * (step * noise) ** 2
        spread = curvature**2 * self._variance + explained
        factor = self._rate * curvature * self._variance / spread
        shape = (len(is_reached), self._terms.n_outputs)
        values, deviations = np.zeros(shape), np.zeros(shape)
        values[is_reached] = np.clip(-factor * step * sums, -self._box, self._box)
        deviations[is_reached] = factor * step * noise
        return values, deviations

    def _read(self, value: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
        """Sums of residuals, and curvatures that are above 0."""
        k, own_noise = self._terms.n_outputs, noise / self._terms.weight
        sums = value[:, :k]
        curvature = _towards_mean(value[:, k:] / self._terms.weight, own_noise)
        curvature = np.maximum(curvature, (_LEAST_CURVATURE * own_noise + 1) / k)
        if k == 1:
            return sums, curvature
        # Only differences between outputs matter.
        sums = sums - sums.mean(axis=1, keepdims=True)
        rest = 1 - curvature / curvature.sum(axis=1, keepdims=True)
        return sums, np.maximum(curvature * rest, 1 / k)


def _towards_mean(noisy: FloatArray, noise: float) -> FloatArray:
    """Numbers of all leaves, shrunk to their mean as far as noise may explain them."""
    mean = noisy.mean(axis=0)
    apart = noisy - mean
    spread = (apart**2).mean(axis=0)
    kept = np.maximum(spread - noise**2, 0.0) / np.maximum(spread, 1e-300)
    return np.asarray(mean + kept * apart)
