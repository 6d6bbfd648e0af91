"""Private clusters."""

from skdp.cluster._k_means import DPKMeans

__all__ = ["DPKMeans"]
