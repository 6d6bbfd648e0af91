"""The best of a secret random number of trials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from skdp._validation import check_bool, check_choice, check_count, check_real
from skdp.model_selection._candidates import Candidate, Need
from skdp.model_selection._method import (
    Choice,
    Method,
    SearchFacts,
    deviation,
    noisy,
    strength,
    validation_size,
)
from skdp.model_selection._trial import Job, Split
from skdp.privacy._events import Event
from skdp.privacy._random_stopping import MOST_TRIALS, TrialCount
from skdp.privacy._search_events import SelectionEvent

_VALIDATION = 0.1
# The law of the number of trials is cut off at this multiple of its mean, or at the
# second one if that many are always run.
_CUT, _CUT_IF_FIXED = 6, 2


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

    family: Literal["negative_binomial", "poisson"] = "negative_binomial"
    shape: float | None = None
    mean_trials: float | None = None
    max_trials: int | None = None
    fixed_duration: bool = False

    def __post_init__(self) -> None:
        check_choice("family", self.family, ["negative_binomial", "poisson"])
        check_bool("fixed_duration", self.fixed_duration)
        if self.shape is not None:
            shape = check_real("shape", self.shape, low=-0.9, high=10.0)
            object.__setattr__(self, "shape", shape)
        if self.mean_trials is not None:
            mean = check_real(
                "mean_trials",
                self.mean_trials,
                low=1.0 if self.family == "negative_binomial" else 0.0,
                high=float(MOST_TRIALS),
                low_open=True,
            )
            object.__setattr__(self, "mean_trials", mean)
        if self.max_trials is not None:
            most = check_count("max_trials", self.max_trials, high=MOST_TRIALS)
            object.__setattr__(self, "max_trials", most)

    def refusal(self, facts: SearchFacts) -> str:
        if facts.is_pure and self.family == "poisson":
            return (
                "method='random_stopping' cannot bound a Poisson number of trials well "
                "at delta=0. Use family='negative_binomial'."
            )
        return ""

    def resolve(self, facts: SearchFacts) -> Self:
        shape, mean, most = self.shape, self.mean_trials, self.max_trials
        if shape is None:
            shape = 0.0 if facts.is_pure else 1.0
        if mean is None:
            mean = float(min(max(facts.n_candidates, 2), MOST_TRIALS))
        if most is None:
            cut = _CUT_IF_FIXED if self.fixed_duration else _CUT
            most = min(round(cut * mean) + 1, MOST_TRIALS)
        return replace(self, shape=shape, mean_trials=mean, max_trials=most)

    @property
    def trials(self) -> TrialCount:
        """The law of the number of trials."""
        assert self.mean_trials is not None, "resolve() fills in the mean"
        assert self.max_trials is not None, "resolve() fills in the cut-off"
        assert self.shape is not None, "resolve() fills in the shape"
        return TrialCount(self.family, self.mean_trials, self.max_trials, self.shape)

    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        law = self.trials
        trial = strength(noise_multiplier, facts)
        return SelectionEvent(trial, law.family, law.mean, law.most, law.shape)

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        scored = validation_size(facts, facts.n_samples, _VALIDATION)
        return (Need(facts.n_samples - scored, strength(noise_multiplier, facts)),)

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        scored = validation_size(facts, facts.n_samples, _VALIDATION)
        return deviation(1, scored, noise_multiplier, facts)

    def run(
        self,
        job: Job,
        candidates: tuple[Candidate, ...],
        noise_multiplier: float,
        facts: SearchFacts,
    ) -> Choice:
        scored = validation_size(facts, facts.n_samples, _VALIDATION)
        order = job.noise.permutation(facts.n_samples)
        split = Split(order[scored:], order[:scored])
        trials = self.trials
        count = job.noise.weighted_index(trials.weights)
        runs = trials.most if self.fixed_duration else count
        picked = job.noise.integers(len(candidates), runs)
        prepared = [candidates[index].prepared[0] for index in picked]
        tried = job.fit_and_score(prepared, [split] * runs, say=False)[:count]
        if not tried:
            return Choice(0, None, job.scorer.lowest)
        scores = [
            job.scorer.score(noisy(job, statistic, noise_multiplier, facts), scored)
            for _, statistic in tried
        ]
        # The first among equals: trials are exchangeable.
        best = int(np.argmax(scores))
        return Choice(int(picked[best]), tried[best][0], scores[best])
