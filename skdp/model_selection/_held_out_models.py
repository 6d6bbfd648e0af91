"""Thresholds and calibration that are chosen on held-out records."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._checks import check_choice
from skdp.io._table import Table
from skdp.model_selection._calibrators import CALIBRATORS
from skdp.model_selection._evaluation import PrivateEvaluation
from skdp.model_selection._methods import (
    Choice,
    ChosenMethod,
    HeldOut,
    SearchFacts,
)
from skdp.model_selection._scorer_sums import (
    N_INTERVALS,
    PrivateScoring,
    accuracy_of,
    balanced_accuracy_of,
    checked_thresholds,
    f1_of_positive,
)
from skdp.model_selection._scorers import resolve_scoring
from skdp.model_selection._search import PrivateSearch, _Plan
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.privacy.release._record import PrivacyRecord

# ------------------------------------------------------------------ EvaluatedClassifier
# A private classifier of two labels, with a histogram of held-out records, in one
# event. Subclasses only post-process the histogram.


# Narrow at both ends, where the probabilities of a rare or of a common label lie.
FINE = tuple(
    (np.sin(np.arange(N_INTERVALS + 1) * math.pi / 2 / N_INTERVALS) ** 2).tolist()
)


class EvaluatedClassifier(PrivateSearch):
    """A search with one candidate, which is evaluated on records that are held out."""

    method = "held_out"
    refit: ClassVar[bool] = True
    n_jobs: ClassVar[None] = None
    thresholds: Any
    validation_fraction: float | None

    @abstractmethod
    def _read_off(self, evaluation: PrivateEvaluation) -> None:
        """Keep the results that follow from the released histogram."""

    @property
    @abstractmethod
    def _cut(self) -> float:
        """The least probability of a positive label."""

    @abstractmethod
    def _score_of(self, confusion: FloatArray) -> float:
        """The score of a confusion matrix of true labels by predicted ones."""

    def predict(self, X: Any) -> np.ndarray:
        """Labels by the threshold. Post-processing.

        Parameters
        ----------
        X : array-like, CSR or source of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        is_positive = self.decision_function(X) >= 0
        return np.asarray(self.classes_[is_positive.astype(np.int64)])

    def decision_function(self, X: Any) -> np.ndarray:
        """Probability of the positive label less the threshold. Post-processing."""
        return np.asarray(self.predict_proba(X)[:, 1] - self._cut)

    def score(self, X: Any, y: Any = None) -> float:
        """The score of the predictions for raw data: **not** private.

        For a score that may be released use `skdp.private_score`.
        """
        check_is_fitted(self)
        table = Table.of(X, y)
        if not table.holds_rows:
            table.refuse_targets()
            raise TypeError(
                "score() needs a table in memory. Got a source. Use "
                "skdp.private_score(model, source, ...)."
            )
        confusion = confusion_matrix(y, self.predict(X), labels=list(self.classes_))
        return self._score_of(confusion.astype(np.float64))

    def _list_candidates(self) -> list[dict[str, Any]]:
        self._thresholds()
        return [{}]

    def _thresholds(self) -> tuple[float, ...]:
        return checked_thresholds(FINE if self.thresholds is None else self.thresholds)

    def _scorer(self, sample_row: Any) -> PrivateScoring:
        n_classes = len(getattr(sample_row, "classes_", ()))
        if n_classes > 2:
            # In scikit-learn's words, which its tools look for.
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass. Got a model of {n_classes} labels. Use its predictions "
                "as they are, or one model for each label."
            )
        params = {"thresholds": self._thresholds()}
        return resolve_scoring("roc_auc", sample_row, params=params)

    def _method(self, facts: SearchFacts) -> ChosenMethod:
        return ChosenMethod(HeldOut(), "no record is in both parts")

    def _adds_in_squares(self) -> bool:
        return bool(self.delta > 0)

    def _use_composable_noise(self) -> None:
        """If delta is above 0, all noise of the release adds up without loss."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _keep(self, choice: Choice, plan: _Plan, record: PrivacyRecord) -> None:
        super()._keep(choice, plan, record)
        self.estimator_ = self.best_estimator_
        facts, scorer = plan.facts, plan.facts.scorer
        statistic, deviation = np.zeros(scorer.size), 0.0
        if choice.statistic is not None:
            statistic, deviation = choice.statistic, choice.deviation
        (fitted,) = plan.chosen.method.needs(1.0, facts)
        n_held_out = facts.n_samples - fitted.rows
        self.evaluation_ = PrivateEvaluation.of(
            scorer, statistic, deviation, n_held_out, record
        )
        self._read_off(self.evaluation_)


# ----------------------------------------------------------- DPTunedThresholdClassifier


# Scores of the confusion matrix at a threshold; greater is better.
THRESHOLD_SCORES: dict[str, Callable[[FloatArray], float]] = {
    "accuracy": accuracy_of,
    "balanced_accuracy": balanced_accuracy_of,
    "f1": f1_of_positive,
}


class DPTunedThresholdClassifier(EvaluatedClassifier):
    """Fit a private classifier and choose its decision threshold, within one budget.

    Some records, drawn at random, are held out. `estimator` is fitted privately to the
    others; then one noisy histogram of its probabilities for the held-out records, by
    label, is released, and the threshold with the best score in the histogram is
    chosen. Both have the whole budget, since no record is in both parts.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public, or for all rows of one user, with
    the number of users public: one event for fit and histogram
    (``docs/proofs/scores.md``). The threshold is post-processing of the
    histogram, never of raw probabilities.

    A threshold that is *declared* costs nothing: scikit-learn's
    `FixedThresholdClassifier` around any fitted private model.

    Parameters
    ----------
    estimator : estimator
        A private classifier of two labels with predict_proba, or a pipeline that ends
        in one. Its private steps keep their default epsilon and delta and have no
        ledger, as in `DPGridSearchCV`.
    scoring : {"balanced_accuracy", "f1", "accuracy"}, default="balanced_accuracy"
        The score by which the threshold is chosen.
    epsilon : float in [1e-6, 1e8], default=1.0
        Privacy loss, of fit and histogram together.
    %(delta, adjacency)s
    privacy_unit : {"record", "user"}, default="record"
        As in `DPGridSearchCV`.
    thresholds : sequence of floats or None, default=None
        Candidate thresholds: rising, from 0 to 1, known without looking at the data. At
        0 all records are positive, and at 1 only records with probability 1. None: 24
        intervals that are narrow near 0 and 1.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the records that is held out. None: 0.2.
    verbose : bool, int or None, default=None
        As in `DPGridSearchCV`.
    %(random_state, ledger)s

    Attributes
    ----------
    best_threshold_ : float
        Labels are positive from this probability on. Private output.
    best_score_ : float
        `scoring` at the threshold in the released histogram: optimistic, since it is
        the best of several. Private output.
    evaluation_ : PrivateEvaluation
        The full evaluation of the model on the held-out records. Private output.
    estimator_ : estimator
        The fitted model. Private output.
    has_model_ : bool
        True: a fit that fails raises `SourceError`. Public.
    classes_ : ndarray of shape (2,)
        The second is the positive one. Public.
    %(privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPCalibratedClassifier : Calibrated probabilities.
    sklearn.model_selection.FixedThresholdClassifier : A declared threshold, at no
        privacy cost.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdp import DPLogisticRegression
    >>> from skdp.model_selection import DPTunedThresholdClassifier
    >>> X, y = make_classification(8000, 5, weights=[0.9], random_state=0)
    >>> model = DPLogisticRegression(data_norm=5.0, classes=[0, 1])
    >>> tuned = DPTunedThresholdClassifier(model, epsilon=2.0).fit(X, y)
    >>> bool(0 <= tuned.best_threshold_ <= 1), tuned.privacy_.epsilon
    (True, 2.0)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        scoring: Literal["balanced_accuracy", "f1", "accuracy"] = "balanced_accuracy",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        thresholds: Any = None,
        validation_fraction: float | None = None,
        verbose: bool | int | None = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.estimator = estimator
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.thresholds = thresholds
        self.validation_fraction = validation_fraction
        self.verbose = verbose
        self.random_state = random_state
        self.ledger = ledger

    def _list_candidates(self) -> list[dict[str, Any]]:
        check_choice("scoring", self.scoring, THRESHOLD_SCORES)
        return super()._list_candidates()

    def _read_off(self, evaluation: PrivateEvaluation) -> None:
        self.scoring_ = self.scoring
        self.best_threshold_, self.best_score_ = best_threshold(
            evaluation, THRESHOLD_SCORES[self.scoring]
        )

    @property
    def _cut(self) -> float:
        return self.best_threshold_

    def _score_of(self, confusion: FloatArray) -> float:
        return THRESHOLD_SCORES[self.scoring_](confusion)


def best_threshold(
    evaluation: PrivateEvaluation, score: Callable[[FloatArray], float]
) -> tuple[float, float]:
    """The threshold of the best score in released counts, and this score.

    Among equal scores it is the threshold nearest to 1/2.
    """
    found = [
        (score(evaluation.confusion_matrix(cut).counts), -abs(cut - 0.5), float(cut))
        for cut in evaluation.thresholds
    ]
    value, _, cut = max(found)
    return cut, value


# --------------------------------------------------------------- DPCalibratedClassifier


class DPCalibratedClassifier(EvaluatedClassifier):
    """Fit a private classifier and calibrate its probabilities, within one budget.

    Some records, drawn at random, are held out. `estimator` is fitted privately to the
    others; then one noisy histogram of its probabilities for the held-out records, by
    label, is released, and probabilities are calibrated to the shares of labels in the
    histogram. Both have the whole budget, since no record is in both parts.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public, or for all rows of one user, with
    the number of users public: one event for fit and histogram
    (``docs/proofs/scores.md``). The calibration is post-processing of the
    histogram, never of raw probabilities.

    For a fitted model `private_evaluation(...).calibrate` does the same with records
    that the model has not seen.

    Parameters
    ----------
    estimator : estimator
        A private classifier of two labels with predict_proba, or a pipeline that ends
        in one. Its private steps keep their default epsilon and delta and have no
        ledger, as in `DPGridSearchCV`.
    method : {"sigmoid", "isotonic"}, default="sigmoid"
        A rising map of two parameters (Platt's, of log-odds), or any rising map.
        "isotonic" needs many held-out records, or a large epsilon.
    epsilon : float in [1e-6, 1e8], default=1.0
        Privacy loss, of fit and histogram together.
    %(delta, adjacency)s
    privacy_unit : {"record", "user"}, default="record"
        As in `DPGridSearchCV`.
    thresholds : sequence of floats or None, default=None
        Ends of the histogram's intervals: rising, from 0 to 1, known without looking at
        the data. Probabilities beyond the middle of the first interval become equal,
        and so do those beyond the middle of the last. None: 24 intervals that are
        narrow near 0 and 1. The first ends at 0.004: declare finer intervals for a
        rarer label.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the records that is held out. None: 0.2.
    verbose : bool, int or None, default=None
        As in `DPGridSearchCV`.
    %(random_state, ledger)s

    Attributes
    ----------
    calibrator_ : Sigmoid or Isotonic
        Map from probabilities of `estimator_` to calibrated ones. Private output.
    evaluation_ : PrivateEvaluation
        The evaluation of `estimator_`, before calibration, on the held-out records.
        Private output.
    best_score_ : float
        ROC AUC of the evaluation; a rising map changes ranks only by ties. Private
        output.
    estimator_ : estimator
        The fitted model, not calibrated. Private output.
    has_model_ : bool
        True: a fit that fails raises `SourceError`. Public.
    classes_ : ndarray of shape (2,)
        The second is the positive one. Public.
    %(privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPTunedThresholdClassifier : A threshold chosen from the same histogram.
    sklearn.calibration.CalibratedClassifierCV : Calibration without privacy.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdp import DPLogisticRegression
    >>> from skdp.model_selection import DPCalibratedClassifier
    >>> X, y = make_classification(8000, 5, random_state=0)
    >>> model = DPLogisticRegression(data_norm=5.0, classes=[0, 1])
    >>> calibrated = DPCalibratedClassifier(model, epsilon=2.0).fit(X, y)
    >>> share = calibrated.predict_proba(X)[:, 1].mean()
    >>> bool(abs(share - y.mean()) < 0.1), calibrated.privacy_.epsilon
    (True, 2.0)
    """

    # The predicted label is the likelier one.
    _cut = 0.5

    def __init__(
        self,
        estimator: Any,
        *,
        method: Literal["sigmoid", "isotonic"] = "sigmoid",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        thresholds: Any = None,
        validation_fraction: float | None = None,
        verbose: bool | int | None = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.thresholds = thresholds
        self.validation_fraction = validation_fraction
        self.verbose = verbose
        self.random_state = random_state
        self.ledger = ledger

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities. Post-processing.

        Parameters
        ----------
        X : array-like, CSR or source of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        raw = super().predict_proba(X)[:, 1]
        positive = self.calibrator_(raw)
        return np.column_stack([1 - positive, positive])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of calibrated probabilities. Post-processing."""
        return np.asarray(np.log(self.predict_proba(X)))

    def _list_candidates(self) -> list[dict[str, Any]]:
        check_choice("method", self.method, CALIBRATORS)
        return super()._list_candidates()

    def _read_off(self, evaluation: PrivateEvaluation) -> None:
        self.calibrator_ = evaluation.calibrator(self.method)
        self.best_score_ = evaluation.roc_auc

    def _score_of(self, confusion: FloatArray) -> float:
        return accuracy_of(confusion)
