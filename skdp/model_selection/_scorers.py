"""Scores that can be released: bounded vectors for each record, summed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.base import is_classifier, is_regressor

from skdp._arrays import FloatArray
from skdp._checks import check_real, check_target_bounds
from skdp._input import declared_labels
from skdp.model_selection._scorer_sums import (
    CONFUSION,
    CURVE,
    GAIN,
    LOG_ODDS,
    LOSS,
    RECALLS,
    Addend,
    NamedScoring,
    OfSums,
    Params,
    Possible,
    PrivateScoring,
    WholeError,
    checked_thresholds,
    column,
    error_of_roc_auc,
    f1_macro,
    f1_of_positive,
    interval_of,
    is_right,
    label_codes,
    label_of,
    not_negative,
    of_cells,
    of_recalls,
    possible_cells,
    roc_auc,
)
from skdp.sums._record_sums import QUANTUM

# ------------------------------------------------------------------------------ losses


def _loss(
    formula: Callable[..., FloatArray],
    params: Params,
    estimator: Any,
    X: Any,
    y: NDArray[Any],
) -> FloatArray:
    """Minus the losses of predictions and targets, in units of the largest loss."""
    return -_or_worst(formula(params, *_clipped(params, estimator, X, y)))


def _clipped(
    params: Params, estimator: Any, X: Any, y: NDArray[Any]
) -> tuple[FloatArray, FloatArray]:
    """Predictions and targets within the bounds; NaN for anything that is no number."""
    low, high = params["low"], params["high"]
    predicted = column(estimator.predict(X), len(y)).astype(np.float64)
    predicted[~np.isfinite(predicted)] = np.nan
    predicted = np.clip(predicted, low, high)
    return predicted, np.clip(y.astype(np.float64), low, high)


def _or_worst(losses: FloatArray) -> FloatArray:
    """Losses within [0, 1]; NaN becomes the worst loss."""
    return np.where(losses <= 1.0, np.maximum(losses, 0.0), 1.0)


def _log_loss(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Minus the logarithmic losses, in units of the largest loss."""
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    label, rows = label_codes(y, tuple(estimator.classes_)), np.arange(len(y))
    if proba.shape != (len(y), len(estimator.classes_)):
        raise ValueError
    # NaN, and a label that the estimator does not know, count as the worst.
    p = np.nan_to_num(np.where(label < 0, 0.0, proba[rows, label]), posinf=0.0)
    floor = params["floor"]
    return -_or_worst(np.log(np.clip(p, floor, 1.0)) / math.log(floor))


def _width(p: Params) -> float:
    return float(p["high"] - p["low"])


def _absolute(p: Params, predicted: FloatArray, target: FloatArray) -> FloatArray:
    return np.asarray(np.abs(predicted - target) / _width(p))


def _squared(p: Params, predicted: FloatArray, target: FloatArray) -> FloatArray:
    return np.asarray(_absolute(p, predicted, target) ** 2)


def _pinball(p: Params, predicted: FloatArray, target: FloatArray) -> FloatArray:
    residual = (target - predicted) / _width(p)
    weight = np.where(residual > 0, p["quantile"], 1 - p["quantile"])
    return np.asarray(weight * np.abs(residual) / _steeper(p))


def _steeper(p: Params) -> float:
    return float(max(p["quantile"], 1 - p["quantile"]))


def _largest_pinball(p: Params) -> float:
    return _steeper(p) * _width(p)


def _least_mean(p: Params) -> float:
    """Smaller predictions count as this one: deviances near 0 are unbounded."""
    return float(max(p["low"], p["floor"] * p["high"]))


def _poisson(p: Params, predicted: FloatArray, target: FloatArray) -> FloatArray:
    mean = np.maximum(predicted, _least_mean(p))
    return _poisson_deviance(target, mean) / _largest_poisson(p)


def _largest_poisson(p: Params) -> float:
    ends = np.array([p["low"], p["high"]])
    means = np.array([_least_mean(p), p["high"]])
    return float(_poisson_deviance(ends[:, None], means).max())


def _poisson_deviance(target: FloatArray, mean: FloatArray) -> FloatArray:
    return np.asarray(2 * (xlogy(target, target / mean) - target + mean))


def _gamma(p: Params, predicted: FloatArray, target: FloatArray) -> FloatArray:
    mean, amount = np.maximum((predicted, target), _least_mean(p))
    ratio = np.minimum(amount / mean, p["most"])
    return _gamma_deviance(ratio) / _largest_gamma(p)


def _largest_gamma(p: Params) -> float:
    widest = p["high"] / _least_mean(p)
    ends = np.array([min(p["most"], widest), 1 / widest])
    return float(_gamma_deviance(ends).max())


def _gamma_deviance(ratio: FloatArray) -> FloatArray:
    """Deviance of a target as a function of its ratio to the mean."""
    return np.asarray(2 * (ratio - 1 - np.log(ratio)))


# ------------------------------------------------------ R2, the share that is explained
# The statistic is the sum of (squared residual / width^2, v, v^2), with v the target
# scaled to [-1, 1] by its bounds.


def _squares(params: Params, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
    low, high = params["low"], params["high"]
    v = (y.astype(np.float64) - (low / 2 + high / 2)) / (high / 2 - low / 2)
    v = np.clip(np.nan_to_num(v), -1.0, 1.0)
    return np.column_stack([-quality, v, v**2])


def _explained(params: Params, statistic: FloatArray, n_samples: int) -> float:
    least = params["least"]
    residual, first, second = np.asarray(statistic, dtype=np.float64)
    spread = second - first**2 / n_samples
    if spread <= 0:
        return float(least)
    return float(np.clip(1 - 4 * residual / spread, least, 1.0))


def _possible_squares(
    params: Params, statistic: FloatArray, n_samples: int
) -> FloatArray:
    """Sums of squares of at least 0 and at most the number of records."""
    residual, first, second = np.asarray(statistic, dtype=np.float64)
    first = np.clip(first, -n_samples, n_samples)
    # Targets with this sum have at least these squares.
    second = np.clip(second, first**2 / n_samples, n_samples)
    return np.array([np.clip(residual, 0.0, n_samples), first, second])


def _rounded(exact: float, norm: int) -> float:
    """A bound with the rounding of v and v^2 to the grid, each by itself."""
    return (exact + {1: 3.0, 2: 3**0.5}[norm] * QUANTUM) * (1 + 1e-12)


SQUARES = Addend(
    moved={
        ("replace_one", 1): _rounded(3.25, 1),
        ("replace_one", 2): _rounded(5**0.5, 2),
        ("zero_out", 1): _rounded(3.0, 1),
        ("zero_out", 2): _rounded(3**0.5, 2),
    },
    spread=_squares,
    worst=-1.0,
    ranks_by_n=True,
)


# ---------------------------------------------------------------------- table of scores

Settings = Mapping[str, tuple[Any, Callable[[Any], Any]]]


@dataclass(frozen=True, kw_only=True)
class ScoreKind:
    """A score before the facts of an estimator are known: one row of the table.

    Parameters
    ----------
    task : {"classification", "regression"}
    rate : callable
        The quality of each prediction, from params, an estimator, X and y.
    added : Addend
        What one record adds to the statistic.
    size : callable
        Length of the statistic, from params; 1 by default.
    of_sums : callable or None, default=None
        The score, from params, the statistic and the number of records. None: in
        proportion to the mean.
    possible : callable or None, default=None
        A statistic that records can have, from the arguments of `of_sums`.
    whole_error : callable or None, default=None
        The error of the score, from params, the statistic and the change by noise.
    ends : callable
        Lowest and highest score, from params.
    response_method : {"predict", "predict_proba"}, default="predict"
    n_labels : {None, "two", "several"}, default=None
        Which sets of labels the score accepts, if it needs labels. Scores of regressors
        need target bounds.
    settings : mapping of str, default={}
        Names of further public parameters; for each the default and a check.
    """

    task: str
    rate: Callable[..., NDArray[Any]]
    added: Addend
    size: Callable[[Params], int] = lambda params: 1
    of_sums: OfSums | None = None
    possible: Possible | None = None
    whole_error: WholeError | None = None
    ends: Callable[[Params], tuple[float, float]] = lambda params: (0.0, 1.0)
    response_method: str = "predict"
    n_labels: str | None = None
    settings: Settings = field(default_factory=dict)

    def scoring(self, name: str, params: Params) -> NamedScoring:
        """The scorer with the facts of an estimator, or an error about the labels."""
        labels = list(params.get("classes", ()))
        if self.n_labels and len(labels) < 2:
            raise ValueError(
                "The 'classes' parameter must hold at least two different labels. Got "
                f"{labels!r}. Declare all labels."
            )
        if self.n_labels == "two" and len(labels) != 2:
            raise ValueError(
                f"scoring={name!r} needs two labels, of which the second is the "
                f"positive one. Got {labels!r}. Use 'f1_macro' or 'neg_log_loss' for "
                "several."
            )
        lowest, highest = self.ends(params)
        return NamedScoring(
            name=name,
            per_record=partial(self.rate, params),
            lowest=lowest,
            highest=highest,
            task=self.task,
            response_method=self.response_method,
            params=params,
            added=self.added,
            size=self.size(params),
            of_sums=self.of_sums,
            possible=self.possible,
            whole_error=self.whole_error,
        )


def _loss_of(
    formula: Callable[[Params, FloatArray, FloatArray], FloatArray],
    largest: Callable[[Params], float],
    settings: Settings | None = None,
) -> ScoreKind:
    """Minus the mean of losses, whose largest value follows from public facts."""
    return ScoreKind(
        task="regression",
        rate=partial(_loss, formula),
        added=LOSS,
        ends=lambda params: (-largest(params), 0.0),
        settings=settings or {},
    )


def _number(name: str, default: float, low: float, high: float) -> Settings:
    return {name: (default, partial(check_real, name, low=low, high=high))}


# Means count as at least this share of the highest target: deviances from means near 0
# are unbounded.
_FLOOR = _number("floor", 0.01, 1e-6, 0.5)
# A target counts as at most this many means. For an exponential law the least deviance
# is then at 0.997 of the mean; with 4 it is at 0.898.
_MOST = {"most": (8.0, partial(check_real, "most", low=1.0, high=1e100, low_open=True))}
_F1_MACRO = ScoreKind(
    task="classification",
    rate=label_of,
    added=CONFUSION,
    size=lambda params: len(params["classes"]) ** 2,
    of_sums=partial(of_cells, f1_macro),
    possible=possible_cells,
    n_labels="several",
)
SCORINGS: dict[str, ScoreKind] = {
    "accuracy": ScoreKind(task="classification", rate=is_right, added=GAIN),
    "balanced_accuracy": ScoreKind(
        task="classification",
        rate=is_right,
        added=RECALLS,
        size=lambda params: 2 * len(params["classes"]),
        of_sums=of_recalls,
        possible=not_negative,
        n_labels="several",
    ),
    "neg_log_loss": ScoreKind(
        task="classification",
        rate=_log_loss,
        added=LOSS,
        ends=lambda params: (math.log(params["floor"]), 0.0),
        response_method="predict_proba",
        settings=_number("floor", 0.01, 1e-12, 0.5),
    ),
    "roc_auc": ScoreKind(
        task="classification",
        rate=interval_of,
        added=CURVE,
        size=lambda params: 2 * (len(params["thresholds"]) - 1),
        of_sums=partial(of_cells, roc_auc),
        whole_error=error_of_roc_auc,
        response_method="predict_proba",
        n_labels="two",
        settings={"thresholds": (LOG_ODDS, checked_thresholds)},
    ),
    "f1": replace(_F1_MACRO, of_sums=partial(of_cells, f1_of_positive), n_labels="two"),
    "f1_macro": _F1_MACRO,
    "neg_mean_absolute_error": _loss_of(_absolute, _width),
    "neg_mean_squared_error": _loss_of(_squared, lambda params: _width(params) ** 2),
    "neg_mean_pinball_loss": _loss_of(
        _pinball, _largest_pinball, _number("quantile", 0.5, 0.01, 0.99)
    ),
    "neg_mean_poisson_deviance": _loss_of(_poisson, _largest_poisson, _FLOOR),
    "neg_mean_gamma_deviance": _loss_of(_gamma, _largest_gamma, {**_FLOOR, **_MOST}),
    # Lower scores are reported as `least`.
    "r2": ScoreKind(
        task="regression",
        rate=partial(_loss, _squared),
        added=SQUARES,
        size=lambda params: 3,
        of_sums=_explained,
        possible=_possible_squares,
        ends=lambda params: (params["least"], 1.0),
        settings=_number("least", -1.0, -1e6, 0.0),
    ),
}
# Prefixes of scikit-learn's names that are refused, each with its reason.
_REFUSED = {
    "roc_auc_": "with several labels each pair would need a separate histogram. Use "
    "'roc_auc' for two labels, 'f1_macro' or 'neg_log_loss' for several.",
    "average_precision": "a record on which a model fails would not count as the "
    "worst. Use private_evaluation(...).average_precision, or 'roc_auc'.",
    "f1_": "only 'f1' and 'f1_macro' are offered. Take others from "
    "private_evaluation(..., response_method='predict').",
}


def resolve_scoring(
    scoring: Any,
    estimator: Any,
    *,
    classes: Any = None,
    target_bounds: Any = None,
    params: Mapping[str, Any] | None = None,
) -> PrivateScoring:
    """Make the scorer of a name, with the public facts that it needs.

    Parameters
    ----------
    scoring : str, PrivateScoring or None
        scikit-learn's name. None: ``"accuracy"`` for classifiers and
        ``"neg_mean_squared_error"`` for regressors; a regressor of skdp with another
        loss is scored by its loss.
    estimator : estimator
        Fitted or not. What is not declared here is taken from its `classes_`,
        `classes`, `target_bounds` and `quantile`, or those of a pipeline's last step or
        of the best estimator of a fitted search.
    classes : array-like of labels or None, default=None
    target_bounds : pair of floats or None, default=None
    params : mapping of str or None, default=None
        Public numbers, chosen without looking at the data, that some scores take:

        * ``floor`` of ``"neg_log_loss"``, in [1e-12, 0.5]: lower probabilities of the
          true label count as the floor; 0.01 by default;
        * ``floor`` of deviances, in [1e-6, 0.5], as a fraction of the highest target:
          lower means count as the floor, and with ``"neg_mean_gamma_deviance"`` lower
          targets, too; 0.01 by default;
        * ``most`` of ``"neg_mean_gamma_deviance"``, above 1: a target counts as at most
          this multiple of the predicted mean; 8 by default;
        * ``quantile`` of ``"neg_mean_pinball_loss"``, in [0.01, 0.99]: the estimator's,
          or 0.5, by default;
        * ``least`` of ``"r2"``, in [-1e6, 0]: lower scores are reported as this one; -1
          by default;
        * ``thresholds`` of ``"roc_auc"``, rising from 0 to 1: ends of the intervals in
          which probabilities are counted; 24 by default, narrow near 0 and 1.

    Returns
    -------
    PrivateScoring
        For the `scoring` parameter of scores and searches.

    Raises
    ------
    ValueError, TypeError
        If the score cannot be released, does not suit this estimator, or lacks a public
        fact. Nothing was read.

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.model_selection import resolve_scoring
    >>> model = DPLogisticRegression(classes=[0, 1])
    >>> resolve_scoring("balanced_accuracy", model).params
    {'classes': (0, 1)}
    >>> resolve_scoring("neg_log_loss", model, params={"floor": 0.001}).lowest
    -6.907755278982137
    """
    if scoring is None:
        scoring = _default_name(estimator)
    if isinstance(scoring, PrivateScoring):
        if params is not None:
            raise ValueError(
                "The 'params' argument must be None with a PrivateScoring, which has "
                "parameters already. Got a mapping. Pass a name, or leave them out."
            )
        _check_suits(scoring.name, scoring, estimator)
        found = scoring
    else:
        name = _checked_name(scoring)
        kind = SCORINGS[name]
        _check_suits(name, kind, estimator)
        facts = _facts(name, estimator, classes, target_bounds)
        facts |= _settings(name, estimator, params)
        found = kind.scoring(name, facts)
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
    """A name in the registry, or an error with the reason why it is not."""
    allowed = f"Use one of {sorted(SCORINGS)}."
    if not isinstance(scoring, str):
        got = (
            f"{type(scoring).__name__}: how much one record can change it is not known"
        )
        if isinstance(scoring, (list, tuple, set, dict)):
            got = "several: each score costs a separate part of the budget"
        raise TypeError(
            f"The 'scoring' parameter must be one name. Got {got}. {allowed} A "
            "PrivateScoring states the range of a score of your own."
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


def _facts(
    name: str, estimator: Any, classes: Any, target_bounds: Any
) -> dict[str, Any]:
    """Labels or bounds: the declared ones, else the estimator's."""
    kind, last = SCORINGS[name], last_step(estimator)
    if classes is None:
        classes = getattr(last, "classes_", getattr(last, "classes", None))
    if target_bounds is None:
        target_bounds = getattr(last, "target_bounds", None)
    if classes is not None:
        classes = tuple(declared_labels(classes).tolist())
    if target_bounds is not None:
        target_bounds = check_target_bounds(target_bounds)
    if kind.task == "classification":
        if kind.n_labels and classes is None:
            raise ValueError(
                f"scoring={name!r} needs the set of labels. Got none. Pass "
                "classes=[...]."
            )
        return {"classes": classes} if kind.n_labels else {}
    if target_bounds is None:
        raise ValueError(
            f"scoring={name!r} needs bounds of the targets. Got none. Pass "
            "target_bounds=(low, high), known without looking at the data."
        )
    if "floor" in kind.settings and target_bounds[0] < 0:  # a deviance
        raise ValueError(
            f"scoring={name!r} needs target_bounds of at least 0. Got "
            f"{target_bounds!r}. Use 'neg_mean_squared_error' for targets below 0."
        )
    return dict(zip(("low", "high"), target_bounds, strict=True))


def _settings(
    name: str, estimator: Any, given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Checked values of all settings of a score."""
    settings = SCORINGS[name].settings
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(
            "The 'params' argument must be None or a mapping. "
            f"Got an instance of {type(given).__name__}."
        )
    unknown = sorted(str(key) for key in given or {} if key not in settings)
    if unknown:
        raise ValueError(
            f"The 'params' of scoring={name!r} must be among {sorted(settings)}. Got "
            f"{unknown}. Labels and bounds of targets are separate arguments."
        )
    found = {key: default for key, (default, _) in settings.items()}
    quantile = getattr(last_step(estimator), "quantile", None)
    if "quantile" in found and quantile is not None:
        found["quantile"] = quantile
    found |= given or {}
    return {key: check(found[key]) for key, (_, check) in settings.items()}


def last_step(estimator: Any) -> Any:
    """The model at the end of a pipeline, or of the best one of a fitted search."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def _check_same_labels(scoring: PrivateScoring, estimator: Any) -> None:
    """Refuse labels for which a fitted model has no probability, or other labels."""
    labels = scoring.params.get("classes")
    known = getattr(last_step(estimator), "classes_", None)
    if scoring.response_method != "predict_proba" or labels is None or known is None:
        return
    if set(labels) != set(np.asarray(known).tolist()):
        raise ValueError(
            f"The 'classes' argument must hold the labels of the estimator for "
            f"scoring={scoring.name!r}. Got {list(labels)!r} for a model of "
            f"{np.asarray(known).tolist()!r}. Leave it out."
        )


def _check_suits(
    name: str, scoring: PrivateScoring | ScoreKind, estimator: Any
) -> None:
    other = {"classification": is_regressor, "regression": is_classifier}
    if other[scoring.task](estimator):
        allowed = sorted(n for n, k in SCORINGS.items() if k.task != scoring.task)
        raise ValueError(
            f"scoring={name!r} is for {scoring.task}. Got "
            f"{type(last_step(estimator)).__name__}. Use one of {allowed}."
        )
    if not hasattr(estimator, scoring.response_method):
        raise ValueError(
            f"scoring={name!r} needs an estimator with {scoring.response_method}. Got "
            f"{type(last_step(estimator)).__name__}. Use another score or model."
        )
