"""Boosted trees as sums of tables: shape functions, monotone columns, constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from skdp._arrays import FloatArray
from skdp._row_threads import n_threads_for
from skdp.ensemble._boosting import BoostedTrees
from skdp.ensemble._linear_start import shares_or_even
from skdp.ensemble._shape_noise import noise_of
from skdp.ensemble._trees import BinnedColumn, Bins, RandomTrees
from skdp.preprocessing import _blocks as blocks
from skdp.preprocessing._encoder import by_output
from skdp.sums._leaves import find_leaves

# ---------------------------------------------------------------------- Shape functions
# Each tree of one or two columns is a table over their codes. The tables of all trees
# are added up and decomposed into an intercept, a curve for each column and a table for
# each pair, so that every curve has mean 0 over its codes and every table mean 0 over
# each of its rows and columns. Codes have their released shares of the records as
# weights, so that a code without records moves no other; where no shares were released,
# all codes of a column have equal weight.


# Positions of one or two columns, in order.
Key = tuple[int, ...]
Tables = dict[Key, FloatArray]
# Weight of each code of each column.
Weights = Sequence[FloatArray]


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
        Standard deviation of the privacy noise in the values, for this share of the
        trees (`shrinkage_`): noise only, not the error of the model. 0 without noise.
    """

    columns: Key
    values: FloatArray
    noise: FloatArray

    def at(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Effect for each row of codes: (n_samples, n_outputs)."""
        found: FloatArray = self.values[tuple(codes[:, j] for j in self.columns)]
        return found


@dataclass(frozen=True, eq=False)
class ShapeFunctions:
    """A model as intercept, curves and tables, whose sum is its raw prediction.

    For a classifier they add up to `decision_function`, for a regressor to `predict`,
    in units of the target. Iterating gives the shapes, curves first.

    Parameters
    ----------
    bins : Bins
        Public.
    intercept : ndarray of float64 of shape (n_outputs,)
        The mean over records whose columns are independent. Private output.
    shapes : tuple of Shape
        Every column has a curve; only pairs that share a tree have a table.
    shares : dict of int to ndarray of float64 of shape (n_codes,), default={}
        Share of the records with each code, by column; the weights of all means.
        Private output. Where none were released, all codes have equal weight.
    """

    bins: Bins
    intercept: FloatArray
    shapes: tuple[Shape, ...]
    shares: Mapping[int, FloatArray] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Shape]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def names(self) -> list[str]:
        """Names of columns; a pair is ``"age x job"``."""
        return [self.name(shape) for shape in self.shapes]

    def name(self, shape: Shape) -> str:
        """Name of one shape."""
        return " x ".join(self.bins.names[j] for j in shape.columns)

    def raw(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Raw predictions: (n_samples, n_outputs)."""
        total = np.tile(self.intercept, (len(codes), 1))
        for shape in self.shapes:
            total += shape.at(codes)
        return total

    def attributions(self, codes: NDArray[np.uint8]) -> FloatArray:
        """What each column of codes adds to each row's raw predictions.

        A pair's effect is split in half. These are Shapley values of the model for
        codes drawn independently with `shares`; with `intercept` they add up to `raw`.

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
        """The functions in other units: multiplied, and then the intercept shifted."""
        shapes = tuple(
            Shape(shape.columns, factor * shape.values, factor * shape.noise)
            for shape in self.shapes
        )
        return replace(self, intercept=factor * self.intercept + shift, shapes=shapes)

    def curve(self, name: str) -> pd.DataFrame:
        """What a column adds, one row a code.

        Parameters
        ----------
        name : str
            Name of a column of codes; ``<column>_<part>`` for a part of dates.

        Returns
        -------
        DataFrame
            ``from`` and ``to``, or ``value``; in ``effect`` and ``noise`` what is added
            and the deviation of its noise (``effect_0``, ``noise_0`` and so on for
            several classes); in ``share`` the released share of the records, NaN if
            none was released. The last rows are of categories that were not declared
            and of missing values.
        """
        shape = self.find(name)
        (j,) = shape.columns
        return pd.DataFrame(
            _labels_of(self.bins.columns[j])
            | by_output("effect", shape.values)
            | by_output("noise", shape.noise)
            | {"share": self.shares.get(j, np.full(len(shape.values), np.nan))}
        )

    def table(self, first: str, second: str, *, output: int = 0) -> pd.DataFrame:
        """What a pair of columns adds beyond both curves.

        Parameters
        ----------
        first, second : str
            Names of columns of codes, in any order.
        output : int, default=0
            The class, where there are several outputs.

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
    """Sum of the trees of each key, over all codes of its columns.

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


def taken_apart(tables: Tables, bins: Bins, n_outputs: int, weights: Weights) -> Tables:
    """Tables with the same sum, each of weighted mean 0 along each of its columns.

    The empty key holds the intercept; every column has a curve.
    """
    apart: Tables = {(): np.zeros(n_outputs)}
    apart |= {(j,): np.zeros((n, n_outputs)) for j, n in enumerate(bins.n_bins)}
    for key, table in sorted(tables.items(), key=lambda item: -len(item[0])):
        if len(key) == 2:
            own, other = (weights[j] for j in key)
            rows, columns = (
                np.tensordot(other, table, (0, 1)),
                np.tensordot(own, table, 1),
            )
            mean = own @ rows
            rest = table - rows[:, None] - columns[None, :] + mean
            apart[key] = apart.get(key, 0.0) + rest
            apart[key[:1]] += rows - mean
            apart[key[1:]] += columns - mean
            apart[()] += mean
        elif len(key) == 1:
            mean = weights[key[0]] @ table
            apart[key] += table - mean
            apart[()] += mean
        else:
            apart[()] += table
    return apart


def grid(key: Key, bins: Bins) -> NDArray[np.uint8]:
    """All combinations of the codes of some columns; the last column's run fastest.

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


# --------------------------------------------------------------------- Monotone columns
# Post-processing of released tables: they change so that predictions never fall, or
# never rise. A sum of monotone tables is monotone, whatever the other columns hold. So
# the model becomes the nearest sum of a monotone curve for each constrained column and
# a monotone table for each of its pairs, in least squares over all combinations of
# codes. The tables take turns: each becomes the monotone table nearest to the model
# less the other tables. Missing values have no place in the order.


# Turns of all tables; each table is monotone after any number of turns.
_TURNS = 2


def monotone(
    tables: Tables, directions: dict[int, int], n_values: tuple[int, ...]
) -> Tables:
    """Tables whose sum never falls (1) or never rises (-1) with a column's code.

    Parameters
    ----------
    tables : dict from key to ndarray of shape (n_bins, ..., 1)
        Curves of mean 0, and tables of mean 0 along their columns.
    directions : dict from int to {-1, 1}
        Directions of ordered columns.
    n_values : tuple of int
        Number of ordered codes of each column, which are the codes of present values.

    Returns
    -------
    dict from key to ndarray
        Each table is monotone by itself, to the last bit, and so is every sum of
        entries. Tables of constrained columns no longer have mean 0. The others are
        unchanged.
    """
    found = {key: table.copy() for key, table in tables.items()}
    keys = _pairs_of(tables, directions)
    for j in directions:
        share = 1 / (1 + sum(j in key for key in keys))
        found[(j,)] = share * tables[(j,)]
        for key in keys:
            if j in key:
                _along(found, key, j)[:] += share * tables[(j,)][:, 0][:, None]
    for _ in range(_TURNS):
        for key in [*keys, *((j,) for j in directions)]:
            own = [j for j in key if j in directions]
            for j in own:
                left = tables[(j,)][:, 0] - _curve(found, keys, j)
                _along(found, key, j)[:] += left[:, None]
            for j in own:
                _isotonic(_along(found, key, j)[: n_values[j]], directions[j])
    return found


def _isotonic(table: FloatArray, direction: int) -> None:
    """Make each column of a table the nearest monotone one.

    After one axis and then the other, both hold: ordered values stay ordered.
    """
    for column in table.T:
        column[:] = isotonic_regression(column, increasing=direction > 0)


def _curve(tables: Tables, keys: list[Key], j: int) -> FloatArray:
    """Mean effect of a column in all tables, over the other columns' codes."""
    curve = tables[(j,)][:, 0].copy()
    for key in keys:
        if j in key:
            curve += _along(tables, key, j).mean(axis=1)
    return curve


def _along(tables: Tables, key: Key, j: int) -> FloatArray:
    """A view of a table with a column's codes along the first axis."""
    table = tables[key][..., 0]
    if len(key) == 1:
        return table[:, None]
    return table if key[0] == j else table.T


def _pairs_of(tables: Tables, columns: Iterable[int]) -> list[Key]:
    wanted = set(columns)
    return [key for key in tables if len(key) == 2 and wanted & set(key)]


# ------------------------------------------------- Model: trees, and tables beside them


@dataclass(frozen=True, eq=False)
class Model:
    """The released model under its constraints: trees, and tables beside them.

    Parameters
    ----------
    bins : Bins
    boosted : BoostedTrees
        The trees without constrained columns, and the start.
    tables : ShapeFunctions or None
        The tables of constrained columns; None without constraints.
    """

    bins: Bins
    boosted: BoostedTrees
    tables: ShapeFunctions | None = None

    def raw(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Raw predictions of shape (n_samples, n_outputs)."""
        raw = self.boosted.raw(codes)
        return raw if self.tables is None else raw + self.tables.raw(codes)

    @property
    def is_constant(self) -> bool:
        """Whether trees and the linear model before them add nothing to any record."""
        curves = self.boosted.curves
        added = [self.boosted.values, *(() if curves is None else curves.tables)]
        added += [] if self.tables is None else [each.values for each in self.tables]
        return not any(map(np.any, added))

    @property
    def is_additive(self) -> bool:
        """Whether no tree cuts more than two columns."""
        return all(len(key) <= 2 for key in self.boosted.trees.columns)

    @property
    def shapes(self) -> ShapeFunctions:
        """The model as shape functions, if it is additive."""
        weights = shares_or_even(self.bins, self.boosted.shares)
        leaves = _leaves(self.boosted.trees, self.bins)
        own = _tables(self.boosted, leaves, self.bins, weights)
        noise = noise_of(self.boosted, leaves, self.bins, weights)
        own[()] = own[()] + self.boosted.start
        if self.tables is not None:
            for shape in self.tables:
                own[shape.columns] = own.get(shape.columns, 0.0) + shape.values
                # Of all trees, which correct each other.
                noise[shape.columns] = shape.noise
            own[()] = own[()] + self.tables.intercept
        own = taken_apart(own, self.bins, len(own[()]), weights)
        functions = _as_functions(self.bins, own, noise)
        return replace(functions, shares=self.boosted.shares)


def constrained(bins: Bins, boosted: BoostedTrees, directions: dict[int, int]) -> Model:
    """The model whose predictions are monotone in some columns of codes.

    Every tree of such a column must cut two columns at most (`groups_of`).
    """
    if not directions:
        return Model(bins, boosted)
    is_bound = [bool(set(key) & directions.keys()) for key in boosted.trees.columns]
    bound = _some(boosted, np.flatnonzero(is_bound))
    free = _some(boosted, np.flatnonzero(np.logical_not(is_bound)))
    # Curves of other columns become tables too.
    free = replace(free, curves=None)
    # The nearest monotone tables weigh all combinations of codes alike.
    leaves = _leaves(bound.trees, bins)
    tables = _tables(bound, leaves, bins, shares_or_even(bins, {}))
    weights = shares_or_even(bins, boosted.shares)
    # Curves are corrected by all trees; a model with larger trees shows no noise.
    small = [len(key) <= 2 for key in boosted.trees.columns]
    boosted = _some(boosted, np.flatnonzero(small))
    noise = noise_of(boosted, _leaves(boosted.trees, bins), bins, weights)
    n_values = tuple(column.n_values for column in bins.columns)
    tables = monotone(tables, directions, n_values)
    return Model(bins, free, _as_functions(bins, tables, noise))


def _tables(
    boosted: BoostedTrees, leaves: Mapping[Key, Any], bins: Bins, weights: Weights
) -> Tables:
    """Tables of all trees and of the linear model before them, taken apart."""
    tables = tables_of(boosted.trees.columns, leaves, boosted.values, bins)
    if boosted.curves is not None:
        for j, own in enumerate(boosted.curves.tables):
            tables[(j,)] = tables.get((j,), 0.0) + own
    return taken_apart(tables, bins, boosted.values.shape[2], weights)


def _leaves(trees: RandomTrees, bins: Bins) -> dict[Key, NDArray[np.int64]]:
    """The leaf of each combination of codes, in each tree of these columns."""
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
    """The model with some of its trees only, and with its start and curves."""
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


# ---------------------------------------- Constraints: directions and groups of columns


Groups = tuple[tuple[int, ...], ...]
_WORDS = ("pairwise", "no_interactions")


def directions_of(
    monotonic_cst: Any, bins: Bins, declared: tuple[str, ...], names: tuple[str, ...]
) -> dict[int, int]:
    """Columns of codes whose predictions may not fall (1), or not rise (-1).

    Parameters
    ----------
    monotonic_cst : mapping, sequence or None
        As users give it.
    bins : Bins
    declared : tuple of str
        Names of declared columns.
    names : tuple of str
        Names of all columns of X, in their order.

    Raises
    ------
    ValueError
        If a direction is invalid, or its column has no order.
    """
    if monotonic_cst is None:
        return {}
    given = _by_name(monotonic_cst, names)
    unknown = sorted(name for name in given if given[name] and name not in declared)
    if unknown:
        raise ValueError(
            "The 'monotonic_cst' parameter must be of declared columns. Got "
            f"{unknown}. Declared are {list(declared)}."
        )
    found = {}
    for source, name in enumerate(declared):
        if given.get(name, 0):
            found[_ordered(bins, source, name)] = int(given[name])
    return found


def groups_of(
    interaction_cst: Any,
    bins: Bins,
    declared: tuple[str, ...],
    names: tuple[str, ...],
    constrained: Iterable[int] = (),
) -> Groups | None:
    """Groups of columns of codes that may share a tree; None: one group of all.

    A column with a direction shares a tree with one other at most, so that all of its
    trees can be tables.

    Parameters
    ----------
    interaction_cst : str, list or None
        As users give it.
    bins, declared, names
        As in `directions_of`.
    constrained : iterable of int
        Columns of codes with a direction.

    Raises
    ------
    ValueError
        If `interaction_cst` names no groups.
    """
    monotone = set(constrained)
    n_columns = len(bins.columns)
    if interaction_cst is None and not monotone:
        return None
    groups = _given_groups(interaction_cst, bins, declared, names)
    found: list[tuple[int, ...]] = []
    for group in groups:
        free = tuple(j for j in group if j not in monotone)
        bound = [j for j in group if j in monotone]
        pairs = {tuple(sorted((j, k))) for j in bound for k in group if k != j}
        # Often enough that a free column meets all others equally often.
        found += [free] * (max(len(free) - 1, 1) if bound else 1)
        found += sorted(pairs) or [(j,) for j in bound]
    assert {j for group in found for j in group} == set(range(n_columns))
    return tuple(group for group in found if group)


def _by_name(given: Any, names: tuple[str, ...]) -> dict[str, int]:
    rule = (
        "The 'monotonic_cst' parameter must be None, a mapping from columns to -1, 0 "
        f"or 1, or a sequence of these for the {len(names)} columns of X. Got "
        f"{given!r}. Use 0 for columns without a direction."
    )
    if isinstance(given, Mapping):
        found = {str(name): direction for name, direction in given.items()}
    else:
        is_list = isinstance(given, (list, tuple, np.ndarray))
        if not is_list or len(given) != len(names):
            raise ValueError(rule)
        found = dict(zip(names, given, strict=True))
    if not all(_is_direction(direction) for direction in found.values()):
        raise ValueError(rule)
    return found


def _is_direction(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, str)) and bool(value in (-1, 0, 1))
    except (TypeError, ValueError):  # an array, or what cannot be compared
        return False


def _ordered(bins: Bins, source: int, name: str) -> int:
    own = [j for j, column in enumerate(bins.columns) if column.source == source]
    is_plain = isinstance(bins.columns[own[0]].block, (blocks.Intervals, blocks.Sign))
    if len(own) == 1 and is_plain:
        return own[0]
    raise ValueError(
        "The 'monotonic_cst' parameter must be of columns with an order: a Range, a "
        f"Boolean, or Dates without parts. Got another declaration for {name!r}. "
        "Declare 0 for it."
    )


def _given_groups(
    given: Any, bins: Bins, declared: tuple[str, ...], names: tuple[str, ...]
) -> list[tuple[int, ...]]:
    """Groups of columns of codes; columns in no group form one more group.

    The two words mean columns of codes: a part of dates is a column.
    """
    columns = range(len(bins.columns))
    if isinstance(given, str) and given == "no_interactions":
        return [(j,) for j in columns]
    if isinstance(given, str) and given == "pairwise":
        return [(j, k) for k in columns for j in range(k)] or [(0,)]
    everything = tuple(range(len(declared)))
    sources = [everything] if given is None else _listed(given, declared, names)
    rest = set(everything) - {i for group in sources for i in group}
    sources += [tuple(sorted(rest))] if rest else []
    return [
        tuple(j for j in columns if bins.columns[j].source in group)
        for group in sources
    ]


def _listed(
    given: Any, declared: tuple[str, ...], names: tuple[str, ...]
) -> list[tuple[int, ...]]:
    rule = (
        f"The 'interaction_cst' parameter must be None, one of {list(_WORDS)}, or a "
        "list of groups of columns, by name or by position in X. Got "
        f"{given!r}. Declared columns are {list(declared)}."
    )
    try:
        groups = [list(group) for group in given]
        if isinstance(given, str) or any(isinstance(group, str) for group in given):
            raise ValueError(rule)
        named = [
            [
                item if isinstance(item, str) else names[_position(item, names)]
                for item in g
            ]
            for g in groups
        ]
        return [tuple(sorted({declared.index(name) for name in g})) for g in named]
    except (TypeError, ValueError, IndexError):
        raise ValueError(rule) from None


def _position(item: Any, names: tuple[str, ...]) -> int:
    position = int(item)
    if position != item or not 0 <= position < len(names):
        raise ValueError
    return position
