"""Scores, and choices made from them, with differential privacy."""

from skdp.model_selection._classification_scoring import (
    Accuracy,
    BalancedAccuracy,
    NegLogLoss,
)
from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._regression_scoring import (
    R2,
    NegMeanAbsoluteError,
    NegMeanSquaredError,
)
from skdp.model_selection._scoring import SCORINGS, resolve_scoring
from skdp.model_selection._scoring_base import PrivateScoring

__all__ = [
    "R2",
    "SCORINGS",
    "Accuracy",
    "BalancedAccuracy",
    "NegLogLoss",
    "NegMeanAbsoluteError",
    "NegMeanSquaredError",
    "PrivateScore",
    "PrivateScoring",
    "private_score",
    "resolve_scoring",
]
