"""Private ensembles of trees that are drawn without data."""

from skdp.ensemble._bins import Bins
from skdp.ensemble._boosted import BoostedTrees
from skdp.ensemble._classifier import DPGradientBoostingClassifier
from skdp.ensemble._display import ShapesDisplay
from skdp.ensemble._registry import BOOSTERS
from skdp.ensemble._regressor import DPGradientBoostingRegressor
from skdp.ensemble._shapes import Shape, ShapeFunctions
from skdp.ensemble._trees import RandomTrees

__all__ = [
    "BOOSTERS",
    "Bins",
    "BoostedTrees",
    "DPGradientBoostingClassifier",
    "DPGradientBoostingRegressor",
    "RandomTrees",
    "Shape",
    "ShapeFunctions",
    "ShapesDisplay",
]
