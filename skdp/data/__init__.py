"""Sources: data as solvers see it."""

from skdp.data._memory import MemorySource, held
from skdp.data._source import Block, Source

__all__ = ["Block", "MemorySource", "Source", "held"]
