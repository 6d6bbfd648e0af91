"""The public facts of a boosted fit: losses, and units of residuals and predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from scipy.stats import norm

from skdp._arrays import FloatArray
from skdp._checks import check_real, check_target_bounds
from skdp.ensemble._trees import MIX, CodedColumns
from skdp.privacy.accounting._relations import TableRelation
from skdp.sums._leaves import PLAIN, LeafLoss, LossFacts

# ------------------------------------------------------------------------- BoostingTask


Init = Literal["constant", "linear", "zero"]


@dataclass(frozen=True, kw_only=True)
class BoostingTask:
    """Public facts of one fit. Nothing here may be computed from records.

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared", "poisson", "quantile"}
        Targets are 0 or 1, indices of classes, or numbers in [-1, 1].
    n_samples : int
        Records, or users.
    columns : CodedColumns
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    n_outputs : int, default=1
        The number of classes for the softmax.
    interactions : sequence of int or None, default=(1, 2, None)
        Most columns that each tree may cut, in turn; None: all of them.
    groups : sequence of sequences of int or None, default=None
        The columns of a tree are all of one group; None: one group of all.
    init : {"constant", "linear", "zero"}, default="constant"
        Start of raw predictions: a constant, an additive linear model, or 0. With
        "zero" and a source with an `offset` they start at the offset. Nothing is
        released for "zero".
    facts : LossFacts, default=PLAIN
        Other facts of the loss.
    seed : int, default=0
        Trees are drawn from it; public.
    """

    loss: LeafLoss
    n_samples: int
    columns: CodedColumns
    adjacency: TableRelation
    n_outputs: int = 1
    interactions: Sequence[int | None] = MIX
    groups: Sequence[Sequence[int]] | None = None
    init: Init = "constant"
    facts: LossFacts = PLAIN
    seed: int = 0

    @property
    def is_regression(self) -> bool:
        return self.loss in ("squared", "poisson", "quantile")


# -------------------------------------------------------- Losses of regressions by name


_NAMED: dict[str, LeafLoss] = {
    "squared_error": "squared",
    "poisson": "poisson",
    "quantile": "quantile",
}
# The score that each loss optimises.
_SCORED_BY: dict[LeafLoss, str] = {
    "squared": "neg_mean_squared_error",
    "poisson": "neg_mean_poisson_deviance",
    "quantile": "neg_mean_pinball_loss",
}
# Private fits know nothing beyond this level.
_OUTERMOST = 0.01


def named_loss(name: Any) -> LeafLoss:
    """The loss of a public name."""
    if not isinstance(name, str) or name not in _NAMED:
        raise ValueError(
            f"The 'loss' parameter must be one of {list(_NAMED)}. Got {name!r}. Use "
            "'squared_error' for means."
        )
    return _NAMED[name]


def scored_by(name: Any) -> str:
    """The name of the score that a loss optimises."""
    return _SCORED_BY[named_loss(name)]


def facts_of(name: Any, quantile: Any, target_bounds: Any) -> LossFacts:
    """Facts that a loss needs; public."""
    loss = named_loss(name)
    if (quantile is None) == (loss == "quantile"):
        raise ValueError(
            "The 'quantile' parameter must be a number from 0.01 to 0.99 with "
            f"loss='quantile', and None else. Got {quantile!r} with loss={name!r}. Use "
            "loss='quantile', quantile=0.5 for medians."
        )
    if loss == "quantile":
        low, high = _OUTERMOST, 1 - _OUTERMOST
        return LossFacts(level=check_real("quantile", quantile, low=low, high=high))
    return LossFacts(origin=_origin(target_bounds)) if loss == "poisson" else PLAIN


def half_and_middle(target_bounds: Any) -> tuple[float, float]:
    """Half of the declared width, and its middle."""
    low, high = check_target_bounds(target_bounds)
    return high / 2 - low / 2, low / 2 + high / 2


def _origin(target_bounds: Any) -> float:
    """How far the middle is above 0, in halves of the width."""
    if check_target_bounds(target_bounds)[0] < 0:
        raise ValueError(
            "The 'target_bounds' parameter must be of at least 0 with loss='poisson', "
            f"which is of counts and amounts. Got {target_bounds!r}. Use "
            "loss='squared_error' for targets below 0."
        )
    half, middle = half_and_middle(target_bounds)
    return middle / half


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
    facts : LossFacts
    """

    residual: float = 1.0
    raw: float = 1.0
    step: float = 1.0
    sampling: float = 1.0
    facts: LossFacts = PLAIN

    @classmethod
    def of(cls, task: BoostingTask, unit: float, start: FloatArray) -> Scale:
        """The scale of targets with this spread and raw predictions with this start."""
        facts = task.facts
        if task.loss == "squared":
            return cls(unit, unit, 1.0, _UNEXPLAINED * unit**2, facts)
        if task.loss == "quantile":
            # For normal targets, whose deviation is half a unit.
            step = unit / 2 / float(norm.pdf(norm.ppf(facts.level)))
            sampling = facts.level * (1 - facts.level) * step**2
            return cls(1.0, unit, step, sampling, facts)
        if task.loss == "poisson":
            mean = min(math.exp(min(start[0], 700.0)), facts.farthest)
            cap = max(_CAP * mean, 1e-12)
            sampling = _UNEXPLAINED * _CAP * (unit / cap) ** 2
            raw = min(unit / mean, _MOST_RAW)
            return cls(unit, raw, 1 / cap, sampling, replace(facts, cap=cap))
        return cls(facts=facts)
