"""Columns of later trees, drawn as often as the released model uses them.

Everything here is post-processing of released values: the trees so far, and the linear
model before them, are evaluated on made-up records, whose codes are drawn from released
shares and a public seed. A column whose redrawing changes a prediction much is cut more
often by the trees to come. Weights by trees are computed in whole numbers and in
correctly rounded operations, so that several owners find the same weights to the last
bit. Curves of a linear model may differ in their last bits, so weights by it are
rounded.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray, IntArray
from skdp.ensemble._linear_start import Curves
from skdp.ensemble._trees import CodedColumns, Draws
from skdp.sums._leaves import Tree, add_values, find_leaves

# Records made up; each is followed by one copy for every column.
_N_RECORDS = 512
# Weight that is divided evenly, so that each column may still be found.
_EVEN = 0.2
# Part of the least importance that all columns have: noise alone makes it.
_NOISE = 0.8
# The largest prediction is this power of 2 in units, in which predictions are whole.
_BITS = 20
# Weights by a linear model are multiples of this, so that owners whose processors add
# in other orders find the same weights, unless one is nearly halfway between multiples.
_UNIT = 2.0**-10


class MadeUpRecords:
    """Made-up records, and what released trees predict for them.

    Parameters
    ----------
    columns : CodedColumns
    shares : tuple of ndarray of float64 of shape (n_codes,)
        Released or equal shares of the codes of each column.
    n_outputs : int
    curves : Curves or None, default=None
        The linear model before the trees. Half of the weight of a column is by it and
        half by the trees.
    """

    def __init__(
        self,
        columns: CodedColumns,
        shares: tuple[FloatArray, ...],
        n_outputs: int,
        curves: Curves | None = None,
    ) -> None:
        rng = check_random_state(0)  # NumPy never changes its draws for a seed
        self._n_columns = len(columns.n_bins)
        one, other = (
            np.column_stack([drawn_codes(each, rng, _N_RECORDS) for each in shares])
            for _ in range(2)
        )
        copies = [one]
        for j in range(self._n_columns):
            copy = one.copy()
            copy[:, j] = other[:, j]
            copies.append(copy)
        self._codes = np.ascontiguousarray(np.vstack(copies))
        self._added = np.zeros((len(self._codes), n_outputs))
        self._leaves = np.empty(len(self._codes), dtype=np.uint16)
        self._by_curves: FloatArray | None = None
        if curves is not None:
            weights = self._weights(curves.at(self._codes))
            self._by_curves = np.rint(weights / _UNIT) * _UNIT

    def add(self, tree: Tree, values: FloatArray) -> None:
        """Add the values of one more tree to the predictions."""
        find_leaves(self._codes, tree, self._leaves, 1)
        add_values(self._leaves, values, self._added, 1)

    def spread(self) -> float:
        """Root mean square of what the trees add to a raw prediction."""
        whole, unit = _whole(self._added)
        squares = float((whole[:_N_RECORDS] ** 2).sum())
        return unit * math.sqrt(squares / (_N_RECORDS * whole.shape[1]))

    def column_weights(self) -> FloatArray:
        """How often the trees to come shall cut each column; they add up to about 1."""
        by_trees = self._weights(self._added)
        if self._by_curves is None:
            return by_trees
        return np.asarray((by_trees + self._by_curves) / 2)

    def _weights(self, predictions: FloatArray) -> FloatArray:
        """Weights of the columns by their importances for the predictions.

        The importance of a column is the mean square of the change by redrawing it. The
        weight is in proportion to its root, since the step that is still to be made is.
        """
        whole, _ = _whole(predictions)
        blocks = whole.reshape(self._n_columns + 1, _N_RECORDS, whole.shape[1])
        squares = ((blocks[1:] - blocks[0]) ** 2).sum(axis=(1, 2)).astype(np.float64)
        above = np.maximum(squares - _NOISE * squares.min(), 0.0)
        roots = np.sqrt(above) + 1.0  # never all 0
        # A cumulative sum adds in order.
        return np.asarray(
            _EVEN / self._n_columns + (1 - _EVEN) * roots / roots.cumsum()[-1]
        )


def _whole(predictions: FloatArray) -> tuple[IntArray, float]:
    """Predictions as whole multiples of a unit; sums of squares are then exact."""
    unit = max(float(np.abs(predictions).max()), 1e-300) / 2**_BITS
    return np.rint(predictions / unit).astype(np.int64), unit


def drawn_codes(shares: FloatArray, rng: Draws, n_records: int) -> NDArray[np.uint8]:
    """Codes of made-up records."""
    below = np.cumsum(shares)
    at = rng.random_sample(n_records) * below[-1]
    codes = np.searchsorted(below, at, side="right")
    return np.asarray(np.minimum(codes, len(shares) - 1), dtype=np.uint8)
