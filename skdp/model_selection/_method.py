"""The contract between a private search and the method by which it chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.model_selection._candidates import Candidate, Need
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.model_selection._trial import Job
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Relation, table_relation
from skdp.privacy._allowance import Strength
from skdp.privacy._events import Event, GaussianEvent, PureEvent
from skdp.privacy._laws import Gaussian, Laplace, NoiseLaw


@dataclass(frozen=True, kw_only=True)
class SearchFacts:
    """Public facts of one search.

    Parameters
    ----------
    n_samples, n_candidates : int
    budget : Budget
        For the whole search, the final model included.
    adjacency : {"replace_one", "zero_out", "rating_value"}
    scorer : PrivateScoring
    validation_fraction : float in (0, 1) or None
        Share of the records that candidates are scored on. None: the method's rule.
    has_ledger : bool
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
        """Whether pure epsilon is asked for."""
        return self.budget.delta == 0


@dataclass(frozen=True)
class Choice:
    """What a search releases.

    Parameters
    ----------
    index : int
        Of the chosen candidate.
    estimator : estimator or None
        Its fitted model. None: there is none, and a fixed default takes its place.
    score : float
        Released score of the chosen candidate; nan if none was released.
    scores : ndarray of shape (n_candidates,) or None
        Released scores of all candidates, if they were.
    """

    index: int
    estimator: Any
    score: float
    scores: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A frozen configuration of public choices; keeps no state between searches."""

    key: ClassVar[str]

    def refusal(self, facts: SearchFacts) -> str:
        """Why this method cannot do the search, or an empty string if it can."""
        return ""

    def resolve(self, facts: SearchFacts) -> Self:
        """Copy with every None replaced by its rule; public facts only."""
        return self

    @abstractmethod
    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        """Everything the search will release, the final model included."""

    @abstractmethod
    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        """The kinds of fits that `run` will make: of how many rows, at what cost."""

    @abstractmethod
    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        """Standard deviation of a candidate's score, over the range of the score."""

    @abstractmethod
    def run(
        self,
        job: Job,
        candidates: tuple[Candidate, ...],
        noise_multiplier: float,
        facts: SearchFacts,
    ) -> Choice:
        """Read the data; release exactly what `event` declared."""


def strength(noise_multiplier: float, facts: SearchFacts) -> Strength:
    """The event of one release with this multiplier: Gaussian, or pure at delta 0."""
    if facts.is_pure:
        return PureEvent(1 / noise_multiplier)
    return GaussianEvent(noise_multiplier)


def noisy(
    job: Job, statistics: FloatArray, noise_multiplier: float, facts: SearchFacts
) -> FloatArray:
    """Statistics of one or more candidates as one noisy vector, of the same shape."""
    count = statistics.size // facts.scorer.size
    sensitivity = joint_sensitivity(count, facts)
    released = _law(facts).release(
        job.noise, statistics.ravel(), sensitivity, noise_multiplier
    )
    return released.reshape(statistics.shape)


def deviation(
    count: int, n_scored: int, multiplier: float, facts: SearchFacts
) -> float:
    """Standard deviation of one of `count` noisy scores, over the score's range."""
    law = _law(facts)
    sensitivity = joint_sensitivity(count, facts)
    return sensitivity * law.deviation(multiplier, count) / n_scored


def joint_sensitivity(count: int, facts: SearchFacts) -> float:
    """Of the statistics of several candidates on the same records.

    One record moves each of them, so norms of the changes add up (L1, at delta 0) or
    add up in squares (L2).
    """
    norm = _law(facts).norm
    return facts.scorer.sensitivity(table_relation(facts.adjacency), norm) * float(
        count ** (1 / norm)
    )


def _law(facts: SearchFacts) -> NoiseLaw:
    return Laplace() if facts.is_pure else Gaussian()


def validation_size(facts: SearchFacts, n_samples: int, default: float) -> int:
    """Number of records to score on: public, at least one and not all."""
    share = facts.validation_fraction
    wanted = round(n_samples * (default if share is None else share))
    return min(max(wanted, 1), n_samples - 1)
