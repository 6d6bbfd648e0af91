"""Private descriptions of tables, before and beside models."""

from skdp.statistics._describe import describe
from skdp.statistics._description import (
    CrossTable,
    Description,
    DescriptionDisplay,
    Histogram,
    Mean,
)

__all__ = [
    "CrossTable",
    "Description",
    "DescriptionDisplay",
    "Histogram",
    "Mean",
    "describe",
]
