"""Released histograms: noisy counts, and estimates of the distribution.

All estimates are post-processing of one release (``docs/proofs/default.md``,
``docs/proofs/preprocessing.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from skdp._arrays import FloatArray
from skdp.privacy.release._answers import Released

# Smallest weight of the uniform distribution in the shares of a histogram.
_LEAST_EVEN = 1e-3
# Targets are clipped at this many standard deviations from the mean,
_FARTHEST = 3.0
# or at this multiple of the width that holds four of five targets.
_WIDEST = 1.5
# Noise deviations above which targets are detected, and numbers of knots summed for it.
_FOUND, _WINDOWS = 3.5, (1, 2, 4, 8, 16)
# Smaller shares may be cut off.
_LEAST_FOUND = 0.005
# Shapes are used if the noise in a share is at least this. With less noise they would
# bias the mean of skewed targets.
_NOISY = 0.003
# Assumed deviation of the share at a knot from the nearest shape. Values from 0.005 to
# 0.02 work equally well.
_UNLIKE = 0.02
# Number of places of targets and of normal means, and normal deviations, over [-1, 1].
_PLACES, _MEANS = 401, 81
_DEVIATIONS = (0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7)
# Number of fractions of targets at one end, and scales of exponential targets.
_PARTS, _SCALES = 9, (0.05, 0.1, 0.2, 0.4, 0.8)
# Prior chance of each of three other kinds, over the chance of normal targets.
_OTHERS = 0.2
# Least standard deviation of targets, in units of the declared width.
_LEAST_DEVIATION = 0.01
# A total below n is believed if it is at least this many deviations below, which
# happens by chance once in 500 million tables.
_BELIEVED = 6.0


def consistent(counts: FloatArray, total: float) -> FloatArray:
    """The nearest nonnegative counts, in squared distance, with a given total.

    Parameters
    ----------
    counts : ndarray of any shape
        Released.
    total : float of at least 0
        Public.
    """
    # The projection lowers all counts by the same amount and clips at 0; see Duchi,
    # Shalev-Shwartz, Singer and Chandra (2008), Efficient projections onto the l1-ball,
    # figure 1.
    falling = np.sort(counts, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    # Counts that stay positive come first; the largest one does, unless total is 0.
    lowered = excess[max(int(np.count_nonzero(falling > excess)), 1) - 1]
    return np.asarray(np.maximum(counts - lowered, 0.0))


@dataclass(frozen=True, eq=False)
class ReleasedHistogram:
    """Noisy counts of states or cells that exclude each other, or their shares.

    `quantiles`, `moments` and `middle_and_half` describe numbers in [-1, 1], from
    shares at evenly spaced knots.

    Parameters
    ----------
    counts : ndarray of float64
        Released counts, of several histograms one after the other until `split`.
    deviation : float
        Standard deviation of the noise in each count. Public.
    """

    counts: FloatArray
    deviation: float

    @classmethod
    def of(cls, released: Released, n_samples: int) -> ReleasedHistogram:
        """The histogram of shares of all records."""
        return cls(released.value / n_samples, released.deviation / n_samples)

    def split(self, sizes: Sequence[int]) -> list[ReleasedHistogram]:
        """Histograms that were released together."""
        ends = np.cumsum(sizes, dtype=np.int64)[:-1]
        each = np.split(self.counts, ends)
        return [ReleasedHistogram(counts, self.deviation) for counts in each]

    def consistent(self, total: float) -> FloatArray:
        """Counts with this total; without noise, counts rounded to whole numbers."""
        return (
            consistent(self.counts, total) if self.deviation else np.rint(self.counts)
        )

    @cached_property
    def shares(self) -> FloatArray:
        """Estimated shares, nearly uniform if the noise exceeds their differences."""
        even = 1 / len(self.counts)
        spread = float(np.mean((self.counts - even) ** 2))
        # The largest spread of shares that add up to 1 has all records in one state.
        spread = min(max(spread - self.deviation**2, 0.0), even * (1 - even))
        square = self.deviation**2
        noise = square / (spread + square) if self.deviation > 0 else 0.0
        weight = max(noise, _LEAST_EVEN)
        return (1 - weight) * consistent(self.counts, 1.0) + weight * even

    @property
    def knots(self) -> FloatArray:
        return np.linspace(-1.0, 1.0, len(self.counts))

    def quantiles(self, *levels: float) -> list[float]:
        below = np.cumsum(self.shares) - self.shares / 2
        return np.interp(levels, below, self.knots).tolist()

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation.

        If the noise is small, both are computed from the shares. Otherwise the
        histogram is compared with a few hundred shapes, and the moments of the shapes
        are averaged by their likelihood, so that noise far from the targets is not
        mistaken for targets.
        """
        if self.deviation < _NOISY:
            shares, knots = self.shares, self.knots
            mean = float(shares @ knots)
            # A target between two knots adds a sixth of their squared distance to the
            # variance.
            blur = (2 / max(len(shares) - 1, 1)) ** 2 / 6
            variance = float(shares @ (knots - mean) ** 2) - blur
        else:
            mean, variance = self._of_shapes()
        return mean, math.sqrt(max(variance, (2 * _LEAST_DEVIATION) ** 2))

    def _of_shapes(self) -> tuple[float, float]:
        shares, moments, log_prior = _shapes(len(self.counts))
        # Clip released shares so far out that the choice of a shape does not change.
        distances = np.sum((shares - np.clip(self.counts, -1e3, 1e3)) ** 2, axis=1)
        log_weights = log_prior - distances / (2 * (self.deviation**2 + _UNLIKE**2))
        weights = np.exp(log_weights - log_weights.max())
        mean, square = weights @ moments / weights.sum()
        return float(mean), float(square - mean**2)

    def middle_and_half(self) -> tuple[float, float]:
        """Middle and half width of the range that contains the targets.

        The half width is three deviations. If noise at far knots makes the deviation
        much too large, it is 1.5 times the width that contains four of five targets.
        The range reaches at least the farthest detected targets.
        """
        shares, knots = self.shares, self.knots
        narrowest = float(knots[1] - knots[0])
        mean = float(shares @ knots)
        spread = math.sqrt(max(float(shares @ knots**2) - mean**2, 0.0))
        low, first, third, high = self.quantiles(0.1, 0.25, 0.75, 0.9)
        middle = min(max(mean, first), third)
        half = min(_FARTHEST * spread, _WIDEST * (high - low) + narrowest)
        for side in (knots > middle + half, knots < middle - half):
            found = self._farthest_found(side, middle)
            half = max(half, found + narrowest)
        # At most the declared width, and at least the distance of two knots.
        return middle, min(max(half, narrowest), 1 + abs(middle))

    def _farthest_found(self, side: np.ndarray, middle: float) -> float:
        """Farthest distance at which a share exceeds the noise; 0 if none does."""
        noisy, places = self.counts[side], np.abs(self.knots[side] - middle)
        farthest = 0.0
        for width in _WINDOWS:
            if width > len(noisy):
                break
            window = np.ones(width)
            sums = np.convolve(noisy, window, "valid")
            centres = np.convolve(places, window / width, "valid")
            noise = _FOUND * self.deviation * math.sqrt(width)
            is_found = sums > max(noise, _LEAST_FOUND)
            farthest = max(farthest, float(centres[is_found].max(initial=0.0)))
        return farthest


@lru_cache(maxsize=4)
def _shapes(n_knots: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares at knots, mean and mean square, and log prior chance of each shape.

    A shape is normal; or it has a fraction at one end, and the rest at the other end or
    spread evenly; or it falls exponentially from one end.
    """
    places = np.linspace(-1.0, 1.0, _PLACES)
    low, high = np.eye(_PLACES)[[0, -1]]
    anywhere = np.full(_PLACES, 1 / _PLACES)
    parts = np.arange(1, _PARTS + 1) / (_PARTS + 1)
    normal = [
        np.exp(-(((places - mean) / deviation) ** 2) / 2) + 1e-9
        for mean in np.linspace(-1.0, 1.0, _MEANS)
        for deviation in _DEVIATIONS
    ]
    ends = [anywhere, *(part * low + (1 - part) * high for part in parts)]
    at_one_end = [
        part * end + (1 - part) * anywhere for part in parts for end in (low, high)
    ]
    falling = [np.exp(-(1 + s * places) / scale) for scale in _SCALES for s in (1, -1)]
    kinds = [(normal, 1.0), *((k, _OTHERS) for k in (ends, at_one_end, falling))]
    found = np.concatenate([kind for kind, _ in kinds])
    found /= found.sum(axis=1, keepdims=True)
    prior = np.concatenate([np.full(len(k), chance / len(k)) for k, chance in kinds])
    knots = np.linspace(-1.0, 1.0, n_knots)
    apart = np.abs(places[:, None] - knots) / (knots[1] - knots[0])
    shares = found @ np.maximum(0.0, 1 - apart)
    return shares, found @ np.stack([places, places**2], axis=1), np.log(prior)


def total_of(
    tables: Sequence[ReleasedHistogram], n_samples: int
) -> tuple[float, float]:
    """Number of records that are in some cell, and its noise.

    The number is n, which is public and has no noise, unless released tables of all
    records show that it is far smaller, because null records are in no cell.
    """
    sums = np.array([float(table.counts.sum()) for table in tables])
    if not any(table.deviation for table in tables):
        return float(np.rint(sums[0])), 0.0
    # A sum has the noise of all its cells; this is the mean of least variance.
    weights = np.array([1 / (t.deviation**2 * t.counts.size) for t in tables])
    found = float(sums @ weights / weights.sum())
    error = 1 / math.sqrt(float(weights.sum()))
    if n_samples - found < _BELIEVED * error:
        return float(n_samples), 0.0
    return max(found, 0.0), error


def place_of_rank(counts: FloatArray, rank: float) -> float:
    """Position with `rank` records below, in intervals; linear within an interval.

    Parameters
    ----------
    counts : ndarray of shape (n_intervals,)
        At least 0; one of them above 0.
    rank : float
        Clipped to [0, sum of the counts].
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

    The counts are projected onto a known sum; projecting them onto nonnegative counts
    as well reduces the noise further.
    """
    share = place / n_intervals
    return deviation * math.sqrt(n_intervals * share * (1 - share))
