"""Post-processing of released counts; reads nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


# Fewer records than there should be are believed at so many deviations: by chance
# once in 500 million tables.
_BELIEVED = 6.0


@dataclass(frozen=True)
class Total:
    """How many records are in some cell.

    Parameters
    ----------
    count : float
        n, unless released counts say that far fewer are: null records are in no cell.
    error : float
        Standard deviation of the noise in it; 0 for n, which is public.
    """

    count: float
    error: float = 0.0

    @classmethod
    def of(cls, tables: Sequence[tuple[FloatArray, float]], n_samples: int) -> Total:
        """From released tables of all records, each with its noise.

        Parameters
        ----------
        tables : sequence of (counts, standard deviation of each count)
        n_samples : int
            Public.
        """
        sums = np.array([float(counts.sum()) for counts, _ in tables])
        if not any(error for _, error in tables):
            return cls(float(np.rint(sums[0])))
        # Each sum has the noise of its cells; the mean of least variance.
        weights = np.array([1 / (error**2 * counts.size) for counts, error in tables])
        found = float(sums @ weights / weights.sum())
        error = 1 / math.sqrt(float(weights.sum()))
        if n_samples - found < _BELIEVED * error:
            return cls(float(n_samples))
        return cls(max(found, 0.0), error)

    def share_out(self, counts: FloatArray, error: float) -> FloatArray:
        """Consistent counts; those without noise are whole but for rounding."""
        return consistent(counts, self.count) if error else np.rint(counts)


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
