"""`privacy_report`: what a whole pipeline costs, without fitting anything."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from skdp._card import card, remark, table
from skdp._validation import check_bool, check_delta
from skdp.exceptions import UnaccountedStepError
from skdp.pipeline._clipped_rows import warn_of_clipped_rows
from skdp.pipeline._folds import warn_of_stratified_folds
from skdp.pipeline._ledgers import words_of_ledgers
from skdp.pipeline._steps import VOUCHED, StepReport, step_reports, unaccounted_in
from skdp.pipeline._total import total_of
from skdp.pipeline._walk import costs, walk
from skdp.privacy._adjacency import Relation
from skdp.privacy._record import _json_ready
from skdp.privacy._step import StepPrivacy

if TYPE_CHECKING:
    import pandas as pd

_NOT_COVERED = (
    "scores, cross-validation and any choice made from them",
    "what was done to the data before, and whether a fit accepts them",
    "bounds, categories, labels and other parameters taken from the data",
)
_WHICH_EPSILON = (
    "The total is what the booked events cost at its delta; it may be a little less "
    "than what was asked for."
)
_CACHE = "intermediate data that Pipeline(memory=...) writes to the disk"
_VOUCH = "what the user vouches for with data_independent="


@dataclass(frozen=True, kw_only=True)
class PipelineReport:
    """What a whole pipeline costs.

    Parameters
    ----------
    steps : tuple of StepReport
    epsilon, delta : float
        Of all steps together, composed; epsilon is inf if a step is unaccounted.
    adjacency : str or None
        The one of all private steps; None if there is none, or not one.
    is_private : bool
        Whether epsilon is finite.
    reason : str
        Why not, or an empty string.
    not_covered : tuple of str
        What the total says nothing of.
    clipped_rows : tuple of str, default=()
        Which private steps clip rows that come to them, and the `data_norm` to use.
    ledgers : tuple of str, default=()
        What the ledgers that steps carry have room for or have spent, and why that may
        be more than the total.
    """

    steps: tuple[StepReport, ...]
    epsilon: float
    delta: float
    adjacency: Relation | None
    is_private: bool
    reason: str
    not_covered: tuple[str, ...]
    clipped_rows: tuple[str, ...] = ()
    ledgers: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Spent if every private step is fitted, else planned; "" without any."""
        states = {step.state for step in self.steps} - {""}
        return "planned" if "planned" in states else "".join(states)

    def statement(self) -> str:
        """The total in one sentence."""
        if not self.is_private:
            return f"NOT private. {self.reason}"
        if self.adjacency is None:
            return "Takes nothing from the data: epsilon 0."
        return (
            f"{self.state.capitalize()}: ({self.epsilon:g}, {self.delta:g})-"
            f"differentially private under {self.adjacency}."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per step, with the fields of `StepReport` as columns."""
        import pandas as pd

        columns = list(StepReport.__dataclass_fields__)
        return pd.DataFrame([vars(step) for step in self.steps], columns=columns)

    def to_json(self) -> str:
        """JSON text with sorted keys; an infinite number becomes ``"inf"``."""
        values = vars(self) | {"steps": [vars(step) for step in self.steps]}
        ready = _json_ready(values | {"state": self.state})
        return json.dumps(ready, sort_keys=True, indent=2, allow_nan=False)

    def _table(self) -> list[tuple[str, ...]]:
        head = ("step", "class", "kind", "epsilon", "delta", "state", "norm", "note")
        return [head, *(_cells(step) for step in self.steps)]

    def __repr__(self) -> str:
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in table
        ]
        body = [f"  {line}".rstrip() for line in lines]
        return "\n".join([_plain(self.statement()), *body, *self._remarks()])

    def _remarks(self) -> list[str]:
        """What is said below the table."""
        rest = f"Not covered: {'; '.join(self.not_covered)}."
        clipped = [f"Clipped: {_plain(text)}." for text in self.clipped_rows]
        which = [_WHICH_EPSILON] if self.state == "spent" else []
        return [*clipped, *which, *map(_plain, self.ledgers), rest]

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        below = [table(head, rows), *map(remark, self._remarks())]
        return card(_plain(self.statement()), is_good=self.is_private, below=below)


def privacy_report(
    estimator: Any,
    *,
    delta: float | None = None,
    data_independent: Collection[Any] = (),
    strict: bool = False,
) -> PipelineReport:
    """Say of each step of a pipeline what it costs, and what all cost together.

    Fits nothing and changes nothing. Pipeline, ColumnTransformer, FeatureUnion,
    SelectFromModel and FrozenEstimator are looked into at any depth; what is not fitted
    is planned, what is fitted is spent. Steps of skdp answer for themselves, a table
    knows which classes of scikit-learn take nothing from the data, and anything else
    is unaccounted: the total is then infinite.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.
    delta : 0, float in [1e-50, 1) or None, default=None
        At which epsilon is computed. None: the least at which the budgets of the steps
        suffice, which is the largest delta of the steps whose noise adds up in squares
        plus the deltas of all others.
    data_independent : collection of classes or instances, default=()
        What the user vouches for: its fit takes nothing from the values of the data,
        and it transforms each row without regard to the others.
    strict : bool, default=False
        Raise if the total is infinite.

    Returns
    -------
    PipelineReport

    Raises
    ------
    UnaccountedStepError
        With ``strict=True``; the message names the steps and the alternatives.

    Warns
    -----
    StratifiedFoldsWarning
        If a meta-estimator of scikit-learn fits private steps on stratified folds.
    ClippedRowsWarning
        If the steps before a private step declare rows longer than its `data_norm`; the
        message names the one to use.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdp import BoundedScaler, DPLogisticRegression, privacy_report
    >>> report = privacy_report(
    ...     make_pipeline(BoundedScaler(bounds=(0, 1)), DPLogisticRegression())
    ... )
    >>> report.epsilon, report.delta
    (1.0, 1e-06)
    >>> report = privacy_report(make_pipeline(StandardScaler(), DPLogisticRegression()))
    >>> report.steps[0].note
    'use BoundedScaler or DPStandardScaler'
    >>> report.epsilon
    inf
    """
    check_bool("strict", strict)
    delta = None if delta is None else check_delta(delta)
    check_estimator(estimator)
    check_vouched(data_independent)
    leaves = list(walk(estimator))
    warn_of_stratified_folds(leaves)
    clipped = warn_of_clipped_rows(leaves)
    report = _compose(
        step_reports(leaves, data_independent),
        [leaf.privacy for leaf in leaves],
        delta,
        has_cache=any(_caches(estimator)),
        clipped=clipped,
        ledgers=words_of_ledgers(leaves),
    )
    if strict and not report.is_private:
        raise UnaccountedStepError(
            f"With strict=True every step must be accounted for. {report.reason}"
        )
    return report


def check_estimator(estimator: Any) -> None:
    """Raise TypeError unless this is an instance with parameters."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        kind = estimator if isinstance(estimator, type) else type(estimator)
        raise TypeError(
            "The 'estimator' parameter must be an estimator. "
            f"Got {kind.__name__}. Make an instance of an estimator first."
        )


def check_vouched(data_independent: Any) -> None:
    """Raise TypeError unless this is a collection of classes or instances."""
    if not isinstance(data_independent, (list, tuple, set, frozenset)):
        raise TypeError(
            "The 'data_independent' parameter must be a list of classes or instances. "
            f"Got an instance of {type(data_independent).__name__}."
        )


def _compose(
    rows: tuple[StepReport, ...],
    privacies: Sequence[StepPrivacy | None],
    delta: float | None,
    *,
    has_cache: bool,
    clipped: tuple[str, ...],
    ledgers: tuple[str, ...],
) -> PipelineReport:
    private = [privacy for privacy in privacies if privacy and costs(privacy)]
    epsilon, delta = total_of(private, delta)
    adjacencies = sorted({str(privacy.adjacency) for privacy in private})
    reason = _why_not(rows, adjacencies, epsilon)
    not_covered = list(_NOT_COVERED)
    not_covered += [_CACHE] if has_cache else []
    not_covered += [_VOUCH] if any(row.kind == VOUCHED for row in rows) else []
    return PipelineReport(
        steps=rows,
        epsilon=math.inf if reason else epsilon,
        delta=delta,
        adjacency=private[0].adjacency if len(adjacencies) == 1 else None,
        is_private=not reason,
        reason=reason,
        not_covered=tuple(not_covered),
        clipped_rows=clipped,
        ledgers=ledgers,
    )


def _why_not(rows: Sequence[StepReport], adjacencies: list[str], epsilon: float) -> str:
    unaccounted = unaccounted_in(rows)
    if unaccounted:
        return f"Unaccounted: {unaccounted}."
    if len(adjacencies) > 1:
        return (
            f"The steps have different adjacencies, {' and '.join(adjacencies)}, which "
            "cannot be added up. Give all steps the same."
        )
    if math.isinf(epsilon):
        endless = [row.name for row in rows if math.isinf(row.epsilon)]
        if endless:
            return f"Without privacy: {', '.join(endless)} (a seed, or epsilon=inf)."
        return "The delta is too small for the deltas of the steps. Use a larger one."
    return ""


def _cells(step: StepReport) -> tuple[str, ...]:
    # A name may hold anything; a table has one line for each step.
    text = (step.name, step.estimator, step.kind, f"{step.epsilon:g}")
    cells = (*text, f"{step.delta:g}", step.state, _norms(step), step.note)
    return tuple(map(_plain, cells))


def _norms(step: StepReport) -> str:
    """Norms of rows before and after, "?" for what is not known."""
    norms = (step.input_norm, step.output_norm)
    if norms == (None, None):
        return "?"
    before, after = ("?" if norm is None else f"{norm:.3g}" for norm in norms)
    return f"{before} to {after}"


def _plain(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _caches(estimator: Any) -> Iterator[bool]:
    """Whether any Pipeline within writes intermediate data to the disk."""
    parts = estimator.get_params(deep=True).values()
    for part in (estimator, *parts):
        yield isinstance(part, Pipeline) and part.memory is not None
