"""Means and variances of columns and targets from noisy histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from skdp._arrays import FloatArray

# ------------------------------------------------------------------------------------
# What noisy sums over states tell of each column: shares, means, variances
# Post-processing of one release, as ``docs/proofs/centred_descent.md`` says.


# Of the shares of a part, at least so much is spread evenly over its states.
_LEAST_EVEN = 1e-3
# Deviations from the mean at which targets are clipped.
_FARTHEST = 3.0
# Or over the width that holds four of five.
_WIDEST = 1.5
# Deviations of the noise from which on targets are found at so many knots together.
_FOUND, _WINDOWS = 3.5, (1, 2, 4, 8, 16)
# Smaller shares may be cut off.
_LEAST_FOUND = 0.005


def even_margins(parts: tuple[int, ...]) -> FloatArray:
    """Shares of records spread evenly over the states of each part."""
    return np.concatenate([np.full(size, 1 / size) for size in parts])


def shrunk_margins(
    noisy: FloatArray, deviation: float, parts: tuple[int, ...] = ()
) -> FloatArray:
    """Shares of the records in each state.

    Where the noise is larger than what tells the shares of a part apart, they are
    nearly even.

    Parameters
    ----------
    noisy : ndarray of float64 of shape (n_states,)
        Released shares.
    deviation : float
        Of the noise in a share.
    parts : tuple of int, default=()
        Numbers of states, of which those of a part exclude each other; empty: one part.

    Returns
    -------
    ndarray of float64 of shape (n_states,)
    """
    each = np.split(noisy, np.cumsum(parts, dtype=np.int64)[:-1])
    return np.concatenate([_of_part(part, deviation) for part in each])


def _of_part(noisy: FloatArray, deviation: float) -> FloatArray:
    even = 1 / len(noisy)
    spread = max(float(np.mean((noisy - even) ** 2)) - deviation**2, 0.0)
    # Shares that add up to 1 cannot be farther from even than all in one state.
    spread = min(spread, even * (1 - even))
    noise = deviation**2 / (spread + deviation**2) if deviation > 0 else 0.0
    weight = max(noise, _LEAST_EVEN)
    return (1 - weight) * on_simplex(noisy) + weight * even


def on_simplex(values: FloatArray) -> FloatArray:
    """The nearest numbers of at least 0 that add up to 1."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    above = excess[np.flatnonzero(falling >= excess)[-1]]
    return np.asarray(np.maximum(values - above, 0.0))


def target_scale(noisy: FloatArray, deviation: float) -> tuple[float, float]:
    """Middle and half of the width in which targets lie.

    Of their released shares at knots that are even over [-1, 1].

    Three deviations about the mean, where noise that is left at far knots makes that
    much too wide four of five of the targets and half as much again; and as far as any
    are found for certain.
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
    # No wider than what is declared, and no narrower than the knots can tell.
    return middle, min(max(half, narrowest), 1 + abs(middle))


def _farthest_found(noisy: FloatArray, places: FloatArray, deviation: float) -> float:
    """Farthest place about which there is more than noise explains; 0 if nowhere."""
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
    """Of numbers in [-1, 1] with shares at even knots."""
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
        """Of features that are linear in the states.

        Parameters
        ----------
        margins : ndarray of float64 of shape (n_states,)
        basis : CSR of shape (n_states, n_features)
        """
        mean = np.asarray(margins @ basis)
        squares = np.asarray(margins @ basis.power(2))
        return cls(mean, np.maximum(squares - mean**2, 0.0))


# ------------------------------------------------------------------------------------
# Mean and deviation of targets, of a noisy histogram of them; post-processing
# Where noise is small, the histogram has both. Where it is not, a few hundred shapes
# are compared with it, and moments are averaged over them by how likely each of them
# made it: noise that happens to be far from where targets lie is then no longer taken
# for targets.


# Noise in a share from which on shapes are compared. Of histograms with less noise,
# shapes would bias the mean of skewed targets.
_NOISY = 0.003
# Deviation of the share of targets at a knot from that of the nearest shape. Flat from
# 0.005 to 0.02.
_UNLIKE = 0.02
# Places of targets, and means and deviations of normal ones, over [-1, 1].
_PLACES, _MEANS = 401, 81
_DEVIATIONS = (0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7)
# Parts of targets at one end, and scales of exponential ones from there on.
_PARTS, _SCALES = 9, (0.05, 0.1, 0.2, 0.4, 0.8)
# Prior chance of each of three kinds that are not normal, over that of normal ones.
_OTHERS = 0.2
# Of the declared width, the least standard deviation that targets are taken to have.
_LEAST_DEVIATION = 0.01


def moments_of(counts: FloatArray, noise: float) -> tuple[float, float]:
    """Mean and standard deviation of targets.

    Parameters
    ----------
    counts : ndarray of float64 of shape (n_knots,)
        Released shares of the targets at even knots over [-1, 1].
    noise : float
        Its deviation in each of them.
    """
    if noise < _NOISY:
        mean, variance = _of_histogram(shrunk_margins(counts, noise))
    else:
        mean, variance = _of_shapes(counts, noise)
    return mean, math.sqrt(max(variance, (2 * _LEAST_DEVIATION) ** 2))


def _of_histogram(shares: FloatArray) -> tuple[float, float]:
    knots = np.linspace(-1.0, 1.0, len(shares))
    mean = float(shares @ knots)
    # Shares in neighbouring knots move a target by a sixth of their squared distance.
    blur = (2 / max(len(shares) - 1, 1)) ** 2 / 6
    return mean, float(shares @ (knots - mean) ** 2) - blur


def _of_shapes(counts: FloatArray, noise: float) -> tuple[float, float]:
    shares, moments, log_prior = _shapes(len(counts))
    # What is farther from every share than this tells nothing more.
    counts = np.clip(counts, -1e3, 1e3)
    distances = np.sum((shares - counts) ** 2, axis=1)
    log_weights = log_prior - distances / (2 * (noise**2 + _UNLIKE**2))
    weights = np.exp(log_weights - log_weights.max())
    mean, square = weights @ moments / weights.sum()
    return float(mean), float(square - mean**2)


@lru_cache(maxsize=4)
def _shapes(n_knots: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares at knots, mean and mean square, and logarithm of the prior chance of each.

    Normal targets; parts of all at either end, and the others at the other end or
    anywhere; and exponential ones from either end on.
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
