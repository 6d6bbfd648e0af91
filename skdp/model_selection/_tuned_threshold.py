"""`DPTunedThresholdClassifier`: where to cut probabilities, chosen privately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_choice
from skdp.model_selection._evaluated import EvaluatedClassifier, accuracy_of
from skdp.model_selection._histogram_scoring import f_scores
from skdp.model_selection._private_evaluation import PrivateEvaluation


def _balanced_accuracy(confusion: FloatArray) -> float:
    true = np.maximum(confusion.sum(axis=1), 0.5)
    return float(np.mean(np.diag(confusion) / true))


def _f1(confusion: FloatArray) -> float:
    return float(f_scores(confusion)[1])


# Of the confusion matrix at a threshold, greater is better.
THRESHOLD_SCORES: dict[str, Callable[[FloatArray], float]] = {
    "accuracy": accuracy_of,
    "balanced_accuracy": _balanced_accuracy,
    "f1": _f1,
}


class DPTunedThresholdClassifier(EvaluatedClassifier):
    """Fit a private classifier and choose its decision threshold, within one budget.

    Some records, drawn at random, are held out. `estimator` is fitted privately to the
    others; then one noisy histogram of the probabilities that it predicts for the
    held-out records, by label, is released, and the threshold that scores best by it
    is taken. Both have the whole budget, since no record is in both parts.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public, or for all rows of one user, with
    the number of users public: one event for fit and histogram
    (``docs/proofs/private_score.md``). The threshold is post-processing of the
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
        What the threshold is chosen by.
    epsilon : float in [1e-6, 1e8], default=1.0
        Privacy loss, of fit and histogram together.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
    privacy_unit : {"record", "user"}, default="record"
        As in `DPGridSearchCV`.
    thresholds : sequence of floats or None, default=None
        What to choose from: rising, from 0 to 1, known without looking at the data;
        the ends call all records, or (but for those of probability 1) none positive.
        None: 24 intervals that are narrow near 0 and 1.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the records that is held out. None: 0.2.
    verbose : bool, default=False
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that the event is charged to before anything is read.

    Attributes
    ----------
    best_threshold_ : float
        Labels are positive from this probability on. Private output.
    best_score_ : float
        `scoring` at the threshold by the released histogram: optimistic, as the best of
        several. Private output.
    evaluation_ : PrivateEvaluation
        All else that the histogram says of the model on the held-out records. Private
        output.
    estimator_ : estimator
        The fitted model. Private output.
    has_model_ : bool
        True: a fit that fails raises `SourceError`. Public.
    classes_ : ndarray of shape (2,)
        The second is the positive one. Public.
    privacy_ : PrivacyRecord
        Public facts.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    DPCalibratedClassifier : Probabilities that are brought near to shares.
    sklearn.model_selection.FixedThresholdClassifier : A declared threshold, for
        nothing.

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
        scoring: str = "balanced_accuracy",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        thresholds: Any = None,
        validation_fraction: float | None = None,
        verbose: bool = False,
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
    """The threshold of the best score by released counts, and that score.

    Of equal ones the nearest to 1/2.
    """
    found = [
        (score(evaluation.confusion_matrix(cut).counts), -abs(cut - 0.5), float(cut))
        for cut in evaluation.thresholds
    ]
    value, _, cut = max(found)
    return cut, value
