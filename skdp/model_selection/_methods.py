"""The methods by which a search chooses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_choice, check_count, check_real
from skdp._configured import Checks, Configured, Given, Registry, checked_params
from skdp.exceptions import Refused
from skdp.model_selection._candidates import Candidate, Need, SearchJob, Split
from skdp.model_selection._scorer_sums import PrivateScoring
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    ParallelEvent,
    PureEvent,
    SelectionEvent,
)
from skdp.privacy.accounting._random_stopping import MOST_TRIALS, TrialCount
from skdp.privacy.accounting._relations import Relation
from skdp.privacy.ledger._allowance import EventCost
from skdp.privacy.noise._laws import Gaussian, Laplace, NoiseLaw
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Line, Plan
from skdp.sums._record_sums import Scores

# -------------------------------------------- Method: the protocol of a search's choice


@dataclass(frozen=True, kw_only=True)
class SearchFacts:
    """Public facts of one search.

    `budget` is for the whole search, the final model included; `validation_fraction`,
    in (0, 1), is the share of the records on which candidates are scored, None for the
    method's rule. `n_features` is 0 if the candidates do not say.
    """

    n_samples: int
    n_candidates: int
    budget: Budget
    adjacency: Relation
    scorer: PrivateScoring
    validation_fraction: float | None
    has_ledger: bool
    n_features: int = 0

    @property
    def is_pure(self) -> bool:
        return self.budget.delta == 0

    @property
    def law(self) -> NoiseLaw:
        return Laplace() if self.is_pure else Gaussian()


@dataclass(frozen=True)
class Choice:
    """The release of a search.

    `index` is the position of the chosen candidate and `estimator` its fitted model;
    without a model, a fixed default takes its place. `score` is the released score of
    the candidate, or nan. `scores`, of shape (n_candidates,), are the scores of all
    candidates, if they were released, and `errors` their standard errors. `statistic`,
    of shape (size,), is the statistic of the scorer, if it was released, and
    `deviation` the deviation of its noise.
    """

    index: int
    estimator: Any
    score: float
    scores: NDArray[np.float64] | None = None
    errors: NDArray[np.float64] | None = None
    statistic: FloatArray | None = None
    deviation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Method(Configured, ABC):
    """How a search chooses: public parameters, and no state between searches."""

    # Whether all fits and scores are paid for as if they were released.
    pays_for_all: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def planned(cls, given: Given, facts: SearchFacts) -> Self:
        """Decide missing parameters by rules of public facts.

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
        """The lines of the plan for the scores; the fits are paid by allowances."""

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
        job: SearchJob,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        """Fit within the allowances; ask exactly what `plan` declared."""


def strength(noise_multiplier: float, facts: SearchFacts) -> EventCost:
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

    Scores are clipped to their range. Noise may lift several sums above it, and so may
    a part with more users than it has room for.
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


# -------------------------------------------------------------------------- Composition


_SHARE, _COMPOSITION_VALIDATION = 0.3, 0.3


def _share(name: str, value: Any) -> float:
    return check_real(name, value, low=1e-6, high=1 - 1e-6)


def _fraction(name: str, value: Any) -> float | None:
    return None if value is None else _share(name, value)


def _power(facts: SearchFacts) -> float:
    """Exponent of a share of the budget: shares are of mu^2, or of epsilon."""
    return 1.0 if facts.is_pure else 0.5


@dataclass(frozen=True, kw_only=True)
class Composition(Method):
    r"""Fit every candidate on a small share of the budget; refit the best on the rest.

    The candidates are fitted on all records outside of a validation set, on which all
    of them are scored in one noisy release. The best is fitted again on all records.

    Privacy
    -------
    While tuning a record is either in the fits or in the scores, and it takes part in
    the final fit: with Gaussian noise ``mu^2 = mu_tuning^2 + mu_final^2``. For a
    training record mu_tuning is the cost of k fits of ``mu_tuning / sqrt(k)`` each, and
    for a validation record the cost of the joint release of k scores. With delta = 0
    epsilons add up in the same way. With `tuning_fraction` the records for tuning and
    those of the final fit are disjoint, and both get the whole budget.

    Utility
    -------
    The final fit has ``sqrt(1 - tuning_share)`` of the mu of a fit without a search. A
    fit of a candidate gets ``sqrt(tuning_share / k)`` of it, so that with some dozens
    of candidates noise hides their differences.

    Parameters
    ----------
    tuning_share : float in (0, 1), default=0.3
        Share of mu^2 (of epsilon if delta is 0) that is spent on the choice.
    tuning_fraction : float in (0, 1) or None, default=None
        Tune on this share of the records only, chosen at random, and fit the best on
        the other records. Faster; `tuning_share` is then not used.
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
        """Numbers of records in tuning fits, in scores, and in the final fit."""
        n = facts.n_samples
        tuned = n
        if self.tuning_fraction is not None:
            tuned = min(max(round(n * self.tuning_fraction), 2), n - 1)
        scored = validation_size(facts, tuned, _COMPOSITION_VALIDATION)
        return tuned - scored, scored, n if tuned == n else n - tuned

    def _parts(
        self, multiplier: float, facts: SearchFacts
    ) -> tuple[float, float, float]:
        """Noise multipliers of a candidate's fit, of the scores, of the final fit."""
        k, power = facts.n_candidates, _power(facts)
        tuning = multiplier / self._tuning_strength(facts)
        final = multiplier
        if self.tuning_fraction is None:
            final = multiplier / (1 - self.tuning_share) ** power
        return tuning * k**power, tuning, final

    def _tuning_strength(self, facts: SearchFacts) -> float:
        """The part of mu, or of epsilon, that is spent on the choice."""
        if self.tuning_fraction is not None:
            return 1.0
        return float(self.tuning_share ** _power(facts))

    def lines(self, facts: SearchFacts) -> tuple[Line, ...]:
        return (Line(strength=self._tuning_strength(facts), law=facts.law),)

    def event(self, noise_multiplier: float, facts: SearchFacts) -> Event:
        fit, scores, final_fit = self._parts(noise_multiplier, facts)
        final = strength(final_fit, facts)
        fits = replace(strength(fit, facts), count=facts.n_candidates)
        tuning = ParallelEvent((fits, facts.law.event(scores)))
        if self.tuning_fraction is not None:
            return ParallelEvent((*tuning.parts, final))
        return ComposedEvent((tuning, final))

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        fit, _, final_fit = self._parts(noise_multiplier, facts)
        trained, _, final = self._sizes(facts)
        return (
            Need(trained, strength(fit, facts)),
            Need(final, strength(final_fit, facts)),
        )

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        _, spread, _ = self._parts(noise_multiplier, facts)
        return deviation(facts.n_candidates, self._sizes(facts)[1], spread, facts)

    def run(
        self,
        job: SearchJob,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        trained, scored, _ = self._sizes(facts)
        order = job.order()
        split = Split(order[:trained], order[trained : trained + scored])
        prepared = [candidate.prepared[0] for candidate in candidates]
        trials = job.fit_and_score(prepared, [split] * len(prepared), say=True)
        found = answers.ask(scores_of(job.known(trials), facts))
        released = found.value.reshape(len(trials), -1)
        scores = np.array([job.scorer.score(row, scored) for row in released])
        errors = [job.scorer.error(row, found.deviation, scored) for row in released]
        best = best_of(released, scores, facts)
        rows = None if self.tuning_fraction is None else order[trained + scored :]
        finals = [candidate.prepared[1] for candidate in candidates]
        model = job.fit_one(finals, best, rows)
        return Choice(best, model, float(scores[best]), scores, np.array(errors))


# -------------------------------------------- RandomStopping: a secret number of trials


_STOPPING_VALIDATION = 0.1
# The law of the number of trials is cut off at this multiple of its mean; the second
# multiple holds if this many trials always run.
_CUT, _CUT_IF_FIXED = 6, 2
_MOST = float(MOST_TRIALS)


@dataclass(frozen=True, kw_only=True)
class RandomStopping(Method):
    """Release the best of a secret number of trials of random candidates.

    A trial draws a candidate from the grid, with replacement, fits it on all records
    outside of a validation set, and scores it there with noise. The model with the best
    noisy score is released unchanged.

    Privacy
    -------
    A trial is mu-GDP, or pure: a record is either in the fit or in the score.
    ``docs/proofs/accounting.md`` derives the cost of the release, which does not
    depend on the number of candidates. The number of trials, and everything that would
    reveal it, stays secret, except for the running time unless `fixed_duration` is set.

    Utility
    -------
    The released model has about two thirds of the mu of a fit without a search (half
    of epsilon if delta is 0), and among equal candidates the luckiest noise wins.

    Parameters
    ----------
    family : {"negative_binomial", "poisson"}, default="negative_binomial"
        Distribution of the number of trials. "poisson" may draw 0 trials, and then a
        fixed default model is returned; it is not for delta = 0.
        shape : float in [-0.9, 10] or None, default=None
        Shape of the negative binomial distribution. A smaller shape costs less and
        varies more. None: 1 (geometric), or 0 (logarithmic) if delta is 0.
        mean_trials : float or None, default=None
        Mean of the distribution before its cut-off. None: the number of candidates.
    max_trials : int or None, default=None
        Cut-off. None: 6 times the mean, or twice the mean with `fixed_duration`.
    fixed_duration : bool, default=False
        Always run `max_trials` trials and use only as many as were drawn, so that the
        running time does not reveal their number.
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
        # The largest possible number of trials; the actual number is not released.
        return (Line(self.max_trials, law=facts.law),)

    def needs(self, noise_multiplier: float, facts: SearchFacts) -> tuple[Need, ...]:
        scored = validation_size(facts, facts.n_samples, _STOPPING_VALIDATION)
        return (Need(facts.n_samples - scored, strength(noise_multiplier, facts)),)

    def score_deviation(self, noise_multiplier: float, facts: SearchFacts) -> float:
        scored = validation_size(facts, facts.n_samples, _STOPPING_VALIDATION)
        return deviation(1, scored, noise_multiplier, facts)

    def run(
        self,
        job: SearchJob,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        scored = validation_size(facts, facts.n_samples, _STOPPING_VALIDATION)
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


# ------------------------------------- HeldOut: a fit, and a statistic on other records


# Share of the records that is held out by default.
_HELD_OUT = 0.2


@dataclass(frozen=True, kw_only=True)
class HeldOut(Method):
    """Fit on most records with the whole budget; ask once about the others.

    Privacy
    -------
    The held-out records are drawn without looking at the data. A record is either in
    the fit or in the query, so that each part gets the whole budget (parallel
    composition, ``docs/proofs/scores.md``): for a record in the fit, the answer
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
        job: SearchJob,
        answers: Answers,
        candidates: tuple[Candidate, ...],
        facts: SearchFacts,
    ) -> Choice:
        held_out = self._held_out(facts)
        order = job.draws.permutation(facts.n_samples)
        split = Split(order[held_out:], order[:held_out])
        (candidate,) = candidates
        (trial,) = job.fit_and_score([candidate.prepared[0]], [split], say=True)
        released = answers.ask(scores_of([trial.number], facts))
        return Choice(
            0,
            trial.model,
            math.nan,
            statistic=released.value,
            deviation=released.deviation,
        )


# ---------------------------------------- Registry of methods, and the automatic choice
# A key has the same name everywhere: in this table, its test
# ``tests/model_selection/test_<key>.py``, its section in ``docs/guide/scores.md``,
# and its rows in the benchmark of searches.


# Keys of skdp, for type checkers; a test holds them to be those of the registry.
MethodName = Literal["auto", "composition", "disjoint_splits", "random_stopping"]
METHODS: Registry[type[Method]] = Registry(
    "skdp.search_methods",
    {"composition": Composition, "random_stopping": RandomStopping},
)
# Up to this number a fit of a candidate has a tenth of the final fit's mu.
_FEW_CANDIDATES = 36


@dataclass(frozen=True)
class ChosenMethod:
    """A planned method, and the reason for its choice."""

    method: Method
    reason: str


def choose_method(
    key: str, params: Mapping[str, Any] | None, facts: SearchFacts
) -> ChosenMethod:
    """The method that a user named, or the best method by public facts.

    Raises `ValueError` or `TypeError` if the key or a parameter is wrong, or the method
    refuses the search.
    """
    check_choice("method", key, ["auto", *METHODS])
    if key == "auto":
        if params:
            raise ValueError(
                "The 'method_params' parameter must be None with method='auto'. Got a "
                f"mapping. Name the method: one of {list(METHODS)}."
            )
        return _automatic(facts)
    given = _given(key, params)
    return ChosenMethod(METHODS[key].planned(given, facts), "named by the user")


def _given(key: str, params: Mapping[str, Any] | None) -> Given:
    """The checked parameters of ``method=key, method_params=params``."""
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(
            "The 'method_params' parameter must be None or a mapping. "
            f"Got an instance of {type(params).__name__}."
        )
    allowed = [field.name for field in fields(METHODS[key])]
    unknown = sorted(str(name) for name in params or {} if name not in allowed)
    if unknown:
        raise ValueError(
            f"The 'method_params' of method={key!r} must be among {allowed}. Got "
            f"{unknown}. What a search costs follows from epsilon, delta and adjacency."
        )
    return checked_params(METHODS[key], params or {})


def _automatic(facts: SearchFacts) -> ChosenMethod:
    """The automatic choice; docs/guide/scores.md has the measurements behind it."""
    if facts.is_pure and facts.n_candidates > 1:
        reason = "delta=0: half of epsilon for the model, however many candidates"
        return ChosenMethod(RandomStopping.planned({}, facts), reason)
    if facts.n_candidates <= _FEW_CANDIDATES:
        reason = "few candidates: most of the budget is left for a fit of all records"
        return ChosenMethod(Composition.planned({}, facts), reason)
    if facts.has_ledger:
        reason = "a ledger adds up Gaussian noise without loss"
        return ChosenMethod(Composition.planned({}, facts), reason)
    reason = "many candidates: its cost does not grow with their number"
    return ChosenMethod(RandomStopping.planned({}, facts), reason)
