"""The picture of an audit, made as scikit-learn's displays are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skdp._axes import new_axes

if TYPE_CHECKING:
    from skdp.audit._result import AuditResult

_COLORS = ("#1f5fa8", "#b42318")


class AuditDisplay:
    """Scores on both data sets; of transcripts, what each line tells of its charge.

    Parameters
    ----------
    result : AuditResult

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, result: AuditResult) -> None:
        self.result = result

    def plot(self, *, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.

        Returns
        -------
        AuditDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = new_axes("bounds") if ax is None else ax
        if self.result.access == "transcript":
            self._draw_lines(ax)
        else:
            self._draw_scores(ax)
        claim, bound = self.result.claimed, self.result.epsilon_lower_bound
        verdict = "stands" if self.result.passed else "refuted"
        ax.set_title(f"claimed {claim.epsilon:g}, at least {bound:.2f}: {verdict}")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_scores(self, ax: Any) -> None:
        pooled = np.concatenate(self.result.scores)
        low, high = np.quantile(pooled, [0.005, 0.995]) if pooled.size else (0.0, 1.0)
        bins = np.linspace(low, high if high > low else low + 1.0, 31)
        for scores, color, name in zip(
            self.result.scores, _COLORS, ("data", "neighbour"), strict=True
        ):
            ax.hist(
                np.clip(scores, low, high),
                bins=bins,
                alpha=0.55,
                color=color,
                label=name,
            )
        ax.set(xlabel="attacker's score of a fitted model", ylabel="runs")
        ax.legend()

    def _draw_lines(self, ax: Any) -> None:
        names = list(self.result.parts)
        found, charged = zip(*self.result.parts.values(), strict=True)
        places = np.arange(len(names))
        ax.barh(places, charged, height=0.6, color="0.88", label="charged")
        ax.barh(places, found, height=0.3, color=_COLORS[0], label="told apart")
        ax.set_yticks(places, names)
        ax.set(xlabel="mu, or epsilon of pure noise", ylim=(-1, len(names)))
        ax.legend()
