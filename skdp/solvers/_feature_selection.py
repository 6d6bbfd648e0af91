"""Whether features are selected first, by public bounds alone."""

from __future__ import annotations

import math

from skdp.objectives._linear import LinearObjective


def favours_selection(objective: LinearObjective) -> bool:
    """Whether selecting features and then releasing their values takes less noise.

    Noise in all values grows with the norm of a row, D2; a private selection with its
    largest entry, DInf, and with the number s of features selected. Selection is better
    if ``(D2 / DInf)^2 >= s max(2, log d)`` (``docs/solvers/peeling.md``).
    """
    wanted = objective.most_features * max(2.0, math.log(objective.n_features))
    return objective.full_entries >= wanted
