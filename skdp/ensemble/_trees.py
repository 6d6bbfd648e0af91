"""Random trees, and the binned tables that they divide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray
from skdp._input import check_rows
from skdp.io._table import Table
from skdp.preprocessing import _blocks as blocks
from skdp.preprocessing._blocks import NumberAxis, TimeAxis
from skdp.preprocessing._cells import Cells, ColumnTable
from skdp.preprocessing._encoder import TableEncoder, check_knots
from skdp.sums._leaves import Tree
from skdp.tables._columns import Categories, Dates, Declaration, Declared, Range

# --------------------------------- RandomTrees: complete binary trees from public draws
# A tree cuts each column in an order of its codes: the declared order, with missing
# values at a random end, or a random order for categories. At a node an interval of
# ranks is still possible in every column, and the node cuts within its intervals, so
# that no leaf is empty by construction. Cuts divide the shares of codes evenly; the
# shares are equal or were released.


# A generator like scikit-learn's, for draws on which no privacy rests.
Draws = Any
Pool = tuple[int, ...]

# Above all ranks: where nothing is left to cut, all records go left.
_NO_CUT = 255
# Cuts of a single column coincide in many trees: a few levels are enough.
_ONE_COLUMN_DEPTH = 4
MIX: tuple[int | None, ...] = (1, 2, None)


class CodedColumns(Protocol):
    """Public facts of columns whose values are codes.

    `n_bins` is the number of codes of each column, at most 255. `is_ordered` is whether
    they are in order, except for the code `missing`, which is None where no value can
    be missing. `heaps` are the codes of single values at which many records lie.
    """

    @property
    def n_bins(self) -> tuple[int, ...]: ...
    @property
    def is_ordered(self) -> tuple[bool, ...]: ...
    @property
    def missing(self) -> tuple[int | None, ...]: ...
    @property
    def heaps(self) -> tuple[tuple[int, ...], ...]: ...


@dataclass(frozen=True, eq=False)
class RandomTrees:
    """Trees of one depth in heap order: node i leads to 2 i + 1 and to 2 i + 2.

    Parameters
    ----------
    feature : ndarray of int32 of shape (n_trees, 2**depth - 1)
        Column that a node cuts.
    cut : ndarray of uint8 of shape (n_trees, 2**depth - 1)
        A record goes right if the rank of its code is at least this.
    rank : ndarray of uint8 of shape (n_trees, sum of n_bins)
        Rank of each code of each column, one column after another.
    starts : ndarray of int64 of shape (n_columns + 1,)
        Index of the first rank of each column.
    depth : int
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.uint8]
    rank: NDArray[np.uint8]
    starts: NDArray[np.int64]
    depth: int

    def __len__(self) -> int:
        return len(self.feature)

    def __getitem__(self, tree: int) -> Tree:
        """A copy of one tree."""
        feature, cut = self.feature[tree].copy(), self.cut[tree].copy()
        return Tree(feature, cut, self.rank[tree].copy(), self.starts, self.depth)

    def joined(self, others: RandomTrees) -> RandomTrees:
        """These trees, and then others of the same columns and depth."""
        feature = np.concatenate([self.feature, others.feature])
        cut = np.concatenate([self.cut, others.cut])
        rank = np.concatenate([self.rank, others.rank])
        return RandomTrees(feature, cut, rank, self.starts, self.depth)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of each tree, unreachable ones included."""
        return int(2**self.depth)

    def goes_right(self, tree: int, node: int) -> NDArray[np.bool_]:
        """Whether a record goes right at a node, by its code in the node's column."""
        first, last = self.starts[self.feature[tree, node] :][:2]
        return np.asarray(self.rank[tree, first:last] >= self.cut[tree, node])

    def is_reached(self, tree: int) -> NDArray[np.bool_]:
        """Which leaves cuts lead to: where nothing is left to cut, all go left."""
        reached, cut = np.ones(1, dtype=bool), self.cut[tree] < _NO_CUT
        for _ in range(self.depth):
            first = len(reached) - 1
            right = reached & cut[first : first + len(reached)]
            reached = np.column_stack([reached, right]).ravel()
        return reached

    @cached_property
    def columns(self) -> tuple[Pool, ...]:
        """The columns that each tree cuts, in rising order."""
        return tuple(
            tuple(np.unique(feature[cut < _NO_CUT]).tolist())
            for feature, cut in zip(self.feature, self.cut, strict=True)
        )


def uncut(columns: CodedColumns) -> RandomTrees:
    """One tree of a single leaf."""
    none = np.zeros((1, 0))
    rank = np.zeros((1, sum(columns.n_bins)), dtype=np.uint8)
    feature, cut = none.astype(np.int32), none.astype(np.uint8)
    return RandomTrees(feature, cut, rank, _starts(columns), 0)


class TreeDraws:
    """Draws trees from a public seed.

    Parameters
    ----------
    columns : CodedColumns
    max_depth : int in [1, 16]
        Trees of one column are of depth 4 at most.
    seed : int
        Public.
    interactions : sequence of int or None
        Most columns that each tree may cut, in turn; None: all of them.
    groups : sequence of sequences of int or None, default=None
        The columns of a tree are all of one group; None: one group of all.
    shares : ndarray of shape (sum of n_bins,) or None, default=None
        Share of each code in its column, above 0; released or public. None: equal
        shares.
    """

    def __init__(
        self,
        columns: CodedColumns,
        *,
        max_depth: int,
        seed: int,
        interactions: Sequence[int | None] = MIX,
        groups: Sequence[Sequence[int]] | None = None,
        shares: FloatArray | None = None,
    ) -> None:
        # NumPy never changes the draws of this generator for a seed.
        self._rng = check_random_state(seed)
        self._depth, self._interactions = max_depth, interactions
        self._groups = _groups(columns, groups)
        self._starts = _starts(columns)
        self._shares = np.ones(self._starts[-1]) if shares is None else shares
        # Computed once, because a column counts its bins each time.
        self._facts = list(
            zip(columns.n_bins, columns.is_ordered, columns.missing, strict=True)
        )
        self._n_drawn = 0

    def draw(self, n_trees: int, weights: FloatArray | None = None) -> RandomTrees:
        """The next trees.

        Parameters
        ----------
        n_trees : int of at least 1
        weights : ndarray of shape (n_columns,) or None, default=None
            How often each column is cut, above 0; released or public. None: equally
            often.
        """
        rng, starts = self._rng, self._starts
        n_nodes = 2**self._depth - 1
        feature = np.zeros((n_trees, n_nodes), dtype=np.int32)
        cut = np.full((n_trees, n_nodes), _NO_CUT, dtype=np.uint8)
        rank = np.empty((n_trees, starts[-1]), dtype=np.uint8)
        for t in range(n_trees):
            pool = self._pool(weights)
            rank[t] = np.concatenate([_ranks(*each, rng) for each in self._facts])
            is_single = len(pool) == 1
            depth = min(self._depth, _ONE_COLUMN_DEPTH) if is_single else self._depth
            ladders = [
                _ladder(rank[t, starts[j] : starts[j + 1]], self._shares[starts[j] :])
                for j in pool
            ]
            own = None if weights is None else weights[list(pool)]
            features, cuts = _cuts(pool, ladders, depth, rng, own)
            feature[t, : len(features)], cut[t, : len(cuts)] = features, cuts
        return RandomTrees(feature, cut, rank, starts, self._depth)

    def _pool(self, weights: FloatArray | None) -> Pool:
        """Columns that the next tree may cut, from a group of its first column.

        Without weights the first column cycles once for each entry of `interactions`,
        so that every column has its turn.
        """
        rng, groups = self._rng, self._groups
        columns = sorted({column for group in groups for column in group})
        turn, place = divmod(self._n_drawn, len(self._interactions))
        self._n_drawn += 1
        size, first = self._interactions[place], columns[turn % len(columns)]
        if weights is not None:
            first = columns[_chosen(weights[columns], rng)]
        around = [group for group in groups if first in group]
        group = around[int(rng.randint(len(around)))]
        if size is None or size >= len(group):
            return group
        others = [column for column in group if column != first]
        if weights is None:
            chosen = rng.choice(len(others), size - 1, replace=False)
            return (first, *(others[i] for i in chosen))
        pool = [first]
        while len(pool) < size:
            pool.append(others.pop(_chosen(weights[others], rng)))
        return tuple(pool)


def _chosen(weights: FloatArray, rng: Draws) -> int:
    """An index, with probability in proportion to its weight."""
    below = np.cumsum(weights)
    at = np.searchsorted(below, rng.random_sample() * below[-1], side="right")
    return min(int(at), len(weights) - 1)


def _n(columns: CodedColumns) -> int:
    return len(columns.n_bins)


def _starts(columns: CodedColumns) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(columns.n_bins)]).astype(np.int64)


def _groups(
    columns: CodedColumns, groups: Sequence[Sequence[int]] | None
) -> tuple[Pool, ...]:
    whole = [range(_n(columns))] if groups is None else groups
    return tuple(tuple(sorted(set(group))) for group in whole if len(group))


def _ranks(
    n_bins: int, is_ordered: bool, missing: int | None, rng: Draws
) -> NDArray[np.uint8]:
    """Rank of each code of a column, in the order in which a tree cuts it."""
    if not is_ordered:
        return np.asarray(rng.permutation(n_bins).astype(np.uint8))
    ranks = np.arange(n_bins, dtype=np.uint8)
    if missing is None:
        return ranks
    order = ranks.tolist()
    order.remove(missing)
    order.insert(0 if rng.random_sample() < 0.5 else len(order), missing)
    ranks[order] = np.arange(n_bins)
    return ranks


def _ladder(ranks: NDArray[np.uint8], shares: FloatArray) -> FloatArray:
    """Shares of all codes below each rank, from 0 to 1."""
    ordered = np.empty(len(ranks))
    ordered[ranks] = shares[: len(ranks)]
    below = np.concatenate([[0.0], np.cumsum(ordered)])
    return np.asarray(below / below[-1])


def _cuts(
    pool: Pool,
    ladders: Sequence[FloatArray],
    depth: int,
    rng: Draws,
    weights: FloatArray | None,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Columns and cuts of a tree, level by level, each within the box of its node."""
    steps = [len(ladder) for ladder in ladders]
    offsets = np.cumsum([0, *steps[:-1]])
    # Ladders of all columns in one rising array: column j is in [2 j, 2 j + 1].
    rungs = np.concatenate([2 * j + ladder for j, ladder in enumerate(ladders)])
    low = np.zeros((1, len(pool)), dtype=np.int64)
    high = np.array([steps], dtype=np.int64) - 1
    of_pool, features, cuts = np.array(pool, dtype=np.int32), [], []
    for _ in range(depth):
        nodes = np.arange(len(low))
        is_open = high - low >= 2
        n_open = is_open.sum(axis=1)
        if weights is None:
            nth = np.floor(rng.random_sample(len(low)) * n_open)
            chosen = np.argmax(is_open.cumsum(axis=1) > nth[:, None], axis=1)
        else:
            below = (is_open * weights).cumsum(axis=1)
            at = rng.random_sample(len(low)) * below[:, -1]
            chosen = np.argmax(below > at[:, None], axis=1)
        first, last = low[nodes, chosen], high[nodes, chosen]
        ends = rungs[offsets[chosen] + first], rungs[offsets[chosen] + last]
        place = ends[0] + rng.random_sample(len(low)) * (ends[1] - ends[0])
        # The rung above or below, by a coin.
        rung = np.searchsorted(rungs, place) - (rng.random_sample(len(low)) < 0.5)
        inside = np.clip(rung - offsets[chosen], first + 1, last - 1)
        cut = np.where(n_open > 0, inside, _NO_CUT).astype(np.int64)
        features.append(of_pool[chosen])
        cuts.append(cut.astype(np.uint8))
        low, high = np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0)
        high[0::2][nodes, chosen] = np.minimum(cut, last)
        low[1::2][nodes, chosen] = np.minimum(cut, last)
    return np.concatenate(features), np.concatenate(cuts)


# --------------------------------------------- Bins: cells of a declared table as codes
# Public rules give every cell one of at most 255 codes.


# A code has to fit a byte, and one value of the byte is left over.
MOST_BINS = 255
# Equal intervals of a range, unless the encoder says otherwise.
DEFAULT_INTERVALS = 128
# Cyclic parts of a date have no order that can be cut.
_ORDERED_PARTS = ("day", "hour")


@dataclass(frozen=True)
class BinnedColumn:
    """The codes of one declared column, or of one part of its dates; public.

    Present values have the codes 0, 1, ... Undeclared categories and missing values,
    where they may occur, have one more code each, in this order.

    Parameters
    ----------
    name : str
        Name of the column; ``<column>_<part>`` for a part of dates.
    source : int
        Position of the declared column.
    block : ColumnBlock
        The state of a present cell.
    is_ordered : bool
        Whether codes of present values have an order in which they may be cut.
    has_other : bool
        Whether categories that are not declared have a code.
    has_missing : bool
        Whether values may be missing.
    """

    name: str
    source: int
    block: blocks.ColumnBlock
    is_ordered: bool
    has_other: bool
    has_missing: bool

    @property
    def n_values(self) -> int:
        """Number of codes of present, declared values."""
        return sum(self.block.parts)

    @property
    def other(self) -> int | None:
        """The code of categories that are not declared."""
        return self.n_values if self.has_other else None

    @property
    def missing(self) -> int | None:
        """The code of missing values."""
        return self.n_values + self.has_other if self.has_missing else None

    @property
    def n_bins(self) -> int:
        return self.n_values + self.has_other + self.has_missing

    @property
    def edges(self) -> np.ndarray | None:
        """Ends of the intervals of a range or of points in time, else None."""
        return self.block.edges if isinstance(self.block, blocks.Intervals) else None

    @property
    def ends(self) -> dict[str, np.ndarray] | None:
        """``from`` and ``to`` of each interval, and ``heap`` if there are heaps."""
        return self.block.ends if isinstance(self.block, blocks.Intervals) else None

    @property
    def is_log(self) -> bool:
        """Whether intervals are of equal length in logarithms."""
        axis = self.block.axis if isinstance(self.block, blocks.Intervals) else None
        return isinstance(axis, blocks.NumberAxis) and axis.declared.log

    @property
    def heaps(self) -> tuple[int, ...]:
        """The codes of heaps."""
        block = self.block
        if not isinstance(block, blocks.Intervals) or not block.heaps:
            return ()
        return tuple(block.heap_intervals.tolist())

    @property
    def is_whole(self) -> bool:
        """Whether intervals are of whole numbers, and their edges halves."""
        return isinstance(self.block, blocks.Intervals) and self.block.is_whole

    @property
    def values(self) -> tuple[Any, ...] | None:
        """Categories, truth values or parts of dates by code; None for intervals."""
        if isinstance(self.block, blocks.OneOf):
            return self.block.declared.values
        if isinstance(self.block, blocks.DatePart):
            return tuple(self.block._values())
        return (False, True) if isinstance(self.block, blocks.Sign) else None

    @property
    def labels(self) -> tuple[str, ...]:
        """Each code in words."""
        edges, values = self.edges, self.values
        if edges is not None:
            shown = [_between(*ends, self.is_whole) for ends in pairwise(edges)]
        else:
            shown = [str(value) for value in values or ()]
        shown += ["other"] * self.has_other + ["missing"] * self.has_missing
        return tuple(shown)

    def codes(self, cells: Cells) -> NDArray[np.uint8]:
        states, shares = blocks.encoded(self.block, cells)
        codes = states[:, 0]
        if self.other is not None:
            codes = np.where(shares[:, 0] > 0, codes, self.other)
        if self.missing is not None:
            codes = np.where(cells.is_missing, self.missing, codes)
        return codes.astype(np.uint8)


@dataclass(frozen=True)
class Bins:
    """Integer codes of the values of declared columns. Public.

    Ranges and points in time are cut into intervals of equal width, on the scale of the
    logarithm if so declared; values beyond an end count in the last interval on that
    side. A heap is a code of its own, between what is left of its interval. A category
    is a code, and so is a missing value.

    Parameters
    ----------
    columns : tuple of BinnedColumn
        Dates have one for the point in time and one for each part.
    """

    columns: tuple[BinnedColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Codes of each column, at most 255."""
        return tuple(column.n_bins for column in self.columns)

    @property
    def is_ordered(self) -> tuple[bool, ...]:
        """Whether the codes of present values have an order."""
        return tuple(column.is_ordered for column in self.columns)

    @property
    def missing(self) -> tuple[int | None, ...]:
        """The code of missing values, the last one; None where none may be missing."""
        return tuple(column.missing for column in self.columns)

    @property
    def heaps(self) -> tuple[tuple[int, ...], ...]:
        """The codes of the heaps of each column."""
        return tuple(column.heaps for column in self.columns)

    @property
    def sources(self) -> tuple[int, ...]:
        """Position of the declared column of each column of codes."""
        return tuple(column.source for column in self.columns)

    def codes(self, table: list[Cells]) -> NDArray[np.uint8]:
        """Codes of checked cells, one entry of `table` a declared column.

        Returns
        -------
        ndarray of uint8 of shape (n_samples, n_columns), C-contiguous
            Each row follows from that row alone. As private as the cells.
        """
        n_samples = len(table[0].values)
        codes = np.empty((n_samples, len(self.columns)), dtype=np.uint8)
        for i, column in enumerate(self.columns):
            codes[:, i] = column.codes(table[column.source])
        return codes


def bins_of(
    names: tuple[str, ...],
    declared: tuple[Declaration, ...],
    *,
    intervals: int = DEFAULT_INTERVALS,
    has_other: bool = True,
) -> Bins:
    """The codes of declared columns; they depend on nothing else.

    Parameters
    ----------
    names : tuple of str
    declared : tuple of Declaration
    intervals : int, default=128
        Number of intervals of each range.
    has_other : bool, default=True
        Whether undeclared categories have a code; otherwise they are refused.

    Raises
    ------
    ValueError
        If a column would have more than 255 codes.
    """
    found = Bins(
        tuple(
            column
            for source, (name, each) in enumerate(zip(names, declared, strict=True))
            for column in _columns(name, source, each, intervals, has_other)
        )
    )
    large = [column.name for column in found.columns if column.n_bins > MOST_BINS]
    if large:
        raise ValueError(
            f"A declared column must have at most {MOST_BINS} bins, those of missing "
            f"values and of other categories included. Got more for {large}. Use fewer "
            "knots or heaps, or join categories by a fixed rule."
        )
    return found


def _columns(
    name: str, source: int, declared: Declaration, intervals: int, has_other: bool
) -> list[BinnedColumn]:
    has_missing = bool(getattr(declared, "missing", False))

    def column(
        block: blocks.ColumnBlock, *, part: str = "", is_ordered: bool = True
    ) -> BinnedColumn:
        has_more = has_other and isinstance(block, blocks.OneOf)
        shown = f"{name}_{part}" if part else name
        return BinnedColumn(shown, source, block, is_ordered, has_more, has_missing)

    if isinstance(declared, Range):
        return [column(_intervals(declared, intervals))]
    if isinstance(declared, Categories):
        return [column(blocks.OneOf(declared), is_ordered=False)]
    if not isinstance(declared, Dates):
        return [column(blocks.Sign())]
    parts = [
        column(blocks.DatePart(part), part=part, is_ordered=part in _ORDERED_PARTS)
        for part in declared.parts
    ]
    return [column(blocks.Intervals(TimeAxis(declared), intervals)), *parts]


def _intervals(declared: Range, count: int) -> blocks.Intervals:
    """Equal intervals; those of whole numbers hold equally many whole numbers each.

    Their number is then about `count`, as near as it can be. Heaps split them further.
    """
    low, high = declared.low, declared.high
    n_values = high - low + 1
    if not declared.whole or declared.log:
        equal = blocks.Intervals(NumberAxis(declared), count)
        return blocks.split_at_heaps(equal, declared)
    most = MOST_BINS - 1  # one bin may be of missing values
    width = max(round(n_values / count), math.ceil(n_values / most), 1)
    count = math.ceil(n_values / width)
    ends = Range(low - 0.5, low - 0.5 + count * width)
    equal = blocks.Intervals(NumberAxis(ends), count, is_whole=True)
    return blocks.split_at_heaps(equal, declared)


def _between(low: Any, high: Any, is_whole: bool) -> str:
    """An interval in words; of whole numbers its first and its last."""
    if is_whole:
        low, high = low + 0.5, high - 0.5
    return _shown(low) if low == high else f"{_shown(low)} to {_shown(high)}"


def _shown(end: Any) -> str:
    """An end of an interval in few digits, a point in time to the second."""
    return str(end) if isinstance(end, np.datetime64) else f"{float(end):.6g}"


# --------------------------------------- TableReader: declared columns, read and binned


class TableReader(TableEncoder):
    """Reads declared columns of a table, or of CSR if they are declared by position.

    An entry that is not stored falls into the bin of zero, as any other zero does.
    """

    def _open(self, X: Any, declared: Declared, *, reset: bool) -> ColumnTable:
        if not issparse(X) or isinstance(declared, dict):
            return super()._open(X, declared, reset=reset)
        rows = check_rows(self, X, reset=reset, accept_sparse=True, allow_nan=True)
        columns = rows.tocsc()
        names = tuple(f"x{i}" for i in range(rows.shape[1]))
        return ColumnTable(
            names, rows.shape[0], lambda i: columns[:, [i]].toarray().ravel()
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def reader_of(columns: Any) -> TableReader:
    """The unfitted reader for the `columns` parameter.

    Raises
    ------
    ValueError
        If there are no declarations, or trees cannot do what an encoder asks for.
    """
    if columns is None:
        raise ValueError(
            "The 'columns' parameter must declare the columns of X, which trees are "
            "drawn from without looking at the data. Got None. Pass a mapping such as "
            "columns={'age': (17, 90), 'sex': ['Female', 'Male']}, or one Range for "
            "an array; skdp.columns.template(frame) prints one to fill in."
        )
    if not isinstance(columns, TableEncoder):
        return TableReader(columns, numeric="bins")
    reader = TableReader(**columns.get_params(deep=False))
    if not isinstance(reader.numeric, str) or reader.numeric not in ("bins", "hats"):
        raise ValueError(
            "The 'numeric' parameter of a TableEncoder in 'columns' must be 'bins' "
            f"for trees, which cut ranges into intervals. Got {reader.numeric!r}. "
            "Leave it out."
        )
    knots = check_knots(reader.n_knots)
    if knots is not None and knots - 1 > MOST_BINS:
        raise ValueError(
            "The 'n_knots' parameter of a TableEncoder in 'columns' must be at most "
            f"{MOST_BINS + 1} for trees. Got {knots}. Leave it out."
        )
    reader.numeric = "bins"
    return reader


def read_to_fit(model: Any, table: Table, intervals: int = DEFAULT_INTERVALS) -> Any:
    """Codes of a table as declared, or an error before anything is spent.

    Ranges have this many intervals, unless the model's encoder says otherwise.

    Sets the model's ``n_features_in_`` and ``feature_names_in_``, ``encoder_`` and
    ``bins_``; nothing of them depends on cells.

    Returns
    -------
    ndarray of uint8, or StreamRows of them, of shape (n_samples, n_columns)
        Private.
    """
    reader = reader_of(model.columns)
    encoding, cells = reader._fit(table, lambda n, d: intervals + 1)
    vars(model).pop("feature_names_in_", None)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(reader, name):
            setattr(model, name, getattr(reader, name))
    model.encoder_ = reader
    bins = bins_of(
        encoding.names,
        encoding.declared,
        intervals=reader.n_knots_ - 1,
        has_other=reader.handle_unknown == "ignore",
    )
    model.bins_ = bins
    return table.rows(
        bins.codes(cells),
        partial(_codes_of, bins, reader),
        columns=reader.columns_,
        refuses_unknown=reader.handle_unknown == "error",
    )


def read_to_predict(model: Any, X: Any) -> NDArray[np.uint8]:
    """Codes of a table like the fitted one, or an error that names a column."""
    return _codes_of(model.bins_, model.encoder_, X)


def _codes_of(bins: Bins, reader: TableEncoder, X: Any) -> NDArray[np.uint8]:
    return bins.codes(reader._cells(X))
