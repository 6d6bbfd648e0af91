"""What papers describe and fits rarely want: an annex that nothing else imports.

Its solvers, factorisers, search methods and layers are named as all others are, by
their keys; ``entry_points.txt`` says where each is, and the registries load it when it
is named (`skdp._registry`).
"""

from skdp.papers._bolt_on_postgres import TrainingSource
from skdp.papers._convolution import Convolution
from skdp.papers._disjoint_splits import DisjointSplits

__all__ = ["Convolution", "DisjointSplits", "TrainingSource"]
