"""`DPCalibratedClassifier`: probabilities brought near to shares, privately."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_choice
from skdp.model_selection._calibrators import CALIBRATORS
from skdp.model_selection._evaluated import EvaluatedClassifier, accuracy_of
from skdp.model_selection._private_evaluation import PrivateEvaluation


class DPCalibratedClassifier(EvaluatedClassifier):
    """Fit a private classifier and calibrate its probabilities, within one budget.

    Some records, drawn at random, are held out. `estimator` is fitted privately to the
    others; then one noisy histogram of the probabilities that it predicts for the
    held-out records, by label, is released, and probabilities are brought near to the
    shares that were found there. Both have the whole budget, since no record is in
    both parts.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public, or for all rows of one user, with
    the number of users public: one event for fit and histogram
    (``docs/proofs/private_score.md``). The calibration is post-processing of the
    histogram, never of raw probabilities.

    Of a model that is fitted already `private_evaluation(...).calibrate` does the same
    by records that it has not seen.

    Parameters
    ----------
    estimator : estimator
        A private classifier of two labels with predict_proba, or a pipeline that ends
        in one. Its private steps keep their default epsilon and delta and have no
        ledger, as in `DPGridSearchCV`.
    method : {"sigmoid", "isotonic"}, default="sigmoid"
        A rising map of two numbers (Platt's, of log-odds), or any rising map. The
        second takes many held-out records, or a large epsilon.
    epsilon : float in [1e-6, 1e8], default=1.0
        Privacy loss, of fit and histogram together.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
    privacy_unit : {"record", "user"}, default="record"
        As in `DPGridSearchCV`.
    thresholds : sequence of floats or None, default=None
        Ends of the histogram's intervals: rising, from 0 to 1, known without looking at
        the data. Probabilities beyond the middles of the first and the last one become
        equal. None: 24 intervals that are narrow near 0 and 1, of which the first ends
        at 0.004: declare finer ones for a label that is rarer.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the records that is held out. None: 0.2.
    verbose : bool, default=False
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that the event is charged to before anything is read.

    Attributes
    ----------
    calibrator_ : Sigmoid or Isotonic
        From probabilities of `estimator_` to calibrated ones. Private output.
    evaluation_ : PrivateEvaluation
        What the histogram says of `estimator_`, before it is calibrated, on the
        held-out records. Private output.
    best_score_ : float
        Its ROC AUC; a rising map changes no ranks but for ties. Private output.
    estimator_ : estimator
        The fitted model, not calibrated. Private output.
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
    DPTunedThresholdClassifier : A threshold that is chosen by the same histogram.
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

    # Labels are the likelier ones.
    _cut = 0.5

    def __init__(
        self,
        estimator: Any,
        *,
        method: str = "sigmoid",
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
