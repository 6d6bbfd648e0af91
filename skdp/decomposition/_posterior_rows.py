r"""Rows of a factorisation from noisy sums: posterior means, all variances known.

A clipped residual d with public row x is modelled as ``slope x' w + e``, e of variance
`spread`: clipping to c a residual that is normal with deviation s weakens what it
depends on by the probability of not being clipped. With ``w ~ N(0, diag(prior))`` the
statistic ``t = sum d x + N(0, sigma^2 I)`` over rows of Gram matrix G is normal, and

``E[w | t] = slope P G (slope^2 G P G + spread G + sigma^2 I)^-1 t``, P = diag(prior).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from skdp._floats import FloatArray

# Rows of a sparse product made at a time: bounds the memory.
_BLOCK = 2048


@dataclass(frozen=True)
class ClippedNormal:
    """A normal residual of deviation `deviation`, clipped to `clip`, both positive."""

    deviation: float
    clip: float

    @property
    def slope(self) -> float:
        """By how much its mean follows a small shift: the share that is not clipped."""
        return math.erf(self.clip / self.deviation / math.sqrt(2))

    @property
    def spread(self) -> float:
        """Its variance."""
        t = self.clip / self.deviation
        # Second moments between the bounds and on them; the mean is 0 by symmetry.
        density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        inside = self.slope - 2 * t * density
        return self.deviation**2 * inside + self.clip**2 * (1 - self.slope)

    def rows(
        self, gram: FloatArray, sums: FloatArray, prior: FloatArray, sigma: float
    ) -> FloatArray:
        """Posterior means, row by row.

        `gram` of shape (n_rows, d, d) and `sums` of shape (n_rows, d) are the noisy
        statistics, `prior` the d variances, `sigma` the standard deviation of the noise
        in `sums`.
        """
        explained = gram * prior
        below = self.slope**2 * (explained @ gram) + self.spread * gram
        # Where there is neither noise nor a rating the sums are 0 as well.
        sizes = np.trace(below, axis1=1, axis2=2)
        diagonal = sigma**2 + 1e-12 * sizes + 1e-100
        below += diagonal[:, None, None] * np.eye(gram.shape[-1])
        weights = np.linalg.solve(below, sums[:, :, None])
        return np.asarray(self.slope * prior * (gram @ weights)[:, :, 0])


def row_grams(pairs: csr_matrix, rows: FloatArray) -> FloatArray:
    """Gram matrices ``sum_j x_j x_j'`` over each row's columns of the pattern."""
    return _squares(pairs @ _products(rows), rows.shape[1])


def product_gram(pairs: csr_matrix, left: FloatArray, right: FloatArray) -> FloatArray:
    """Gram matrix of the rows ``vec(z_u x_i')`` over all pairs, of shape (1, K, K)."""
    k, m = left.shape[1], right.shape[1]
    products = _products(right)
    total = np.zeros((k * (k + 1) // 2, m * (m + 1) // 2))
    for start in range(0, len(left), _BLOCK):
        part = slice(start, start + _BLOCK)
        total += _products(left[part]).T @ (pairs[part] @ products)
    square = _squares(_squares(total, m).transpose(1, 2, 0), k)
    return square.transpose(2, 0, 3, 1).reshape(1, k * m, k * m)


def _products(rows: FloatArray) -> FloatArray:
    """Products of every two entries of a row, each once."""
    # Symmetric: half of the columns make half of the work of the sparse product.
    first, second = np.triu_indices(rows.shape[1])
    return np.asarray(rows[:, first] * rows[:, second])


def _squares(products: FloatArray, d: int) -> FloatArray:
    """The symmetric matrices that products of two entries are part of."""
    places = np.zeros((d, d), dtype=np.intp)
    first, second = np.triu_indices(d)
    places[first, second] = places[second, first] = np.arange(len(first))
    return np.asarray(products[..., places])
