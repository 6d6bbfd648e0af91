"""Pictures of shape functions, as scikit-learn's displays are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._axes import new_grid
from skdp._validation import check_count, check_real
from skdp.ensemble._shapes import Shape, ShapeFunctions

_MOST = 9


class ShapesDisplay:
    """Curves and heat maps of what columns and pairs add to a prediction.

    Bars and bands are the privacy noise alone: they tell how much of a curve may be
    noise, not how far it is from the truth.

    Parameters
    ----------
    functions : ShapeFunctions
    shapes : list of Shape
        Those to draw.
    output : int
        Which class, where there are several outputs.
    deviations : float
        Half the height of a band, in standard deviations of the noise.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes
    """

    def __init__(
        self,
        functions: ShapeFunctions,
        shapes: list[Shape],
        *,
        output: int = 0,
        deviations: float = 2.0,
    ) -> None:
        self.functions, self.shapes = functions, shapes
        self.output, self.deviations = output, deviations

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        names: Sequence[Any] | None = None,
        *,
        output: int = 0,
        deviations: float = 2.0,
        n_cols: int = 3,
        ax: Any = None,
    ) -> Self:
        """Draw the shapes of a fitted model.

        Parameters
        ----------
        estimator : DPGradientBoostingClassifier or DPGradientBoostingRegressor
            Fitted with ``max_interaction`` 1 or 2.
        names : sequence of str or pairs of str, or None, default=None
            Columns, and pairs of columns. None: the nine shapes that vary most.
        output : int, default=0
            Which class, where there are more than two.
        deviations : float in [0, inf), default=2.0
        n_cols : int of at least 1, default=3
            Pictures in a row.
        ax : array of matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        ShapesDisplay
            Drawn.
        """
        check_is_fitted(estimator)
        functions: ShapeFunctions = estimator.shape_functions_
        n_outputs = len(functions.intercept)
        check_count("output", output, low=0, high=n_outputs - 1)
        check_real("deviations", deviations, low=0.0, high=math.inf, high_open=True)
        check_count("n_cols", n_cols)
        if names is None:
            shapes = sorted(functions, key=lambda s: -_spread(s, output))[:_MOST]
        else:
            given = [
                (name,) if isinstance(name, str) else tuple(name) for name in names
            ]
            shapes = [functions.find(*name) for name in given]
        display = cls(functions, shapes, output=output, deviations=deviations)
        return display.plot(n_cols=n_cols, ax=ax)

    def plot(self, *, n_cols: int = 3, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        n_cols : int, default=3
        ax : array of matplotlib Axes or None, default=None

        Returns
        -------
        ShapesDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        n_shown = len(self.shapes)
        axes = np.ravel(ax)
        if ax is None:
            axes = new_grid(n_shown, n_cols, "shape_functions_")
        if len(axes) < n_shown:
            raise ValueError(
                f"The 'ax' parameter must have one axis for each of {len(self.shapes)} "
                f"shapes. Got {len(axes)}. Pass more, or None."
            )
        for shape, axis in zip(self.shapes, axes, strict=False):
            self._draw(shape, axis)
        for axis in axes[len(self.shapes) :]:
            axis.set_axis_off()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw(self, shape: Shape, axis: Any) -> None:
        if len(shape.columns) == 2:
            self._draw_pair(shape, axis)
        elif self.functions.bins.columns[shape.columns[0]].edges is None:
            self._draw_values(shape, axis)
        else:
            self._draw_curve(shape, axis)

    def _draw_curve(self, shape: Shape, axis: Any) -> None:
        column = self.functions.bins.columns[shape.columns[0]]
        n, edges = column.n_values, np.asarray(column.edges)
        effect, band = self._numbers(shape)
        axis.stairs(effect[:n], edges, baseline=None)
        axis.fill_between(
            edges,
            np.append(effect - band, 0)[[*range(n), n - 1]],
            np.append(effect + band, 0)[[*range(n), n - 1]],
            step="post",
            alpha=0.25,
            linewidth=0,
        )
        if column.missing is not None:
            axis.axhline(effect[-1], linestyle=":", color="0.5", label="missing")
            axis.legend()
        if getattr(column.block.axis.declared, "log", False):  # type: ignore[attr-defined]  # ordered blocks have an axis
            axis.set_xscale("symlog" if edges[0] == 0 else "log")
        axis.set(xlabel=column.name, ylabel="adds")

    def _draw_values(self, shape: Shape, axis: Any) -> None:
        column = self.functions.bins.columns[shape.columns[0]]
        effect, band = self._numbers(shape)
        axis.barh(list(column.labels), effect, xerr=band, capsize=2)
        axis.set(title=column.name, xlabel="adds")

    def _draw_pair(self, shape: Shape, axis: Any) -> None:
        first, second = (self.functions.bins.columns[j] for j in shape.columns)
        values = shape.values[..., self.output]
        largest = float(np.abs(values).max()) or 1.0
        image = axis.imshow(
            values,
            cmap="RdBu",
            vmin=-largest,
            vmax=largest,
            aspect="auto",
            origin="lower",
        )
        axis.figure.colorbar(image, ax=axis, label="adds")
        for column, set_ticks in ((second, axis.set_xticks), (first, axis.set_yticks)):
            places = np.unique(np.linspace(0, column.n_bins - 1, 5).astype(int))
            labels = [column.labels[i].partition(" to ")[0] for i in places]
            set_ticks(places, labels, fontsize="x-small")
        axis.tick_params(axis="x", rotation=30)
        axis.set(xlabel=second.name, ylabel=first.name)

    def _numbers(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Effects, and halves of their bands."""
        effect, noise = shape.values[:, self.output], shape.noise[:, self.output]
        return effect, self.deviations * noise


def _spread(shape: Shape, output: int) -> float:
    return float(np.std(shape.values[..., output]))
