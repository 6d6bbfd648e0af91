"""A model that is fitted to some records, and one noisy statistic on the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.model_selection._candidates import Candidate, Need
from skdp.model_selection._method import (
    Choice,
    Method,
    SearchFacts,
    deviation,
    scores_of,
    strength,
    validation_size,
)
from skdp.model_selection._trial import Job, Split
from skdp.privacy._answers import Answers
from skdp.privacy._events import Event
from skdp.privacy._plan import Line
from skdp.privacy._search_events import ParallelEvent

# Share of the records that is held out by default.
_HELD_OUT = 0.2


@dataclass(frozen=True)
class Measured(Choice):
    """A fitted model with its released statistic.

    Parameters
    ----------
    statistic : ndarray of shape (size,) or None
        The statistic of the scorer; None in a rehearsal.
    deviation : float
        Standard deviation of its noise.
    """

    statistic: FloatArray | None = None
    deviation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class HeldOut(Method):
    """Fit on most records with all of the budget; ask once about the others.

    Privacy
    -------
    The held-out records are drawn without looking at the data. A record is either in
    the fit or in the question, so that each part gets the whole budget (parallel
    composition, ``docs/proofs/private_score.md``): for a record in the fit, the answer
    about the other records is post-processing of the model.
    """

    key: ClassVar[str] = "held_out"

    @classmethod
    def planned(cls, given: Given, facts: SearchFacts) -> Self:
        return cls(**given)

    def _held_out(self, facts: SearchFacts) -> int:
        return validation_size(facts, facts.n_samples, _HELD_OUT)

    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        asked = facts.law.event(noise_multiplier)
        return ParallelEvent((strength(noise_multiplier, facts), asked))

    def lines(self, facts: SearchFacts) -> tuple[Line, ...]:
        return (Line(law=facts.law),)

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        fitted = facts.n_samples - self._held_out(facts)
        return (Need(fitted, strength(noise_multiplier, facts)),)

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        return deviation(1, self._held_out(facts), noise_multiplier, facts)

    def run(
        self,
        job: Job,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Measured:
        held_out = self._held_out(facts)
        order = job.draws.permutation(facts.n_samples)
        split = Split(order[held_out:], order[:held_out])
        (candidate,) = candidates
        (trial,) = job.fit_and_score([candidate.prepared[0]], [split], say=True)
        released = answers.ask(scores_of([trial.number], facts))
        return Measured(
            0,
            trial.model,
            math.nan,
            statistic=released.value,
            deviation=released.deviation,
        )
