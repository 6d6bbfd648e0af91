"""Exact audits: one transcript, replayed on a neighbouring table."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.audit._models import fitted, fresh
from skdp.audit._neighbours import Neighbours, Side
from skdp.audit._result import EpsilonBound, epsilon_of_mu
from skdp.privacy.accounting._events import Event, PureEvent
from skdp.privacy.accounting._relations import Relation
from skdp.privacy.noise._laws import Choices
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers, View
from skdp.privacy.release._plan import Buckets, Everyone, Line, Plan

# --------------------------------------------------- Exact audits: replayed transcripts
# Nothing is sampled. The first run records every call of the noise source: the exact
# query, its sensitivity, multiplier and law, and the line of the plan that it belongs
# to. The second run, on a neighbour, gets the same releases, orders and samples. The
# difference between the two answers then has an exact cost, without a confidence
# interval:
#
# - Gaussian noise: ``|q - q'|^2 / sigma^2``, a mu^2;
# - spherical and Laplace noise: ``|q - q'| / scale`` in L2 and in L1, an epsilon;
# - choices: the range over the candidates of the difference of the log-weights, or of
#   pure ones the largest log-ratio of their enumerated laws.
#
# If the sum of costs is the same for every transcript, it is the truth for the pair. If
# it varies, the largest must be within the charge, which is the premise of the
# composition theorem and is tested; the smallest is reported as attained.
# tests/privacy/test_noise.py and tests/privacy/test_selection_noise.py test the laws of
# the noise themselves.
#
# A transcript holds secrets: it is only for synthetic or sacrificed tables.


CHOICES = ("exponential_mechanism", "permute_and_flip", "signed_choice", "top_k")


@dataclass(frozen=True)
class Share:
    """The charge of a line of a plan for one of its answers.

    Parameters
    ----------
    place : tuple of int
        Numbers of lines, from the outermost plan inwards.
    line : Line
    multiplier : float
        Noise multiplier of the line, from the event in the ledger.
    opened : int, default=0
        Number of the plan, if several plans are committed one after another.
    """

    place: tuple[int, ...]
    line: Line
    multiplier: float
    opened: int = 0

    @property
    def cost(self) -> float:
        """mu^2 of Gaussian noise, epsilon of other laws, range of a choice."""
        if isinstance(self.line.law, Choices):
            epsilon: float = self.line.law.epsilon(self.multiplier)
            return epsilon
        power = -1.0 if self.line.law.is_pure else -2.0
        return float(self.multiplier**power)

    @property
    def is_squared(self) -> bool:
        """Whether costs are squares, whose roots are compared."""
        return not isinstance(self.line.law, Choices) and not self.line.law.is_pure

    @property
    def whole(self) -> float:
        """Charge for all answers of the line; disjoint buckets pay once."""
        times = 1 if isinstance(self.line.sample, Buckets) else self.line.times
        return times * self.cost

    def ratio(self, found: float, charged: float) -> float:
        """Ratio of costs, as mu or as epsilon."""
        return math.sqrt(found / charged) if self.is_squared else found / charged

    def as_mu_squared(self, found: float) -> float:
        """A cost as mu^2, as the events convert it."""
        if self.is_squared:
            return found
        if found <= 0:
            return 0.0
        is_choice = isinstance(self.line.law, Choices)
        return PureEvent(found / 2 if is_choice else found).gdp_mu_squared


@dataclass(frozen=True)
class NoiseCall:
    """One call to the noise source."""

    share: Share
    law: str
    query: FloatArray
    sensitivity: float
    multiplier: float
    released: Any
    rows: Any = None  # that the secret sample drew
    noisy: Any = 1.0  # 0 where a planted bug leaves the noise out

    @property
    def facts(self) -> tuple[Share, str, float, float]:
        """Facts that must be equal on the neighbour."""
        return self.share, self.law, self.sensitivity, self.multiplier

    @property
    def sigma(self) -> float:
        """Scale given to the noise source, which adds rounding to it."""
        return self.sensitivity * self.multiplier

    @property
    def times(self) -> int:
        """Number of the line's answers that the call uses up."""
        return len(self.released) if self.law == "top_k" else 1


@dataclass
class Replay:
    """A noise source that records its calls, or repeats another's releases.

    It is an `Auditor`: doors opened within ``audited_by(replay)`` answer with it.

    Parameters
    ----------
    seed : int
    heard : Replay or None, default=None
        The transcript whose releases are repeated.
    shrink : float, default=1.0
        Plants a bug: factor of the noise.
    is_bare : bool, default=False
        Plants a bug: the last entry of every query, which is the intercept's, leaves
        without noise.
    absent : int or None, default=None
        The record that is made null.

    Attributes
    ----------
    asked : list of NoiseCall
        Private.
    committed : list of (Plan, Event)
    """

    seed: int
    heard: Replay | None = None
    shrink: float = 1.0
    is_bare: bool = False
    absent: int | None = None
    asked: list[NoiseCall] = field(default_factory=list)
    committed: list[tuple[Plan, Event]] = field(default_factory=list)
    is_private = True

    def __post_init__(self) -> None:
        self._noise = NoiseSource(self.seed)
        # Orders and samples are the same in all runs; for secret ones the attacker
        # chooses one.
        self._secret = NoiseSource(0)
        self.here: Any = None
        self._rows: Any = None
        self.opened = 0

    def noise(self, seed: int | None) -> Replay:
        """The object itself, whatever the seed."""
        return self

    def answers(self, plan: Plan, source: Any, grant: Grant, noise: Any) -> Any:
        """Answers that are recorded."""
        self.committed.append((plan, grant.event))
        return MarkedAnswers(plan, without(source, self.absent), grant, self)

    def _next(
        self,
        law: str,
        query: Any,
        sensitivity: float,
        multiplier: float,
        release: Callable[[float], Any],
    ) -> Any:
        multiplier = multiplier * self.shrink
        if self.heard is None or len(self.asked) >= len(self.heard.asked):
            released = release(multiplier)
        else:
            released = self.heard.asked[len(self.asked)].released
        kept = query.scores if law == "signed_choice" else query
        noisy: Any = 1.0
        if self.is_bare and law not in CHOICES:
            noisy = np.ones_like(query)
            noisy[-1] = 0.0
            if self.heard is None:
                released = np.where(noisy > 0, released, query)
        asked = NoiseCall(
            self.here,
            law,
            np.array(kept, dtype=float),
            float(sensitivity),
            multiplier,
            released,
            self._rows,
            noisy,
        )
        self.asked.append(asked)
        self._rows = None
        return released

    def gaussian(
        self,
        query: Any,
        *,
        sensitivity: float,
        noise_multiplier: float,
        fine: bool = False,
    ) -> Any:
        def release(multiplier: float) -> Any:
            return self._noise.gaussian(
                query, sensitivity=sensitivity, noise_multiplier=multiplier, fine=fine
            )

        return self._next("gaussian", query, sensitivity, noise_multiplier, release)

    def spherical(
        self, query: Any, *, sensitivity: float, epsilon: float, fine: bool = False
    ) -> Any:
        def release(multiplier: float) -> Any:
            return self._noise.spherical(
                query, sensitivity=sensitivity, epsilon=1 / multiplier, fine=fine
            )

        return self._next("spherical", query, sensitivity, 1 / epsilon, release)

    def _chosen(
        self, law: str, scores: Any, *k: int, sensitivity: float, epsilon: float
    ) -> Any:
        def release(multiplier: float) -> Any:
            facts = {"sensitivity": sensitivity, "epsilon": 1 / multiplier}
            return getattr(self._noise, law)(scores, *k, **facts)

        return self._next(law, scores, sensitivity, 1 / epsilon, release)

    laplace = partialmethod(_chosen, "laplace")
    top_k = partialmethod(_chosen, "top_k")
    permute_and_flip = partialmethod(_chosen, "permute_and_flip")
    exponential_mechanism = partialmethod(_chosen, "exponential_mechanism")
    signed_choice = partialmethod(_chosen, "signed_choice")

    def permutation(self, n: int) -> Any:
        """The same in all runs."""
        return self._secret.permutation(n)

    def subset(self, n: int, size: int) -> Any:
        """The same in all runs."""
        self._rows = self._secret.subset(n, size)
        return self._rows

    def poisson_sample(self, n: int, rate: float) -> Any:
        """The same in all runs."""
        self._rows = self._secret.poisson_sample(n, rate)
        return self._rows

    def integers(self, n: int, size: int) -> Any:
        """The same in all runs."""
        return self._secret.integers(n, size)

    def weighted_index(self, weights: Any) -> Any:
        """The same in all runs."""
        return self._secret.weighted_index(weights)


@dataclass(frozen=True)
class NullRecord:
    """An auditor that makes one record null, or none, and changes nothing else.

    Audited fits record nothing, even if a ledger is hidden somewhere in them.
    """

    row: int | None = None

    def noise(self, seed: int | None) -> NoiseSource:
        """The noise of a fit without an audit."""
        return NoiseSource(seed)

    def answers(self, plan: Plan, source: Any, grant: Grant, noise: Any) -> Any:
        """The answers of a fit without an audit, with one record null."""
        return LocalAnswers(plan, without(source, self.row), grant, noise)


class MarkedAnswers(LocalAnswers):
    """Answers that give a `Replay` the line of each of its calls."""

    place: tuple[int, ...] = ()

    def __init__(self, plan: Plan, source: Any, grant: Grant, noise: Any) -> None:
        super().__init__(plan, source, grant, noise)
        self.opened, noise.opened = noise.opened, noise.opened + 1

    def _take(self, line: int, times: int = 1) -> None:
        super()._take(line, times)
        taken = self._plan.lines[line]
        self._last = (*self.place, line)
        if isinstance(taken, Line):
            multiplier = taken.multiplier(self.noise_multiplier)
            here = Share(self._last, taken, multiplier, self.opened)
            self._noise.here = here  # type: ignore[attr-defined]  # a Replay

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> MarkedAnswers:
        source = self._source if view is None else view(self._source)
        part = MarkedAnswers(plan, source, grant, self._noise)
        part.place, part.opened = self._last, self.opened
        return part


def marked(
    plan: Plan, source: Any, multiplier: float, relation: Relation, noise: Replay
) -> MarkedAnswers:
    """Marked answers with noise of a given multiplier, without a ledger."""
    grant = Grant(plan.event(multiplier, relation), multiplier, relation)
    return MarkedAnswers(plan, source, grant, noise)


def without(source: Any, row: int | None) -> Any:
    """The records, one of them made null."""
    if row is None:
        return source
    if hasattr(source, "without"):
        return source.without(row)
    raise TypeError(
        "A null record must be one of a table of rows. Got another source. Pass "
        "neighbour, a table in which that record contributes nothing."
    )


def replayed(
    run: Callable[[Any, Replay], Any], pair: Sequence[Any], seed: int, **bugs: Any
) -> tuple[list[NoiseCall], list[NoiseCall], list[Any]]:
    """Both transcripts of a run on a pair of neighbours, and both results.

    Raises
    ------
    AssertionError
        If arguments of the noise source other than queries depend on the data.
    """
    first = Replay(seed, **bugs)
    second = Replay(seed, heard=first, **bugs)
    with np.errstate(all="ignore"):  # as `solve` does
        results = [run(x, y) for x, y in zip(pair, (first, second), strict=True)]
    for a, b in zip(first.asked, second.asked, strict=True):
        assert a.facts == b.facts, "what was handed on depends on the data"
    return first.asked, second.asked, results


def told_apart(a: NoiseCall, b: NoiseCall) -> float:
    """The exact cost of one answer, as the top of this section explains."""
    if a.law in ("exponential_mechanism", "permute_and_flip"):
        return float(np.abs(np.log(_law(a) / _law(b))).max())
    if a.law in CHOICES:
        return _range(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = (a.query - b.query) / (a.sigma * a.noisy)
    if np.isinf(change).any():  # without noise
        return math.inf
    change = np.nan_to_num(change)
    change, size = change.ravel(), 1 if a.law == "laplace" else 2
    norm = float(np.linalg.norm(change, ord=size))
    return norm**2 if a.law == "gaussian" else norm


def _range(a: NoiseCall, b: NoiseCall) -> float:
    """Sum of the ranges of the selections that one call makes, one after another."""
    moved = (a.query - b.query) / (2 * a.sigma)
    if a.law == "signed_choice":
        return 2 * float(np.abs(moved).max())
    left, total = np.ones(len(moved), dtype=bool), 0.0
    for chosen in np.atleast_1d(a.released):
        total += float(np.ptp(moved[left]))
        left[chosen] = False
    return total


def _law(asked: NoiseCall) -> Any:
    """Probabilities of a pure choice among few candidates, over all their orders."""
    accepted = np.exp((asked.query - asked.query.max()) / (2 * asked.sigma))
    if asked.law == "exponential_mechanism":
        return accepted / accepted.sum()
    chances = np.zeros_like(accepted)
    for order in itertools.permutations(range(len(accepted))):
        left = 1.0
        for i in order:
            chances[i] += left * accepted[i]
            left *= 1 - accepted[i]
    return chances / chances.sum()


@dataclass
class LineCosts:
    """Costs of the answers of a line, one by one, on one replayed transcript.

    Parameters
    ----------
    share : Share
        Of the line's last answer.
    found : list of float
        Measured costs.
    paid : list of float
        Charges.
    times : int
        Number of answers that were used up.
    """

    share: Share
    found: list[float] = field(default_factory=list)
    paid: list[float] = field(default_factory=list)
    times: int = 0

    @property
    def over(self) -> float:
        """Largest ratio of an answer's cost to its charge."""
        return max(map(self.share.ratio, self.found, self.paid))

    @property
    def charged(self) -> float:
        """Charge for all answers; disjoint buckets pay once."""
        one_bucket = isinstance(self.share.line.sample, Buckets)
        return self.paid[-1] if one_bucket else sum(self.paid)


def line_costs(
    first: Sequence[NoiseCall], second: Sequence[NoiseCall]
) -> list[LineCosts]:
    """Costs of all lines, compared call by call."""
    lines: dict[tuple[int, ...], LineCosts] = {}
    for a, b in zip(first, second, strict=True):
        place = (a.share.opened, *a.share.place)
        line = lines.setdefault(place, LineCosts(a.share))
        line.found.append(told_apart(a, b))
        line.paid.append(a.times * a.share.cost)
        line.share, line.times = a.share, line.times + a.times
    return list(lines.values())


@dataclass(frozen=True)
class Verdict:
    """Costs of one replayed transcript, over their charges.

    Parameters
    ----------
    lines : dict of float
        By place in the plan: ratio of mu, or of epsilon.
    answers : float
        Largest ratio of an answer to its share.
    total : float
        Ratio of all costs to the event in the ledger.
    """

    lines: dict[tuple[int, ...], float]
    answers: float
    total: float

    @property
    def largest(self) -> float:
        """The largest ratio, which must be at most 1."""
        return max(self.answers, self.total, *self.lines.values())


def verdict(
    first: Sequence[NoiseCall], second: Sequence[NoiseCall], event: Event
) -> Verdict:
    """Compare both transcripts with the shares of the lines, and with the event."""
    each = line_costs(first, second)
    for line in each:
        assert line.times == line.share.line.times, "a line was not used up"
    lines = {
        line.share.place: line.share.ratio(sum(line.found), line.share.whole)
        for line in each
    }
    worst = max((line.over for line in each), default=0.0)
    # Epsilons add up if all laws are pure.
    if event.mu_squared == 0 == event.box_delta and event.pure_epsilon > 0:
        total = sum(sum(line.found) for line in each) / event.pure_epsilon
        return Verdict(lines, worst, total)
    # Each answer separately: several picks of a line add up in squares of mu.
    squares = sum(
        line.share.as_mu_squared(cost) for line in each for cost in line.found
    )
    return Verdict(lines, worst, math.sqrt(squares / event.gdp_mu_squared))


# ------------------------------------------------------- White-box audits of estimators
# An audit compares the queries that a fit hands to its noise with those of a neighbour.
# Epsilon follows exactly if all answers are Gaussian and of all records, and leave one
# by one: their squares add up to mu^2, and epsilon at delta has a closed form. If every
# transcript has at least the cost M^2, the release is no more private than M-GDP: an
# attacker may stop listening at M^2. If all noise is pure and delta is 0, epsilons add
# up.


_TRANSCRIPTS = 3
# Number of pairs of neighbours that get all transcripts, chosen by one transcript each.
_TRIED = 4
# Sums whose relative difference is at most this count as equal.
_ROUNDING = 1e-6
_FROM_MODELS = "Use access='model'."


@dataclass(frozen=True)
class TranscriptVerdict:
    """Results of transcripts on one pair of neighbours.

    Parameters
    ----------
    pair : Neighbours
    cost : float
        Least cost of several transcripts: mu^2, or epsilon of pure noise.
    is_same : bool
        Whether all transcripts have the same cost, which is then the truth.
    is_pure : bool
    parts : dict of str to tuple of float
        By line of the plan: measured and charged mu or epsilon.
    over : float
        Largest ratio of measured to charged cost of any answer; above 1 refutes.
    leak : str
        An argument of the noise other than queries that differs between neighbours.
    """

    pair: Neighbours
    cost: float
    is_same: bool
    is_pure: bool
    parts: dict[str, tuple[float, float]]
    over: float
    leak: str = ""

    def bound(self, delta: float) -> EpsilonBound:
        """The epsilon at delta that these neighbours attain."""
        if self.is_pure:
            epsilon = self.cost
        elif delta == 0 and self.cost > 0:
            epsilon = math.inf
        else:
            epsilon = epsilon_of_mu(math.sqrt(self.cost), delta)
        rest = f"no transcript tells less than the {_TRANSCRIPTS} tried"
        return EpsilonBound(
            method="transcript",
            epsilon=epsilon,
            confidence=1.0,
            assumption="" if self.is_same else rest,
            is_main=True,
        )


def told_by_transcripts(
    estimator: Any, pairs: list[Neighbours], say: Callable[[str], None]
) -> tuple[TranscriptVerdict, int]:
    """The pair that is easiest to tell apart, and the number of fits.

    Raises
    ------
    ValueError
        If the estimator does not use the noise of skdp, or its calls have no closed
        form.
    """
    once = []
    for number, pair in enumerate(pairs, start=1):
        once.append(_told(estimator, pair, 1))
        say(f"transcripts: {number} of {len(pairs)} pairs of neighbours")
    best = sorted(once, key=lambda told: told.cost, reverse=True)[:_TRIED]
    again = [_told(estimator, told.pair, _TRANSCRIPTS) for told in best]
    n_fits = 2 * (len(once) + _TRANSCRIPTS * len(again))
    return max(again, key=lambda told: told.cost), n_fits


def _told(estimator: Any, pair: Neighbours, n_transcripts: int) -> TranscriptVerdict:
    several = [_compared(estimator, pair, seed) for seed in range(n_transcripts)]
    if any(x.leak for x in several):
        return next(x for x in several if x.leak)
    least = min(several, key=lambda told: told.cost)
    most = max(told.cost for told in several)
    return TranscriptVerdict(
        pair,
        least.cost,
        most - least.cost <= _ROUNDING * most,
        least.is_pure,
        least.parts,
        max(told.over for told in several),
    )


def _compared(estimator: Any, pair: Neighbours, seed: int) -> TranscriptVerdict:
    """One transcript, replayed on the neighbour."""
    first = _heard(estimator, pair.sides[0], Replay(seed))
    is_pure = _check_closed(first)
    second = _heard(estimator, pair.sides[1], Replay(seed, heard=first))
    leak = _leak(first.asked, second.asked)
    if leak:
        return TranscriptVerdict(pair, math.inf, True, is_pure, {}, math.inf, leak)
    each = line_costs(first.asked, second.asked)
    root: Callable[[float], float] = float if is_pure else math.sqrt
    parts = {
        _place(line.share): (root(sum(line.found)), root(line.charged)) for line in each
    }
    total = sum(sum(line.found) for line in each)
    over = max(line.over for line in each)
    return TranscriptVerdict(pair, total, True, is_pure, parts, over)


def _heard(estimator: Any, side: Side, replay: Replay) -> Replay:
    X, y, replay.absent, ids = side
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted(fresh(estimator), X, y, replay, ids)
    return replay


def _leak(first: list[NoiseCall], second: list[NoiseCall]) -> str:
    if len(first) != len(second):
        return "the number of answers"
    if any(a.facts != b.facts for a, b in zip(first, second, strict=True)):
        return "the size of the noise"
    return ""


def _place(share: Share) -> str:
    numbers = (share.opened, *share.place)
    return "line " + ".".join(str(number) for number in numbers)


def _check_closed(heard: Replay) -> bool:
    """True if all noise is pure, False if all is Gaussian; raises for anything else."""
    if not heard.asked:
        raise ValueError(
            "The estimator must release something by the noise of skdp for "
            f"access='transcript'. Got none of it. {_FROM_MODELS}"
        )
    plans = [plan for plan, _ in heard.committed]
    if any(_declares(plan) for plan in plans):
        raise ValueError(
            "All that is released must be seen for access='transcript'. Got a plan "
            "with hidden answers, or with a cost of its own (objective perturbation, "
            f"a search). {_FROM_MODELS}"
        )
    lines = [asked.share.line for asked in heard.asked]
    if any(not isinstance(line.sample, (Everyone, Buckets)) for line in lines):
        raise ValueError(
            "Answers must be of all records for access='transcript'. Got secret "
            f"samples. {_FROM_MODELS}"
        )
    if any(isinstance(line.law, Choices) for line in lines):
        raise ValueError(
            "Answers must be numbers for access='transcript'. Got private choices. "
            f"{_FROM_MODELS}"
        )
    kinds = {asked.share.is_squared for asked in heard.asked}
    if len(kinds) > 1:
        raise ValueError(
            "Answers must be all Gaussian or all pure for access='transcript'. Got "
            f"both. {_FROM_MODELS}"
        )
    return not kinds.pop()


def _declares(plan: Plan) -> bool:
    return plan.declared is not None or any(
        getattr(line, "is_hidden", False)
        or (hasattr(line, "plan") and _declares(line.plan))
        for line in plan.lines
    )
