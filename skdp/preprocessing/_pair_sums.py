r"""Sums over records of two numbers for each feature, as one vector.

In units of the declared bounds a value is v in [-1, 1]. One record contributes, for
each feature, (a, k b) with a in [-1, 1] and b in [-1/2, 1/2]:

``SQUARES``
    a = v, b = v^2 - 1/2, k = sqrt(2).
``PRESENCE``
    a = v and b = 1/2 where a value is present, a = 0 and b = -1/2 where it is missing,
    k = sqrt(3).

k is the largest weight that costs nothing under replace_one; b is centred, because the
null record contributes 0. Sensitivities are derived in
``docs/proofs/preprocessing.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp.data import Source
from skdp.preprocessing._bounds import to_unit
from skdp.preprocessing._private import Mechanism, summation_error
from skdp.privacy._adjacency import Adjacency


@dataclass(frozen=True)
class PairSums:
    """One kind of pairs.

    Parameters
    ----------
    pairs : callable
        Values in [-1, 1] of shape (n_rows, n_features), NaN if missing, to (a, b).
    weight : float
        k above.
    """

    pairs: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    weight: float

    def record_norm(self, n_features: int) -> float:
        """Largest norm of what one record contributes: zero_out, Lemmas 1, 3."""
        return math.sqrt(n_features * (1 + self.weight**2 / 4))

    def record_distance(self, n_features: int) -> float:
        """Largest distance between two contributions: replace_one, Lemmas 2, 4."""
        return 2 * math.sqrt(n_features)

    def sensitivity(self, adjacency: Adjacency, n_features: int) -> float:
        """L2 sensitivity of the vector of sums, in exact arithmetic."""
        distances = {
            "zero_out": self.record_norm(n_features),
            "replace_one": self.record_distance(n_features),
        }
        return distances[adjacency] * (1 + 1e-12)

    def mechanism(
        self, source: Source, adjacency: Adjacency, params: dict[str, Any]
    ) -> Mechanism:
        """The one release of the sums over a source; reads nothing."""
        d = source.n_features
        return Mechanism(
            key="noisy_moments",
            params=params,
            size=2 * d,
            sensitivity=self.sensitivity(adjacency, d),
            slack=summation_error(source, self.record_norm(d)),
        )

    def query(self, source: Source, low: FloatArray, high: FloatArray) -> FloatArray:
        """The exact sums; reads the source once. Private."""
        sums = np.zeros((2, source.n_features))
        for block in source.blocks():
            parts = self.pairs(to_unit(block.X, low, high))
            for total, part in zip(sums, parts, strict=True):
                if block.present is not None:
                    part = np.where(block.present[:, None], part, 0.0)
                total += part.sum(axis=0)
        sums[1] *= self.weight
        return sums.ravel()

    def read(
        self, released: FloatArray, n_samples: int
    ) -> tuple[FloatArray, FloatArray]:
        """Sums of a, and of b + 1/2, that a released vector stands for."""
        first, second = released.reshape(2, -1)
        return first, second / self.weight + n_samples / 2


def shrunken_mean(total: FloatArray, count: Any, sigma: float) -> FloatArray:
    """Means of values in [-1, 1] from noisy sums and counts; 0 where noise rules.

    The mean is shrunk as if it had been uniform on [-1, 1] (variance 1/3). `sigma` is
    the standard deviation of the noise in `total`.
    """
    count = np.maximum(count, 0.0)
    below = count**2 + 3 * sigma**2
    mean = np.divide(total * count, below, out=np.zeros_like(total), where=below > 0)
    return np.asarray(np.clip(mean, -1.0, 1.0))


def _squares(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values, values * values - 0.5


def _presence(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    is_missing = np.isnan(values)
    return np.where(is_missing, 0.0, values), np.where(is_missing, -0.5, 0.5)


SQUARES = PairSums(_squares, math.sqrt(2))
PRESENCE = PairSums(_presence, math.sqrt(3))
