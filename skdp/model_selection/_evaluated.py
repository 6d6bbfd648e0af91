"""Private classifiers of two labels with a histogram of held-out records, in one event.

What subclasses make of the histogram is post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.utils.validation import check_is_fitted

from skdp._floats import FloatArray
from skdp.io._table_source import TableSource
from skdp.io._takes import refuse_targets
from skdp.model_selection._held_out import HeldOut, Measured
from skdp.model_selection._histogram_scoring import (
    N_INTERVALS,
    CellScoring,
    checked_thresholds,
)
from skdp.model_selection._method import Choice, SearchFacts
from skdp.model_selection._private_evaluation import PrivateEvaluation
from skdp.model_selection._registry import ChosenMethod
from skdp.model_selection._scoring import resolve_scoring
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.model_selection._search import PrivateSearch, _Plan
from skdp.privacy._record import PrivacyRecord

# Narrow at both ends, where probabilities of a rare label are, and of a common one.
FINE = tuple(
    (np.sin(np.arange(N_INTERVALS + 1) * math.pi / 2 / N_INTERVALS) ** 2).tolist()
)


def accuracy_of(confusion: FloatArray) -> float:
    """Share of the records on the diagonal."""
    return float(np.trace(confusion) / max(confusion.sum(), 1.0))


class EvaluatedClassifier(PrivateSearch):
    """A search with one candidate, which is evaluated on records that are held out."""

    method = "held_out"
    refit: ClassVar[bool] = True
    n_jobs: ClassVar[None] = None
    thresholds: Any
    validation_fraction: float | None

    @abstractmethod
    def _read_off(self, evaluation: PrivateEvaluation) -> None:
        """Keep what follows from the released histogram."""

    @property
    @abstractmethod
    def _cut(self) -> float:
        """The probability from which on labels are positive."""

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
        if isinstance(X, TableSource):
            refuse_targets(y)
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

    def _scorer(self, stand_in: Any) -> PrivateScoring:
        n_classes = len(getattr(stand_in, "classes_", ()))
        if n_classes > 2:
            # In scikit-learn's words, which its tools look for.
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass. Got a model of {n_classes} labels. Use its predictions "
                "as they are, or one model for each label."
            )
        params = {"thresholds": self._thresholds()}
        return resolve_scoring("roc_auc", stand_in, params=params)

    def _method(self, facts: SearchFacts) -> ChosenMethod:
        return ChosenMethod(HeldOut(), "no record is in both parts")

    def _adds_in_squares(self) -> bool:
        return bool(self.delta > 0)

    def _be_one_of_several(self) -> None:
        """All that is released adds up without loss if delta is above 0."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _keep(self, choice: Choice, plan: _Plan, record: PrivacyRecord) -> None:
        super()._keep(choice, plan, record)
        self.estimator_ = self.best_estimator_
        facts, scorer = plan.facts, plan.facts.scorer
        assert isinstance(scorer, CellScoring)
        statistic, deviation = np.zeros(scorer.size), 0.0
        if isinstance(choice, Measured) and choice.statistic is not None:
            statistic, deviation = choice.statistic, choice.deviation
        (fitted,) = plan.chosen.method.needs(1.0, facts)
        counts = scorer.counts(statistic, facts.n_samples - fitted.rows)
        low, high = scorer.classes
        ends = np.array(scorer.params["thresholds"])
        self.evaluation_ = PrivateEvaluation(
            (low, high), ends, counts, deviation, record
        )
        self._read_off(self.evaluation_)
