"""The best of a secret random number of trials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

from skdp._configured import Checks, Given
from skdp._validation import check_bool, check_choice, check_count, check_real
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
from skdp.privacy._events import Event
from skdp.privacy._plan import Line
from skdp.privacy._random_stopping import MOST_TRIALS, TrialCount
from skdp.privacy._search_events import SelectionEvent

_VALIDATION = 0.1
# The law of the number of trials is cut off at this multiple of its mean, or at the
# second one if that many are always run.
_CUT, _CUT_IF_FIXED = 6, 2
_MOST = float(MOST_TRIALS)


@dataclass(frozen=True, kw_only=True)
class RandomStopping(Method):
    """Release the best of a secret number of trials of random candidates.

    A trial draws a candidate from the grid, with replacement, fits it on all records
    but those of a validation set, and scores it there with noise. The model of the best
    noisy score is released as it is.

    Privacy
    -------
    A trial is mu-GDP, or pure: a record is either trained on or scored on. The release
    costs what ``docs/proofs/random_stopping.md`` derives, whatever the number of
    candidates. How many trials there were, and everything that would tell it, stays
    secret, except for the running time unless `fixed_duration` is set.

    Utility
    -------
    The released model has about two thirds of the mu of a fit without a search (half
    of epsilon if delta is 0), and among equal candidates the luckiest noise wins.

    Parameters
    ----------
    family : {"negative_binomial", "poisson"}, default="negative_binomial"
        Law of the number of trials. "poisson" may make none, and then returns a fixed
        default model; it is not for delta = 0.
    shape : float in [-0.9, 10] or None, default=None
        Of the negative binomial law. Smaller costs less and varies more. None: 1, a
        geometric law, or 0, a logarithmic one, if delta is 0.
    mean_trials : float or None, default=None
        Mean of the law before it is cut off. None: the number of candidates.
    max_trials : int or None, default=None
        Cut-off. None: 6 times the mean, or twice with `fixed_duration`.
    fixed_duration : bool, default=False
        Always run `max_trials` trials and use only as many as were drawn, so that the
        running time does not tell their number.
    """

    key: ClassVar[str] = "random_stopping"

    checks: ClassVar[Checks] = {
        "family": partial(check_choice, allowed=["negative_binomial", "poisson"]),
        "shape": partial(check_real, low=-0.9, high=10.0),
        "mean_trials": partial(check_real, low=0.0, high=_MOST, low_open=True),
        "max_trials": partial(check_count, high=MOST_TRIALS),
        "fixed_duration": check_bool,
    }

    shape: float
    mean_trials: float
    max_trials: int
    family: Literal["negative_binomial", "poisson"] = "negative_binomial"
    fixed_duration: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family == "negative_binomial":
            mean = self.mean_trials
            check_real("mean_trials", mean, low=1.0, high=_MOST, low_open=True)

    @classmethod
    def planned(cls, given: Given, facts: SearchFacts) -> Self:
        if facts.is_pure and given.get("family") == "poisson":
            raise Refused(
                "method='random_stopping' cannot bound a Poisson number of trials well "
                "at delta=0. Use family='negative_binomial'."
            )
        by_number = float(min(max(facts.n_candidates, 2), MOST_TRIALS))
        mean = given.get("mean_trials", by_number)
        cut = _CUT_IF_FIXED if given.get("fixed_duration") else _CUT
        rules = {
            "shape": 0.0 if facts.is_pure else 1.0,
            "mean_trials": mean,
            "max_trials": min(round(cut * mean) + 1, MOST_TRIALS),
        }
        return cls(**{**rules, **given})

    @property
    def trials(self) -> TrialCount:
        """The distribution of the number of trials."""
        return TrialCount(self.family, self.mean_trials, self.max_trials, self.shape)

    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        law = self.trials
        trial = strength(noise_multiplier, facts)
        return SelectionEvent(trial, law.family, law.mean, law.most, law.shape)

    def lines(self, facts: SearchFacts) -> tuple[Line, ...]:
        # As many as there may be trials; how many were made is not released.
        return (Line(self.max_trials, law=facts.law),)

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        scored = validation_size(facts, facts.n_samples, _VALIDATION)
        return (Need(facts.n_samples - scored, strength(noise_multiplier, facts)),)

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        scored = validation_size(facts, facts.n_samples, _VALIDATION)
        return deviation(1, scored, noise_multiplier, facts)

    def run(
        self,
        job: Job,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        scored = validation_size(facts, facts.n_samples, _VALIDATION)
        order = job.draws.permutation(facts.n_samples)
        split = Split(order[scored:], order[:scored])
        count = job.draws.weighted_index(self.trials.weights)
        runs = self.max_trials if self.fixed_duration else count
        picked = job.draws.integers(len(candidates), runs)
        prepared = [candidates[index].prepared[0] for index in picked]
        tried = job.fit_and_score(prepared, [split] * runs, say=False)[:count]
        if not tried:
            return Choice(0, None, job.scorer.lowest)
        queries = [scores_of([trial.number], facts) for trial in tried]
        released = [answers.ask(query).value for query in queries]
        scores = [job.scorer.score(value, scored) for value in released]
        # The first among equals: trials are exchangeable.
        best = best_of(released, scores, facts)
        return Choice(int(picked[best]), tried[best].model, scores[best])
