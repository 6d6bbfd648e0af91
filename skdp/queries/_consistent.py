"""Post-processing of released counts; reads nothing else."""

from __future__ import annotations

import math

import numpy as np

from skdp._floats import FloatArray


def consistent(counts: FloatArray, total: float) -> FloatArray:
    """The nearest counts, in squares, that are at least 0 and add up to a total.

    Parameters
    ----------
    counts : ndarray of any shape
        Released.
    total : float of at least 0
        Public.
    """
    # The projection lowers all counts alike and cuts at 0; see Duchi, Shalev-Shwartz,
    # Singer and Chandra (2008), Efficient projections onto the l1-ball, figure 1.
    falling = np.sort(counts, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    # Those that stay positive come first; the largest of all does, unless total is 0.
    lowered = excess[max(int(np.count_nonzero(falling > excess)), 1) - 1]
    return np.asarray(np.maximum(counts - lowered, 0.0))


def made_consistent(counts: FloatArray, error: float, n_samples: int) -> FloatArray:
    """Counts of all records; without noise they are whole but for rounding."""
    return consistent(counts, n_samples) if error else np.rint(counts)


def place_of_rank(counts: FloatArray, rank: float) -> float:
    """Where so many records lie below, in intervals from the first; straight in each.

    Parameters
    ----------
    counts : ndarray of shape (n_intervals,)
        At least 0; one of them above 0.
    rank : float
        Brought between 0 and their sum.
    """
    cumulated = np.cumsum(counts)
    rank = min(max(rank, 0.0), float(cumulated[-1]))
    # The first interval that reaches the rank and is not empty.
    i = min(int(np.searchsorted(cumulated, rank)), len(counts) - 1)
    while counts[i] <= 0:
        i += 1
    below = float(cumulated[i] - counts[i])
    return i + min(max((rank - below) / float(counts[i]), 0.0), 1.0)


def rank_deviation(deviation: float, place: float, n_intervals: int) -> float:
    """Standard deviation of the noise in the number of records below a place.

    Of counts that are brought to a known sum; that they are also at least 0 makes it
    smaller.
    """
    share = place / n_intervals
    return deviation * math.sqrt(n_intervals * share * (1 - share))
