"""Shape functions: a model of at most two columns a tree as a sum of tables.

Each tree of one or two columns is a table over their codes. The tables of all trees
are added up and taken apart into an intercept, a curve for each column and a table for
each pair, so that every curve has mean 0 over its codes and every table mean 0 over
each of its rows and columns (codes count alike: how often they occur is private).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.ensemble._bins import BinnedColumn, Bins

# Positions of one or two columns, in order.
Key = tuple[int, ...]
Tables = dict[Key, FloatArray]


@dataclass(frozen=True, eq=False)
class Shape:
    """What one column, or a pair beyond its two columns, adds to a raw prediction.

    As private as the model: post-processing of what was released.

    Parameters
    ----------
    columns : tuple of one or two int
        Positions among the columns of codes.
    values : ndarray of float64 of shape (n_bins, n_outputs) or (n_bins, n_bins,
        n_outputs)
    noise : ndarray of float64 of the shape of `values`
        Standard deviation of the privacy noise in them, added up over trees as if none
        corrected what was wrong in those before: noise only, not the error of the
        model. 0 if there is none.
    """

    columns: Key
    values: FloatArray
    noise: FloatArray

    def at(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Of each row of codes: (n_samples, n_outputs)."""
        found: FloatArray = self.values[tuple(codes[:, j] for j in self.columns)]
        return found


@dataclass(frozen=True, eq=False)
class ShapeFunctions:
    """A model as intercept, curves and tables, whose sum is its raw prediction.

    Of a classifier they add up to `decision_function`, of a regressor to `predict`, in
    units of the target. Iterating gives the shapes, curves first.

    Parameters
    ----------
    bins : Bins
        Public.
    intercept : ndarray of float64 of shape (n_outputs,)
        The mean over all combinations of codes. Private output.
    shapes : tuple of Shape
        Every column has a curve; only pairs that share a tree have a table.
    """

    bins: Bins
    intercept: FloatArray
    shapes: tuple[Shape, ...]

    def __iter__(self) -> Iterator[Shape]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def names(self) -> list[str]:
        """Of columns; of pairs both, as ``"age x job"``."""
        return [self.name(shape) for shape in self.shapes]

    def name(self, shape: Shape) -> str:
        """Of one shape."""
        return " x ".join(self.bins.names[j] for j in shape.columns)

    def raw(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Raw predictions: (n_samples, n_outputs)."""
        total = np.tile(self.intercept, (len(codes), 1))
        for shape in self.shapes:
            total += shape.at(codes)
        return total

    def attributions(self, codes: NDArray[np.uint8]) -> FloatArray:
        """What each column of codes adds to each row's raw predictions.

        A pair's share is split in half: Shapley values of the model for codes that are
        drawn alike and independently, which with `intercept` add up to `raw`.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_columns, n_outputs)
        """
        n_outputs = len(self.intercept)
        found = np.zeros((len(codes), len(self.bins.columns), n_outputs))
        for shape in self.shapes:
            for j in shape.columns:
                found[:, j] += shape.at(codes) / len(shape.columns)
        return found

    def scaled(self, factor: float, shift: float) -> ShapeFunctions:
        """In other units: multiplied, and the intercept shifted after."""
        shapes = tuple(
            Shape(shape.columns, factor * shape.values, factor * shape.noise)
            for shape in self.shapes
        )
        return ShapeFunctions(self.bins, factor * self.intercept + shift, shapes)

    def curve(self, name: str) -> pd.DataFrame:
        """What a column adds, one row a code.

        Parameters
        ----------
        name : str
            Of a column of codes; ``<column>_<part>`` for a part of dates.

        Returns
        -------
        DataFrame
            ``from`` and ``to``, or ``value``, and in ``effect`` and ``noise`` what is
            added and the deviation of its noise (``effect_0``, ``noise_0`` and so on
            for several classes). The last rows are of categories that were not declared
            and of missing values.
        """
        shape = self.find(name)
        labels = _labels_of(self.bins.columns[shape.columns[0]])
        return pd.DataFrame(
            labels
            | _by_output("effect", shape.values)
            | _by_output("noise", shape.noise)
        )

    def table(self, first: str, second: str, *, output: int = 0) -> pd.DataFrame:
        """What a pair of columns adds beyond both curves.

        Parameters
        ----------
        first, second : str
            Names of columns of codes, in any order.
        output : int, default=0
            Which class, where there are several outputs.

        Returns
        -------
        DataFrame
            One row a code of `first`, one column a code of `second`.
        """
        shape = self.find(first, second)
        labels = {
            self.bins.names[j]: self.bins.columns[j].labels for j in shape.columns
        }
        values = shape.values[..., output]
        if self.bins.names[shape.columns[0]] != first:
            values = values.T
        index, columns = (pd.Index(labels[name], name=name) for name in (first, second))
        return pd.DataFrame(values, index=index, columns=columns)

    def find(self, *names: str) -> Shape:
        """The shape of a column, or of a pair in any order.

        Raises
        ------
        ValueError
            If there is none.
        """
        for shape in self.shapes:
            if {self.bins.names[j] for j in shape.columns} == set(names):
                return shape
        raise ValueError(
            f"A shape must be of a column, or of a pair that shares a tree. Got "
            f"{names!r}. There are {self.names}."
        )


def tables_of(
    used: Sequence[Key], leaves: Mapping[Key, Any], values: FloatArray, bins: Bins
) -> Tables:
    """What the trees of each key add up to, over all codes of its columns.

    Parameters
    ----------
    used : sequence of key
        The columns of each tree.
    leaves : mapping from key to ndarray of shape (n_trees_of_key, n_cells)
        The leaf of each combination of codes in each of its trees, the last column's
        codes running fastest.
    values : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
    bins : Bins

    Returns
    -------
    dict from key to ndarray of shape (n_bins, ..., n_outputs)
    """
    tables = {}
    for key, found in leaves.items():
        own = values[[t for t, columns in enumerate(used) if columns == key]]
        added = np.take_along_axis(own, found[:, :, None], axis=1).sum(axis=0)
        sizes = [bins.n_bins[j] for j in key]
        tables[key] = added.reshape(*sizes, values.shape[2])
    return tables


def taken_apart(tables: Tables, bins: Bins, n_outputs: int) -> Tables:
    """Tables with the same sum, each of mean 0 along each of its columns.

    The empty key holds the intercept; every column has a curve.
    """
    apart: Tables = {(): np.zeros(n_outputs)}
    apart |= {(j,): np.zeros((n, n_outputs)) for j, n in enumerate(bins.n_bins)}
    for key, table in sorted(tables.items(), key=lambda item: -len(item[0])):
        if len(key) == 2:
            rows, columns = table.mean(axis=1), table.mean(axis=0)
            mean = table.mean(axis=(0, 1))
            rest = table - rows[:, None] - columns[None, :] + mean
            apart[key] = apart.get(key, 0.0) + rest
            apart[key[:1]] += rows - mean
            apart[key[1:]] += columns - mean
            apart[()] += mean
        elif len(key) == 1:
            apart[key] += table - table.mean(axis=0)
            apart[()] += table.mean(axis=0)
        else:
            apart[()] += table
    return apart


def noise_of(
    used: Sequence[Key], leaves: Mapping[Key, Any], noise: FloatArray, bins: Bins
) -> Tables:
    """Deviation of the noise in each entry of what `taken_apart` returns.

    Parameters
    ----------
    noise : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        Deviation of the noise in each leaf's value, independent of each other.
    """
    n_leaves, n_outputs = noise.shape[1:]
    variances = taken_apart({}, bins, n_outputs)
    for key, found in leaves.items():
        own = [t for t, columns in enumerate(used) if columns == key]
        for t, cells in zip(own, found, strict=True):
            sizes = [bins.n_bins[j] for j in key]
            _add_variances(
                variances, key, cells.reshape(sizes), n_leaves, noise[t] ** 2
            )
    return {key: np.sqrt(variance) for key, variance in variances.items()}


def _add_variances(
    variances: Tables,
    key: Key,
    cells: NDArray[np.int64],
    n_leaves: int,
    squares: FloatArray,
) -> None:
    """Add the variances that one tree brings to its tables, taken apart.

    An entry of a table is the sum of leaf values times shares of codes in them.
    """
    if not key:
        variances[()] += squares[int(cells)]
        return
    mean = np.bincount(cells.ravel(), minlength=n_leaves) / cells.size
    variances[()] += mean**2 @ squares
    each = [
        _shares(np.moveaxis(cells, axis, 0), n_leaves) - mean
        for axis in range(len(key))
    ]
    for j, shares in zip(key, each, strict=True):
        variances[(j,)] += shares**2 @ squares
    if len(key) == 1:
        return
    first, second = each[0], each[1] + mean
    if key not in variances:
        variances[key] = np.zeros((*cells.shape, squares.shape[1]))
    for k in range(squares.shape[1]):
        square = squares[:, k]
        cross = 2 * (first * square) @ second.T
        margins = (first**2 @ square)[:, None] + (second**2 @ square)[None, :]
        rows, columns = np.indices(cells.shape)
        own = first[rows, cells] + second[columns, cells]
        variances[key][..., k] += cross + margins + (1 - 2 * own) * square[cells]


def _shares(cells: NDArray[np.int64], n_leaves: int) -> FloatArray:
    """The share of each leaf along the first axis: (n_codes, n_leaves)."""
    rows = cells.reshape(len(cells), -1)
    offsets = rows + n_leaves * np.arange(len(rows))[:, None]
    counts = np.bincount(offsets.ravel(), minlength=n_leaves * len(rows))
    shares: FloatArray = counts.reshape(len(rows), n_leaves) / rows.shape[1]
    return shares


def grid(key: Key, bins: Bins) -> NDArray[np.uint8]:
    """All combinations of codes of some columns, the last one's running fastest.

    Other columns have code 0.
    """
    each = np.meshgrid(*(np.arange(bins.n_bins[j]) for j in key), indexing="ij")
    codes = np.zeros((each[0].size if key else 1, len(bins.columns)), dtype=np.uint8)
    for j, values in zip(key, each, strict=True):
        codes[:, j] = values.ravel()
    return codes


def _labels_of(column: BinnedColumn) -> dict[str, Any]:
    rest = ["other"] * column.has_other + [None] * column.has_missing
    edges = column.edges
    if edges is None:
        return {"value": [*(column.values or ()), *rest]}
    ends = {"from": edges[:-1], "to": edges[1:]}
    if not column.has_missing:
        return ends
    return {name: [*end.tolist(), None] for name, end in ends.items()}


def _by_output(name: str, values: FloatArray) -> dict[str, FloatArray]:
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
