"""Private ensembles of trees that are drawn without data."""

from skdp.ensemble._boosting import BOOSTERS, BoostedTrees
from skdp.ensemble._estimators import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
)
from skdp.ensemble._shapes import Shape, ShapeFunctions
from skdp.ensemble._trees import Bins, RandomTrees

__all__ = [
    "BOOSTERS",
    "Bins",
    "BoostedTrees",
    "DPGradientBoostingClassifier",
    "DPGradientBoostingRegressor",
    "RandomTrees",
    "Shape",
    "ShapeFunctions",
]
