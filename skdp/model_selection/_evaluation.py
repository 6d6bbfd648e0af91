"""`private_evaluation`: curves and scores from one noisy histogram."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, check_real, explained
from skdp._shared_docs import fill_docs
from skdp._show import aligned, axes_or_new, card, wrapped
from skdp.io._table import Table
from skdp.model_selection._calibrators import CALIBRATORS, Calibrator
from skdp.model_selection._scorer_sums import (
    DISAGREEMENTS,
    PrivateScoring,
    accuracy_of,
    average_precision,
    cell_counts,
    f_scores,
    roc_auc,
)
from skdp.model_selection._scorers import resolve_scoring
from skdp.model_selection._scores import (
    HOW_TO_PASS_USERS,
    PrivateComparison,
    PrivateScore,
    ScoreRelease,
    grid_of,
    released_statistic,
)
from skdp.pipeline._report import total_of
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.privacy.release._record import PrivacyRecord, step_of

# ---------------------------------------------- private_evaluation: one noisy histogram


# Number of records, as predicted, that a calibration adds to each interval: a few. No
# benchmark that is kept compared other numbers.
_AS_PREDICTED = 4.0
_RESPONSE_METHODS = ("auto", "predict_proba", "predict")
# The smallest and the largest double between 0 and 1, except subnormal numbers.
_INSIDE = (np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)


@dataclass(frozen=True, eq=False)
class PrivateConfusionMatrix:
    """A released confusion matrix.

    Parameters
    ----------
    labels : tuple
        Public.
    counts : ndarray of shape (n_labels, n_labels)
        True labels by predicted ones; at least 0. Private output.
    error : float
        Standard deviation of the noise in one count. Public.
    privacy_ : PrivacyRecord
    """

    labels: tuple[Any, ...]
    counts: FloatArray
    error: float
    privacy_: PrivacyRecord

    def to_frame(self) -> pd.DataFrame:
        """The counts, true labels as rows."""
        rows = pd.Index(self.labels, name="true")
        return pd.DataFrame(
            self.counts, index=rows, columns=pd.Index(self.labels, name="predicted")
        )

    @property
    def accuracy(self) -> float:
        """Share of the records on the diagonal."""
        return accuracy_of(self.counts)

    def f_score(self, beta: float = 1.0) -> pd.Series:
        """F score of each label against the others; costs nothing.

        Parameters
        ----------
        beta : float in (0, inf), default=1.0
            Weight of recall over that of precision.
        """
        beta = check_real(
            "beta", beta, low=0, high=math.inf, low_open=True, high_open=True
        )
        return pd.Series(f_scores(self.counts, beta), index=list(self.labels))

    def plot(self, *, ax: Any = None) -> Any:
        """scikit-learn's `ConfusionMatrixDisplay` of the counts."""
        from sklearn.metrics import ConfusionMatrixDisplay

        display = ConfusionMatrixDisplay(
            np.rint(self.counts).astype(int), display_labels=list(self.labels)
        )
        return display.plot(ax=ax)

    def __repr__(self) -> str:
        statement = wrapped(self.privacy_.statement())
        return f"{self.to_frame().round().to_string()}\n{statement}"

    def _repr_html_(self) -> str:
        counts = self.to_frame().round().to_html(border=0)
        below = [counts, self.privacy_._repr_html_()]
        return card("Counts of true and predicted labels", below=below)


@dataclass(frozen=True, eq=False)
class PrivateEvaluation:
    """Released evaluation of a classifier with two labels, from one noisy histogram.

    Everything except `labels`, `thresholds` and `error` is a private output or
    post-processing, and costs nothing more. Errors do not include the sampling of
    records.

    Parameters
    ----------
    labels : pair of labels
        The second is the positive one. Public.
    thresholds : ndarray of shape (n_intervals + 1,)
        Ends of the intervals, from 0 to 1. Public.
    counts : ndarray of shape (2, n_intervals)
        Number of records of each label whose predicted probability of the positive
        label lies in each interval; at least 0. One user may be spread over several
        cells. Private output.
    error : float
        Standard deviation of the noise in one count, before counts were made at least 0
        and adjusted to their sum. Public.
    privacy_ : PrivacyRecord
    roc_auc_error : float, default=nan
        Standard error of `roc_auc`, by noise and by the order of records within
        intervals; as in `private_score`. nan in evaluations stored by version 1.0.
    """

    labels: tuple[Any, Any]
    thresholds: FloatArray
    counts: FloatArray
    error: float
    privacy_: PrivacyRecord
    roc_auc_error: float = math.nan

    @classmethod
    def of(
        cls,
        scoring: PrivateScoring,
        statistic: FloatArray,
        deviation: float,
        n_samples: int,
        privacy: PrivacyRecord,
    ) -> Self:
        """The evaluation by a released statistic of ``"roc_auc"``.

        Parameters
        ----------
        deviation : float
            Standard deviation of the noise in each entry.
        n_samples : int
        """
        low, high = scoring.params["classes"]
        return cls(
            (low, high),
            np.array(scoring.params["thresholds"]),
            cell_counts(scoring.params, statistic, n_samples),
            deviation,
            privacy,
            scoring.error(statistic, deviation, n_samples),
        )

    @property
    def roc_auc(self) -> float:
        """Area under the ROC curve.

        Within an interval records are ordered as the intervals beside it suggest.
        """
        return roc_auc(self.counts)

    @property
    def average_precision(self) -> float:
        """Area under precision over recall, labels spread evenly in each interval."""
        return average_precision(self.counts)

    @property
    def expected_calibration_error(self) -> float:
        """`calibration_error` with ten intervals, or all if there are fewer."""
        return self.calibration_error()

    def calibration_error(self, n_bins: int | None = None) -> float:
        """Mean distance of predicted and released shares, weighted by records.

        Noise makes it larger: below about ``0.8 * error * n_bins / n_samples`` it is
        not distinguishable from 0.

        Parameters
        ----------
        n_bins : int or None, default=None
            At most the number of intervals. None: ten, or all if there are fewer.
        """
        found = self.calibration_curve(n_bins)
        apart = np.abs(found["predicted"] - found["positive"])
        return float((apart * found["count"]).sum() / max(found["count"].sum(), 1.0))

    def calibration_curve(self, n_bins: int | None = None) -> pd.DataFrame:
        """Predicted and released share of the positive label, by probability.

        Parameters
        ----------
        n_bins : int or None, default=None
            Intervals are merged to at most this many; merged intervals without records
            are left out. None: ten, or all if there are fewer.

        Returns
        -------
        DataFrame
            ``predicted`` (every record in the middle of its interval), ``positive``,
            ``count`` and ``error``, the standard error of the noise in ``positive``.
        """
        n = self.counts.shape[1]
        if n_bins is None:
            n_bins = min(10, n)
        n_bins = check_count("n_bins", n_bins, high=n)
        joined = np.arange(n) * n_bins // n
        middles = (self.thresholds[1:] + self.thresholds[:-1]) / 2
        both = self.counts.sum(axis=0)
        count, positive, predicted, cells = (
            np.bincount(joined, weights, minlength=n_bins)
            for weights in (both, self.counts[1], both * middles, np.ones(n))
        )
        is_there = count >= 0.5
        count, cells = count[is_there], cells[is_there]
        share = positive[is_there] / count
        error = self.error * np.sqrt(cells * (share**2 + (1 - share) ** 2)) / count
        return pd.DataFrame(
            {
                "predicted": predicted[is_there] / count,
                "positive": share,
                "count": count,
                "error": error,
            }
        )

    def calibrate(
        self, probabilities: ArrayLike, method: str = "isotonic"
    ) -> FloatArray:
        """Predicted probabilities, calibrated to the released shares.

        It applies `calibrator`; the order of records stays the same, except for ties.
        Costs nothing.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples,)
            Probabilities of the positive label: ``model.predict_proba(X)[:, 1]``.
        method : {"isotonic", "sigmoid"}, default="isotonic"

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.calibrator(method)(probabilities)

    def calibrator(self, method: str = "isotonic") -> Calibrator:
        """A map of probabilities that is fitted to the released counts.

        A share counts for less if the noise of its interval is large. Each interval
        gets a few more records that are as predicted: without information,
        probabilities stay the same, and none becomes 0 or 1.

        Parameters
        ----------
        method : {"isotonic", "sigmoid"}, default="isotonic"
            Any rising map, or a map of two parameters (Platt's), which is less
            sensitive to noise and to few records.
        """
        check_choice("method", method, CALIBRATORS)
        both, positive = self.counts.sum(axis=0), self.counts[1]
        middles = (self.thresholds[1:] + self.thresholds[:-1]) / 2
        middles = np.clip(middles, *_INSIDE)  # of the narrowest they are ends, rounded
        # One over four times the variance of a share, from the sample and from the
        # noise.
        known = both / np.maximum(both + 4 * self.error**2, 1.0)
        weights = known * both + _AS_PREDICTED
        shares = (known * positive + _AS_PREDICTED * middles) / weights
        return CALIBRATORS[method].of(middles, shares, weights)

    def roc_curve(self) -> pd.DataFrame:
        """``fpr``, ``tpr`` and ``threshold``, from the largest threshold down."""
        false, true = self._called()
        negative, positive = self.counts.sum(axis=1)
        return pd.DataFrame(
            {
                "fpr": false / max(negative, 1e-9),
                "tpr": true / max(positive, 1e-9),
                "threshold": self.thresholds[::-1],
            }
        )

    def precision_recall_curve(self) -> pd.DataFrame:
        """``precision``, ``recall`` and ``threshold``, from the largest down."""
        false, true = self._called()
        called = false + true
        out = np.ones_like(called)
        return pd.DataFrame(
            {
                "precision": np.divide(true, called, out=out, where=called > 0),
                "recall": true / max(float(self.counts[1].sum()), 1e-9),
                "threshold": self.thresholds[::-1],
            }
        )

    def confusion_matrix(self, threshold: float = 0.5) -> PrivateConfusionMatrix:
        """Counts of true and predicted labels at a threshold of the probability.

        Parameters
        ----------
        threshold : float in [0, 1], default=0.5
            The nearest of `thresholds` is taken.
        """
        cut = self._cut(threshold)
        counts = np.column_stack(
            [self.counts[:, :cut].sum(axis=1), self.counts[:, cut:].sum(axis=1)]
        )
        most = max(cut, self.counts.shape[1] - cut)
        error = self.error * math.sqrt(most)
        return PrivateConfusionMatrix(self.labels, counts, error, self.privacy_)

    def f_score(self, threshold: float = 0.5, *, beta: float = 1.0) -> float:
        """F score of the positive label at a threshold, as in `confusion_matrix`."""
        return float(self.confusion_matrix(threshold).f_score(beta).iloc[1])

    def _cut(self, threshold: float) -> int:
        threshold = check_real("threshold", threshold, low=0.0, high=1.0)
        return int(np.argmin(np.abs(self.thresholds - threshold)))

    def _called(self) -> tuple[FloatArray, FloatArray]:
        """Records of each label above each threshold, from the largest down."""
        zero = np.zeros((2, 1))
        false, true = np.hstack([zero, np.cumsum(self.counts[:, ::-1], axis=1)])
        return false, true

    def plot_roc(self, *, ax: Any = None, name: str | None = None) -> Any:
        """scikit-learn's `RocCurveDisplay`."""
        from sklearn.metrics import RocCurveDisplay

        curve = self.roc_curve()
        display = RocCurveDisplay(
            fpr=curve["fpr"].to_numpy(),
            tpr=curve["tpr"].to_numpy(),
            roc_auc=self.roc_auc,
            pos_label=self.labels[1],
        )
        return display.plot(ax=ax, name=name)

    def plot_precision_recall(self, *, ax: Any = None, name: str | None = None) -> Any:
        """scikit-learn's `PrecisionRecallDisplay`."""
        from sklearn.metrics import PrecisionRecallDisplay

        curve = self.precision_recall_curve()
        display = PrecisionRecallDisplay(
            precision=curve["precision"].to_numpy()[::-1],
            recall=curve["recall"].to_numpy()[::-1],
            average_precision=self.average_precision,
            pos_label=self.labels[1],
        )
        return display.plot(ax=ax, name=name)

    def plot_calibration(
        self,
        n_bins: int | None = None,
        *,
        ax: Any = None,
        name: str | None = None,
    ) -> Any:
        """scikit-learn's `CalibrationDisplay`."""
        from sklearn.calibration import CalibrationDisplay

        curve = self.calibration_curve(n_bins)
        predicted = curve["predicted"].to_numpy()
        display = CalibrationDisplay(
            prob_true=curve["positive"].to_numpy(),
            prob_pred=predicted,
            y_prob=predicted,
            pos_label=self.labels[1],
        )
        return display.plot(ax=ax, name=name)

    def _numbers(self) -> dict[str, str]:
        return {
            "ROC AUC": f"{self.roc_auc:.4f} (error: {self.roc_auc_error:.2g})",
            "average precision": f"{self.average_precision:.4f}",
            "F1 at 1/2": f"{self.f_score():.4f}",
            "expected calibration error": f"{self.calibration_error():.4f}",
        }

    def __repr__(self) -> str:
        rows = [(f"  {name}", text) for name, text in self._numbers().items()]
        return f"{aligned(rows, 30)}\n{wrapped(self.privacy_.statement())}"

    def _repr_html_(self) -> str:
        told = f"Evaluated privately, {self.labels[1]!r} is positive"
        below = [self.privacy_._repr_html_()]
        return card(told, self._numbers().items(), below=below)


_HOW_TO_CALL = (
    "Write private_evaluation(model, X, y, epsilon=0.5): epsilon is what it may cost."
)


@fill_docs
@partial(explained, when_missing=_HOW_TO_CALL)
def private_evaluation(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    epsilon: float,
    delta: float = 1e-6,
    adjacency: Adjacency = "replace_one",
    privacy_unit: TableUnit = "record",
    classes: Any = None,
    response_method: Literal["auto", "predict_proba", "predict"] = "auto",
    thresholds: Any = None,
    random_state: int | None = None,
    ledger: Any = None,
) -> Any:
    """Evaluate a fitted classifier, or compare two of them, at the cost of one release.

    Public facts decide what is counted:

    * two labels, with `predict_proba`: records by label, and by interval of the
      predicted probability. ROC curve and AUC, precision and recall, calibration, and
      confusion matrices and F scores at every threshold follow from the counts;
    * any number of labels, with `predict`: records by true and predicted label;
    * two classifiers: records that only the one, or only the other, labels correctly.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public, or for all rows of one user, as in
    `private_score`. The counts are released once, with noise. A record is in one cell,
    so that exchanging a record moves the counts by the root of 2, and making it the
    null record moves them by 1 (``docs/proofs/scores.md``). Labels and intervals
    are public.

    Parameters
    ----------
    estimator : fitted classifier, or a tuple or list of two that are compared
        Public, or paid for; see `private_score`.
    X : array-like, CSR or source of shape (n_samples, n_features)
        A row of a source that one of two models cannot read counts for neither model.
    y : array-like of shape (n_samples,)
        Left out with a source.
    groups : array-like of shape (n_samples,) or None, default=None
        Ids of users, with ``privacy_unit="user"``; left out with a source.
    epsilon : float in [1e-6, 1e8] or inf
        %(epsilon)s
        With inf the counts are exact.
    delta : 0 or float in [1e-50, 1), default=1e-6
        As in `private_score`.
    %(adjacency)s
    privacy_unit : {"record", "user"}, default="record"
        As in `private_score`.
    classes : array-like of labels or None, default=None
        Public, in any order. Of two labels the second after sorting is positive. None:
        the estimator's labels. Left out with two models.
    response_method : {"auto", "predict_proba", "predict"}, default="auto"
        Method of the estimator. "auto": "predict_proba" if the estimator has it and
        there are two labels, else "predict". For the confusion matrix alone "predict"
        has less noise. Left out with two models.
    thresholds : sequence of floats or None, default=None
        Ends of the intervals of the probability: rising, from 0 to 1. More ends resolve
        ranks more finely, and add more noise; for a rare label most ends should be near
        0. None: 24 intervals, narrow at both ends; 48 from
        40,000 records times epsilon on, and 96 from 400,000 on.
    %(random_state, ledger)s

    Returns
    -------
    PrivateEvaluation, PrivateConfusionMatrix or PrivateComparison
        For probabilities, for predicted labels, or for two classifiers.

    Raises
    ------
    ValueError, TypeError
        For a parameter or input out of range. Nothing was spent.
    BudgetExceeded
        If the ledger's cap does not allow this. Nothing was read or spent.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import private_evaluation
    >>> X, y = make_classification(4000, random_state=0)
    >>> model = LogisticRegression().fit(X[:2000], y[:2000])
    >>> found = private_evaluation(model, X[2000:], y[2000:], epsilon=1.0)
    >>> 0.8 < found.roc_auc <= 1.0, found.privacy_.epsilon
    (True, 1.0)

    The confusion matrix alone, and a comparison with another model:

    >>> labels = private_evaluation(
    ...     model, X[2000:], y[2000:], epsilon=1.0, response_method="predict"
    ... )
    >>> labels.counts.shape
    (2, 2)
    >>> other = LogisticRegression(C=1e-4).fit(X[:200], y[:200])
    >>> both = private_evaluation((model, other), X[2000:], y[2000:], epsilon=1.0)
    >>> -1 <= both.difference <= 1
    True
    """
    release = ScoreRelease(
        epsilon, delta, adjacency, random_state, ledger, privacy_unit
    )
    scoring = _counted(estimator, classes, response_method, thresholds)
    if "thresholds" in scoring.params and thresholds is None:
        budget, table = release._check_privacy_params(), Table.of(X, y, groups)
        users = table.users_of_release(release, budget, HOW_TO_PASS_USERS)
        grid = grid_of(table, users, epsilon)
        scoring = _counted(estimator, classes, response_method, grid)
    models = tuple(estimator) if isinstance(estimator, list) else estimator
    found = released_statistic(release, scoring, models, X, y, groups)
    n_samples = found.record.n_samples
    if scoring is DISAGREEMENTS:
        one, other = found.value.tolist()
        return PrivateComparison(one, other, found.deviation, n_samples, found.record)
    value, deviation, record = found.value, found.deviation, found.record
    if "thresholds" in scoring.params:
        return PrivateEvaluation.of(scoring, value, deviation, n_samples, record)
    counts = cell_counts(scoring.params, value, n_samples)
    return PrivateConfusionMatrix(scoring.params["classes"], counts, deviation, record)


def _counted(
    estimator: Any, classes: Any, response_method: str, thresholds: Any
) -> PrivateScoring:
    """The counted cells, by public facts."""
    check_choice("response_method", response_method, _RESPONSE_METHODS)
    if isinstance(estimator, (tuple, list)):
        given = classes is not None or thresholds is not None
        return _compared(estimator, given or response_method == "predict_proba")
    check_is_fitted(estimator)
    matrix = resolve_scoring("f1_macro", estimator, classes=classes)
    if response_method == "auto":
        is_binary = len(matrix.params["classes"]) == 2
        has_curves = is_binary and hasattr(estimator, "predict_proba")
        is_asked = has_curves or thresholds is not None
        response_method = "predict_proba" if is_asked else "predict"
    if response_method == "predict_proba":
        params = None if thresholds is None else {"thresholds": thresholds}
        return resolve_scoring("roc_auc", estimator, classes=classes, params=params)
    if thresholds is not None:
        raise ValueError(
            "The 'thresholds' parameter must be None with response_method='predict', "
            "which has no probabilities. Got something else. Use "
            "response_method='predict_proba'."
        )
    return replace(matrix, name="confusion_matrix")


def _compared(models: Any, has_other_facts: bool) -> PrivateScoring:
    """The query about two classifiers."""
    if len(models) != 2:
        raise ValueError(
            "The 'estimator' argument must be a fitted classifier, or two of them. Got "
            f"{len(models)}. Compare two at a time."
        )
    if has_other_facts:
        raise ValueError(
            "The 'classes', 'response_method' and 'thresholds' parameters must be left "
            "out with two classifiers, of which predicted labels are compared. Got one "
            "of them. Evaluate each classifier by itself for probabilities."
        )
    for each in models:
        check_is_fitted(each)
        resolve_scoring("accuracy", each)
    return DISAGREEMENTS


# ---------------------------------------------------------------- PrivacyUtilityDisplay


_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_FREE = "costs nothing: forecast from public facts"


@dataclass(eq=False, repr=False)
class PrivacyUtilityDisplay:
    """Plot the quality of a model by epsilon, and the cost of the plot.

    A forecast costs nothing. **Every fitted model is a separate event**, and so is
    every private score: a choice of epsilon from a picture of these costs all of them
    together, as the title says.

    Parameters
    ----------
    epsilons : sequence of float
        Rising.
    values : sequence of float
    errors : sequence of float, or None, default=None
        Standard errors of the values.
    measured : str, default=""
        Meaning of the values.
    cost : str, default=""
        Total cost of the models and scores.
    levels : mapping of str to float, or None, default=None
        Values to compare with, by name.
    log : bool, default=False
        Whether values are drawn in powers of ten.

    Attributes
    ----------
    line_ : matplotlib Artist
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.model_selection import PrivacyUtilityDisplay
    >>> model = DPLogisticRegression()
    >>> shown = PrivacyUtilityDisplay.from_estimator(
    ...     model, (2_000, 30)
    ... )  # doctest: +SKIP
    """

    epsilons: Sequence[float]
    values: Sequence[float]
    _: KW_ONLY
    errors: Sequence[float] | None = None
    measured: str = ""
    cost: str = ""
    levels: Mapping[str, float] | None = None
    log: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        shape: Sequence[int],
        *,
        epsilons: Sequence[float] = _EPSILONS,
        ax: Any = None,
        name: str | None = None,
    ) -> Self:
        """Draw noise against signal, forecast for some epsilons.

        Reads nothing, fits nothing, spends nothing.

        Parameters
        ----------
        estimator : estimator of skdp with `forecast`
            Fitted or not; its epsilon is replaced by each of `epsilons`.
            shape : sequence of int
            Arguments of the estimator's `forecast`: mostly ``(n_samples, n_features)``.
        epsilons : sequence of float in [1e-6, 1e8]
        ax : matplotlib Axes or None, default=None
        name : str or None, default=None
            Name in the legend; None: the class.

        Returns
        -------
        PrivacyUtilityDisplay
            Drawn.

        Raises
        ------
        TypeError
            If the estimator has no `forecast`.
        ValueError
            For an epsilon or a shape out of range.
        """
        if not hasattr(estimator, "forecast"):
            raise TypeError(
                "The 'estimator' argument must be an estimator with a forecast. Got an "
                f"instance of {type(estimator).__name__}. Use from_scores with models "
                "that are fitted and scored."
            )
        told = [
            clone(estimator).set_params(epsilon=epsilon).forecast(*shape)
            for epsilon in _some("epsilons", sorted(epsilons))
        ]
        display = cls(
            [one.epsilon for one in told],
            [one.noise_to_signal for one in told],
            measured="noise in a coefficient over its size",
            cost=_FREE,
            levels={
                "little noise below": told[0].little_to,
                "a constant above": told[0].constant_from,
            },
            log=True,
        )
        return display.plot(ax=ax, name=name or type(estimator).__name__)

    @classmethod
    def from_scores(
        cls,
        models: Sequence[Any],
        scores: Sequence[PrivateScore] | Sequence[float],
        *,
        ax: Any = None,
        name: str | None = None,
    ) -> Self:
        """Draw scores of fitted models.

        Parameters
        ----------
        models : sequence of fitted estimators of skdp, or of their `privacy_`
            All with the same adjacency.
            scores : sequence of PrivateScore, or of float
            One for each model. Plain numbers are in no ledger: use them only for scores
            of public records.
        ax : matplotlib Axes or None, default=None
        name : str or None, default=None
            In the legend.

        Returns
        -------
        PrivacyUtilityDisplay
            Drawn.

        Raises
        ------
        ValueError
            If there is not one score for each model, if adjacencies or scorings differ,
            or if an epsilon is infinite.
        TypeError
            If a model has no `privacy_`, or if only some scores are private.
        """
        _some("models", models)
        records = [_record(model) for model in models]
        if len(records) != len(scores):
            raise ValueError(
                "The 'scores' argument must have one score for each of "
                f"{len(records)} models. Got {len(scores)}."
            )
        if not all(math.isfinite(record.epsilon) for record in records):
            raise ValueError(
                "Every model must have a finite epsilon. Got one without privacy. "
                "Leave it out, and draw its score by axhline on ax_."
            )
        paid = [score for score in scores if isinstance(score, PrivateScore)]
        if paid and len(paid) < len(scores):
            raise TypeError(
                "The 'scores' argument must have private scores or numbers. Got both."
            )
        scorings = sorted({score.scoring for score in paid})
        if len(scorings) > 1:
            raise ValueError(f"Scores must be of one kind. Got {scorings}.")
        cost = f"fits together {_together(records)}"
        if paid:
            cost += f"; scores together {_together([x.privacy for x in paid])}"
        order = sorted(range(len(records)), key=lambda i: records[i].epsilon)
        errors = [paid[i].standard_error for i in order] if paid else None
        display = cls(
            [records[i].epsilon for i in order],
            [float(scores[i]) for i in order],
            errors=errors,
            measured=scorings[0] if paid else "score",
            cost=cost,
        )
        return display.plot(ax=ax, name=name)

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            In the legend.

        Returns
        -------
        PrivacyUtilityDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = axes_or_new(ax, "epsilons and values")
        drawn = ax.errorbar(
            self.epsilons, self.values, yerr=self.errors, marker="o", capsize=2
        )
        self.line_ = drawn.lines[0]
        drawn.set_label(name or "_")
        for told, level in (self.levels or {}).items():
            ax.axhline(level, linestyle=":", color="0.5")
            ax.annotate(
                told,
                (0.98, level),
                xycoords=("axes fraction", "data"),
                horizontalalignment="right",
                verticalalignment="bottom",
            )
        ax.set(xscale="log", xlabel="epsilon", ylabel=self.measured)
        ax.set_title(self.cost.replace("; ", "\n"), fontsize="medium")
        if self.log:
            ax.set_yscale("log")
        if name:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _some(name: str, given: Sequence[Any]) -> Sequence[Any]:
    if not given:
        raise ValueError(f"The {name!r} argument must have an entry. Got none.")
    return given


def _record(model: Any) -> PrivacyRecord:
    record = getattr(model, "privacy_", model)
    if not isinstance(record, PrivacyRecord):
        raise TypeError(
            "The 'models' argument must have fitted estimators of skdp, or their "
            f"privacy_. Got an instance of {type(model).__name__}. Fit it first."
        )
    return record


def _together(records: Sequence[PrivacyRecord]) -> str:
    """The joint cost of several releases, if they are of the same records."""
    relations = sorted({str(record.adjacency) for record in records})
    if len(relations) > 1:
        raise ValueError(
            f"All must have the same adjacency. Got {' and '.join(relations)}, whose "
            "costs cannot be added up."
        )
    epsilon, delta = total_of([step_of(record) for record in records])
    return f"({epsilon:.3g}, {delta:.3g}) under {relations[0]}"
