"""The picture of a membership risk, made as scikit-learn's displays are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skdp._axes import new_axes

if TYPE_CHECKING:
    from skdp.audit._membership_risk import MembershipRisk

_LEAST = 1e-5
_POINTS = 201


class MembershipRiskDisplay:
    """The room that a guarantee leaves for attacks: no ROC curve is above the line.

    Parameters
    ----------
    risk : MembershipRisk
    log : bool, default=False
        Axes in powers of ten from 1e-5, where rare false alarms are told apart.

    Attributes
    ----------
    line_ : matplotlib Artist
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, risk: MembershipRisk, *, log: bool = False) -> None:
        self.risk, self.log = risk, log

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            In the legend; None tells the advantage.

        Returns
        -------
        MembershipRiskDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        if ax is None:
            ax = new_axes("true_positive_rate()")
        rates = np.linspace(0.0, 1.0, _POINTS)
        if self.log:
            rates = np.geomspace(_LEAST, 1.0, _POINTS)
        label = name or f"best attack, advantage {self.risk.advantage:.3f}"
        (self.line_,) = ax.plot(rates, self.risk.true_positive_rate(rates), label=label)
        ax.plot(rates, rates, linestyle=":", color="0.5", label="blind guess")
        ax.set(
            xlabel="false positive rate",
            ylabel="true positive rate, at most",
            title=f"Membership: {self.risk.adjacency or 'any relation'}",
        )
        if self.log:
            ax.set(xscale="log", yscale="log")
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
