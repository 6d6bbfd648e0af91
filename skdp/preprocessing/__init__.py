"""Preprocessing whose parameters are declared, not learned from data."""

from skdp.preprocessing._bounded_scaler import BoundedScaler
from skdp.preprocessing._declared_one_hot_encoder import DeclaredOneHotEncoder
from skdp.preprocessing._row_norm_clipper import RowNormClipper

__all__ = ["BoundedScaler", "DeclaredOneHotEncoder", "RowNormClipper"]
