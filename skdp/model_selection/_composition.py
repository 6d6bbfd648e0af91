"""Tune with a share of the budget, release noisy scores, refit the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._validation import check_real
from skdp.exceptions import Refused
from skdp.model_selection._candidates import Candidate, Need
from skdp.model_selection._method import (
    Choice,
    Method,
    SearchFacts,
    best_of,
    deviation,
    scores_of,
    strength,
    validation_size,
)
from skdp.model_selection._trial import Job, Split
from skdp.privacy._answers import Answers
from skdp.privacy._events import ComposedEvent, Event, GaussianEvent, LaplaceEvent
from skdp.privacy._plan import Line
from skdp.privacy._search_events import ParallelEvent

_SHARE, _VALIDATION = 0.3, 0.3


def _share(name: str, value: Any) -> float:
    return check_real(name, value, low=1e-6, high=1 - 1e-6)


def _fraction(name: str, value: Any) -> float | None:
    return None if value is None else _share(name, value)


def _power(facts: SearchFacts) -> float:
    """The power of a share of the budget: shares are of mu^2, or of epsilon."""
    return 1.0 if facts.is_pure else 0.5


@dataclass(frozen=True)
class _Parts:
    """Noise multipliers of one fit of a candidate, of the scores, of the final fit."""

    fit: float
    scores: float
    final: float


@dataclass(frozen=True, kw_only=True)
class Composition(Method):
    r"""Fit every candidate on a small share of the budget; refit the best on the rest.

    The candidates are fitted on all records but those of a validation set, on which all
    of them are scored in one noisy release. The best is fitted again on all records.

    Privacy
    -------
    A record is either trained on or scored on while tuning, and takes part in the final
    fit: with Gaussian noise ``mu^2 = mu_tuning^2 + mu_final^2``, where mu_tuning is
    that of k fits of ``mu_tuning / sqrt(k)`` each for a training record, and of the
    joint release of k scores for a validation record. With delta = 0 epsilons add up in
    the same way. With `tuning_fraction` the records that are tuned on and those of the
    final fit are disjoint, and both get all of the budget.

    Utility
    -------
    The final fit has ``sqrt(1 - tuning_share)`` of the mu of a fit without a search.
    A fit of a candidate gets ``sqrt(tuning_share / k)`` of it, so that differences
    between candidates drown from some dozens of candidates on.

    Parameters
    ----------
    tuning_share : float in (0, 1), default=0.3
        Share of mu^2 (of epsilon if delta is 0) that is spent on the choice.
    tuning_fraction : float in (0, 1) or None, default=None
        Tune on this share of the records only, chosen at random, and fit the best on
        the others. Faster; `tuning_share` is then not used.
    """

    key: ClassVar[str] = "composition"
    pays_for_all: ClassVar[bool] = True
    checks: ClassVar[Checks] = {"tuning_share": _share, "tuning_fraction": _fraction}

    tuning_share: float = _SHARE
    tuning_fraction: float | None = None

    @classmethod
    def planned(cls, given: Given, facts: SearchFacts) -> Self:
        if given.get("tuning_fraction") is not None and facts.n_samples < 3:
            raise Refused(
                "method='composition' with a tuning_fraction needs at least three "
                "records. Use tuning_fraction=None."
            )
        return cls(**given)

    def _sizes(self, facts: SearchFacts) -> tuple[int, int, int]:
        """Numbers of records trained on, scored on, and in the final fit."""
        n = facts.n_samples
        tuned = n
        if self.tuning_fraction is not None:
            tuned = min(max(round(n * self.tuning_fraction), 2), n - 1)
        scored = validation_size(facts, tuned, _VALIDATION)
        return tuned - scored, scored, n if tuned == n else n - tuned

    def _parts(self, multiplier: float, facts: SearchFacts) -> _Parts:
        k, power = facts.n_candidates, _power(facts)
        tuning = multiplier / self._tuning_strength(facts)
        final = multiplier
        if self.tuning_fraction is None:
            final = multiplier / (1 - self.tuning_share) ** power
        return _Parts(tuning * k**power, tuning, final)

    def _tuning_strength(self, facts: SearchFacts) -> float:
        """The part of mu, or of epsilon, that is spent on the choice."""
        if self.tuning_fraction is not None:
            return 1.0
        return float(self.tuning_share ** _power(facts))

    def lines(self, facts: SearchFacts) -> tuple[Line, ...]:
        return (Line(strength=self._tuning_strength(facts), law=facts.law),)

    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        parts = self._parts(noise_multiplier, facts)
        fit, final = strength(parts.fit, facts), strength(parts.final, facts)
        fits = replace(fit, count=facts.n_candidates)
        scores = GaussianEvent(parts.scores)
        tuning = ParallelEvent((fits, scores))
        if facts.is_pure:
            tuning = ParallelEvent((fits, LaplaceEvent(parts.scores)))
        if self.tuning_fraction is not None:
            return ParallelEvent((*tuning.parts, final))
        return ComposedEvent((tuning, final))

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        parts = self._parts(noise_multiplier, facts)
        trained, _, final = self._sizes(facts)
        return (
            Need(trained, strength(parts.fit, facts)),
            Need(final, strength(parts.final, facts)),
        )

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        spread = self._parts(noise_multiplier, facts).scores
        return deviation(facts.n_candidates, self._sizes(facts)[1], spread, facts)

    def run(
        self,
        job: Job,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        trained, scored, _ = self._sizes(facts)
        order = job.order()
        split = Split(order[:trained], order[trained : trained + scored])
        prepared = [candidate.prepared[0] for candidate in candidates]
        trials = job.fit_and_score(prepared, [split] * len(prepared), say=True)
        query = scores_of(job.known(trials), facts)
        released = answers.ask(query).value.reshape(len(trials), -1)
        scores = np.array([job.scorer.score(row, scored) for row in released])
        best = best_of(released, scores, facts)
        rows = None if self.tuning_fraction is None else order[trained + scored :]
        finals = [candidate.prepared[1] for candidate in candidates]
        model = job.fit_one(finals, best, rows)
        return Choice(best, model, float(scores[best]), scores)
