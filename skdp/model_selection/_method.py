"""The contract between a private search and the method by which it chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp._configured import Configured, Given
from skdp._floats import FloatArray
from skdp.model_selection._candidates import Candidate, Need
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.model_selection._trial import Job
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Relation
from skdp.privacy._allowance import Strength
from skdp.privacy._answers import Answers
from skdp.privacy._events import Event, GaussianEvent, PureEvent
from skdp.privacy._laws import Gaussian, Laplace, NoiseLaw
from skdp.privacy._plan import Line, Plan
from skdp.queries._scores import Scores


@dataclass(frozen=True, kw_only=True)
class SearchFacts:
    """Public facts of one search.

    `budget` is for the whole search, the final model included; `validation_fraction`,
    in (0, 1), is the share of the records that candidates are scored on, None for the
    method's rule.
    """

    n_samples: int
    n_candidates: int
    budget: Budget
    adjacency: Relation
    scorer: PrivateScoring
    validation_fraction: float | None
    has_ledger: bool

    @property
    def is_pure(self) -> bool:
        return self.budget.delta == 0

    @property
    def law(self) -> NoiseLaw:
        return Laplace() if self.is_pure else Gaussian()


@dataclass(frozen=True)
class Choice:
    """What a search releases.

    `index` is the position of the chosen candidate and `estimator` its fitted model;
    without a model, a fixed default takes its place. `score` is the released score of
    the candidate, or nan. `scores`, of shape (n_candidates,), are the scores of all
    candidates, if they were released.
    """

    index: int
    estimator: Any
    score: float
    scores: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class Method(Configured, ABC):
    """How a search chooses: public parameters, and no state between searches."""

    # Whether all fits and scores are paid for as if they were released.
    pays_for_all: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def planned(cls, given: Given, facts: SearchFacts) -> Self:
        """Decide by rule what was not given, from public facts only.

        Parameters
        ----------
        given : mapping
            Checked parameters.

        Raises
        ------
        Refused
            If this method cannot do the search.
        """

    @abstractmethod
    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        """The event of the whole search, with the final model."""

    @abstractmethod
    def lines(self, facts: SearchFacts) -> tuple[Line, ...]:
        """The lines of the plan for the scores; allowances book the fits."""

    def plan(self, facts: SearchFacts) -> Plan:
        """The lines, at the cost of `event`."""
        event = partial(self.event, facts=facts)
        return Plan(self.lines(facts), event, self.pays_for_all)

    @abstractmethod
    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        """The kinds of fits that `run` makes: their numbers of rows and costs."""

    @abstractmethod
    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        """Standard deviation of a candidate's score, over the range of the score."""

    @abstractmethod
    def run(
        self,
        job: Job,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        """Fit within the allowances; ask exactly what `plan` declared."""


def strength(noise_multiplier: float, facts: SearchFacts) -> Strength:
    """The event of one release with this multiplier: Gaussian, or pure at delta 0."""
    if facts.is_pure:
        return PureEvent(1 / noise_multiplier)
    return GaussianEvent(noise_multiplier)


def scores_of(trials: Sequence[Any], facts: SearchFacts) -> Scores:
    """The query for the statistics of some trials on the same records.

    `trials` are the keys under which the records know the trials.
    """
    return Scores(facts.scorer, tuple(trials), facts.law.norm)


def deviation(
    count: int, n_scored: int, multiplier: float, facts: SearchFacts
) -> float:
    """Standard deviation of one of `count` noisy scores, over the score's range."""
    sensitivity = scores_of(range(count), facts).bound().under(facts.adjacency)
    return sensitivity * facts.law.deviation(multiplier, count) / n_scored


def best_of(
    released: Sequence[FloatArray] | FloatArray,
    scores: Sequence[float] | FloatArray,
    facts: SearchFacts,
) -> int:
    """The first trial with the best score; of equal scores, with the largest sum.

    Scores are clipped to their range. Noise can bring several sums beyond it, and so
    can a part with more users than it has room for.
    """
    is_sum = facts.scorer.is_single
    ranks = [
        (score, value[0] if is_sum else 0.0)
        for score, value in zip(scores, released, strict=True)
    ]
    return max(range(len(ranks)), key=ranks.__getitem__)


def validation_size(facts: SearchFacts, n_samples: int, default: float) -> int:
    """Number of records to score on: public, at least one and not all."""
    share = facts.validation_fraction
    wanted = round(n_samples * (default if share is None else share))
    return min(max(wanted, 1), n_samples - 1)
