"""Rows that are not sensitive, and the sparse model that predicts alike on them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.sparse import issparse
from sklearn.utils.validation import assert_all_finite, check_array

from skdp._floats import FloatArray
from skdp.solvers._thresholding import keep_rows, largest_rows

_MOST_SUPPORTS = 50
# Curvature, in units of a column's variance, that keeps the given weights where the
# rows do not tell them apart.
_RIDGE = 1e-8
# A column of less variance than this share of its mean square counts as constant.
_LEAST_VARIANCE = 1e-12
# So does one of less variance than this, in units of the largest entry squared:
# products of two inverse deviations stay finite.
_TINIEST = 1e-200


@dataclass(frozen=True)
class PublicRows:
    """Rows without labels that anyone may know; equal if stored alike and equal.

    `digest` is the SHA-256 of the numbers. The rows themselves are no field: records
    name them by shape and digest.
    """

    shape: tuple[int, int]
    digest: str

    @classmethod
    def of(cls, name: str, value: Any) -> Self:
        """Check and copy rows: array or CSR of shape (n_rows, n_features)."""
        if isinstance(value, cls):
            return value
        X = check_array(
            value, accept_sparse="csr", dtype=np.float64, copy=True, input_name=name
        )
        parts = [X]
        if issparse(X):
            X.sum_duplicates()
            assert_all_finite(X.data, input_name=name)  # nor are sums infinite
            parts = [X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        rows = cls((int(X.shape[0]), int(X.shape[1])), digest.hexdigest())
        object.__setattr__(rows, "_X", X)
        return rows

    def nearest(
        self, coef: FloatArray, k: int, *, is_centred: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Weights of at most `k` features whose predictions are nearest to given ones.

        Least squares on the rows by hard thresholding pursuit [1]_ from the largest
        weights in units of the columns' deviations. The problem is not convex: what is
        found is a local minimum, the best of those met.

        `coef`, of shape (n_features, n_outputs), is released. If `is_centred`, an
        intercept takes up the mean of what is left out.

        Returns
        -------
        nearest : ndarray of float64, same shape
        shift : ndarray of float64 of shape (n_outputs,)
            To add to the intercept; zeros if not `is_centred`.

        References
        ----------
        .. [1] Foucart (2011). Hard thresholding pursuit. SIAM J. Numer. Anal. 49(6).
        """
        unit = float(np.abs(coef).max()) or 1.0  # keeps products of weights in range
        rows = _Standardised(self._X, is_centred)  # type: ignore[attr-defined]  # no field: not compared
        deviation = rows.deviation[:, None]
        given = coef / unit * deviation
        target = rows.predictions(given)
        best, least, seen = np.zeros_like(given), np.inf, set()
        support = largest_rows(given, k)
        for _ in range(_MOST_SUPPORTS):
            seen.add(support.tobytes())
            weights = keep_rows(rows.refitted(given, target, support), support)
            left = target - rows.predictions(weights)
            error = float(np.sum(left**2))
            if error < least:
                best, least = weights, error
            support = largest_rows(weights + rows.correlations(left), k)
            if support.tobytes() in seen:
                break
        found = best * rows.inverse[:, None]
        left_out = rows.mean @ (coef / unit - found)
        # In this order, because the product of the units may be inf, and inf * 0 NaN.
        return unit * found, rows.unit * (unit * left_out)


class _Standardised:
    """Rows with columns of variance 1 (constant ones: 0), without a dense copy.

    `unit` is the largest entry. `mean`, `deviation` and `inverse`, that of the
    deviation or 0, are in this unit, so that no square overflows or vanishes.
    """

    def __init__(self, X: Any, is_centred: bool) -> None:
        m, d = X.shape
        self.unit = float(np.abs(X.data if issparse(X) else X).max(initial=0)) or 1.0
        self._X = X / self.unit
        self._columns = self._X.tocsc() if issparse(X) else self._X
        squares = self._X.multiply(self._X) if issparse(X) else self._X**2
        square = np.asarray(squares.sum(axis=0), dtype=np.float64).ravel() / m
        self.mean = np.zeros(d)
        if is_centred:
            self.mean = np.asarray(self._X.sum(axis=0)).ravel() / m
        variance = square - self.mean**2
        varies = variance > np.maximum(_LEAST_VARIANCE * square, _TINIEST)
        self.deviation = np.sqrt(np.where(varies, variance, 0.0))
        self.inverse = np.zeros(d)
        np.divide(1.0, self.deviation, out=self.inverse, where=self.deviation > 0)

    def predictions(self, weights: FloatArray) -> FloatArray:
        scaled = weights * self.inverse[:, None]
        return np.asarray(self._X @ scaled - self.mean @ scaled)

    def correlations(self, values: FloatArray) -> FloatArray:
        """Mean products of the columns with `values`."""
        total = self._X.T @ values - np.outer(self.mean, values.sum(axis=0))
        return np.asarray(total * self.inverse[:, None] / len(values))

    def refitted(
        self, given: FloatArray, target: FloatArray, support: NDArray[np.int64]
    ) -> FloatArray:
        """Least squares of `target` on some columns; 0 elsewhere."""
        part = self._columns[:, support]
        products = part.T @ part
        gram = products.toarray() if issparse(products) else np.asarray(products)
        gram = gram / len(target) - np.outer(self.mean[support], self.mean[support])
        gram *= np.outer(self.inverse[support], self.inverse[support])
        gram[np.diag_indices_from(gram)] += _RIDGE
        right = self.correlations(target)[support] + _RIDGE * given[support]
        weights = np.zeros_like(given)
        weights[support] = solve(gram, right, assume_a="sym")
        return weights
