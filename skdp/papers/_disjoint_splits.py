"""A separate part of the records for each candidate, and one for the choice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

from skdp._checks import check_choice
from skdp._configured import Checks, Given
from skdp.exceptions import Refused
from skdp.model_selection._candidates import Candidate, Need, SearchJob, Split
from skdp.model_selection._methods import (
    Choice,
    Method,
    SearchFacts,
    strength,
    validation_size,
)
from skdp.privacy.accounting._events import Event, ParallelEvent
from skdp.privacy.noise._laws import PureChoices
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Line
from skdp.sums._record_sums import Scores


@dataclass(frozen=True, kw_only=True)
class DisjointSplits(Method):
    """Fit each candidate on a separate part with the whole budget; choose privately.

    Private tuning as in [1]_, Algorithm 3 (after [2]_): the records are split at random
    into one part for each candidate and one for validation; the model to release is
    chosen by its score there.

    Privacy
    -------
    A record is in one part, so each part gets the whole budget (parallel composition).
    The choice is pure epsilon-DP for a score of bounded sensitivity.

    Utility
    -------
    A model sees a ``1 / (k + 1)`` share of the records, which acts like k + 1 times the
    noise.

    Parameters
    ----------
    mechanism : {"permute_and_flip", "exponential"}, default="permute_and_flip"
        "exponential" is the paper's; permute-and-flip is never worse in expectation
        [3]_.

    References
    ----------
    .. [1] Wu, Li, Kumar, Chaudhuri, Jha and Naughton (2017). Bolt-on differential
       privacy for scalable stochastic gradient descent-based analytics. SIGMOD.
       https://arxiv.org/abs/1606.04722
    .. [2] Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical
       risk minimization. JMLR 12. https://arxiv.org/abs/0912.0071
    .. [3] McKenna and Sheldon (2020). Permute-and-flip: a new mechanism for
       differentially private selection. NeurIPS. https://arxiv.org/abs/2010.12603
    """

    key: ClassVar[str] = "disjoint_splits"

    checks: ClassVar[Checks] = {
        "mechanism": partial(check_choice, allowed=["exponential", "permute_and_flip"])
    }

    mechanism: Literal["permute_and_flip", "exponential"] = "permute_and_flip"

    @classmethod
    def planned(cls, given: Given, facts: SearchFacts) -> Self:
        if facts.n_samples <= facts.n_candidates:
            raise Refused(
                "method='disjoint_splits' needs more records than candidates. Use "
                "fewer candidates or method='random_stopping'."
            )
        if not facts.scorer.is_single:
            raise Refused(
                "method='disjoint_splits' needs a score that is one sum over records, "
                "such as accuracy. Use another scoring or method='composition'."
            )
        return cls(**given)

    def _sizes(self, facts: SearchFacts) -> tuple[int, int]:
        """Numbers of records in a candidate's part and in the validation part."""
        n, k = facts.n_samples, facts.n_candidates
        scored = validation_size(facts, n, 1 / (k + 1))
        part = max((n - scored) // k, 1)
        return part, n - k * part

    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        (choice,) = self.lines(facts)
        chosen = choice.event(noise_multiplier, facts.adjacency)
        return ParallelEvent((strength(noise_multiplier, facts), chosen))

    def lines(self, facts: SearchFacts) -> tuple[Line, ...]:
        return (Line(law=PureChoices(facts.budget.epsilon, self.mechanism)),)

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        return (Need(self._sizes(facts)[0], strength(noise_multiplier, facts)),)

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        # Deviation of the exponential law of scale 2 / epsilon of both mechanisms.
        query = Scores(facts.scorer, (0,), math.inf)
        sensitivity = query.bound().under(facts.adjacency)
        return 2 * sensitivity / facts.budget.epsilon / self._sizes(facts)[1]

    def run(
        self,
        job: SearchJob,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        part, scored = self._sizes(facts)
        order = job.draws.permutation(facts.n_samples)
        splits = [
            Split(order[scored + i * part : scored + (i + 1) * part], order[:scored])
            for i in range(len(candidates))
        ]
        prepared = [candidate.prepared[0] for candidate in candidates]
        trials = job.fit_and_score(prepared, splits, say=True)
        numbers = tuple(trial.number for trial in trials)
        query = Scores(facts.scorer, numbers, math.inf)
        best = int(answers.choose(query, 1, 0)[0])
        return Choice(best, trials[best].model, math.nan)
