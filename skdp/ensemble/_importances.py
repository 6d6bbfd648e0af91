"""How much a model's raw prediction varies with each column: public draws only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from skdp._floats import FloatArray
from skdp.ensemble._bins import Bins

# Draws of codes; the error of an importance is a few percent of the largest.
_DRAWS = 4096
# Fixed, so that the same model has the same importances.
_SEED = 0


def importances(
    raw: Callable[[NDArray[np.uint8]], FloatArray], bins: Bins, n_declared: int
) -> FloatArray:
    """Each declared column's share of the variance of a raw prediction.

    Codes are drawn alike and independently, since how often they occur is private. The
    importance of a column is the part of the variance that is lost if all others are
    known and it is not, with what it shares with them (the total index of Sobol), for a
    model without pairs the variance of its curve.

    Parameters
    ----------
    raw : callable
        From codes to raw predictions (n_samples, n_outputs).
    bins : Bins
    n_declared : int
        Number of declared columns.

    Returns
    -------
    ndarray of float64 of shape (n_declared,)
        They sum to 1, or are all 0 for a constant model.
    """
    rng = check_random_state(_SEED)
    one, other = _drawn(bins, rng), _drawn(bins, rng)
    base, found = _centred(raw(one)), np.zeros(n_declared)
    for source in range(n_declared):
        mixed = one.copy()
        for j, column in enumerate(bins.columns):
            if column.source == source:
                mixed[:, j] = other[:, j]
        found[source] = np.mean((_centred(raw(mixed)) - base) ** 2)
    total = found.sum()
    return found / total if total > 0 else found


def _drawn(bins: Bins, rng: Any) -> NDArray[np.uint8]:
    shape = (_DRAWS, len(bins.columns))
    return np.asarray(rng.randint(0, bins.n_bins, size=shape), dtype=np.uint8)


def _centred(raw: FloatArray) -> FloatArray:
    """Without what is added to all outputs alike, which changes no softmax."""
    if raw.shape[1] == 1:
        return raw
    centred: FloatArray = raw - raw.mean(axis=1, keepdims=True)
    return centred
