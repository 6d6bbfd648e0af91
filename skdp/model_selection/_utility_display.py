"""What a model is worth by epsilon, and what the picture costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import clone

from skdp._axes import new_axes
from skdp.model_selection._private_score import PrivateScore
from skdp.pipeline._total import total_of
from skdp.privacy._record import PrivacyRecord, step_of

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_FREE = "costs nothing: forecast from public facts"


class PrivacyUtilityDisplay:
    """What a model is worth by epsilon, and what the picture costs.

    A forecast costs nothing. **Every fitted model is an event of its own**, and so is
    every private score: whoever chooses an epsilon from such a picture has spent all of
    them together, which the title tells.

    Parameters
    ----------
    epsilons : sequence of float
        Rising.
    values : sequence of float
    errors : sequence of float, or None, default=None
        Standard errors of the noise in the values; 0 where none is known.
    measured : str, default=""
        What the values are.
    cost : str, default=""
        What all of it cost together.
    levels : mapping of str to float, or None, default=None
        Values to compare with, by name.
    log : bool, default=False
        Whether values are drawn in powers of ten.

    Attributes
    ----------
    line_ : matplotlib Artist
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from skdp.model_selection import PrivacyUtilityDisplay
    >>> model = DPLogisticRegression()
    >>> shown = PrivacyUtilityDisplay.from_estimator(
    ...     model, (2_000, 30)
    ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        epsilons: Sequence[float],
        values: Sequence[float],
        *,
        errors: Sequence[float] | None = None,
        measured: str = "",
        cost: str = "",
        levels: Mapping[str, float] | None = None,
        log: bool = False,
    ) -> None:
        self.epsilons, self.values, self.errors = epsilons, values, errors
        self.measured, self.cost = measured, cost
        self.levels, self.log = levels, log

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        shape: Sequence[int],
        *,
        epsilons: Sequence[float] = _EPSILONS,
        ax: Any = None,
        name: str | None = None,
    ) -> Self:
        """Draw noise against signal, forecast for some epsilons.

        Reads nothing, fits nothing, spends nothing.

        Parameters
        ----------
        estimator : estimator of skdp with `forecast`
            Fitted or not; its own epsilon is left out.
        shape : sequence of int
            What its `forecast` takes: mostly ``(n_samples, n_features)``.
        epsilons : sequence of float in [1e-6, 1e8]
        ax : matplotlib Axes or None, default=None
        name : str or None, default=None
            In the legend; None tells the class.

        Returns
        -------
        PrivacyUtilityDisplay
            Drawn.

        Raises
        ------
        TypeError
            If the estimator has no `forecast`.
        ValueError
            For an epsilon or a shape out of range.
        """
        if not hasattr(estimator, "forecast"):
            raise TypeError(
                "The 'estimator' argument must be an estimator with a forecast. Got an "
                f"instance of {type(estimator).__name__}. Use from_scores with models "
                "that are fitted and scored."
            )
        told = [
            clone(estimator).set_params(epsilon=epsilon).forecast(*shape)
            for epsilon in _some("epsilons", sorted(epsilons))
        ]
        display = cls(
            [one.epsilon for one in told],
            [one.noise_to_signal for one in told],
            measured="noise in a coefficient over its size",
            cost=_FREE,
            levels={
                "little noise below": told[0].little_to,
                "a constant above": told[0].constant_from,
            },
            log=True,
        )
        return display.plot(ax=ax, name=name or type(estimator).__name__)

    @classmethod
    def from_scores(
        cls,
        models: Sequence[Any],
        scores: Sequence[PrivateScore] | Sequence[float],
        *,
        ax: Any = None,
        name: str | None = None,
    ) -> Self:
        """Draw scores of fitted models.

        Parameters
        ----------
        models : sequence of fitted estimators of skdp, or of their `privacy_`
            All under one relation.
        scores : sequence of PrivateScore, or of float
            One for each. Numbers are taken as they are: scores of public records, say.
            Of private ones they would be on no books.
        ax : matplotlib Axes or None, default=None
        name : str or None, default=None
            In the legend.

        Returns
        -------
        PrivacyUtilityDisplay
            Drawn.

        Raises
        ------
        ValueError
            If there is not one score for each model, if relations or scorings differ,
            or if an epsilon is infinite.
        TypeError
            If a model has no `privacy_`, or if only some scores are private.
        """
        _some("models", models)
        records = [_record(model) for model in models]
        if len(records) != len(scores):
            raise ValueError(
                "The 'scores' argument must have one score for each of "
                f"{len(records)} models. Got {len(scores)}."
            )
        if not all(math.isfinite(record.epsilon) for record in records):
            raise ValueError(
                "Every model must have a finite epsilon. Got one without privacy. "
                "Leave it out, and draw its score by axhline on ax_."
            )
        paid = [score for score in scores if isinstance(score, PrivateScore)]
        if paid and len(paid) < len(scores):
            raise TypeError(
                "The 'scores' argument must have private scores or numbers. Got both."
            )
        scorings = sorted({score.scoring for score in paid})
        if len(scorings) > 1:
            raise ValueError(f"Scores must be of one kind. Got {scorings}.")
        cost = f"fits together {_together(records)}"
        if paid:
            cost += f"; scores together {_together([x.privacy for x in paid])}"
        order = sorted(range(len(records)), key=lambda i: records[i].epsilon)
        errors = [paid[i].standard_error or 0.0 for i in order] if paid else None
        display = cls(
            [records[i].epsilon for i in order],
            [float(scores[i]) for i in order],
            errors=errors,
            measured=scorings[0] if paid else "score",
            cost=cost,
        )
        return display.plot(ax=ax, name=name)

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            In the legend.

        Returns
        -------
        PrivacyUtilityDisplay
            Itself.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = new_axes("epsilons and values") if ax is None else ax
        drawn = ax.errorbar(
            self.epsilons, self.values, yerr=self.errors, marker="o", capsize=2
        )
        self.line_ = drawn.lines[0]
        drawn.set_label(name or "_")
        for told, level in (self.levels or {}).items():
            ax.axhline(level, linestyle=":", color="0.5")
            ax.annotate(
                told,
                (0.98, level),
                xycoords=("axes fraction", "data"),
                horizontalalignment="right",
                verticalalignment="bottom",
            )
        ax.set(xscale="log", xlabel="epsilon", ylabel=self.measured)
        ax.set_title(self.cost.replace("; ", "\n"), fontsize="medium")
        if self.log:
            ax.set_yscale("log")
        if name:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _some(name: str, given: Sequence[Any]) -> Sequence[Any]:
    if not given:
        raise ValueError(f"The {name!r} argument must have an entry. Got none.")
    return given


def _record(model: Any) -> PrivacyRecord:
    record = getattr(model, "privacy_", model)
    if not isinstance(record, PrivacyRecord):
        raise TypeError(
            "The 'models' argument must have fitted estimators of skdp, or their "
            f"privacy_. Got an instance of {type(model).__name__}. Fit it first."
        )
    return record


def _together(records: Sequence[PrivacyRecord]) -> str:
    """What several releases cost, if they are of the same records."""
    relations = sorted({str(record.adjacency) for record in records})
    if len(relations) > 1:
        raise ValueError(
            f"All must be under one relation. Got {' and '.join(relations)}, which "
            "cannot be added up."
        )
    epsilon, delta = total_of([step_of(record) for record in records])
    return f"({epsilon:.3g}, {delta:.3g}) under {relations[0]}"
