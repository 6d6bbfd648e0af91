"""The picture of a ledger, made as scikit-learn's displays are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from skdp._axes import new_axes
from skdp._validation import check_choice
from skdp.privacy._accounting import Budget

if TYPE_CHECKING:
    import pandas as pd

    from skdp.privacy._ledger import BudgetLedger

_GREEN, _RED = "#1a7f37", "#b42318"


class LedgerDisplay:
    """What the fits of a ledger cost together, one after the other, below its cap.

    Drawn from the books: it reads no data and costs nothing.

    Parameters
    ----------
    books : DataFrame
        As `BudgetLedger.to_frame` gives them.
    cap : Budget
    title : str, default=""

    Attributes
    ----------
    line_ : matplotlib Artist
        The running total, at the cap's delta.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp import BudgetLedger
    >>> from skdp.privacy import LedgerDisplay
    >>> ledger = BudgetLedger(study, epsilon=3.0, delta=1e-6)  # doctest: +SKIP
    >>> LedgerDisplay.from_ledger(ledger, over="time")  # doctest: +SKIP
    """

    def __init__(self, books: pd.DataFrame, cap: Budget, *, title: str = "") -> None:
        self.books, self.cap, self.title = books, cap, title

    @classmethod
    def from_ledger(
        cls, ledger: BudgetLedger, *, over: str = "fit", ax: Any = None
    ) -> Self:
        """Draw a ledger.

        Parameters
        ----------
        ledger : BudgetLedger
        over : {"fit", "time"}, default="fit"
        ax : matplotlib Axes or None, default=None

        Returns
        -------
        LedgerDisplay
            Drawn.

        Raises
        ------
        LedgerError
            If the file cannot be read.
        """
        title = (
            f"{ledger.dataset or 'ledger'}: {ledger.adjacency}, one {ledger.unit}, "
            f"delta {ledger.delta:g}"
        )
        display = cls(ledger.to_frame(), ledger.cap, title=title)
        return display.plot(over=over, ax=ax)

    def plot(self, *, over: str = "fit", ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        over : {"fit", "time"}, default="fit"
            Fits by name at equal distances, or by when they were booked.
        ax : matplotlib Axes or None, default=None
            None makes a figure.

        Returns
        -------
        LedgerDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        check_choice("over", over, ("fit", "time"))
        ax = new_axes("to_frame()") if ax is None else ax
        places = self._places(over)
        (self.line_,) = ax.plot(
            places,
            self.books["epsilon_total"],
            drawstyle="steps-post",
            marker="o",
            color=_GREEN,
            label="all so far",
        )
        ax.plot(
            places,
            self.books["epsilon_alone"],
            linestyle="",
            marker="_",
            markersize=12,
            color="0.4",
            label="each alone",
        )
        ax.axhline(self.cap.epsilon, linestyle="--", color=_RED, label="cap")
        if over == "fit":
            names = [label.partition("(")[0] for label in self.books["label"]]
            ax.set_xticks(places, names, rotation=30, ha="right", fontsize="small")
        else:
            ax.tick_params(axis="x", rotation=30)
        ax.set(ylabel="epsilon", ylim=(0, None))
        ax.set_title(self.title, fontsize="medium")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _places(self, over: str) -> Any:
        if over == "fit":
            return list(range(1, len(self.books) + 1))
        import pandas as pd

        return pd.to_datetime(self.books["committed_at"]).to_numpy()
