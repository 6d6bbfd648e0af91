"""Scores, and choices made from them, with differential privacy."""

from skdp.model_selection._calibrated import DPCalibratedClassifier
from skdp.model_selection._calibrators import Isotonic, Sigmoid
from skdp.model_selection._composition import Composition
from skdp.model_selection._grid_search import DPGridSearchCV, DPRandomizedSearchCV
from skdp.model_selection._private_comparison import PrivateComparison
from skdp.model_selection._private_evaluation import (
    PrivateConfusionMatrix,
    PrivateEvaluation,
    private_evaluation,
)
from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._random_stopping import RandomStopping
from skdp.model_selection._rating_splits import RatingKFold, UserKFold
from skdp.model_selection._registry import METHODS
from skdp.model_selection._report import SearchReport
from skdp.model_selection._scoring import SCORINGS, resolve_scoring
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.model_selection._tuned_threshold import DPTunedThresholdClassifier
from skdp.model_selection._utility_display import PrivacyUtilityDisplay

__all__ = [
    "METHODS",
    "SCORINGS",
    "Composition",
    "DPCalibratedClassifier",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "DPTunedThresholdClassifier",
    "Isotonic",
    "PrivacyUtilityDisplay",
    "PrivateComparison",
    "PrivateConfusionMatrix",
    "PrivateEvaluation",
    "PrivateScore",
    "PrivateScoring",
    "RandomStopping",
    "RatingKFold",
    "SearchReport",
    "Sigmoid",
    "UserKFold",
    "private_evaluation",
    "private_score",
    "resolve_scoring",
]
