"""`audit_estimator`: tries to refute what an estimator promises."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skdp._base import PrivateEstimator
from skdp._validation import (
    check_bool,
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_real,
)
from skdp.audit._canary import Neighbours, chosen_neighbours, given_neighbours
from skdp.audit._outputs import gathered
from skdp.audit._parameters import (
    can_be_seeded,
    deep_value,
    refuse_ledgers,
)
from skdp.audit._pilot import best_pair
from skdp.audit._result import AuditResult, Claim, Finding
from skdp.audit._runs import Job, Tally, many
from skdp.audit._told import WRONG, Halves, Told
from skdp.audit._transcript import told_by_transcripts
from skdp.audit._user_pairs import chosen_users, declared_ids, given_users
from skdp.pipeline import privacy_report
from skdp.privacy import PrivacyRecord
from skdp.privacy._adjacency import ADJACENCIES, RELATIONS, adjacency_of, is_of_users
from skdp.solvers._progress import Progress

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
    """Try to refute what an estimator promises of differential privacy.

    It is fitted many times, on the data and on a neighbour that differs in one record,
    or in all rows of one user, by whoever tries to tell the two apart. With
    ``access="model"`` that is done from fitted models alone, for any estimator,
    pipeline or search with scikit-learn's interface. With ``access="transcript"``, for
    estimators of skdp, it is done from what each fit hands to its noise: exact, and
    three fits are enough.

    An audit can refute a promise, and can measure how much of it is used up by this
    data set. It cannot confirm one: that takes a proof.

    Parameters
    ----------
    estimator : estimator
        Not changed. Its noise must be fresh in each fit: no random_state.
    X, y : array-like
        Data that were made up, or given up, for the audit: it reads them without
        privacy and spends nothing. The first record becomes the one that differs, or
        the user of the first row.
    groups : array-like of shape (n_rows,), default=None
        Ids of users, of an estimator that protects them (``privacy_unit="user"``, or as
        `adjacency` says), as its `fit` takes them; every step that protects users gets
        them. It always gets a categorical that declares all users: one who has no rows
        on the other side still counts.
    epsilon : float in [1e-6, 1e8], default=None
        What is promised. None: what `privacy_` of the fitted model says, or
        `privacy_report` of a pipeline.
    delta : 0 or float in [1e-50, 1), default=None
        None: 0 beside a given epsilon.
    adjacency : str, default=None
        "replace_one", "zero_out", with `groups` "replace_user" or "zero_out_user", or
        with `neighbour` any relation of skdp. None: what the model says, or beside a
        given epsilon "replace_one", with `groups` "replace_user".
    neighbour : tuple (X, y), with `groups` (X, y, ids), default=None
        The other data set; the caller vouches that the two are neighbours. None:
        several records or users are tried in a few fits each, and the best pair is
        used.
    access : {"model", "transcript"}, default="model"
    n_runs : int of at least 40, default=600
        Fits that are looked at: half of them to learn how to attack, half to test. A
        few more choose the neighbour.
    confidence : float in [0.5, 1), default=0.95
        Of the bound. That the promise is refuted has a confidence of its own:
        1 - 1e-6.
    n_jobs : int or None, default=None
        Processes that fit at the same time, as in joblib.
    verbose : bool, default=False
        Say how far it is.

    Returns
    -------
    AuditResult
        An audit that is interrupted from the keyboard gives what it has, and says so.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range, if the estimator has a ledger or a seed, if it
        does not say what it promises, if there are ids without users or the other way
        round, or if a transcript has no closed form.
    KeyboardInterrupt
        If it is interrupted before there is anything to test.

    Notes
    -----
    Privacy: none. All that comes out is about the data that are passed in.

    Half of the runs have fresh noise: they show repeats, noise of too few digits,
    numbers without noise, and along which direction the data sets are told apart. The
    other half tests. If the estimator takes a random_state, each of its fits shares a
    seed with a fit on the neighbour: the laws are the same as with fresh noise, and the
    distance of their means is then known well from few fits. That seeds change no law
    is assumed of it.

    The main bound is chosen by the first half: by an event if something is without
    noise, else that for Gaussian scores if these look Gaussian, else by thresholds.

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
    pilot = _Pilot.of(estimator, X, y, ids, epsilon, delta, adjacency, neighbour)
    if access == "transcript":
        return _by_transcripts(pilot, say)
    return _by_models(pilot, runs, sure, n_jobs, say)


def _teller(verbose: bool) -> Callable[[str], None]:
    progress = Progress("audit", verbose)
    return lambda text: progress.step(1, 1, f": {text}")


def _check_fresh(estimator: Any) -> None:
    refuse_ledgers(estimator)
    if deep_value(estimator, "random_state") is not None:
        raise ValueError(
            "What is audited must draw fresh noise in every fit. Got a random_state. "
            "Set random_state=None: a seeded fit keeps no promise."
        )


@dataclass(frozen=True)
class _Pilot:
    """What is audited: an estimator, its promise, and pairs of data sets."""

    estimator: Any
    claim: Claim
    pairs: list[Neighbours]

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        ids: Any,
        epsilon: float | None,
        delta: float | None,
        adjacency: str | None,
        neighbour: Any,
    ) -> _Pilot:
        """Checked; fits once if the promise has to be read off a model."""
        if epsilon is None and delta is not None:
            raise ValueError(
                "The 'delta' parameter must be None without 'epsilon'. Got one. Give "
                "both, or leave both to the model."
            )
        own = None
        if epsilon is None or _private_steps(estimator):
            own = _said_by_itself(estimator, X, y, ids)
        if own is not None and adjacency not in (None, own.adjacency):
            raise ValueError(
                f"The 'adjacency' parameter must be None or {own.adjacency!r}, "
                f"which the model promises. Got {adjacency!r}. Change the model."
            )
        if own is None:
            usual = "replace_one" if ids is None else "replace_user"
            claim = _given_claim(epsilon, delta, adjacency or usual)
        elif epsilon is None:
            claim = own
        else:
            given = _given_claim(epsilon, delta, own.adjacency)
            claim = replace(given, is_gaussian=own.is_gaussian)
        pairs = _pairs(estimator, X, y, ids, claim.adjacency, neighbour)
        return cls(estimator, claim, pairs)


def _pairs(
    estimator: Any, X: Any, y: Any, ids: Any, relation: Any, neighbour: Any
) -> list[Neighbours]:
    """The pair that is given, or several to choose from."""
    if is_of_users(relation) != (ids is not None):
        raise ValueError(
            "The 'adjacency' parameter must be 'replace_user' or 'zero_out_user' of "
            f"users, and no other relation takes ids. Got {relation!r}. Leave it out "
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
    """Whether a null record can be put before it as before its proof."""
    private = _private_steps(estimator)
    # A search divides the rows, and its parts have other places for them.
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
    """What a fit says of itself; None if nothing."""
    alike = Neighbours(X, y, X, y, "", ids=ids, other_ids=ids)
    model = Job(estimator, alike).fitted(0)
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
    return Claim(
        epsilon=told.epsilon,
        delta=told.delta,
        adjacency=told.adjacency,
        source="privacy_" if is_own else "privacy_report",
        is_gaussian=all(_is_gaussian(step) for step in _private_steps(model)),
    )


def _is_gaussian(model: Any) -> bool:
    """Whether what a fit of skdp released is Gaussian all through."""
    event = model.privacy_.event
    return bool(
        math.isfinite(event.mu_squared)
        and event.pure_epsilon == 0
        and event.box_delta == 0
    )


# White box --------------------------------------------------------------------------


def _by_transcripts(pilot: _Pilot, say: Callable[[str], None]) -> AuditResult:
    told, n_fits = told_by_transcripts(pilot.estimator, pilot.pairs, say)
    claim, findings = pilot.claim, []
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
        message = f"an answer tells {told.over:.3f} times what its share allows"
        findings.append(Finding(kind="transcript", message=message, refutes=False))
    return AuditResult(
        estimator=type(pilot.estimator).__name__,
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


# Black box --------------------------------------------------------------------------


def _by_models(
    pilot: _Pilot,
    n_runs: int,
    confidence: float,
    n_jobs: int | None,
    say: Callable[[str], None],
) -> AuditResult:
    seeds = _seeds()
    chosen = best_pair(pilot.estimator, pilot.pairs, seeds, say)
    job, quarter = Job(pilot.estimator, chosen.pair), n_runs // 4
    shared = can_be_seeded(pilot.estimator)

    def run(n_pairs: int, seeds: Iterator[int] | None, what: str) -> Tally:
        return many(job, n_pairs, seeds=seeds, n_jobs=n_jobs, say=say, what=what)

    learned = run(quarter, None, "to learn from")
    tested = Tally()
    if not learned.is_interrupted:
        rest = (n_runs - 2 * quarter) // 2
        tested = run(rest, seeds if shared else None, "to test with")
    is_early = learned.is_interrupted or tested.is_interrupted
    several, test = _divided(learned, tested)
    runs = gathered([*several, *test, *(chosen.change or ())])
    told = Told(
        pilot.claim,
        Halves(
            runs[0],
            runs[1],
            runs[2],
            runs[3],
            chosen.pair.n_samples,
            None if chosen.change is None else (runs[4], runs[5]),
            chosen.where,
        ),
        is_paired=shared and len(tested) >= _FEWEST // 4,
    )
    return AuditResult(
        estimator=type(pilot.estimator).__name__,
        access="model",
        claimed=pilot.claim,
        bounds=told.bounds(1 - confidence),
        findings=told.findings(),
        n_runs=2 * (len(learned) + len(tested)),
        neighbours=chosen.pair.what,
        score=told.what,
        interrupted=is_early,
        scores=told.scores,
        parts={},
    )


def _seeds() -> Iterator[int]:
    # Which runs share their noise, no more: nothing private rests on it.
    first = check_random_state(None).randint(1 << 30)
    return itertools.count(int(first))


def _divided(learned: Tally, tested: Tally) -> tuple[list[Any], list[Any]]:
    """Outputs to learn from and to test with; of an early end, halves of the first."""
    # An interruption may leave one side a run ahead.
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
