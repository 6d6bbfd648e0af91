"""`audit_estimator`: many fits that try to refute a privacy claim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray
from skdp._base import PrivateEstimator
from skdp._checks import (
    check_bool,
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_real,
)
from skdp._fit import Progress
from skdp.audit._exact import told_by_transcripts
from skdp.audit._models import can_be_seeded, deep_value, louder, refuse_ledgers
from skdp.audit._neighbours import (
    Neighbours,
    chosen_neighbours,
    chosen_users,
    declared_ids,
    given_neighbours,
    given_users,
)
from skdp.audit._result import (
    AuditResult,
    Claim,
    EpsilonBound,
    Finding,
    epsilon_of_event,
    epsilon_of_halves,
    epsilon_of_mu,
    epsilon_of_thresholds,
    mu_of_pairs,
    mu_of_samples,
)
from skdp.audit._runs import FitJob, Outputs, Runs, Tally, gathered, many
from skdp.audit._statistics import (
    LinearScore,
    Noiseless,
    ScoreEvent,
    bound_by,
    distance,
    learned_event,
    learned_score,
    low_bits_differ,
    noiseless,
    repeats,
)
from skdp.pipeline._report import privacy_report
from skdp.privacy.accounting._events import needs_no_delta
from skdp.privacy.accounting._relations import (
    ADJACENCIES,
    RELATIONS,
    adjacency_of,
    is_of_users,
)
from skdp.privacy.release._record import PrivacyRecord

# ------------------------------------- SampledVerdict: evidence of runs against a claim
# Everything is chosen on one half of the runs and tested on the other half.


# All tests together refute a true claim with less than this probability.
WRONG = 1e-6
_TESTS = 6
# Quantiles of the first half's scores that are tried as thresholds.
_CUTS = (0.25, 0.5, 0.75, 0.9)
# Scores do not count as Gaussian if they are less probable than this for Gaussian
# scores.
_NOT_GAUSSIAN = 1e-5
# Error of the bounds by which the main bound is chosen.
_SURE = 0.05
_GAUSSIAN = "the scores are Gaussian and of one variance"
_SEEDED = "a seed changes no distribution"


class SampledVerdict:
    """Evidence against a claim: chosen on one half of the runs, tested on the other.

    Parameters
    ----------
    claim : Claim
    learned : pair of Runs
        On both data sets, to learn from, with fresh noise.
    tests : pair of Runs
    n_samples : int
        Records of either data set.
    change : pair of Runs or None
        Runs with next to no noise between them.
    where : str
        What these are, in words.
    is_paired : bool
        Whether test runs come in pairs of one seed.
    """

    def __init__(
        self,
        claim: Claim,
        learned: tuple[Runs, Runs],
        tests: tuple[Runs, Runs],
        *,
        n_samples: int,
        change: tuple[Runs, Runs] | None,
        where: str,
        is_paired: bool,
    ) -> None:
        self._claim, self._is_paired = claim, is_paired
        self._learned, self._tests, self._n_samples = learned, tests, n_samples
        self._score: LinearScore | None = learned_score(*learned, change, where)
        self._still: list[Noiseless] = noiseless(*learned)
        self._event: ScoreEvent | None = learned_event(*learned)
        self._cuts: tuple[float, ...] = (0.0,)
        self._is_gaussian = False
        self._main = ""
        self.scores = np.empty(0), np.empty(0)
        if self._score is not None:
            scores = [self._score.of(runs) for runs in learned]
            self._cuts = tuple(np.quantile(np.concatenate(scores), _CUTS))
            self.scores = self._score.of(tests[0]), self._score.of(tests[1])
            # For pairs, the other side's scores repeat the same evidence.
            self._is_gaussian = _look_gaussian([*scores, self.scores[0]])
            self._main = self._chosen(*scores)

    def _chosen(self, inside: FloatArray, outside: FloatArray) -> str:
        """The best bound on the runs of the first half."""
        if self._still or self._is_gaussian or self._event is None:
            return ""
        delta = self._claim.delta
        free = epsilon_of_thresholds(inside, outside, self._cuts, delta, _SURE)
        event = bound_by(self._event, *self._learned, delta, _SURE)
        return "learned event" if event > free else "thresholds"

    @property
    def what(self) -> str:
        """The score in words."""
        if self._score is None:
            return "none: no output varies"
        shared = "; fits in pairs of one seed" if self._is_paired else ""
        return f"linear read-out, {self._score.what}{shared}"

    def bounds(self, error: float) -> tuple[EpsilonBound, ...]:
        """All bounds, each with its error; the main one is chosen without the test."""
        if self._score is None and not self._still:
            return ()
        found = {
            "event": self._by_event,
            "gaussian": self._by_gaussian,
            "thresholds": self._by_thresholds,
            "learned event": self._by_learned_event,
        }
        if not self._still:
            del found["event"]
        # Without noise no score is Gaussian, whatever its shape.
        if self._still or not self._is_gaussian:
            del found["gaussian"]
        if self._score is None:
            found = {"event": found["event"]}
        main = self._main if self._main in found else next(iter(found))
        return tuple(
            EpsilonBound(
                method=name,
                epsilon=bound(error),
                confidence=1 - error,
                assumption=self._assumption(name),
                is_main=name == main,
            )
            for name, bound in found.items()
        )

    def _assumption(self, method: str) -> str:
        rests_on = [_GAUSSIAN] if method == "gaussian" else []
        return ", and ".join(rests_on + [_SEEDED] * self._is_paired)

    def _by_event(self, error: float) -> float:
        still = self._still[0]
        seen = [int(np.sum(still.holds(runs))) for runs in self._tests]
        n, m = map(len, self._tests)
        return epsilon_of_event(seen[0], n, seen[1], m, self._claim.delta, error)

    def _by_learned_event(self, error: float) -> float:
        if self._event is None:
            return 0.0
        return bound_by(self._event, *self._tests, self._claim.delta, error)

    def _by_gaussian(self, error: float) -> float:
        mu_of = mu_of_pairs if self._is_paired else mu_of_samples
        mu, delta = mu_of(*self.scores, error), self._claim.delta
        if self._claim.is_gaussian:
            return epsilon_of_mu(mu, delta)
        return epsilon_of_halves(mu, delta)

    def _by_thresholds(self, error: float) -> float:
        delta = self._claim.delta
        return epsilon_of_thresholds(*self.scores, self._cuts, delta, error)

    def findings(self) -> tuple[Finding, ...]:
        """Irregular findings; each test has its share of the error."""
        return (
            *self._epsilon_finding(),
            *self._still_finding(),
            *self._repeat_findings(),
            *self._bits_finding(),
        )

    def _epsilon_finding(self) -> Iterator[Finding]:
        if self._score is None:
            return
        error, claimed = WRONG / _TESTS, self._claim.epsilon
        found = {
            "by thresholds": self._by_thresholds(error),
            "by an event": self._by_learned_event(error),
        }
        if self._is_gaussian and not self._still:
            found[f"if {_GAUSSIAN}"] = self._by_gaussian(error)
        for how, epsilon in found.items():
            if epsilon > claimed:
                text = f"epsilon is at least {epsilon:.3g} {how}; claimed {claimed:g}"
                yield Finding(kind="epsilon", message=text, refutes=True)

    def _still_finding(self) -> Iterator[Finding]:
        if not self._still:
            return
        epsilon = self._by_event(WRONG / _TESTS)
        names = ", ".join(still.what for still in self._still[:5])
        more = len(self._still) - 5
        text = (
            f"without noise, and different on the neighbour: {names}"
            + (f" and {more} more" if more > 0 else "")
            + f"; epsilon is at least {epsilon:.3g}, infinite if it is always so"
        )
        is_sure = epsilon > self._claim.epsilon
        yield Finding(kind="noiseless", message=text, refutes=is_sure)

    def _repeat_findings(self) -> Iterator[Finding]:
        for runs, name in zip(
            self._learned, ("the data", "the neighbour"), strict=True
        ):
            pairs, chance = repeats(runs)
            if chance < WRONG / _TESTS / 2:
                text = (
                    f"{pairs} pairs of {len(runs)} fits on {name} are the same to the "
                    "last bit: the noise is drawn from few seeds"
                )
                yield Finding(kind="repeats", message=text, refutes=True)

    def _bits_finding(self) -> Iterator[Finding]:
        columns = low_bits_differ(*self._learned, self._n_samples)
        if columns:
            names = ", ".join(columns[:5])
            text = (
                "the last bits are the same in all fits, and differ on the neighbour: "
                f"{names}; the noise has fewer digits than the sum that it hides"
            )
            yield Finding(kind="low_bits", message=text, refutes=True)


def _look_gaussian(several: list[FloatArray]) -> bool:
    """Whether samples, each moved and scaled to the same, look Gaussian together.

    The shape of Gaussian samples is independent of their means and deviations (Basu),
    so this test does not change the validity of bounds on either.
    """
    # Imported here, because scipy.stats takes half a second.
    from scipy.stats import normaltest

    if any(np.ptp(scores) == 0 for scores in several):
        return False
    scaled = [(x - np.mean(x)) / np.std(x) for x in several]
    return bool(normaltest(np.concatenate(scaled)).pvalue > _NOT_GAUSSIAN)


# --------------------------------------------------- Choice of neighbours by a few fits
# The effect of one record is seen best if both sides have the same noise: in fits with
# one seed, or without seeds in fits with so large a budget that there is next to no
# noise. Divided by the covariance of some ordinary fits, this effect is the distance of
# the two data sets as an attacker sees it.


# Pairs of fits with one seed, for each candidate and for the chosen pair.
_FEW, _MANY = 3, 12
# Factor of a budget that shows the effect of a record.
_LOUDER = 1e3

Sides = tuple[list[Outputs], list[Outputs]]


def best_pair(
    estimator: Any,
    pairs: list[Neighbours],
    seeds: Iterator[int],
    say: Callable[[str], None],
) -> tuple[Neighbours, Sides | None, str]:
    """The neighbours that are easiest to tell apart, by a few fits on each pair.

    Returns
    -------
    pair : Neighbours
    change : pair of lists of Outputs, or None
        Models of both sides with as little noise between them as possible.
    where : str
        Fits that `change` comes from.
    """
    change: Callable[[Neighbours, int], Sides | None] = partial(_loud, estimator)
    where = "difference of two fits of a large budget"
    if can_be_seeded(estimator):
        change = partial(_of_one_seed, estimator, seeds)
        where = "difference of fits of one seed"
    noise: Sides = ([], [])
    changes: list[Sides | None] = []
    for number, pair in enumerate(pairs, start=1):
        job = FitJob(estimator, pair)
        for side, shown in enumerate(noise):
            shown.append(job.outputs(side))
        changes.append(change(pair, _FEW))
        say(f"{number} of {len(pairs)} pairs of neighbours tried")
    best = pairs[int(np.argmax(_distances(noise, changes)))]
    return best, change(best, _MANY), where


def _distances(noise: Sides, changes: list[Sides | None]) -> list[float]:
    """Distance for each candidate, 0.0 where nothing is known."""
    known = [sides for sides in changes if sides is not None]
    runs = gathered([*noise, *(side for sides in known for side in sides)])
    found = iter(zip(runs[2::2], runs[3::2], strict=True))
    return [
        0.0 if sides is None else distance(runs[0], runs[1], *next(found))
        for sides in changes
    ]


def _of_one_seed(
    estimator: Any, seeds: Iterator[int], pair: Neighbours, n_pairs: int
) -> Sides:
    """Models of both sides, in pairs of fits of one seed."""
    job = FitJob(estimator, pair)
    drawn = [next(seeds) for _ in range(n_pairs)]
    first, second = ([job.outputs(i, seed) for seed in drawn] for i in (0, 1))
    return first, second


def _loud(estimator: Any, pair: Neighbours, n_pairs: int) -> Sides | None:
    """A model of each side with a large budget; None if the model refuses it."""
    loud = louder(estimator, _LOUDER)
    if loud is None:
        return None
    job = FitJob(loud, pair)
    try:
        return [job.outputs(0)], [job.outputs(1)]
    except (ValueError, TypeError):
        return None


# ---------------------------------------------------------------------- audit_estimator


_FEWEST = 40


def audit_estimator(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: str | None = None,
    neighbour: Any = None,
    access: str = "model",
    n_runs: int = 600,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> AuditResult:
    """Try to refute an estimator's promise of differential privacy.

    The audit fits the estimator many times, on the data and on a neighbour that differs
    in one record, or in all rows of one user, and tries to tell the two apart. With
    ``access="model"`` it looks at fitted models alone, for any estimator, pipeline or
    search with scikit-learn's interface. With ``access="transcript"``, for estimators
    of skdp, it looks at the queries that each fit hands to its noise: this is exact,
    and three fits are enough.

    An audit can refute a promise, and can measure how much of it this data set uses up.
    It cannot confirm a promise: this takes a proof.

    Parameters
    ----------
    estimator : estimator
        Not changed. Its noise must be fresh in each fit: no random_state.
    X, y : array-like
        Synthetic data, or data sacrificed for the audit, which reads them without
        privacy and spends nothing. The first record, or the user of the first row,
        differs between the two data sets.
    groups : array-like of shape (n_rows,), default=None
        Ids of users, for an estimator that protects users (``privacy_unit="user"``, or
        as `adjacency` says); every step that protects users gets them. `fit` gets a
        categorical that declares all users, so that a user without rows in the other
        data set still counts.
    epsilon : float in [1e-6, 1e8], default=None
        The promise. None: the epsilon of the fitted model's `privacy_`, or of a
        pipeline's `privacy_report`.
    delta : 0 or float in [1e-50, 1), default=None
        None: the model's delta, or 0 if `epsilon` is given.
    adjacency : str, default=None
        "replace_one", "zero_out", with `groups` "replace_user" or "zero_out_user", or
        with `neighbour` any adjacency of skdp. None: the model's adjacency; if
        `epsilon` is given, "replace_one", or "replace_user" with `groups`.
    neighbour : tuple (X, y), with `groups` (X, y, ids), default=None
        The other data set; the caller vouches that the two are neighbours. None:
        several records or users are tried in a few fits each, and the best pair is
        used.
    access : {"model", "transcript"}, default="model"
    n_runs : int of at least 40, default=600
        Number of fits: half of them to learn how to attack, half to test. A few more
        fits choose the neighbour.
    confidence : float in [0.5, 1), default=0.95
        Confidence of the bound. A refutation has another confidence: 1 - 1e-6.
    n_jobs : int or None, default=None
        Processes that fit at the same time, as in joblib.
    verbose : bool, default=False
        Print progress.

    Returns
    -------
    AuditResult
        After an interrupt from the keyboard it is based on the fits so far, and says
        so.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range, if the estimator has a ledger or a seed, if its
        promise is unknown, if there are ids but no protected users or the other way
        round, or if a transcript has no closed form.
    KeyboardInterrupt
        If the interrupt comes before there is anything to test.

    Notes
    -----
    Privacy: none. Every result reveals the data that are passed in.

    Half of the runs have fresh noise: they show repeats, noise with too few digits,
    numbers without noise, and the direction that separates the data sets. The other
    half tests. If the estimator takes a random_state, each of its fits shares a seed
    with a fit on the neighbour: the distributions are the same as with fresh noise, and
    a few fits then measure the distance of their means well. The audit assumes that a
    seed does not change the distribution.

    The first half chooses the main bound: the bound by an event if something has no
    noise, else the bound for Gaussian scores if the scores look Gaussian, else the
    bound by thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLogisticRegression
    >>> from skdp.audit import audit_estimator
    >>> X = np.random.default_rng(0).normal(size=(100, 3)) / 3
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPLogisticRegression(epsilon=1.0, classes=[0, 1], solver="noisy_gd")
    >>> result = audit_estimator(model, X, y, access="transcript")
    >>> result.passed, 0.5 < result.epsilon_lower_bound <= 1
    (True, True)
    """
    check_choice("access", access, ("model", "transcript"))
    runs = check_count("n_runs", n_runs, low=_FEWEST)
    sure = check_real("confidence", confidence, low=0.5, high=1.0, high_open=True)
    say = _teller(check_bool("verbose", verbose))
    _check_fresh(estimator)
    ids = declared_ids(estimator, X, groups, adjacency)
    claim = _claim(estimator, X, y, ids, epsilon, delta, adjacency)
    pairs = _pairs(estimator, X, y, ids, claim.adjacency, neighbour)
    if access == "transcript":
        return _by_transcripts(estimator, claim, pairs, say)
    return _by_models(estimator, claim, pairs, runs, sure, n_jobs, say)


def _teller(verbose: bool) -> Callable[[str], None]:
    progress = Progress("audit", verbose)
    return lambda text: progress.step(1, 1, f": {text}")


def _check_fresh(estimator: Any) -> None:
    refuse_ledgers(estimator)
    if deep_value(estimator, "random_state") is not None:
        raise ValueError(
            "What is audited must draw fresh noise in every fit. Got a random_state. "
            "Set random_state=None: a seeded fit is not private."
        )


def _claim(
    estimator: Any,
    X: Any,
    y: Any,
    ids: Any,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | None,
) -> Claim:
    """The claim; the estimator is fitted once if only a fitted model states it."""
    if epsilon is None and delta is not None:
        raise ValueError(
            "The 'delta' parameter must be None without 'epsilon'. Got one. Give "
            "both, or leave both to the model."
        )
    own = None
    if epsilon is None or _private_steps(estimator):
        own = _said_by_itself(estimator, X, y, ids)
    if own is None:
        usual = "replace_one" if ids is None else "replace_user"
        return _given_claim(epsilon, delta, adjacency or usual)
    if adjacency not in (None, own.adjacency):
        raise ValueError(
            f"The 'adjacency' parameter must be None or {own.adjacency!r}, "
            f"which the model promises. Got {adjacency!r}. Change the model."
        )
    if epsilon is None:
        return own
    given = _given_claim(epsilon, delta, own.adjacency)
    return replace(given, is_gaussian=own.is_gaussian)


def _pairs(
    estimator: Any, X: Any, y: Any, ids: Any, relation: Any, neighbour: Any
) -> list[Neighbours]:
    """The given pair, or several to choose from."""
    if is_of_users(relation) != (ids is not None):
        raise ValueError(
            "The 'adjacency' parameter must be 'replace_user' or 'zero_out_user' of "
            f"users, and no other adjacency takes ids. Got {relation!r}. Leave it out "
            "if the model says what it protects."
        )
    if neighbour is not None and ids is not None:
        return [given_users(X, y, ids, neighbour)]
    if neighbour is not None:
        return given_neighbours(X, y, neighbour)
    kind = adjacency_of(relation)
    if kind not in ADJACENCIES:
        raise ValueError(
            f"Neighbours under {kind!r} cannot be chosen automatically. "
            "Pass neighbour=(X, y)."
        )
    if ids is not None:
        return chosen_users(estimator, X, y, ids, kind)
    own_rows = _knows_null_records(estimator)
    return chosen_neighbours(estimator, X, y, kind, is_own=own_rows)


def _knows_null_records(estimator: Any) -> bool:
    """Whether a record can be made null in its fits, as its proof assumes."""
    private = _private_steps(estimator)
    # A search divides the rows, and positions change in its parts.
    return bool(private) and not any(step.is_search for step in private)


def _private_steps(estimator: Any) -> list[PrivateEstimator]:
    """The steps of skdp that release something, of a pipeline or alone."""
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    return [step for step in steps if isinstance(step, PrivateEstimator)]


def _given_claim(epsilon: float | None, delta: float | None, adjacency: str) -> Claim:
    if epsilon is None:
        raise ValueError(
            "The 'epsilon' parameter must be given for a model that does not say by "
            "privacy_ what it promises. Got None. Pass what its authors promise."
        )
    relation = check_choice("adjacency", adjacency, RELATIONS)
    return Claim(
        epsilon=check_epsilon(epsilon),
        delta=check_delta(0.0 if delta is None else delta),
        adjacency=relation,
        source="as given",
    )


def _said_by_itself(estimator: Any, X: Any, y: Any, ids: Any) -> Claim | None:
    """The claim that a fit makes itself; None if it makes none."""
    alike = Neighbours(X, y, X, y, "", ids=ids, other_ids=ids)
    model = FitJob(estimator, alike).fitted(0)
    record = getattr(model, "privacy_", None)
    is_own = isinstance(record, PrivacyRecord)
    if not is_own and not hasattr(model, "steps"):
        return None
    told: Any = record if is_own else privacy_report(model)
    if told.adjacency is None:
        return None
    if math.isinf(told.epsilon):
        raise ValueError(
            "What is audited must promise a finite epsilon. Got inf. There is nothing "
            "to refute."
        )
    is_pure = isinstance(record, PrivacyRecord) and needs_no_delta(
        record.event, told.epsilon
    )
    return Claim(
        epsilon=told.epsilon,
        delta=0.0 if is_pure else told.delta,
        adjacency=told.adjacency,
        source="privacy_" if is_own else "privacy_report",
        is_gaussian=all(_is_gaussian(step) for step in _private_steps(model)),
    )


def _is_gaussian(model: Any) -> bool:
    """Whether all noise in the release of a model of skdp is Gaussian."""
    event = model.privacy_.event
    return bool(
        math.isfinite(event.mu_squared)
        and event.pure_epsilon == 0
        and event.box_delta == 0
    )


# ---------------------------------------------------------------------------- White box


def _by_transcripts(
    estimator: Any, claim: Claim, pairs: list[Neighbours], say: Callable[[str], None]
) -> AuditResult:
    told, n_fits = told_by_transcripts(estimator, pairs, say)
    findings = []
    if told.is_pure and claim.delta > 0 and not told.leak:
        raise ValueError(
            "Pure noise must be audited at delta = 0 with access='transcript'. Got a "
            "positive delta. Use access='model'."
        )
    bound = told.bound(claim.delta)
    if told.leak:
        message = f"{told.leak} depends on the data, and has no noise"
        findings.append(Finding(kind="transcript", message=message, refutes=True))
    elif bound.epsilon > claim.epsilon * (1 + WRONG):
        message = f"the transcript tells epsilon {bound.epsilon:.4g}"
        findings.append(Finding(kind="epsilon", message=message, refutes=True))
    if 1 + WRONG < told.over < math.inf:
        message = f"an answer tells {told.over:.3f} times what its budget allows"
        findings.append(Finding(kind="transcript", message=message, refutes=False))
    return AuditResult(
        estimator=type(estimator).__name__,
        access="transcript",
        claimed=claim,
        bounds=(bound,),
        findings=tuple(findings),
        n_runs=n_fits,
        neighbours=told.pair.what,
        score="all answers of a fit, compared one by one",
        interrupted=False,
        scores=(np.empty(0), np.empty(0)),
        parts=told.parts,
    )


# ---------------------------------------------------------------------------- Black box


def _by_models(
    estimator: Any,
    claim: Claim,
    pairs: list[Neighbours],
    n_runs: int,
    confidence: float,
    n_jobs: int | None,
    say: Callable[[str], None],
) -> AuditResult:
    seeds = _seeds()
    pair, change, where = best_pair(estimator, pairs, seeds, say)
    job, quarter = FitJob(estimator, pair), n_runs // 4
    shared = can_be_seeded(estimator)

    def run(n_pairs: int, seeds: Iterator[int] | None, what: str) -> Tally:
        return many(job, n_pairs, seeds=seeds, n_jobs=n_jobs, say=say, what=what)

    learned = run(quarter, None, "to learn from")
    tested = Tally()
    if not learned.is_interrupted:
        rest = (n_runs - 2 * quarter) // 2
        tested = run(rest, seeds if shared else None, "to test with")
    is_early = learned.is_interrupted or tested.is_interrupted
    several, test = _divided(learned, tested)
    runs = gathered([*several, *test, *(change or ())])
    told = SampledVerdict(
        claim,
        (runs[0], runs[1]),
        (runs[2], runs[3]),
        n_samples=pair.n_samples,
        change=None if change is None else (runs[4], runs[5]),
        where=where,
        is_paired=shared and len(tested) >= _FEWEST // 4,
    )
    return AuditResult(
        estimator=type(estimator).__name__,
        access="model",
        claimed=claim,
        bounds=told.bounds(1 - confidence),
        findings=told.findings(),
        n_runs=2 * (len(learned) + len(tested)),
        neighbours=pair.what,
        score=told.what,
        interrupted=is_early,
        scores=told.scores,
        parts={},
    )


def _seeds() -> Iterator[int]:
    # It decides only which runs share their noise: no privacy rests on it.
    first = check_random_state(None).randint(1 << 30)
    return itertools.count(int(first))


def _divided(learned: Tally, tested: Tally) -> tuple[list[Any], list[Any]]:
    """Outputs for learning and for testing; after an interrupt, halves of the first."""
    # After an interrupt one side may have one more run.
    if len(tested) >= _FEWEST // 4:
        several = [
            [side[: len(tally)] for side in tally.sides] for tally in (learned, tested)
        ]
        return several[0], several[1]
    n = len(learned)
    if n < _FEWEST // 2:
        raise KeyboardInterrupt("An audit was interrupted before it had runs to test.")
    sides = learned.sides
    return [side[: n // 2] for side in sides], [side[n // 2 : n] for side in sides]
