"""The public facts of a boosted fit: losses, and units of residuals and predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy.stats import norm

from skdp._checks import check_real, check_target_bounds
from skdp.ensemble._trees import MIX, CodedColumns
from skdp.losses._base import Loss, LossId
from skdp.losses._regression import (
    GammaLoss,
    Means,
    PoissonLoss,
    QuantileLoss,
    SquaredLoss,
    means_of_amounts,
    means_of_counts,
)
from skdp.privacy.accounting._relations import TableRelation
from skdp.solvers._target_base import Base, has_log_link

# ------------------------------------------------------------------------- BoostingTask


Init = Literal["constant", "linear"]


@dataclass(frozen=True, kw_only=True)
class BoostingTask:
    """Public facts of one fit. Nothing here may be computed from records.

    Parameters
    ----------
    loss : Loss
        A `LeafLoss`. Targets are 0 or 1, indices of classes, or numbers in the loss's
        units.
    n_samples : int
        Records, or users.
    n_features : int
        Declared columns.
    columns : CodedColumns
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    interactions : sequence of int or None, default=(1, 2, None)
        Most columns that each tree after a constant may cut, in turn; None: all.
    interactions_after : sequence of int or None, default=(1, 2, None)
        The same for trees that continue a linear model.
    groups : sequence of sequences of int or None, default=None
        The columns of a tree are all of one group; None: one group of all.
    init : {"constant", "linear"}, default="constant"
        Start of raw predictions: a constant, or an additive linear model.
    seed : int, default=0
        Trees are drawn from it; public.
    before : BoostedTrees or None, default=None
        The released model that the fit continues.
    """

    loss: Loss
    n_samples: int
    n_features: int
    columns: CodedColumns
    adjacency: TableRelation
    interactions: Sequence[int | None] = MIX
    interactions_after: Sequence[int | None] = MIX
    groups: Sequence[Sequence[int]] | None = None
    init: Init = "constant"
    seed: int = 0
    before: Any = None

    @property
    def n_outputs(self) -> int:
        return self.loss.n_outputs

    @property
    def is_regression(self) -> bool:
        return self.loss.form.is_of_numbers


# -------------------------------------------------------- Losses of regressions by name


# Trees clip residuals by themselves, in units that they find.
MEANS = SquaredLoss(math.inf, target_bound=1.0)
# The score that each loss optimises.
_SCORED_BY = {
    "squared_error": "neg_mean_squared_error",
    "poisson": "neg_mean_poisson_deviance",
    "gamma": "neg_mean_gamma_deviance",
    "quantile": "neg_mean_pinball_loss",
}
# Bounds and units of means, for losses of their logarithms.
_OF_LOGS = {"poisson": means_of_counts, "gamma": means_of_amounts}


def scored_by(name: Any) -> str:
    """The name of the score that a loss of a public name optimises."""
    if not isinstance(name, str) or name not in _SCORED_BY:
        raise ValueError(
            f"The 'loss' parameter must be one of {list(_SCORED_BY)}. Got {name!r}. "
            "Use 'squared_error' for means."
        )
    return _SCORED_BY[name]


def means_of(name: str, target_bounds: Any) -> Means | None:
    """Units of a loss of logarithms of means; None for other losses."""
    return _OF_LOGS[name](target_bounds) if name in _OF_LOGS else None


def regression_loss(name: Any, quantile: Any, target_bounds: Any) -> Loss:
    """The loss of a public name, of targets in the units of `means_of`.

    For other losses `target_bounds` scale targets to [-1, 1].
    """
    scored_by(name)
    if (quantile is None) == (name == "quantile"):
        raise ValueError(
            "The 'quantile' parameter must be a number from 0.01 to 0.99 with "
            f"loss='quantile', and None else. Got {quantile!r} with loss={name!r}. Use "
            "loss='quantile', quantile=0.5 for medians."
        )
    if name == "quantile":
        # Private fits know nothing beyond these levels.
        return QuantileLoss(check_real("quantile", quantile, low=0.01, high=0.99), h=0)
    means = means_of(name, target_bounds)
    if means is None:
        return MEANS
    return PoissonLoss.of(means) if name == "poisson" else GammaLoss.of(means)


def half_and_middle(target_bounds: Any) -> tuple[float, float]:
    """Half of the declared width, and its middle."""
    low, high = check_target_bounds(target_bounds)
    return high / 2 - low / 2, low / 2 + high / 2


# ------------------------------------------------------ What trees of each loss may do


# Settled on validation parts (``docs/notebook/benchmarks.md``). Weight of curvatures
# over the clip, for a loss whose curvatures of a record add up to at most 1.
# For labels a weight half as large lost .002 of log-loss, and one twice as large gained
# and lost .002; for seven labels a weight of 3 times the rule's lost .02 to .03.
_WEIGHT = 0.3
# Clip of residuals below and above two values of n mu, over the largest residual of a
# label, or over the unit of numbers. With .4 in place of .5 and .7 protein_casp lost
# .011 of R2; seven kinds of covertype with .5 and .7 of a residual of 1, .005 to .009.
_CLIP = (0.5, 0.7)
# Variances of a step in squares of raw units, for labels and for numbers, whose unit is
# two deviations, or a logarithm of means. With four times the last, trees from a
# constant lost .03 of R2 on average, and .11 at most; with half of it they lost .012 at
# most and gained .03 at most (`python -m benchmarks boosting_priors`).
_OF_LABELS, _OF_NUMBERS = 1.0, 1 / 16
# Largest value of a leaf before the learning rate, in deviations.
_FARTHEST = 2.0


@dataclass(frozen=True)
class LeafRules:
    """What the rules for trees need to know of a loss.

    Parameters
    ----------
    weight : float
        Weight of the curvature, over the clip.
    box : float
        Largest value of a leaf before the learning rate, in units of raw predictions.
    variance : float
        Prior variance of a step, in squares of these units.
    clip : pair of float
        Clip of residuals below and above two values of n mu; a regression's is in its
        units.
    """

    weight: float
    box: float
    variance: float
    clip: tuple[float, float]

    @classmethod
    def of(cls, loss: Loss) -> LeafRules:
        """The rules for a loss."""
        if loss.form.is_of_numbers:
            return cls(_WEIGHT, _FARTHEST / 2, _OF_NUMBERS, _CLIP)
        k = loss.n_outputs
        if k == 1:  # p (1 - p) is at most 1/4
            return cls(_WEIGHT / 0.25, _FARTHEST, _OF_LABELS, _CLIP)
        # Probabilities of K labels have curvatures of up to 1 - 1/K together, and
        # residuals of up to sqrt(2); only differences of two steps matter.
        low, high = (math.sqrt(2) * clip for clip in _CLIP)
        return cls(_WEIGHT / (1 - 1 / k), _FARTHEST, 2 * _OF_LABELS, (low, high))


# ---------------------------------------- Scale: units of residuals and raw predictions
# Post-processing.


# Means of counts up to this many times the first are told apart by their curvature.
_CAP = 8.0
# Deviation of the logarithms of means, over that of counts, at most.
_MOST_RAW = 2.0
# Variance of an error, over the squared unit of all targets.
_UNEXPLAINED = 0.15


@dataclass(frozen=True)
class Scale:
    """Units of sums over leaves and of the steps that follow from them.

    Parameters
    ----------
    residual, raw : float
        Units of residuals and of raw predictions.
    step : float
        A Newton step for a residual of 1 and a curvature of 1.
    sampling : float
        Variance of a record's step, by its curvature.
    cap : float
        Mean from which on the curvature of counts is 1.
    """

    residual: float = 1.0
    raw: float = 1.0
    step: float = 1.0
    sampling: float = 1.0
    cap: float = 1.0

    @classmethod
    def of(cls, loss: Loss, base: Base) -> Scale:
        """The scale of targets with this base."""
        if not loss.form.is_of_numbers:
            return cls()
        if has_log_link(loss):
            unit, mean = base.residual_clip, _mean(loss, base)
            cap = _CAP * mean if loss.form is LossId.POISSON else 1.0
            sampling = _UNEXPLAINED * cap / mean * (unit / cap) ** 2
            return cls(unit, min(unit / mean, _MOST_RAW), 1 / cap, sampling, cap)
        unit = min(2 * base.unit, 1.0)
        if not isinstance(loss, QuantileLoss):
            return cls(unit, unit, 1.0, _UNEXPLAINED * unit**2)
        # For normal targets, whose deviation is half a unit.
        step = unit / 2 / float(norm.pdf(norm.ppf(loss.level)))
        return cls(1.0, unit, step, loss.level * (1 - loss.level) * step**2)


def _mean(loss: Loss, base: Base) -> float:
    """Curvature of counts or amounts at the constant: their mean, or 1."""
    if loss.form is not LossId.POISSON:
        return 1.0
    top, lowest = loss.form_constants[:2]
    return max(math.exp(min(base.constant[0] - top, 0.0)), lowest, 1e-12)
