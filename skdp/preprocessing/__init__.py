"""Preprocessing with declared parameters, or with private ones."""

from skdp.preprocessing._declared import (
    BoundedScaler,
    DeclaredOneHotEncoder,
    RowNormClipper,
)
from skdp.preprocessing._encoder import TableEncoder
from skdp.preprocessing._pca import DPPCA
from skdp.preprocessing._private import (
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
)

__all__ = [
    "DPPCA",
    "BoundedScaler",
    "DPQuantileClipper",
    "DPSimpleImputer",
    "DPStandardScaler",
    "DeclaredOneHotEncoder",
    "RowNormClipper",
    "TableEncoder",
]
