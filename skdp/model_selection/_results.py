"""What a search shows: its table, its report, and its noise."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from skdp._base import PrivateEstimator, Signal, warn_of_noise
from skdp._show import aligned, card, page, table, wrapped
from skdp.exceptions import CloseCandidatesWarning
from skdp.model_selection._candidates import Candidate, Need, name_of, steps_of
from skdp.pipeline._walk import walk
from skdp.privacy.release._record import PrivacyRecord

# ------------------------------------------------------------------ Results of a search
# Post-processing of its release, and public facts.


def results_table(
    grid: list[dict[str, Any]],
    scores: NDArray[np.float64] | None,
    errors: NDArray[np.float64] | None,
) -> dict[str, Any]:
    """``cv_results_``: the candidates, and their scores if they were released."""
    table: dict[str, Any] = {"params": grid}
    for name in sorted({name for params in grid for name in params}):
        column = np.ma.array(np.empty(len(grid), dtype=object), mask=True)
        for i, params in enumerate(grid):
            if name in params:
                column[i] = params[name]
        table[f"param_{name}"] = column
    if scores is not None:
        table["mean_test_score"] = scores
        table["error_test_score"] = errors
        table["rank_test_score"] = rankdata(-scores, method="min").astype(np.int32)
    return table


def as_released(model: Any, record: PrivacyRecord, ledger: Any) -> Any:
    """The fitted model, whose private steps state that they are parts of a search.

    Its steps get the search's ledger, so that another fit of a step is charged to it.
    """
    for step in steps_of(model):
        step.set_params(ledger=ledger, random_state=None)
    for leaf in walk(model):
        step = leaf.step
        if not isinstance(step, PrivateEstimator):
            continue
        step.set_params(ledger=ledger, random_state=None)
        own = getattr(step, "privacy_", None)
        if own is None:  # it cost nothing, such as an imputer of declared constants
            continue
        step.privacy_ = replace(
            own,
            is_private=record.is_private,
            reason=f"{record.reason}; the step itself: {own.reason}",
            epsilon=record.epsilon,
            delta=record.delta,
            event=record.event,
            assumed_public=record.assumed_public,
            ledger=record.ledger,
            dataset=record.dataset,
            release=record.release,
        )
    return model


# ------------------------------------------------------------------------- SearchReport


_NOT_COVERED = (
    "score() and anything else computed from the raw table",
    "the running time, which may tell how many trials there were, unless "
    "fixed_duration is set",
    "a choice between several searches by their results, unless one ledger caps them "
    "all",
)
_NO_MODEL = "none was fitted; a constant model that used no data stands in for it"
_MOST_ROWS = 200
_BAR = 20


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """HTML report on what a search released, and on its cost.

    Parameters
    ----------
    privacy : PrivacyRecord
    best_index : int
        Index of the chosen candidate.
    best_score : float
        nan if no score was released.
    scoring : str
    has_model : bool
    candidates : tuple of dict
    scores : tuple of float or None
        Released scores of the candidates, or None.
    """

    privacy: PrivacyRecord
    best_index: int
    best_score: float
    scoring: str
    has_model: bool
    candidates: tuple[dict[str, Any], ...]
    scores: tuple[float, ...] | None

    def _lines(self) -> list[tuple[str, str]]:
        score = "not released"
        if not math.isnan(self.best_score):
            score = f"{self.best_score:.4f} (noisy, {self.scoring}, while tuning)"
        return [
            ("chosen", name_of(self.candidates[self.best_index])),
            ("its score", score),
            ("model", "fitted" if self.has_model else _NO_MODEL),
            ("candidates", str(len(self.candidates))),
            ("method", self.privacy.solver),
            ("why this method", self.privacy.why_solver),
            ("warnings", "; ".join(self.privacy.warnings) or "none"),
            ("not covered", "; ".join(_NOT_COVERED)),
        ]

    def __repr__(self) -> str:
        rows = [(f"  {name}", value) for name, value in self._lines()]
        return f"{wrapped(self.privacy.statement())}\n{aligned(rows, 19)}"

    def _repr_html_(self) -> str:
        (_, chosen), *lines = self._lines()
        return card(
            f"Chosen by {self.privacy.estimator}: {chosen}",
            lines,
            below=[self._table(), self.privacy._repr_html_()],
        )

    def to_html(self, path: str | Path) -> None:
        """Write the report as an HTML page.

        Parameters
        ----------
        path : str or path-like
            Replaced if it exists.
        """
        text = page(self.privacy.estimator, self._repr_html_())
        Path(path).write_text(text, encoding="utf-8")

    def _table(self) -> str:
        """The candidates, the best first if scores were released."""
        order = list(range(len(self.candidates)))
        if self.scores is not None:
            order.sort(key=self.scores.__getitem__, reverse=True)
        scored = () if self.scores is None else ("released score", "")
        return table(("", "candidate", *scored), map(self._row, order[:_MOST_ROWS]))

    def _row(self, i: int) -> tuple[str, ...]:
        mark = "chosen" if i == self.best_index else ""
        told = (mark, name_of(self.candidates[i]))
        if self.scores is None:
            return told
        low, high = min(self.scores), max(self.scores)
        share = (self.scores[i] - low) / (high - low) if high > low else 1.0
        return (*told, f"{self.scores[i]:.4f}", "█" * (1 + round(share * (_BAR - 1))))


# ------------------------------------------- Noise that dominates every fit of a search
# Public facts show it before the search is paid for. Fits inside a search are silent,
# so the search warns once for all of them.


_REMEDIES = ("a larger epsilon", "fewer candidates")


def warn_of_search_noise(
    candidates: Iterable[Candidate], stand_ins: Iterable[Any], needs: Sequence[Need]
) -> tuple[str, ...]:
    """Warn if noise dominates even the best candidate; the text for the record.

    Parameters
    ----------
    stand_ins : iterable of estimators
        The rehearsed model of each candidate.
    needs : sequence of Need
        The kinds of fits that each candidate is prepared for.
    """
    signals = [
        signal
        for candidate, sample_row in zip(candidates, stand_ins, strict=True)
        for ready, need in zip(candidate.prepared, needs, strict=True)
        for signal in _signals(ready.estimator, sample_row, need.rows)
    ]
    if not signals:
        return ()
    best = min(signals, key=lambda x: x.noise_to_signal / x.constant_from)
    return warn_of_noise(best, _REMEDIES, where="every fit of this search")


def _signals(model: Any, sample_row: Any, n_rows: int) -> list[Signal]:
    """The signals of the steps that learn a model, in fits to `n_rows` rows."""
    pairs = zip(steps_of(model), steps_of(sample_row), strict=True)
    found = (
        step._signal(n_rows, rehearsed)
        for step, rehearsed in pairs
        if hasattr(rehearsed, "privacy_")  # not the clones of a meta-estimator
    )
    return [signal for signal in found if signal is not None]


# ------------------------------------------ Candidates that noise does not distinguish
# A search between kinds of models may be close to chance though every model is good.


# Standard errors of the difference by which the best candidate must lead: of two equal
# candidates one leads by more in about 5 % of searches.
_LEADS_BY = 2.0
# Letters of a candidate's name in the warning: the text of a model may be long.
_NAME_WIDTH = 100


def close_candidates(
    results: Mapping[str, Any], best: int
) -> list[tuple[str, type[Warning], str]]:
    """The warning if the best candidate leads by less than the noise, else nothing.

    It is post-processing of released scores.

    Parameters
    ----------
    results : mapping
        ``cv_results_``.
    best : int
        Index of the chosen candidate.

    Returns
    -------
    list of (message, class, words in the statement)
    """
    scores, errors = results.get("mean_test_score"), results.get("error_test_score")
    if scores is None or errors is None or len(scores) < 2:
        return []
    second = max((i for i in range(len(scores)) if i != best), key=scores.__getitem__)
    lead = float(scores[best] - scores[second])
    # Each score has separate noise, in one release as well.
    error = math.hypot(errors[best], errors[second])
    if lead >= _LEADS_BY * error:
        return []
    first, other = (
        f"candidate {i} ({_shortened(results['params'][i])})" for i in (best, second)
    )
    got = f"a lead of {lead:.2g} with a standard error of {error:.2g}"
    message = (
        "The best candidate of a search should lead the next by two standard errors "
        f"of the difference or more. Got {got}, for {first} over {other}: the choice "
        "is close to chance. Use fewer candidates, more records, a larger epsilon, a "
        "larger tuning_share in method_params, or a score with a narrower range, such "
        "as a PrivateScoring of clipped errors."
    )
    stated = f"the choice is close to chance: the best candidate has {got}"
    return [(message, CloseCandidatesWarning, stated)]


def _shortened(params: Mapping[str, Any]) -> str:
    return textwrap.shorten(name_of(params), _NAME_WIDTH, placeholder=" ...")
