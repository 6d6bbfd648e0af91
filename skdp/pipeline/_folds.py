"""Folds that labels decide, in scikit-learn's meta-estimators around private models."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

from sklearn.base import is_classifier
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from skdp._quiet import warn
from skdp.exceptions import StratifiedFoldsWarning
from skdp.pipeline._walk import Leaf

_STRATIFIED = (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)


def warn_of_stratified_folds(leaves: Iterable[Leaf]) -> None:
    """Warn of what fits private steps on folds that depend on the labels."""
    names = [leaf.path for leaf in leaves if leaf.problem and is_stratified(leaf.step)]
    if names:
        warn(
            f"The folds of {names} are stratified: one record's label moves other "
            "records to other folds, so that each private fit costs more than is "
            "booked. Pass cv=KFold(5).",
            StratifiedFoldsWarning,
        )


def is_stratified(meta: Any) -> bool:
    """Whether an object's own `cv` makes stratified folds, by public parameters."""
    params = meta.get_params(deep=False) if hasattr(meta, "get_params") else {}
    if "cv" not in params:
        return False
    folds = params["cv"]
    if folds is None or isinstance(folds, Real):  # scikit-learn's default rule
        return bool(is_classifier(meta) or is_classifier(params.get("estimator", meta)))
    return isinstance(folds, _STRATIFIED)
