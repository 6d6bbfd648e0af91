"""`audit_one_run`: a lower bound on epsilon from a single fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from skdp import _validation as check
from skdp._floats import FloatArray, IntArray
from skdp.audit._canary_pairs import BUILDERS, CanaryPairs, Facts
from skdp.audit._guesses import Guesses, expected_guesses
from skdp.audit._leaning import leaning
from skdp.audit._one_run_facts import (
    Claim,
    check_auditable,
    claim_of,
    facts_of,
    relation_of,
)
from skdp.audit._one_run_report import OneRunAudit, OneRunBounds
from skdp.audit._parameters import fitted, fresh
from skdp.audit._replay import NullRecord
from skdp.audit._tables import as_table, stacked
from skdp.privacy._entropy import SystemEntropy
from skdp.privacy._gaussian import gaussian_mu

Score = Callable[[Any, CanaryPairs], FloatArray]
# One guess for so many canaries: near to the best share for claims from 1 to 8 and 400
# to 4,000 canaries (benchmarks/one_run.py).
_ABSTAINING = 5


def one_run_power(
    n_canaries: int = 1000,
    *,
    epsilon: float,
    delta: float,
    n_guesses: int | None = None,
    strength: float = 1.0,
    confidence: float = 0.95,
) -> OneRunBounds:
    """What an audit of one run is expected to find, said before any fit.

    Parameters
    ----------
    n_canaries : int of at least 1, default=1000
    epsilon : float in [1e-6, 1e8]
        That the release keeps in truth, as closely as Gaussian noise can.
    delta : float in [1e-50, 1)
    n_guesses : int of at least 1 and at most `n_canaries`, or None, default=None
        As in `audit_one_run`.
    strength : float in (0, 10], default=1.0
        How far apart a canary's two versions look, as a share of the largest distance
        that the guarantee allows for. 1.0: only noise hides them.
    confidence : float in (0, 1), default=0.95

    Returns
    -------
    OneRunBounds
        Of the expected number of right guesses, rounded down.

    Examples
    --------
    >>> from skdp.audit import one_run_power
    >>> power = one_run_power(1000, epsilon=4.0, delta=1e-6, strength=0.5)
    >>> round(power.epsilon_lower, 2), round(power.gaussian_epsilon_lower, 2)
    (0.47, 0.84)
    """
    n = check.check_count("n_canaries", n_canaries)
    r = _n_guesses(n_guesses, n)
    strength = check.check_real("strength", strength, low=0, high=10, low_open=True)
    epsilon = check.check_real("epsilon", epsilon, low=1e-6, high=1e8)
    delta = check.check_real("delta", delta, low=1e-50, high=1, high_open=True)
    mu = gaussian_mu(epsilon, delta) * strength
    return OneRunBounds(
        guesses=expected_guesses(n, r, mu),
        delta=delta,
        confidence=_check_confidence(confidence),
    )


def audit_one_run(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_canaries: int = 1000,
    n_guesses: int | None = None,
    canaries: str | CanaryPairs = "columns",
    score: Score | None = None,
    adjacency: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> OneRunAudit:
    r"""Fit once with many canaries, and bound epsilon from below by what is seen.

    Each canary has two versions. A public coin of its own says which one the estimator
    is fitted with; the fit is scored, and the coins of the surest scores are guessed.
    So many right guesses are unlikely where a claim is true ([1]_, [2]_; both bounds
    are derived in ``docs/proofs/one_run.md``).

    One fit refutes far less than many: bounds near a true epsilon are not to be
    expected, and `one_run_power` says what is. A bound below the claim does not confirm
    it.

    Parameters
    ----------
    estimator : estimator
        Of skdp or not; what is fitted is a clone.
    X : ndarray or data frame of shape (n_samples, n_features)
        Synthetic or sacrificial: an audit is not private, and on no books.
    y : array-like of shape (n_samples,)
    n_canaries : int of at least 1, default=1000
        Rows that are added to X. Ignored if they are given.
    n_guesses : int of at least 1 and at most `n_canaries`, or None, default=None
        None: a fifth of them, and 1 at least.
    canaries : {"columns", "rows"} or CanaryPairs, default="columns"
        "columns": each has a column of its own, at the norm of the rows; for estimators
        of numbers. "rows": random directions among the features. Labels or targets are
        as far apart as the estimator's ``classes`` or ``target_bounds``, or else y.
        Under replace_one the versions have the labels exchanged; under zero_out one is
        a record with a random label and the other a row of zeros, which is the null
        record where no intercept is fitted.
    score : callable or None, default=None
        ``score(model, pairs)`` gives an ndarray of shape (n_canaries,): the larger
        compared with the others, the likelier the first version. None: how far the
        model leans to the label of the first version rather than the other's.
    adjacency : {"replace_one", "zero_out"} or None, default=None
        None: the estimator's own. It must be given if the estimator has none.
    epsilon, delta : float or None, default=None
        The claim, of the whole estimator. None: its only parameters of these names; a
        delta of 0 if there is none.
    confidence : float in (0, 1), default=0.95
        Of each of the two bounds.
    random_state : int or None, default=None
        Of coins and canaries, which are public; not of the estimator.

    Returns
    -------
    OneRunAudit

    Raises
    ------
    ValueError
        If the estimator has a ledger, another unit than the record, or no adjacency; if
        zero_out is asked for with an intercept; if there are not two labels.

    References
    ----------
    .. [1] Steinke, Nasr and Jagielski (2023). Privacy auditing with one (1) training
       run. NeurIPS, Theorem 5.2. https://arxiv.org/abs/2305.08846
    .. [2] Mahloujifar, Melis and Chaudhuri (2024). Auditing f-differential privacy in
       one run. https://arxiv.org/abs/2410.22235

    Deviations: another term for delta; coins choose between two versions of a record,
    so that n stays and the adjacency is the estimator's.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLinearRegression
    >>> from skdp.audit import audit_one_run
    >>> X, y = np.zeros((500, 3)), np.zeros(500)
    >>> model = DPLinearRegression(
    ...     epsilon=4.0, target_bounds=(-1, 1), fit_intercept=False, random_state=0
    ... )
    >>> found = audit_one_run(model, X, y, n_canaries=400, random_state=0)
    >>> found.refutes, found.gaussian_epsilon_lower > 0.5
    (False, True)
    """
    check.check_random_state(random_state)
    check_auditable(estimator)
    claim = claim_of(estimator, epsilon, delta)
    facts = facts_of(estimator, y, relation_of(estimator, adjacency))
    confidence = _check_confidence(confidence)
    # Without a seed they are the system's: an estimator may draw from NumPy's own.
    draws = check_random_state(_seed_of_coins(random_state))
    beside, pairs = _planted(canaries, X, n_canaries, facts, draws, estimator)
    r = _n_guesses(n_guesses, len(pairs))
    coins = draws.randint(2, size=len(pairs))
    rows, labels = pairs.as_coins_say(coins)
    X, y = stacked([beside, rows]), stacked([as_table(y), labels])
    model = fitted(fresh(estimator), X, y, NullRecord())
    right = _n_right((score or _Leaning(facts))(model, pairs), coins, r)
    guesses = Guesses(n_canaries=len(pairs), n_guesses=r, n_right=right)
    return OneRunAudit(
        bounds=OneRunBounds(guesses=guesses, delta=claim.delta, confidence=confidence),
        expected=_expected(claim, guesses, confidence),
        claimed_epsilon=claim.epsilon,
        adjacency="replace_one" if facts.is_exchanged else "zero_out",
        estimator=type(estimator).__name__,
    )


def _seed_of_coins(random_state: int | None) -> int:
    if random_state is None:
        return int(SystemEntropy().words(1)[0]) % 2**32
    # A stream of their own: an estimator with the same seed must not draw the coins.
    return (random_state + 1) * 2654435761 % 2**32


def _expected(claim: Claim, guesses: Guesses, confidence: float) -> OneRunBounds | None:
    if claim.epsilon is None or not claim.is_of_gaussian_noise:
        return None
    return one_run_power(
        guesses.n_canaries,
        epsilon=claim.epsilon,
        delta=claim.delta,
        n_guesses=guesses.n_guesses,
        confidence=confidence,
    )


def _n_guesses(n_guesses: int | None, n_canaries: int) -> int:
    if n_guesses is None:
        return max(1, n_canaries // _ABSTAINING)
    return check.check_count("n_guesses", n_guesses, high=n_canaries)


def _check_confidence(value: Any) -> float:
    return check.check_real(
        "confidence", value, low=0, high=1, low_open=True, high_open=True
    )


def _planted(
    canaries: str | CanaryPairs,
    X: Any,
    n_canaries: int,
    facts: Facts,
    draws: Any,
    estimator: Any,
) -> tuple[Any, CanaryPairs]:
    """The rows beside the canaries, and these."""
    if isinstance(canaries, CanaryPairs):
        return as_table(X), canaries
    kind = check.check_choice(
        "canaries", canaries, BUILDERS, remedy="Or pass CanaryPairs of your own."
    )
    has_null_rows = estimator.get_params(deep=False).get("fit_intercept") is False
    if not (facts.is_exchanged or has_null_rows):
        raise ValueError(
            "Under zero_out a canary's other version is the null record, which is "
            "known to be a row of zeros for models with fit_intercept=False alone. Got "
            "another estimator. Audit it under replace_one, or pass CanaryPairs with "
            "null records of its own."
        )
    n = check.check_count("n_canaries", n_canaries)
    return BUILDERS[kind](np.asarray(X, dtype=np.float64), n, facts, draws)


@dataclass(frozen=True)
class _Leaning:
    """How far a model leans to the first version's label."""

    facts: Facts

    def __call__(self, model: Any, pairs: CanaryPairs) -> FloatArray:
        centre = 0.0 if is_classifier(model) else self.facts.centre()
        towards = leaning(model, pairs.X, pairs.y, centre)
        if not self.facts.is_exchanged:
            return towards
        return towards - leaning(model, pairs.other_X, pairs.other_y, centre)


def _n_right(scores: Any, coins: IntArray, n_guesses: int) -> int:
    """Right guesses of the coins of the surest scores, as seen from the middle one."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != coins.shape or not np.isfinite(scores).all():
        raise ValueError(
            f"A score must give one finite number for each of {len(coins)} canaries. "
            f"Got an array of shape {scores.shape}. Return an ndarray of shape "
            "(n_canaries,)."
        )
    away = scores - np.median(scores)
    surest = np.argsort(-np.abs(away), kind="stable")[:n_guesses]
    return int(np.sum((away[surest] > 0) == (coins[surest] == 1)))
