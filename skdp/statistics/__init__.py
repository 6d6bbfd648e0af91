"""Private descriptions of tables, before and beside models."""

from skdp.statistics._describe import describe
from skdp.statistics._description import (
    CrossTable,
    Description,
    Histogram,
    Mean,
)
from skdp.statistics._ranges import RangeProposals, propose_ranges

__all__ = [
    "CrossTable",
    "Description",
    "Histogram",
    "Mean",
    "RangeProposals",
    "describe",
    "propose_ranges",
]
