"""Means and variances of columns and targets from noisy histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from skdp._arrays import FloatArray

# ------------------------------ Shares, means and variances from noisy sums over states
# Post-processing of one release (``docs/proofs/centred_descent.md``).


# Fraction of the shares of a part that is always spread evenly over its states.
_LEAST_EVEN = 1e-3
# Targets are clipped at this many standard deviations from the mean,
_FARTHEST = 3.0
# or at this multiple of the width that holds four of five targets.
_WIDEST = 1.5
# Noise deviations above which targets are detected, and numbers of knots summed for it.
_FOUND, _WINDOWS = 3.5, (1, 2, 4, 8, 16)
# Smaller shares may be cut off.
_LEAST_FOUND = 0.005


def even_margins(parts: tuple[int, ...]) -> FloatArray:
    """Shares of records spread evenly over the states of each part."""
    return np.concatenate([np.full(size, 1 / size) for size in parts])


def shrunk_margins(
    noisy: FloatArray, deviation: float, parts: tuple[int, ...] = ()
) -> FloatArray:
    """Estimated share of the records in each state.

    The shares of a part are nearly even where noise exceeds their differences.

    Parameters
    ----------
    noisy : ndarray of float64 of shape (n_states,)
        Released shares.
    deviation : float
        Standard deviation of the noise in a share.
    parts : tuple of int, default=()
        Number of states of each part; the states of a part exclude each other. Empty:
        there is one part.

    Returns
    -------
    ndarray of float64 of shape (n_states,)
    """
    each = np.split(noisy, np.cumsum(parts, dtype=np.int64)[:-1])
    return np.concatenate([_of_part(part, deviation) for part in each])


def _of_part(noisy: FloatArray, deviation: float) -> FloatArray:
    even = 1 / len(noisy)
    spread = max(float(np.mean((noisy - even) ** 2)) - deviation**2, 0.0)
    # The largest spread of shares that add up to 1 has all records in one state.
    spread = min(spread, even * (1 - even))
    noise = deviation**2 / (spread + deviation**2) if deviation > 0 else 0.0
    weight = max(noise, _LEAST_EVEN)
    return (1 - weight) * on_simplex(noisy) + weight * even


def on_simplex(values: FloatArray) -> FloatArray:
    """The nearest nonnegative numbers that add up to 1."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    above = excess[np.flatnonzero(falling >= excess)[-1]]
    return np.asarray(np.maximum(values - above, 0.0))


def target_scale(noisy: FloatArray, deviation: float) -> tuple[float, float]:
    """Middle and half width of the range that holds the targets.

    The input is the released shares of the targets at even knots over [-1, 1].

    The half width is three deviations, or, where noise at far knots makes the deviation
    much too large, 1.5 times the width that holds four of five targets. It reaches at
    least the farthest detected targets.
    """
    shares = shrunk_margins(noisy, deviation)
    knots = np.linspace(-1.0, 1.0, len(shares))
    narrowest = float(knots[1] - knots[0])
    mean = float(shares @ knots)
    spread = math.sqrt(max(float(shares @ knots**2) - mean**2, 0.0))
    low, first, third, high = quantiles(shares, (0.1, 0.25, 0.75, 0.9))
    middle = min(max(mean, first), third)
    half = min(_FARTHEST * spread, _WIDEST * (high - low) + narrowest)
    for side in (knots > middle + half, knots < middle - half):
        found = _farthest_found(noisy[side], np.abs(knots[side] - middle), deviation)
        half = max(half, found + narrowest)
    # At most the declared width, and at least the distance of two knots.
    return middle, min(max(half, narrowest), 1 + abs(middle))


def _farthest_found(noisy: FloatArray, places: FloatArray, deviation: float) -> float:
    """Farthest place whose share exceeds the noise; 0 if there is none."""
    farthest = 0.0
    for width in _WINDOWS:
        if width > len(noisy):
            break
        window = np.ones(width)
        sums = np.convolve(noisy, window, "valid")
        centres = np.convolve(places, window / width, "valid")
        is_found = sums > max(_FOUND * deviation * math.sqrt(width), _LEAST_FOUND)
        farthest = max(farthest, float(centres[is_found].max(initial=0.0)))
    return farthest


def quantiles(shares: FloatArray, levels: tuple[float, ...]) -> list[float]:
    """Quantiles of numbers in [-1, 1] from shares at even knots."""
    below = np.cumsum(shares) - shares / 2
    knots = np.linspace(-1.0, 1.0, len(shares))
    return np.interp(levels, below, knots).tolist()


@dataclass(frozen=True)
class FeatureMoments:
    """Mean and variance of each feature; post-processing of margins."""

    mean: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, margins: FloatArray, basis: csr_array) -> FeatureMoments:
        """Moments of features that are linear in the states.

        Parameters
        ----------
        margins : ndarray of float64 of shape (n_states,)
        basis : CSR of shape (n_states, n_features)
        """
        mean = np.asarray(margins @ basis)
        squares = np.asarray(margins @ basis.power(2))
        return cls(mean, np.maximum(squares - mean**2, 0.0))


# --------------------------------- Mean and deviation of targets from a noisy histogram
# Post-processing. If noise is small, both follow from the histogram. Otherwise the
# histogram is compared with a few hundred shapes, and the shapes' moments are averaged
# by their likelihood: then noise far from the targets is no longer mistaken for
# targets.


# Shapes are used from this noise in a share on. With less noise they would bias the
# mean of skewed targets.
_NOISY = 0.003
# Assumed deviation of the shares at a knot from the nearest shape. Flat from
# 0.005 to 0.02.
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


def moments_of(counts: FloatArray, noise: float) -> tuple[float, float]:
    """Mean and standard deviation of targets.

    Parameters
    ----------
    counts : ndarray of float64 of shape (n_knots,)
        Released shares of the targets at even knots over [-1, 1].
    noise : float
        Standard deviation of the noise in each share.
    """
    if noise < _NOISY:
        mean, variance = _of_histogram(shrunk_margins(counts, noise))
    else:
        mean, variance = _of_shapes(counts, noise)
    return mean, math.sqrt(max(variance, (2 * _LEAST_DEVIATION) ** 2))


def _of_histogram(shares: FloatArray) -> tuple[float, float]:
    knots = np.linspace(-1.0, 1.0, len(shares))
    mean = float(shares @ knots)
    # A target between two knots adds a sixth of their squared distance to the variance.
    blur = (2 / max(len(shares) - 1, 1)) ** 2 / 6
    return mean, float(shares @ (knots - mean) ** 2) - blur


def _of_shapes(counts: FloatArray, noise: float) -> tuple[float, float]:
    shares, moments, log_prior = _shapes(len(counts))
    # Clip released shares so far out that the choice of a shape does not change.
    counts = np.clip(counts, -1e3, 1e3)
    distances = np.sum((shares - counts) ** 2, axis=1)
    log_weights = log_prior - distances / (2 * (noise**2 + _UNLIKE**2))
    weights = np.exp(log_weights - log_weights.max())
    mean, square = weights @ moments / weights.sum()
    return float(mean), float(square - mean**2)


@lru_cache(maxsize=4)
def _shapes(n_knots: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares at knots, mean and mean square, and log prior chance of each shape.

    Shapes are normal; or have a fraction at one end, with the rest at the other end or
    spread evenly; or fall exponentially from one end.
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
