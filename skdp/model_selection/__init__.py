"""Scores, and choices made from them, with differential privacy."""

from skdp.model_selection._calibrated import DPCalibratedClassifier
from skdp.model_selection._calibrators import Isotonic, Sigmoid
from skdp.model_selection._classification_scoring import (
    Accuracy,
    BalancedAccuracy,
    NegLogLoss,
)
from skdp.model_selection._composition import Composition
from skdp.model_selection._grid_search import DPGridSearchCV, DPRandomizedSearchCV
from skdp.model_selection._histogram_scoring import F1, F1Macro, RocAuc
from skdp.model_selection._private_comparison import (
    PrivateComparison,
    private_comparison,
)
from skdp.model_selection._private_evaluation import (
    PrivateConfusionMatrix,
    PrivateEvaluation,
    private_confusion_matrix,
    private_evaluation,
)
from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._random_stopping import RandomStopping
from skdp.model_selection._rating_splits import RatingKFold, UserKFold
from skdp.model_selection._registry import METHODS
from skdp.model_selection._regression_scoring import (
    R2,
    NegMeanAbsoluteError,
    NegMeanGammaDeviance,
    NegMeanPinballLoss,
    NegMeanPoissonDeviance,
    NegMeanSquaredError,
)
from skdp.model_selection._report import SearchReport
from skdp.model_selection._scoring import SCORINGS, resolve_scoring
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.model_selection._tuned_threshold import DPTunedThresholdClassifier
from skdp.model_selection._utility_display import PrivacyUtilityDisplay

__all__ = [
    "F1",
    "METHODS",
    "R2",
    "SCORINGS",
    "Accuracy",
    "BalancedAccuracy",
    "Composition",
    "DPCalibratedClassifier",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "DPTunedThresholdClassifier",
    "F1Macro",
    "Isotonic",
    "NegLogLoss",
    "NegMeanAbsoluteError",
    "NegMeanGammaDeviance",
    "NegMeanPinballLoss",
    "NegMeanPoissonDeviance",
    "NegMeanSquaredError",
    "PrivacyUtilityDisplay",
    "PrivateComparison",
    "PrivateConfusionMatrix",
    "PrivateEvaluation",
    "PrivateScore",
    "PrivateScoring",
    "RandomStopping",
    "RatingKFold",
    "RocAuc",
    "SearchReport",
    "Sigmoid",
    "UserKFold",
    "private_comparison",
    "private_confusion_matrix",
    "private_evaluation",
    "private_score",
    "resolve_scoring",
]
