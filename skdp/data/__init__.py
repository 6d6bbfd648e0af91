"""Sources: data as solvers see it."""

from skdp.data._memory import MemorySource, held
from skdp.data._source import Block, Source, is_stable
from skdp.data._views import ColumnsOf, ConstantColumn, EntriesClipped

__all__ = [
    "Block",
    "ColumnsOf",
    "ConstantColumn",
    "EntriesClipped",
    "MemorySource",
    "Source",
    "held",
    "is_stable",
]
