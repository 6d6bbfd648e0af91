"""Scores, and choices made from them, with differential privacy."""

from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._scoring import SCORINGS, resolve_scoring

__all__ = ["SCORINGS", "PrivateScore", "private_score", "resolve_scoring"]
