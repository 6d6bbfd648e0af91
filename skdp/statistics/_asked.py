"""What is asked of a declared table, and with which share of the budget; public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.columns import Dates, Declaration, Range
from skdp.ensemble._bins import BinnedColumn, Bins, bins_of
from skdp.preprocessing._table_axes import NumberAxis, TimeAxis
from skdp.preprocessing._table_cells import Cells
from skdp.privacy._adjacency import Adjacency
from skdp.queries._table_sums import Moments, Table, TablePart, TableSums

Axis = NumberAxis | TimeAxis
# The name of a column, or the names of those of a cross-table.
Name = str | tuple[str, str]


@dataclass(frozen=True)
class Statistic:
    """Sums that are asked together.

    Parameters
    ----------
    columns : tuple of int
        Columns of codes that they are of.
    part : TablePart
    share : float
        Of the budget, over the shares of all others.
    """

    columns: tuple[int, ...]
    part: TablePart
    share: float


@dataclass(frozen=True)
class Asked:
    """Everything that is asked of a table; known before any record is.

    Parameters
    ----------
    bins : Bins
        The cells of histograms.
    declared : tuple of Declaration
        By position of the declared column.
    names : tuple of str
        Of the declared columns.
    crosses : tuple of pairs of int
        Columns of codes that are crossed.
    cross_bins : int
        Most intervals of a range in a cross-table.
    weights : tuple of float
        Of the declared columns, then of the crosses.
    """

    bins: Bins
    declared: tuple[Declaration, ...]
    names: tuple[str, ...]
    crosses: tuple[tuple[int, int], ...]
    cross_bins: int
    weights: tuple[float, ...]

    @cached_property
    def axes(self) -> dict[int, Axis]:
        """Where values lie, by the column of codes that has moments."""
        found: dict[int, Axis] = {}
        for i, column in enumerate(self.bins.columns):
            declared = self.declared[column.source]
            if column.edges is None:
                continue
            if isinstance(declared, Range):
                # Sums are of values, also where intervals are of logarithms.
                found[i] = NumberAxis(replace(declared, log=False))
            elif isinstance(declared, Dates):
                found[i] = TimeAxis(declared)
        return found

    def rows(self, cells: list[Cells]) -> FloatArray:
        """Codes of all columns, then values in [-1, 1], NaN if missing. Private.

        Each row follows from that row alone.
        """
        codes = self.bins.codes(cells)
        values = [
            _values(axis, cells[self.bins.columns[i].source])
            for i, axis in self.axes.items()
        ]
        return np.column_stack([codes.astype(np.float64), *values])

    @property
    def n_features(self) -> int:
        return len(self.bins.columns) + len(self.axes)

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """Histograms, moments, cross-tables; each column divides its weight evenly."""
        each = [column.source for column in self.bins.columns]
        each += [each[i] for i in self.axes]
        shares = [self.weights[source] / each.count(source) for source in each]
        tables = [self._table((i,)) for i in range(len(self.bins.columns))]
        first = len(tables)
        moments = [Moments(first + k) for k in range(len(self.axes))]
        crossed = [self._table(pair) for pair in self.crosses]
        of = [*((i,) for i in range(first)), *((i,) for i in self.axes), *self.crosses]
        shares += self.weights[len(self.declared) :]
        parts: list[TablePart] = [*tables, *moments, *crossed]
        return tuple(map(Statistic, of, parts, shares))

    def _table(self, columns: tuple[int, ...]) -> Table:
        is_crossed = len(columns) > 1
        most = self.cross_bins if is_crossed else math.inf
        return Table(
            columns, tuple(merged(self.bins.columns[i], most) for i in columns)
        )

    def query(self, n_samples: int, adjacency: Adjacency) -> TableSums:
        """All sums as one vector, which one record moves by 1 at the most."""
        total = math.fsum(statistic.share for statistic in self.statistics)
        weights = [
            math.sqrt(statistic.share / total) / statistic.part.moved(adjacency)
            for statistic in self.statistics
        ]
        parts = tuple(statistic.part for statistic in self.statistics)
        return TableSums(parts, tuple(weights), n_samples)


def merged(column: BinnedColumn, most: float) -> tuple[int, ...]:
    """The cell of each code, so that an interval has at most so many cells."""
    n_values = column.n_values
    codes = np.arange(column.n_bins)
    if column.edges is None or n_values <= most:
        return tuple(codes.tolist())
    inside = np.minimum(codes, n_values - 1) * int(most) // n_values
    cells = np.where(codes < n_values, inside, int(most) + codes - n_values)
    return tuple(cells.tolist())


def cell_labels(column: BinnedColumn, cells: tuple[int, ...]) -> tuple[str, ...]:
    """Each cell in words; an interval of several from the first to the last."""
    found: dict[int, str] = {}
    for cell, label in zip(cells, column.labels, strict=True):
        start = found[cell].partition(" to ")[0] if cell in found else None
        found[cell] = (
            label if start is None else f"{start} to {label.partition(' to ')[2]}"
        )
    return tuple(found[cell] for cell in sorted(found))


def _values(axis: Axis, cells: Cells) -> FloatArray:
    values = axis.to_unit(cells.filled())
    return np.where(cells.is_missing, np.nan, values)


def asked_of(
    names: tuple[str, ...],
    declared: tuple[Declaration, ...],
    *,
    n_bins: int,
    has_other: bool,
    crosses: Any,
    cross_bins: int,
    weights: Any,
) -> Asked:
    """What is asked, or an error before anything is read."""
    bins = bins_of(names, declared, intervals=n_bins, has_other=has_other)
    _check_names(bins.names)
    pairs = _crosses(crosses, bins.names)
    crossed = tuple((bins.names[i], bins.names[j]) for i, j in pairs)
    return Asked(
        bins, declared, names, pairs, cross_bins, _weights(weights, (*names, *crossed))
    )


def _check_names(names: tuple[str, ...]) -> None:
    """Refuse two histograms of one name, of which only one would be shown."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            "The columns, and the parts of dates as '<column>_<part>', must have "
            f"different names. Got {twice} more than once. Rename a column, or declare "
            "fewer parts."
        )


def _crosses(crosses: Any, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    rule = (
        "The 'crosses' argument must be a list of pairs of different names of columns, "
        f"each pair once. Got {crosses!r}. The columns are {list(names)}."
    )
    is_list = isinstance(crosses, Sequence) and not isinstance(crosses, str)
    if not is_list or not all(_is_pair(pair, names) for pair in crosses):
        raise ValueError(rule)
    if len({frozenset(pair) for pair in crosses}) < len(crosses):
        raise ValueError(rule)
    return tuple((names.index(a), names.index(b)) for a, b in crosses)


def _is_pair(pair: Any, names: tuple[str, ...]) -> bool:
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
    return is_pair and pair[0] != pair[1] and all(name in names for name in pair)


def _weights(weights: Any, names: tuple[Name, ...]) -> tuple[float, ...]:
    """A positive weight of each column and cross-table; 1 where none is given."""
    given = {} if weights is None else weights
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        raise ValueError(
            "The 'weights' argument must be a mapping from names of declared columns, "
            f"or pairs in 'crosses', to positive numbers. Got {weights!r}. The names "
            f"are {list(names)}."
        )
    return tuple(
        check_real(f"weights[{name!r}]", given.get(name, 1.0), low=1e-6, high=1e6)
        for name in names
    )
