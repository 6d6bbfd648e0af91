"""The picture of an attack, beside what a guarantee leaves room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skdp._axes import new_axes
from skdp.audit._risk_display import MembershipRiskDisplay

if TYPE_CHECKING:
    from skdp.audit._inference import MembershipInference


class MembershipInferenceDisplay:
    """ROC curve of an attack, with logarithmic axes by default.

    Parameters
    ----------
    inference : MembershipInference
    log : bool, default=True
        Axes in powers of ten, where rare false alarms are told apart.

    Attributes
    ----------
    line_ : matplotlib Artist
    bound_ : MembershipRiskDisplay or None
        Of a model with a guarantee: no curve is above it on average.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, inference: MembershipInference, *, log: bool = True) -> None:
        self.inference, self.log = inference, log

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            In the legend; None tells the area under the curve.

        Returns
        -------
        MembershipInferenceDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = new_axes("roc") if ax is None else ax
        found, self.bound_ = self.inference, None
        if found.bound is not None:
            self.bound_ = MembershipRiskDisplay(found.bound, log=self.log).plot(
                ax=ax, name="guarantee, on average"
            )
        false, true = found.roc
        label = name or f"attack, AUC {found.auc:.3f}"
        (self.line_,) = ax.plot(false, true, drawstyle="steps-post", label=label)
        least = 1 / (2 * max(found.n_members, found.n_non_members))
        grid = np.geomspace(least, 1.0, 100)
        ax.plot(grid, grid, linestyle=":", color="0.5")
        ax.set(
            xlabel="false positive rate",
            ylabel="true positive rate",
            title=f"Membership inference on {found.model} (not private)",
        )
        if self.log:
            ax.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.1))
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
