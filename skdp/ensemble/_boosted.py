"""`BoostedTrees`: random trees and the values that a private fit released for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp._row_threads import n_threads_for
from skdp.ensemble._linear_start import Curves
from skdp.ensemble._trees import CodedColumns, RandomTrees, uncut
from skdp.queries._leaf_sums import add_values, find_leaves


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """A sum of trees; everything in it is public or released.

    Parameters
    ----------
    trees : RandomTrees
    values : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        What a record's leaf adds to its raw predictions.
    start : ndarray of float64 of shape (n_outputs,)
        Raw predictions before the first tree.
    deviations : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        Standard deviation of the noise in each value, at the shrinkage that was used.
    curves : Curves or None, default=None
        What is added to `start` for each record before the first tree, by its codes.
    shrinkage : float or None, default=None
        Share of the trees that was found to be worth the most, by which values have
        been multiplied; None where it was not asked.
    """

    trees: RandomTrees
    values: FloatArray
    start: FloatArray
    deviations: FloatArray
    curves: Curves | None = None
    shrinkage: float | None = None

    def raw(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Raw predictions of shape (n_samples, n_outputs) of coded records."""
        raw = self._first(codes)
        for _ in self._stages(codes, raw):
            pass
        return raw

    def staged_raw(self, codes: NDArray[np.uint8]) -> Iterator[FloatArray]:
        raw = self._first(codes)
        for _ in self._stages(codes, raw):
            yield raw.copy()

    def _first(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Before the first tree."""
        first = np.tile(self.start, (len(codes), 1))
        return first if self.curves is None else first + self.curves.at(codes)

    def _stages(self, codes: NDArray[np.uint8], raw: FloatArray) -> Iterator[None]:
        n_threads = n_threads_for(len(codes))
        codes = np.ascontiguousarray(codes)
        leaves = np.empty(len(codes), dtype=np.uint16)
        for tree, values in enumerate(self.values):
            find_leaves(codes, self.trees, tree, leaves, n_threads)
            add_values(leaves, values, raw, n_threads)
            yield


def without_trees(
    columns: CodedColumns, start: FloatArray, curves: Curves | None = None
) -> BoostedTrees:
    """A model of its start alone."""
    none = np.zeros((1, 1, len(start)))
    return BoostedTrees(uncut(columns), none, start, none, curves)
