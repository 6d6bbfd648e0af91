"""Losses of boosted regressions by their public names, and what they have to know."""

from __future__ import annotations

from typing import Any

from skdp._validation import check_real, check_target_bounds
from skdp.queries._loss_facts import PLAIN, LeafLoss, LossFacts

_NAMED: dict[str, LeafLoss] = {
    "squared_error": "squared",
    "poisson": "poisson",
    "quantile": "quantile",
}
# The score that each loss makes largest.
_SCORED_BY: dict[LeafLoss, str] = {
    "squared": "neg_mean_squared_error",
    "poisson": "neg_mean_poisson_deviance",
    "quantile": "neg_mean_pinball_loss",
}
# Beyond it private fits know nothing.
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
    """The name of the score that a loss makes largest."""
    return _SCORED_BY[named_loss(name)]


def facts_of(name: Any, quantile: Any, target_bounds: Any) -> LossFacts:
    """What a loss has to know; public."""
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
    """Half of the width that is declared, and its middle."""
    low, high = check_target_bounds(target_bounds)
    return high / 2 - low / 2, low / 2 + high / 2


def _origin(target_bounds: Any) -> float:
    """By how much the middle is above 0, in halves of the width."""
    if check_target_bounds(target_bounds)[0] < 0:
        raise ValueError(
            "The 'target_bounds' parameter must be of at least 0 with loss='poisson', "
            f"which is of counts and amounts. Got {target_bounds!r}. Use "
            "loss='squared_error' for targets below 0."
        )
    half, middle = half_and_middle(target_bounds)
    return middle / half
