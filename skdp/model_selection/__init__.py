"""Scores, and choices made from them, with differential privacy."""

from skdp.model_selection._composition import Composition
from skdp.model_selection._disjoint_splits import DisjointSplits
from skdp.model_selection._grid_search import DPGridSearchCV, DPRandomizedSearchCV
from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._random_stopping import RandomStopping
from skdp.model_selection._registry import METHODS
from skdp.model_selection._scoring import SCORINGS, resolve_scoring

__all__ = [
    "METHODS",
    "SCORINGS",
    "Composition",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "DisjointSplits",
    "PrivateScore",
    "RandomStopping",
    "private_score",
    "resolve_scoring",
]
