"""Post-processing that keeps a diverging run finite."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray
from skdp.objectives._linear import LinearObjective

# Released weights are kept in a box of this size in units of 1 / data_norm, far beyond
# any useful model and far from overflow: predictions of finite rows stay finite.
_FARTHEST = 1e50


def farthest_weight(objective: LinearObjective) -> float:
    """Half the side of the box in which released weights are kept."""
    return _FARTHEST / objective.data_norm


def boxed(released: FloatArray, limit: float) -> FloatArray:
    """Numbers brought into ``[-limit, limit]``."""
    return np.clip(released, -limit, limit)
