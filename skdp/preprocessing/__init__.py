"""Preprocessing with declared parameters, or with private ones."""

from skdp.preprocessing._bounded_scaler import BoundedScaler
from skdp.preprocessing._declared_one_hot_encoder import DeclaredOneHotEncoder
from skdp.preprocessing._pca import DPPCA
from skdp.preprocessing._quantile_clipper import DPQuantileClipper
from skdp.preprocessing._row_norm_clipper import RowNormClipper
from skdp.preprocessing._simple_imputer import DPSimpleImputer
from skdp.preprocessing._standard_scaler import DPStandardScaler
from skdp.preprocessing._table_encoder import TableEncoder

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
