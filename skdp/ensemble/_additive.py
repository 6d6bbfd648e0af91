"""A boosted model as trees and tables: which trees are tables, and what they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp._row_threads import n_threads_for
from skdp.ensemble._bins import Bins
from skdp.ensemble._boosted import BoostedTrees
from skdp.ensemble._monotone import monotone
from skdp.ensemble._shapes import (
    Key,
    Shape,
    ShapeFunctions,
    Tables,
    grid,
    noise_of,
    tables_of,
    taken_apart,
)
from skdp.ensemble._trees import RandomTrees
from skdp.queries._leaf_sums import find_leaves


@dataclass(frozen=True, eq=False)
class Model:
    """What a fit released, constraints met: trees, and tables beside them.

    Parameters
    ----------
    bins : Bins
    boosted : BoostedTrees
        Those of no constrained column, and the start.
    tables : ShapeFunctions or None
        Those of constrained columns; None without constraints.
    """

    bins: Bins
    boosted: BoostedTrees
    tables: ShapeFunctions | None = None

    def raw(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Raw predictions of shape (n_samples, n_outputs)."""
        raw = self.boosted.raw(codes)
        return raw if self.tables is None else raw + self.tables.raw(codes)

    @property
    def is_additive(self) -> bool:
        """Whether no tree cuts more than two columns."""
        return all(len(key) <= 2 for key in self.boosted.trees.columns)

    @property
    def shapes(self) -> ShapeFunctions:
        """The model as shape functions, if it is additive."""
        own, noise = _tables(self.boosted, self.bins)
        own[()] = own[()] + self.boosted.start
        if self.tables is not None:
            for shape in self.tables:
                own[shape.columns] = own.get(shape.columns, 0.0) + shape.values
                noise[shape.columns] = np.hypot(
                    noise.get(shape.columns, 0), shape.noise
                )
            own[()] = own[()] + self.tables.intercept
        return _as_functions(
            self.bins, taken_apart(own, self.bins, len(own[()])), noise
        )


def constrained(bins: Bins, boosted: BoostedTrees, directions: dict[int, int]) -> Model:
    """The model whose predictions are monotone in some columns of codes.

    Every tree of such a column must cut two columns at most (`groups_of`).
    """
    if not directions:
        return Model(bins, boosted)
    is_bound = [bool(set(key) & directions.keys()) for key in boosted.trees.columns]
    bound = _some(boosted, np.flatnonzero(is_bound))
    free = _some(boosted, np.flatnonzero(np.logical_not(is_bound)))
    # Curves of other columns go with them: they are tables too.
    free = replace(free, curves=None)
    tables, noise = _tables(bound, bins)
    n_values = tuple(column.n_values for column in bins.columns)
    tables = monotone(tables, directions, n_values)
    return Model(bins, free, _as_functions(bins, tables, noise))


def _tables(boosted: BoostedTrees, bins: Bins) -> tuple[Tables, Tables]:
    """Tables of all trees, taken apart, and the deviations of their noise."""
    used, leaves = boosted.trees.columns, _leaves(boosted.trees, bins)
    tables = tables_of(used, leaves, boosted.values, bins)
    noise = noise_of(used, leaves, boosted.deviations, bins)
    if boosted.curves is not None:
        for j, own in enumerate(boosted.curves.tables):
            tables[(j,)] = tables.get((j,), 0.0) + own
            noise[(j,)] = np.hypot(noise[(j,)], boosted.curves.deviations[j])
    return taken_apart(tables, bins, boosted.values.shape[2]), noise


def _leaves(trees: RandomTrees, bins: Bins) -> dict[Key, NDArray[np.int64]]:
    """Of each combination of codes the leaf in each tree of those columns."""
    found = {}
    for key in sorted(set(trees.columns)):
        codes = grid(key, bins)
        own = [t for t, columns in enumerate(trees.columns) if columns == key]
        found[key] = np.empty((len(own), len(codes)), dtype=np.int64)
        leaf = np.empty(len(codes), dtype=np.uint16)
        for place, tree in enumerate(own):
            find_leaves(codes, trees, tree, leaf, n_threads_for(len(codes)))
            found[key][place] = leaf
    return found


def _as_functions(bins: Bins, tables: Tables, noise: Tables) -> ShapeFunctions:
    keys = sorted((key for key in tables if key), key=lambda key: (len(key), key))
    shapes = tuple(Shape(key, tables[key], noise[key]) for key in keys)
    return ShapeFunctions(bins, tables[()], shapes)


def _some(boosted: BoostedTrees, chosen: NDArray[np.intp]) -> BoostedTrees:
    """Some of the trees; the start and its curves go with all of them."""
    trees = boosted.trees
    part = RandomTrees(
        trees.feature[chosen],
        trees.cut[chosen],
        trees.rank[chosen],
        trees.starts,
        trees.depth,
    )
    values, deviations = boosted.values[chosen], boosted.deviations[chosen]
    return replace(boosted, trees=part, values=values, deviations=deviations)
