"""Matrix factorisation of ratings, private and not."""

from skdp.decomposition._estimator import DPMatrixFactorization
from skdp.decomposition._ratings import pairs_from_sparse
from skdp.decomposition._recommender import LocalUsers

__all__ = ["DPMatrixFactorization", "LocalUsers", "pairs_from_sparse"]
