"""How rows are clipped to a norm in products with weights, in `fit` and `predict`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp._rows import HUGE, bring_to_norm, row_norms
from skdp.data._source import Block

# Rows in single precision of at least this norm are kept apart where products with
# weights are in single precision too: these overflow long before squares in double do.
_HUGE_SINGLE = 1e15


def clipped_products(X: Any, coef: NDArray[Any], norm: float) -> NDArray[Any]:
    """Products of rows, clipped as `fit` clips them, with released weights.

    A row's products depend on that row alone. Rows within the norm have those of
    ``X @ coef``, bit for bit.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features), float32 or float64
        CSR must be canonical.
    coef : ndarray of shape (n_features, n_outputs)
    norm : float in (0, inf]
        inf: nothing is clipped.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Of the dtype of ``X @ coef``.
    """
    if math.isinf(norm):
        return np.asarray(X @ coef)
    huge_from = HUGE if X.dtype == np.float64 else max(norm, _HUGE_SINGLE)
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that are kept apart
        raw = RowClip.of(X, norm, huge_from).predict(X, coef)
    return raw.astype(np.result_type(X, coef), copy=False)


@dataclass(frozen=True)
class RowClip:
    """What clips the rows of one block.

    Rows whose squares overflow are kept apart, already clipped: the products of the
    block as it is serve all other rows, whose rounding must not depend on whether some
    record is huge.
    """

    factor: FloatArray | None = None  # None: nothing is clipped
    huge: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    huge_rows: Any = None

    @classmethod
    def of(cls, X: Any, bound: float, huge_from: float = HUGE) -> RowClip:
        """For rows of norm at most `bound`; kept apart are those of `huge_from`."""
        norms = row_norms(X)
        factor = bound / np.maximum(norms, bound)
        huge = np.flatnonzero(~(norms < huge_from))
        if not len(huge):
            return cls(factor)
        # Their squares overflow, so that no factor of this norm would be right.
        factor[huge] = 1.0
        return cls(factor, huge, bring_to_norm(X[huge], bound))

    def factors_of_ordinary(self, block: Block) -> FloatArray:
        """Factors with 0 for the rows kept apart and the null records."""
        factors = np.ones(len(block.y)) if self.factor is None else self.factor.copy()
        factors[self.huge] = 0.0
        if block.present is not None:
            factors[~block.present] = 0.0
        return factors

    def huge_part(self, block: Block) -> Block | None:
        """The rows kept apart, clipped; None if there are none."""
        if not len(self.huge):
            return None
        present = None if block.present is None else block.present[self.huge]
        return Block(self.huge_rows, block.y[self.huge], present)

    def predict(self, X: Any, coef: FloatArray) -> FloatArray:
        """Raw predictions of the clipped rows."""
        raw = np.asarray(X @ coef, dtype=np.float64)
        if self.factor is not None:
            raw *= self.factor[:, None]
        if len(self.huge):
            raw[self.huge] = _one_by_one(self.huge_rows, coef)
        return raw

    def add_gradients(self, X: Any, total: FloatArray, residual: FloatArray) -> None:
        """Add the products of clipped rows and residuals; overwrites `residual`."""
        apart = 0.0
        if len(self.huge):
            apart = self.huge_rows.T @ residual[self.huge]
            residual[self.huge] = 0.0
        if self.factor is not None:
            residual *= self.factor[:, None]
        total += X.T @ residual + apart


def _one_by_one(rows: Any, coef: NDArray[Any]) -> NDArray[Any]:
    """Products whose rounding in one row does not depend on how many rows there are."""
    if issparse(rows):
        return np.asarray(rows @ coef)
    return np.concatenate([row @ coef for row in np.split(rows, len(rows))])
