"""Algorithms of papers that fits rarely need: an annex that no other module imports.

Users name its solvers, factorisers, search methods and layers by their keys, as all
others. ``entry_points.txt`` says where each is, and the registries load it when it is
named (`skdp._configured`).
"""

from skdp.papers._bolt_on_postgres import TrainingSource
from skdp.papers._disjoint_splits import DisjointSplits

__all__ = ["DisjointSplits", "TrainingSource"]
