"""Private descriptions of tables, before and beside models."""

from skdp.statistics._describe import describe
from skdp.statistics._description import (
    CrossTable,
    Description,
    Histogram,
    Mean,
)

__all__ = [
    "CrossTable",
    "Description",
    "Histogram",
    "Mean",
    "describe",
]
