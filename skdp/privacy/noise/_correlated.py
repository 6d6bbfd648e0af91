"""Correlated noise: lower-triangular matrices that weight sums of answers.

Instead of the answers u, C u + z is released, where z is independent Gaussian noise.
Solving for u afterwards is post-processing. It leaves the noise C^-1 z, which mostly
cancels in the sums for which C was designed:

- the square root of the matrix of running sums: weights ``binom(2k, k) / 4^k`` on the
  diagonals k, of which the first ones are kept, the band. The noise in running sums
  grows with the logarithm of their number instead of its root;
- trees for momentum: row t covers the dyadic interval that ends at t; the weight of an
  answer is multiplied by the momentum with every later answer.

Proofs: ``docs/proofs/streams.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from skdp._arrays import FloatArray

# Relative rounding error of a sum or a product in float64.
_ROUNDING = 2.0**-53


class Correlation(ABC):
    """A lower-triangular matrix C of diagonal 1, and the part of each answer.

    Each row belongs to an answer. Answers go through all parts `passes` times, with
    `asks` answers about each part. No weight is negative.
    """

    n_parts: int
    asks: int
    passes: int

    @property
    def times(self) -> int:
        """Total number of answers."""
        return self.passes * self.n_parts * self.asks

    @abstractmethod
    def weights(self, t: int) -> FloatArray:
        """Weights of answer `t`, from 0, and of earlier answers; may be longer."""

    @property
    @abstractmethod
    def largest(self) -> FloatArray:
        """Weights of the largest sum, the newest first."""

    @property
    @abstractmethod
    def n_sums(self) -> int:
        """Largest number of sums that contain one record."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """L2 norm of a record's contribution to all sums, if at most 1 to each answer.

        Exact for these weights, and rounded up.
        """

    @property
    @abstractmethod
    def answer_spread(self) -> float:
        """Largest standard deviation of an answer, with noise of 1 in every sum."""

    @property
    @abstractmethod
    def prefix_spread(self) -> float:
        """The same for the sum of a whole pass, for which the matrix is designed."""

    def slack(self, size: int) -> float:
        """Bound on the effect of floating point on `norm`, for `size` records.

        Each sum has at most as many answers as the largest sum, each of norm at most
        `size`, and is rounded; the neighbour's sum likewise.
        """
        weights = self.largest
        once = (len(weights) + 4) * _ROUNDING * float(weights.sum()) * size
        return 2.02 * float(np.sqrt(self.times)) * once


@dataclass(frozen=True)
class SquareRoot(Correlation):
    """The square root of the matrix of running sums, for parts that are read once.

    Parameters
    ----------
    n_parts : int
    asks : int
        Consecutive answers about each part.
    band : int
        Number of nonzero weights.
    """

    n_parts: int
    asks: int
    band: int
    passes = 1

    def weights(self, t: int) -> FloatArray:
        return self.largest

    @property
    def largest(self) -> FloatArray:
        return root_weights(self.times, self.band)

    @property
    def n_sums(self) -> int:
        return min(self.times, self.band + self.asks - 1)

    @property
    def norm(self) -> float:
        found = joint_norm(self.times, self.asks, self.band)
        # The factor covers rounding of the weights, of their sums and of the norm.
        return found * (1 + (3 * self.band + self.asks + self.times) * 2.0**-52)

    @property
    def answer_spread(self) -> float:
        return answer_spread(self.times, self.band)

    @property
    def prefix_spread(self) -> float:
        return prefix_spread(self.times, self.band)


@dataclass(frozen=True)
class BinaryTrees(Correlation):
    """A new tree over the parts in each pass, for sums by momentum.

    The sum of the first t answers of a pass combines as many rows as t has 1 bits.

    Parameters
    ----------
    n_parts : int
    passes : int
    momentum : float in [0, 1)
    """

    n_parts: int
    passes: int
    momentum: float
    asks = 1

    def weights(self, t: int) -> FloatArray:
        place = t % self.n_parts + 1
        return self.largest[: place & -place]

    @property
    def largest(self) -> FloatArray:
        return _powers(self.momentum, 1 << (self.n_parts.bit_length() - 1))

    @property
    def n_sums(self) -> int:
        return self.passes * self.n_parts.bit_length()

    @property
    def norm(self) -> float:
        # Rows of different passes share no answer. There are fewer than 64 roundings.
        once = _tree_norm_squared(self.n_parts, self.momentum)
        return float(np.sqrt(self.passes * once)) * (1 + 64 * 2.0**-52)

    @property
    def answer_spread(self) -> float:
        # An answer is its row minus the rows within it, which end 1, 2, 4, ... earlier.
        weights = self.largest
        ends = 2 ** np.arange(len(weights).bit_length() - 1)
        return float(np.sqrt(1 + np.sum(weights[ends - 1] ** 2) * self.momentum**2))

    @property
    def prefix_spread(self) -> float:
        place, squares = self.n_parts, 0.0
        while place:
            squares += self.momentum ** (2.0 * (self.n_parts - place))
            place -= place & -place
        return float(np.sqrt(squares))


@lru_cache(maxsize=16)
def _powers(base: float, times: int) -> FloatArray:
    return np.asarray(base ** np.arange(times, dtype=float))


@lru_cache(maxsize=16)
def _tree_norm_squared(n_parts: int, momentum: float) -> float:
    """Largest sum of squares of a column of the tree of one pass."""
    columns, size = np.zeros(n_parts), 1
    while size <= n_parts:
        # Left nodes: the nodes that a sum of the first answers may use.
        ends = np.arange(size, n_parts + 1, 2 * size)
        places = ends[:, None] - 1 - np.arange(size)
        columns[places] += _powers(momentum, size) ** 2
        size *= 2
    return float(columns.max())


@lru_cache(maxsize=16)
def root_weights(times: int, band: int) -> FloatArray:
    """Weights of the last `band` of `times` answers, the newest first."""
    k = np.arange(1.0, min(times, band))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


@lru_cache(maxsize=16)
def joint_norm(times: int, asks: int, band: int) -> float:
    """L2 norm of the contribution of `asks` consecutive answers to all weighted sums.

    Each answer has norm 1. The first answers have the largest norm; answers in one
    direction add up, since no weight is negative.
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
    """Standard deviation of the last answer, with noise of 1 in every weighted sum."""
    return float(np.linalg.norm(root_inverse(times, band)))


def prefix_spread(times: int, band: int) -> float:
    """Standard deviation of the sum of all answers, with noise of 1 in every sum."""
    return float(np.linalg.norm(np.cumsum(root_inverse(times, band))))
