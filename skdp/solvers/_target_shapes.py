"""Mean and deviation of targets, of a noisy histogram of them; post-processing.

Where noise is small, the histogram has both. Where it is not, a few hundred shapes are
compared with it, and moments are averaged over them by how likely each of them made it:
noise that happens to be far from where targets lie is then no longer taken for targets.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from skdp._floats import FloatArray
from skdp.solvers._margins import shrunk_margins

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
