"""What released sums say of one column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdp._floats import FloatArray
from skdp.ensemble._bins import BinnedColumn
from skdp.preprocessing._table_axes import NumberAxis, TimeAxis
from skdp.queries._consistent import Total, place_of_rank, rank_deviation
from skdp.queries._pair_sums import shrunken_mean


@dataclass(frozen=True, eq=False)
class Histogram:
    """Released counts of one column.

    Parameters
    ----------
    column : BinnedColumn
        Public.
    counts : ndarray of shape (n_bins,)
        At least 0, and of the public sum. Private output.
    error : float
        Standard deviation of the noise in one count, before they were made consistent.
        Public.
    total_error : float
        Of the noise in their sum: 0 if that is n.
    """

    column: BinnedColumn
    counts: FloatArray
    error: float
    total_error: float = 0.0

    @classmethod
    def of(
        cls, column: BinnedColumn, released: FloatArray, error: float, total: Total
    ) -> Histogram:
        """Made consistent."""
        return cls(column, total.share_out(released, error), error, total.error)

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
        """Of the noise in it: where none may be missing, that of all counts."""
        missing = self.error if self.column.has_missing else 0.0
        return math.hypot(missing, self.total_error)

    def quantile(self, q: float) -> tuple[Any, float]:
        """A quantile and its error; NaN if nothing is present.

        The error has the noise of the rank, and the width of an interval.
        """
        axis, present = self.column.block.axis, self.present  # type: ignore[attr-defined]  # ordered blocks have an axis
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
        value, low, high, start, end = axis.at(2 * places / n - 1)
        spread = plain_length(high - low) / 2
        # Of a value anywhere in its interval.
        coarse = plain_length(end - start) / math.sqrt(12)
        return shown_at(axis, value), math.hypot(spread, coarse)

    def frame(self) -> pd.DataFrame:
        """A row for each cell: what it holds, ``count``, ``error``."""
        column = self.column
        facts: dict[str, Any] = {}
        if column.edges is not None:
            n_more = column.n_bins - column.n_values
            empty = [None] * n_more
            facts["from"] = [*column.edges[:-1], *empty]
            facts["to"] = [*column.edges[1:], *empty]
        facts |= {"count": self.counts, "error": self.error}
        return pd.DataFrame(facts, index=pd.Index(column.labels, name=column.name))


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation in units of the column, with errors of the noise.

    Private outputs; a mean of dates is a date, and the rest of it in seconds.
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
        Standard deviation of the noise in the first sum; the second has one over `k`
        of it.
    histogram : Histogram
        For the number of present values.
    """
    count = histogram.n_present
    half = half_width(axis)
    if not count > 0:
        return Mean(_nothing(axis), math.nan, math.nan, math.nan)
    mean = float(shrunken_mean(np.array(sums[:1]), count, error)[0])
    squares = sums[1] / count + 0.5
    # No values in [-1, 1] of this mean have another variance.
    variance = float(np.clip(squares - mean**2, 0.0, 1 - mean**2))
    std = math.sqrt(variance)
    missing = histogram.n_present_error
    mean_error = math.hypot(error, mean * missing) / count
    # By the rule of the delta; the noise of a number of values moves both.
    moved = math.hypot(
        error / k, 2 * mean * error, (mean**2 + variance - 0.5) * missing
    )
    # Near 0 a deviation is no further off than the root of its square's error.
    variance_error = moved / count
    std_error = variance_error / max(2 * std, math.sqrt(variance_error) or math.inf)
    shown = shown_at(axis, axis.at(np.array(mean)))
    return Mean(shown, half * mean_error, half * std, half * std_error)


def half_width(axis: NumberAxis | TimeAxis) -> float:
    """Of the interval; of dates in seconds."""
    low, high = axis.at(np.array([-1.0, 1.0]))
    return plain_length(high - low) / 2


def plain_length(length: Any) -> float:
    """A difference of numbers as it is, of dates in seconds."""
    if isinstance(length, np.timedelta64):
        return float(length / np.timedelta64(1, "s"))
    return float(length)


def shown_at(axis: NumberAxis | TimeAxis, value: Any) -> Any:
    """A number or a point in time, as Python and pandas have them."""
    is_time = isinstance(axis, TimeAxis)
    return pd.Timestamp(value[()]) if is_time else float(value)


def _nothing(axis: NumberAxis | TimeAxis) -> Any:
    return pd.NaT if isinstance(axis, TimeAxis) else math.nan
