"""`Description`: what was released of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdp._card import card
from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.ensemble._bins import BinnedColumn
from skdp.privacy._record import PrivacyRecord
from skdp.queries._consistent import Total
from skdp.statistics._asked import cell_labels
from skdp.statistics._summaries import Histogram, Mean

if TYPE_CHECKING:
    from skdp.statistics._display import DescriptionDisplay


@dataclass(frozen=True, eq=False)
class CrossTable:
    """Released counts of the cells of two columns.

    Parameters
    ----------
    columns : pair of str
    labels : pair of tuples of str
        Of the rows and of the columns. Public.
    counts : ndarray of shape (n_rows, n_columns)
        At least 0, and of the public sum. Private output.
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
        released: FloatArray,
        error: float,
        total: Total,
    ) -> CrossTable:
        """Made consistent; `cells` are those of the codes of both columns."""
        first, second = columns
        labels = cell_labels(first, cells[0]), cell_labels(second, cells[1])
        counts = total.share_out(released, error)
        return cls((first.name, second.name), labels, counts, error)

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
    post-processing of such. Errors are standard deviations of the privacy noise alone:
    they do not say how far the records are from the population they come from.

    Parameters
    ----------
    n_samples : int
        Records, or users. Public.
    histograms : dict of str to Histogram
        Counts of the intervals or values of each column, and of each part of dates.
    means : dict of str to Mean
        Of columns of numbers and dates.
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
            Found in the released histogram, straight within an interval.
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
            Whose values are the rows, and the columns.

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
        """One row for each column, as `pandas.DataFrame.describe` has one column.

        Parameters
        ----------
        quantiles : sequence of floats in [0, 1], default=(0.25, 0.5, 0.75)
            More of them cost nothing.
        errors : bool, default=True
            Whether ``<name>_error`` stands beside each number: about one standard
            deviation of the noise, of quantiles with that of the interval's width.

        Returns
        -------
        DataFrame
            ``count`` and ``missing``; of numbers and dates ``mean``, ``std`` and
            quantiles; of others the most frequent value ``top`` and its count
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
    ) -> DescriptionDisplay:
        """Draw histograms; see `DescriptionDisplay`.

        Parameters
        ----------
        columns : sequence of str or None, default=None
            None: all.
        deviations : float in [0, inf), default=2.0
            Height of half an error bar, in standard deviations of the noise.
        n_cols : int, default=3
        ax : array of matplotlib Axes or None, default=None
        """
        from skdp.statistics._display import DescriptionDisplay

        names = list(self.histograms) if columns is None else list(columns)
        shown = [self._histogram(name) for name in names]
        return DescriptionDisplay(
            shown, deviations=deviations, unit=self.privacy_.unit
        ).plot(n_cols=n_cols, ax=ax)

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


# What a Timedelta holds: 285 years.
_LONGEST = 9e9


def _seconds(value: float) -> Any:
    return pd.Timedelta(seconds=value) if value < _LONGEST else pd.NaT
