"""Scores, and choices made from them, with differential privacy."""

from skdp.model_selection._calibrators import Isotonic, Sigmoid
from skdp.model_selection._conformal import (
    DPConformalClassifier,
    DPConformalRegressor,
)
from skdp.model_selection._evaluation import (
    PrivacyUtilityDisplay,
    PrivateConfusionMatrix,
    PrivateEvaluation,
    private_evaluation,
)
from skdp.model_selection._held_out_models import (
    DPCalibratedClassifier,
    DPTunedThresholdClassifier,
)
from skdp.model_selection._methods import METHODS, Composition, RandomStopping
from skdp.model_selection._results import SearchReport
from skdp.model_selection._scorer_sums import PrivateScoring
from skdp.model_selection._scorers import SCORINGS, resolve_scoring
from skdp.model_selection._scores import PrivateComparison, PrivateScore, private_score
from skdp.model_selection._search import DPGridSearchCV, DPRandomizedSearchCV
from skdp.model_selection._splits import RatingKFold, UserKFold

__all__ = [
    "METHODS",
    "SCORINGS",
    "Composition",
    "DPCalibratedClassifier",
    "DPConformalClassifier",
    "DPConformalRegressor",
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
