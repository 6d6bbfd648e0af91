"""`SearchReport`: one page on a finished search, from what it released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skdp._card import card, page, table
from skdp.privacy._record import PrivacyRecord

_NOT_COVERED = (
    "score() and anything else computed from the raw table",
    "the running time, which may tell how many trials there were, unless "
    "fixed_duration is set",
    "a choice between several searches that is made from what they showed, unless one "
    "ledger caps them all",
)
_NO_MODEL = "none was fitted; a fixed one that learned nothing stands in for it"
_MOST_ROWS = 200
_BAR = 20


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """What a search released and what that cost, for people.

    Parameters
    ----------
    privacy : PrivacyRecord
    best_index : int
        Of the chosen candidate.
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
            ("chosen", _told(self.candidates[self.best_index])),
            ("its score", score),
            ("model", "fitted" if self.has_model else _NO_MODEL),
            ("candidates", str(len(self.candidates))),
            ("method", self.privacy.solver),
            ("why this method", self.privacy.why_solver),
            ("warnings", "; ".join(self.privacy.warnings) or "none"),
            ("not covered", "; ".join(_NOT_COVERED)),
        ]

    def __repr__(self) -> str:
        lines = [f"  {name:<16} {value}" for name, value in self._lines()]
        return "\n".join([self.privacy.statement(), *lines])

    def _repr_html_(self) -> str:
        (_, chosen), *lines = self._lines()
        return card(
            f"Chosen by {self.privacy.estimator}: {chosen}",
            lines,
            below=[self._table(), self.privacy._repr_html_()],
        )

    def to_html(self, path: str | Path) -> None:
        """Write the report as a page of its own.

        Parameters
        ----------
        path : str or path-like
            Replaced if it exists.
        """
        text = page(self.privacy.estimator, self._repr_html_())
        Path(path).write_text(text, encoding="utf-8")

    def _table(self) -> str:
        """The candidates, best first where scores were released."""
        order = list(range(len(self.candidates)))
        if self.scores is not None:
            order.sort(key=self.scores.__getitem__, reverse=True)
        scored = () if self.scores is None else ("released score", "")
        return table(("", "candidate", *scored), map(self._row, order[:_MOST_ROWS]))

    def _row(self, i: int) -> tuple[str, ...]:
        mark = "chosen" if i == self.best_index else ""
        told = (mark, _told(self.candidates[i]))
        if self.scores is None:
            return told
        low, high = min(self.scores), max(self.scores)
        share = (self.scores[i] - low) / (high - low) if high > low else 1.0
        return (*told, f"{self.scores[i]:.4f}", "█" * (1 + round(share * (_BAR - 1))))


def _told(params: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value!r}"
        for name, value in params.items()
    )
