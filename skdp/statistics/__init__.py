"""Private descriptions of tables, before and beside models."""

from skdp.statistics._describe import describe
from skdp.statistics._description import CrossTable, Description
from skdp.statistics._display import DescriptionDisplay
from skdp.statistics._summaries import Histogram, Mean

__all__ = [
    "CrossTable",
    "Description",
    "DescriptionDisplay",
    "Histogram",
    "Mean",
    "describe",
]
