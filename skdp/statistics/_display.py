"""Pictures of a description, as scikit-learn's displays are made."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from skdp._axes import new_grid
from skdp._validation import check_count, check_real
from skdp.statistics._summaries import Histogram


class DescriptionDisplay:
    """Histograms with bars of the privacy noise.

    Parameters
    ----------
    histograms : list of Histogram
        Those to draw.
    deviations : float in [0, inf), default=2.0
        Half the length of an error bar, in standard deviations of the noise.
    unit : str, default="record"
        What is counted.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes
    """

    def __init__(
        self,
        histograms: list[Histogram],
        *,
        deviations: float = 2.0,
        unit: str = "record",
    ) -> None:
        self.histograms, self.deviations, self.unit = histograms, deviations, unit

    def plot(self, *, n_cols: int = 3, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        n_cols : int of at least 1, default=3
            Pictures in a row.
        ax : array of matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        DescriptionDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        check_real(
            "deviations", self.deviations, low=0.0, high=math.inf, high_open=True
        )
        check_count("n_cols", n_cols)
        n_shown = len(self.histograms)
        axes = new_grid(n_shown, n_cols, "to_frame()") if ax is None else np.ravel(ax)
        if len(axes) < n_shown:
            raise ValueError(
                f"The 'ax' argument must have one axis for each of {n_shown} columns. "
                f"Got {len(axes)}. Pass more, or None."
            )
        for histogram, axis in zip(self.histograms, axes, strict=False):
            self._draw(histogram, axis)
        for axis in axes[n_shown:]:
            axis.set_axis_off()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw(self, histogram: Histogram, axis: Any) -> None:
        column, counts = histogram.column, histogram.counts
        error = self.deviations * histogram.error
        if column.edges is None:
            axis.barh(list(column.labels), counts, xerr=error, capsize=2)
            axis.set(title=column.name, xlabel=f"{self.unit}s")
            return
        edges, present = np.asarray(column.edges), counts[: column.n_values]
        axis.stairs(present, edges, fill=True, alpha=0.8)
        # The band is of the noise of single counts.
        low, high = np.maximum(present - error, 0), present + error
        axis.fill_between(
            edges,
            np.append(low, low[-1]),
            np.append(high, high[-1]),
            step="post",
            alpha=0.25,
            linewidth=0,
        )
        if getattr(column.block.axis.declared, "log", False):  # type: ignore[attr-defined]  # ordered blocks have an axis
            axis.set_xscale("symlog" if edges[0] == 0 else "log")
        axis.set(title=column.name, ylabel=f"{self.unit}s")
        axis.tick_params(axis="x", rotation=30)
