"""The square root of "the sum of all so far": weights of correlated noise.

The matrix A of ones on and below its diagonal takes answers to their running sums. Its
square root C has on every diagonal k the weight ``binom(2k, k) / 4^k``; a band keeps
the first of them. Releasing C x + z in place of x, and solving for x afterwards, puts
noise into the running sums that grows with the logarithm of their number in place of
its root. Proofs: ``docs/proofs/ftrl.md``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from skdp._floats import FloatArray

# A rounding of a sum or a product, of float64.
_ROUNDING = 2.0**-53


def root_weights(times: int, band: int) -> FloatArray:
    """Weights of the last `band` answers, of `times`, the newest first."""
    k = np.arange(1.0, min(times, band))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


@lru_cache(maxsize=16)
def joint_norm(times: int, asks: int, band: int) -> float:
    """L2 norm of what `asks` answers in a row of norm 1 add to all weighted sums.

    The largest, of the first ones; answers in one direction add up, since no weight is
    negative.
    """
    whole = np.zeros(times)
    weights = root_weights(times, band)
    whole[: len(weights)] = weights
    return float(np.linalg.norm(np.convolve(whole, np.ones(asks))[:times]))


@lru_cache(maxsize=16)
def root_inverse(times: int, band: int) -> FloatArray:
    """First column of the inverse of C, of shape (times,)."""
    weights, inverse = root_weights(times, band)[1:], np.zeros(times)
    inverse[0] = 1.0
    for t in range(1, times):
        past = inverse[max(0, t - len(weights)) : t][::-1]
        inverse[t] = -weights[: len(past)] @ past
    return inverse


def answer_spread(times: int, band: int) -> float:
    """Standard deviation of the last answer, for noise of 1 in every weighted sum."""
    return float(np.linalg.norm(root_inverse(times, band)))


def prefix_spread(times: int, band: int) -> float:
    """The same of the sum of all answers."""
    return float(np.linalg.norm(np.cumsum(root_inverse(times, band))))


def root_slack(times: int, band: int, size: int) -> float:
    """What floating point adds to `joint_norm`, for sums over `size` records.

    Each weighted sum is of at most `band` answers, each of norm `size` at most, and
    rounded; so is that of the neighbour.
    """
    weights = root_weights(times, band)
    once = (len(weights) + 4) * _ROUNDING * float(weights.sum()) * size
    return 2.02 * float(np.sqrt(times)) * once
