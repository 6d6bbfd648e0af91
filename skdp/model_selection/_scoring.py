"""The registry of scores that can be released privately, and who may use which."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from skdp._input import declared_labels
from skdp._validation import check_target_bounds
from skdp.model_selection._classification_scoring import (
    Accuracy,
    BalancedAccuracy,
    NegLogLoss,
)
from skdp.model_selection._histogram_scoring import F1, F1Macro, RocAuc
from skdp.model_selection._regression_scoring import (
    R2,
    NegMeanAbsoluteError,
    NegMeanGammaDeviance,
    NegMeanPinballLoss,
    NegMeanPoissonDeviance,
    NegMeanSquaredError,
)
from skdp.model_selection._scoring_base import PrivateScoring, PublicFacts

SCORINGS: dict[str, type[PrivateScoring]] = {
    kind.name: kind
    for kind in (
        Accuracy,
        BalancedAccuracy,
        NegLogLoss,
        RocAuc,
        F1,
        F1Macro,
        NegMeanAbsoluteError,
        NegMeanSquaredError,
        NegMeanPinballLoss,
        NegMeanPoissonDeviance,
        NegMeanGammaDeviance,
        R2,
    )
}
# Beginnings of scikit-learn's names that are refused, each with its reason.
_REFUSED = {
    "roc_auc_": "of several labels each pair would have a histogram of its own. Use "
    "'roc_auc' for two labels, 'f1_macro' or 'neg_log_loss' for several.",
    "average_precision": "a record for which a model raises would not count as its "
    "worst. Use private_evaluation(...).average_precision, or 'roc_auc'.",
    "f1_": "only 'f1' and 'f1_macro' are offered. Read others off "
    "private_evaluation(..., response_method='predict').",
}


def resolve_scoring(
    scoring: Any, estimator: Any, *, classes: Any = None, target_bounds: Any = None
) -> PrivateScoring:
    """The scorer that a name stands for, with the public facts that it needs.

    Parameters
    ----------
    scoring : str, PrivateScoring or None
        scikit-learn's name. None: ``"accuracy"`` for classifiers and
        ``"neg_mean_squared_error"`` for regressors, but for those of skdp that fit
        another loss: theirs.
    estimator : estimator
        Fitted or not. What is not declared here is taken from its `classes_`,
        `classes`, `target_bounds` and `quantile`, or those of a pipeline's last step.
    classes : array-like of labels or None, default=None
    target_bounds : pair of floats or None, default=None

    Raises
    ------
    ValueError, TypeError
        If the score cannot be released, is not for this estimator, or lacks a fact.
        Nothing was read.

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.model_selection._scoring import resolve_scoring
    >>> model = DPLogisticRegression(classes=[0, 1])
    >>> resolve_scoring("balanced_accuracy", model)
    BalancedAccuracy(classes=(0, 1))
    """
    if scoring is None:
        scoring = _default_name(estimator)
    if isinstance(scoring, PrivateScoring):
        found = scoring
    else:
        kind = SCORINGS[_checked_name(scoring)]
        _check_suits(kind, estimator)
        found = kind.of(_facts(estimator, classes, target_bounds))
    _check_suits(found, estimator)
    _check_same_labels(found, estimator)
    return found


def _default_name(estimator: Any) -> str:
    if is_classifier(estimator):
        return "accuracy"
    if is_regressor(estimator):
        return getattr(last_step(estimator), "_scored_by", "neg_mean_squared_error")
    raise ValueError(
        "The 'scoring' parameter must be named for an estimator that is neither a "
        f"classifier nor a regressor. Got None. Use one of {sorted(SCORINGS)}."
    )


def _checked_name(scoring: Any) -> str:
    """A name in the registry, or an error that says why another is none."""
    allowed = f"Use one of {sorted(SCORINGS)}."
    if isinstance(scoring, (list, tuple, set, dict)):
        raise TypeError(
            "The 'scoring' parameter must be one name. Got several: each score costs "
            f"budget of its own. {allowed}"
        )
    if not isinstance(scoring, str):
        raise TypeError(
            "The 'scoring' parameter must be a name. Got "
            f"{type(scoring).__name__}: how much one record can change it is not "
            f"known. {allowed}"
        )
    for start, reason in _REFUSED.items():
        if scoring.startswith(start) and scoring not in SCORINGS:
            raise ValueError(
                f"The 'scoring' parameter cannot be {scoring!r}: {reason} {allowed}"
            )
    if scoring not in SCORINGS:
        raise ValueError(
            f"The 'scoring' parameter must be one of {sorted(SCORINGS)}. "
            f"Got {scoring!r}."
        )
    return scoring


def _facts(estimator: Any, classes: Any, target_bounds: Any) -> PublicFacts:
    """Declared facts first, then those of the estimator."""
    last = last_step(estimator)
    for name in ("classes_", "classes"):
        if classes is None:
            classes = getattr(last, name, None)
    if target_bounds is None:
        target_bounds = getattr(last, "target_bounds", None)
    if classes is not None:
        classes = tuple(declared_labels(classes).tolist())
    if target_bounds is not None:
        target_bounds = check_target_bounds(target_bounds)
    return PublicFacts(classes, target_bounds, getattr(last, "quantile", None))


def last_step(estimator: Any) -> Any:
    """The model at the end of a pipeline."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def _check_same_labels(scoring: PrivateScoring, estimator: Any) -> None:
    """Refuse labels of which a fitted model has no probability, or other ones."""
    labels = getattr(scoring, "classes", None)
    known = getattr(last_step(estimator), "classes_", None)
    if scoring.method != "predict_proba" or labels is None or known is None:
        return
    if set(labels) != set(np.asarray(known).tolist()):
        raise ValueError(
            f"The 'classes' argument must hold the labels of the estimator for "
            f"scoring={scoring.name!r}. Got {list(labels)!r} for a model of "
            f"{np.asarray(known).tolist()!r}. Leave it out."
        )


def _check_suits(
    scoring: PrivateScoring | type[PrivateScoring], estimator: Any
) -> None:
    other = {"classification": is_regressor, "regression": is_classifier}
    if other[scoring.task](estimator):
        allowed = sorted(n for n, k in SCORINGS.items() if k.task != scoring.task)
        raise ValueError(
            f"scoring={scoring.name!r} is for {scoring.task}. Got "
            f"{type(last_step(estimator)).__name__}. Use one of {allowed}."
        )
    if not hasattr(estimator, scoring.method):
        raise ValueError(
            f"scoring={scoring.name!r} needs an estimator with {scoring.method}. Got "
            f"{type(last_step(estimator)).__name__}. Use another score or model."
        )
