"""`Description`: what `describe` released of a table, and its pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import FloatArray
from skdp._checks import check_real
from skdp._show import Display, card, draw_each, draw_heaps, draw_steps
from skdp.ensemble._trees import BinnedColumn, Bins, bins_of
from skdp.preprocessing._blocks import Intervals, NumberAxis, TimeAxis
from skdp.preprocessing._cells import Cells
from skdp.privacy.accounting._relations import Adjacency
from skdp.privacy.release._record import PrivacyRecord
from skdp.sums._counts import (
    CellCounts,
    CellMoments,
    TablePart,
    TableSums,
    shrunken_mean,
)
from skdp.sums._histogram import ReleasedHistogram, place_of_rank, rank_deviation
from skdp.tables._columns import Dates, Declaration, Range

# ------------------------------------------ Statistics of one column from released sums


@dataclass(frozen=True, eq=False)
class Histogram:
    """Released counts of one column.

    Parameters
    ----------
    column : BinnedColumn
        Public.
    counts : ndarray of shape (n_bins,)
        At least 0, and adjusted to the public sum. Private output.
        error : float
        Standard deviation of the noise in one count, before the adjustment. Public.
    total_error : float
        Standard deviation of the noise in the sum of counts: 0 if the sum is n.
    """

    column: BinnedColumn
    counts: FloatArray
    error: float
    total_error: float = 0.0

    @property
    def present(self) -> FloatArray:
        """Counts of values that are present, declared or not."""
        return self.counts[: self.column.n_values + self.column.has_other]

    @property
    def missing(self) -> float:
        return float(self.counts[-1]) if self.column.has_missing else 0.0

    @property
    def n_present(self) -> float:
        return float(self.present.sum())

    @property
    def n_present_error(self) -> float:
        """Noise in the number present: in all counts if none may be missing."""
        missing = self.error if self.column.has_missing else 0.0
        return math.hypot(missing, self.total_error)

    def quantile(self, q: float) -> tuple[Any, float]:
        """A quantile and its error; NaN if nothing is present.

        The error includes the noise of the rank and the width of an interval.
        """
        block, present = self.column.block, self.present
        assert isinstance(block, Intervals)
        axis = block.axis
        if not self.n_present > 0:
            return _nothing(axis), math.nan
        rank, n = q * self.n_present, len(present)
        place = place_of_rank(present, rank)
        moved = rank_deviation(self.error, place, n)
        interval = min(int(place), n - 1)
        places = np.array(
            [
                place,
                place_of_rank(present, rank - moved),
                place_of_rank(present, rank + moved),
                interval,
                interval + 1,
            ]
        )
        value, low, high, start, end = block.at(places)
        spread = plain_length(high - low) / 2
        # Deviation of a value that is anywhere in its interval.
        coarse = plain_length(end - start) / math.sqrt(12)
        return shown_at(axis, value), math.hypot(spread, coarse)

    def frame(self) -> pd.DataFrame:
        """A row for each cell: what it holds, ``count``, ``error``."""
        column = self.column
        facts: dict[str, Any] = {}
        if column.ends is not None:
            empty = [None] * (column.n_bins - column.n_values)
            facts = {name: [*each, *empty] for name, each in column.ends.items()}
        facts |= {"count": self.counts, "error": self.error}
        return pd.DataFrame(facts, index=pd.Index(column.labels, name=column.name))


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation in units of the column, with errors of the noise.

    Private outputs; for dates the mean is a date and the other numbers are in seconds.
    """

    mean: Any
    mean_error: float
    std: float
    std_error: float


def mean_of(
    axis: NumberAxis | TimeAxis,
    sums: FloatArray,
    error: float,
    k: float,
    histogram: Histogram,
) -> Mean:
    """Mean and deviation from released sums of v and v^2 - 1/2.

    Parameters
    ----------
    sums : ndarray of shape (2,)
    error : float
        Standard deviation of the noise in the first sum; the second sum has 1 / `k` of
        it.
    histogram : Histogram
        Gives the number of present values.
    """
    count = histogram.n_present
    half = half_width(axis)
    if not count > 0:
        return Mean(_nothing(axis), math.nan, math.nan, math.nan)
    mean = float(shrunken_mean(np.array(sums[:1]), count, error)[0])
    squares = sums[1] / count + 0.5
    # Values in [-1, 1] with this mean cannot have another variance.
    variance = float(np.clip(squares - mean**2, 0.0, 1 - mean**2))
    std = math.sqrt(variance)
    missing = histogram.n_present_error
    mean_error = math.hypot(error, mean * missing) / count
    # By the delta method; the noise in the number of values moves both.
    moved = math.hypot(
        error / k, 2 * mean * error, (mean**2 + variance - 0.5) * missing
    )
    # Near 0 a deviation is no further off than the root of its square's error.
    variance_error = moved / count
    std_error = variance_error / max(2 * std, math.sqrt(variance_error) or math.inf)
    shown = shown_at(axis, axis.at(np.array(mean)))
    return Mean(shown, half * mean_error, half * std, half * std_error)


def half_width(axis: NumberAxis | TimeAxis) -> float:
    """Half of the width of the range; in seconds for dates."""
    low, high = axis.at(np.array([-1.0, 1.0]))
    return plain_length(high - low) / 2


def plain_length(length: Any) -> float:
    """A difference of numbers unchanged, of dates in seconds."""
    if isinstance(length, np.timedelta64):
        return float(length / np.timedelta64(1, "s"))
    return float(length)


def shown_at(axis: NumberAxis | TimeAxis, value: Any) -> Any:
    """A number, or a point in time, in the types of Python and pandas."""
    is_time = isinstance(axis, TimeAxis)
    return pd.Timestamp(value[()]) if is_time else float(value)


def _nothing(axis: NumberAxis | TimeAxis) -> Any:
    return pd.NaT if isinstance(axis, TimeAxis) else math.nan


# ----------------------------------------------------- Questions about a declared table
# The queries and their shares of the budget are public.


Axis = NumberAxis | TimeAxis
# The name of a column, or the two names of a cross-table.
Name = str | tuple[str, str]


@dataclass(frozen=True)
class Statistic:
    """Sums that are released together.

    Parameters
    ----------
    columns : tuple of int
        Columns of codes that are summed.
    part : TablePart
    share : float
        Share of the budget, relative to the shares of the others.
    """

    columns: tuple[int, ...]
    part: TablePart
    share: float


@dataclass(frozen=True)
class TableQuestions:
    """All queries to a table; they depend on no record.

    Parameters
    ----------
    bins : Bins
        The cells of histograms.
    declared : tuple of Declaration
        By position of the declared column.
    names : tuple of str
        Names of the declared columns.
    crosses : tuple of pairs of int
        Columns of codes that are crossed.
    cross_bins : int
        Most intervals of a range in a cross-table.
    weights : tuple of float
        Weights of the declared columns, then of the crosses.
    """

    bins: Bins
    declared: tuple[Declaration, ...]
    names: tuple[str, ...]
    crosses: tuple[tuple[int, int], ...]
    cross_bins: int
    weights: tuple[float, ...]

    @cached_property
    def axes(self) -> dict[int, Axis]:
        """Axis of the values of each column of codes that has moments."""
        found: dict[int, Axis] = {}
        for i, column in enumerate(self.bins.columns):
            declared = self.declared[column.source]
            if column.edges is None:
                continue
            if isinstance(declared, Range):
                # Sums are of values, even where intervals are of logarithms.
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
        moments = [CellMoments(first + k) for k in range(len(self.axes))]
        crossed = [self._table(pair) for pair in self.crosses]
        of = [*((i,) for i in range(first)), *((i,) for i in self.axes), *self.crosses]
        shares += self.weights[len(self.declared) :]
        parts: list[TablePart] = [*tables, *moments, *crossed]
        return tuple(map(Statistic, of, parts, shares))

    def _table(self, columns: tuple[int, ...]) -> CellCounts:
        is_crossed = len(columns) > 1
        most = self.cross_bins if is_crossed else math.inf
        return CellCounts(
            columns, tuple(merged(self.bins.columns[i], most) for i in columns)
        )

    def query(self, n_samples: int, adjacency: Adjacency) -> TableSums:
        """All sums as one vector, which one record changes by at most 1."""
        total = math.fsum(statistic.share for statistic in self.statistics)
        weights = [
            math.sqrt(statistic.share / total) / statistic.part.moved(adjacency)
            for statistic in self.statistics
        ]
        parts = tuple(statistic.part for statistic in self.statistics)
        return TableSums(parts, tuple(weights), n_samples)


def merged(column: BinnedColumn, most: float) -> tuple[int, ...]:
    """The cell of each code; a range has at most this many cells."""
    n_values = column.n_values
    codes = np.arange(column.n_bins)
    if column.edges is None or n_values <= most:
        return tuple(codes.tolist())
    inside = np.minimum(codes, n_values - 1) * int(most) // n_values
    if column.is_whole:  # as many whole numbers in each cell
        inside = np.minimum(codes, n_values - 1) // -(-n_values // int(most))
    last = int(inside[n_values - 1])
    cells = np.where(codes < n_values, inside, last + 1 + codes - n_values)
    return tuple(cells.tolist())


def cell_labels(column: BinnedColumn, cells: tuple[int, ...]) -> tuple[str, ...]:
    """Each cell in words; merged intervals from the first to the last."""
    found: dict[int, str] = {}
    for cell, label in zip(cells, column.labels, strict=True):
        start = found[cell].partition(" to ")[0] if cell in found else None
        end = label.rpartition(" to ")[2]
        found[cell] = label if start is None else f"{start} to {end}"
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
) -> TableQuestions:
    """The queries to a table; wrong arguments raise before anything is read."""
    bins = bins_of(names, declared, intervals=n_bins, has_other=has_other)
    _check_names(bins.names)
    pairs = _crosses(crosses, bins.names)
    crossed = tuple((bins.names[i], bins.names[j]) for i, j in pairs)
    return TableQuestions(
        bins, declared, names, pairs, cross_bins, _weights(weights, (*names, *crossed))
    )


def _check_names(names: tuple[str, ...]) -> None:
    """Refuse two histograms with the same name, only one of which would be shown."""
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


# ----------------------------------------------------------- Description and its tables


@dataclass(frozen=True, eq=False)
class CrossTable:
    """Released counts of the cells of two columns.

    Parameters
    ----------
    columns : pair of str
    labels : pair of tuples of str
        Labels of the rows and of the columns. Public.
    counts : ndarray of shape (n_rows, n_columns)
        At least 0, and adjusted to the public sum. Private output.
        error : float
        Standard deviation of the noise in one count. Public.
    """

    columns: tuple[str, str]
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    counts: FloatArray
    error: float

    @classmethod
    def of(
        cls,
        columns: tuple[BinnedColumn, BinnedColumn],
        cells: tuple[tuple[int, ...], ...],
        released: ReleasedHistogram,
        total: float,
    ) -> CrossTable:
        """A table of consistent counts; `cells` has the cell of each code."""
        first, second = columns
        labels = cell_labels(first, cells[0]), cell_labels(second, cells[1])
        counts = released.consistent(total)
        return cls((first.name, second.name), labels, counts, released.deviation)

    def to_frame(self) -> pd.DataFrame:
        """The counts, with rows and columns by name."""
        rows, columns = (
            pd.Index(labels, name=name)
            for labels, name in zip(self.labels, self.columns, strict=True)
        )
        return pd.DataFrame(self.counts, index=rows, columns=columns)


@dataclass(frozen=True, eq=False)
class Description:
    """A private description of a table, as `describe` returns it.

    Everything but `n_samples` and errors of counts is a private output or
    post-processing of one. Errors are standard deviations of the privacy noise alone:
    they do not say how far the records are from the population they come from.

    Parameters
    ----------
    n_samples : int
        Number of records, or of users. Public.
        histograms : dict of str to Histogram
        Counts of the intervals or values of each column, and of each part of dates.
    means : dict of str to Mean
        Means and deviations of columns of numbers and dates.
    crosses : dict of pairs of str to CrossTable
    privacy_ : PrivacyRecord
        What was released, at what cost.
    """

    n_samples: int
    histograms: dict[str, Histogram]
    means: dict[str, Mean]
    crosses: dict[tuple[str, str], CrossTable]
    privacy_: PrivacyRecord

    def counts(self, column: str) -> pd.DataFrame:
        """Counts of a column's intervals or values, with the error of each.

        Parameters
        ----------
        column : str

        Returns
        -------
        DataFrame
            By cell; ``from`` and ``to`` are the ends of intervals.
        """
        return self._histogram(column).frame()

    def quantile(self, column: str, q: float = 0.5) -> Any:
        """A quantile of a column of numbers or dates; costs nothing.

        Parameters
        ----------
        column : str
        q : float in [0, 1], default=0.5

        Returns
        -------
        float or Timestamp
            Found in the released histogram, by linear interpolation within an interval.
        """
        found = self._histogram(column)
        if found.column.edges is None:
            raise ValueError(
                "The 'column' argument must name numbers or dates. Got a column whose "
                f"values have no order: {column!r}. Use counts({column!r})."
            )
        return found.quantile(check_real("q", q, low=0.0, high=1.0))[0]

    def crosstab(self, first: str, second: str) -> pd.DataFrame:
        """Counts of the cells of two columns that were declared in `crosses`.

        Parameters
        ----------
        first, second : str
            Columns whose values label the rows, and the columns, of the result.

        Returns
        -------
        DataFrame
        """
        if (second, first) in self.crosses:
            return self.crosses[second, first].to_frame().T
        if (first, second) not in self.crosses:
            raise ValueError(
                "The columns must have been declared as a pair in 'crosses'. Got "
                f"{(first, second)!r}. Released were {list(self.crosses)}."
            )
        return self.crosses[first, second].to_frame()

    def to_frame(
        self, quantiles: Sequence[float] = (0.25, 0.5, 0.75), *, errors: bool = True
    ) -> pd.DataFrame:
        """Statistics of all columns: one row for each column of the table.

        Parameters
        ----------
        quantiles : sequence of floats in [0, 1], default=(0.25, 0.5, 0.75)
            More of them cost nothing.
        errors : bool, default=True
            Whether a column ``<name>_error`` follows each number: about one standard
            deviation of the noise. Errors of quantiles include the interval's width.

        Returns
        -------
        DataFrame
            ``count`` and ``missing``; for numbers and dates ``mean``, ``std`` and
            quantiles; for other columns the most frequent value ``top`` and its count
            ``freq``. Deviations and errors of dates are Timedeltas.
        """
        asked = [check_real("quantiles", q, low=0.0, high=1.0) for q in quantiles]
        rows = {name: self._row(name, asked) for name in self.histograms}
        frame = pd.DataFrame.from_dict(rows, orient="index")
        frame.index.name = "column"
        if not errors:
            frame = frame.drop(columns=[c for c in frame if c.endswith("_error")])
        return frame.dropna(axis=1, how="all")

    def plot(
        self,
        columns: Sequence[str] | None = None,
        *,
        deviations: float = 2.0,
        n_cols: int = 3,
        ax: Any = None,
    ) -> Display:
        """Draw histograms with bars of the privacy noise.

        Parameters
        ----------
        columns : sequence of str or None, default=None
            None: all.
        deviations : float in [0, inf), default=2.0
            Height of half an error bar, in standard deviations of the noise.
        n_cols : int of at least 1, default=3
            Pictures in a row.
        ax : array of matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display
            With `axes_` and `figure_`.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        check_real("deviations", deviations, low=0.0, high=math.inf, high_open=True)
        names = list(self.histograms) if columns is None else list(columns)
        shown = [self._histogram(name) for name in names]
        draw = partial(_draw, deviations, f"{self.privacy_.unit}s")
        return draw_each(
            draw, shown, ax, n_cols=n_cols, what="columns", instead="to_frame()"
        )

    def _histogram(self, column: str) -> Histogram:
        if column not in self.histograms:
            raise ValueError(
                f"The 'column' argument must be one of {list(self.histograms)}. Got "
                f"{column!r}."
            )
        return self.histograms[column]

    def _row(self, name: str, quantiles: Sequence[float]) -> dict[str, Any]:
        histogram, mean = self.histograms[name], self.means.get(name)
        error = histogram.n_present_error
        row: dict[str, Any] = {
            "count": histogram.n_present,
            "count_error": error,
            "missing": histogram.missing,
            "missing_error": histogram.error if histogram.column.has_missing else 0.0,
        }
        if mean is None:
            place = int(np.argmax(histogram.present))
            row |= {"top": histogram.column.labels[place]}
            row |= {"freq": float(histogram.present[place])}
            return row | {"freq_error": histogram.error}
        is_time = not isinstance(mean.mean, float)

        def length(value: float) -> Any:
            return _seconds(value) if is_time else value

        row |= {"mean": mean.mean, "mean_error": length(mean.mean_error)}
        row |= {"std": length(mean.std), "std_error": length(mean.std_error)}
        for q in quantiles:
            value, width = histogram.quantile(q)
            row |= {f"{100 * q:g}%": value, f"{100 * q:g}%_error": length(width)}
        return row

    def _headline(self) -> str:
        return f"{self.n_samples} {self.privacy_.unit}s, described privately"

    def __repr__(self) -> str:
        shown = self.to_frame(errors=False).to_string(float_format=_digits)
        return f"{self._headline()}\n{shown}\n{self.privacy_!r}"

    def _repr_html_(self) -> str:
        shown = {"float_format": _digits, "border": 0}
        columns = self.to_frame().to_html(na_rep="", **shown)
        crosses = (
            card(" by ".join(pair), below=[cross.to_frame().to_html(**shown)])
            for pair, cross in self.crosses.items()
        )
        below = [columns, *crosses, self.privacy_._repr_html_()]
        return card(self._headline(), below=below)


def _digits(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"


# Range of a Timedelta: 285 years.
_LONGEST = 9e9


def _seconds(value: float) -> Any:
    return pd.Timedelta(seconds=value) if value < _LONGEST else pd.NaT


def _draw(deviations: float, units: str, histogram: Histogram, ax: Any) -> None:
    column, counts = histogram.column, histogram.counts
    error = deviations * histogram.error
    if column.edges is None:
        ax.barh(list(column.labels), counts, xerr=error, capsize=2)
        ax.set(title=column.name, xlabel=units)
        return
    present = counts[: column.n_values]
    # The band shows the noise of single counts.
    low, high = np.maximum(present - error, 0), present + error
    draw_steps(
        ax, column.edges, present, low, high, is_filled=True, is_log=column.is_log
    )
    heaps = list(column.heaps)
    if heaps:
        middles = (column.edges[:-1] + column.edges[1:])[heaps] / 2
        draw_heaps(ax, middles, present[heaps], low[heaps], high[heaps])
    ax.set(title=column.name, ylabel=units)
    ax.tick_params(axis="x", rotation=30)
