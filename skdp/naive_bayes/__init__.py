"""Private naive Bayes."""

from skdp.naive_bayes._categorical import DPCategoricalNB

__all__ = ["DPCategoricalNB"]
