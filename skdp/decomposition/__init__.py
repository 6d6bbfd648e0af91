"""Factorisation of rating matrices: HAMSI, its peers, and private factorisation."""

from skdp.decomposition._matrix_factorization import DPMatrixFactorization
from skdp.decomposition._pairs import pairs_from_sparse
from skdp.decomposition._recommender import LocalUsers

__all__ = ["DPMatrixFactorization", "LocalUsers", "pairs_from_sparse"]
