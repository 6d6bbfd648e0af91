"""`audit_one_run`: a lower bound on epsilon from a single fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import bdtrc, expit, ndtr, ndtri
from scipy.stats import norm
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from skdp import _checks as check
from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count
from skdp._show import Shown
from skdp.audit._exact import NullRecord
from skdp.audit._inference import leaning
from skdp.audit._models import as_table, fitted, fresh, named, stacked, taken
from skdp.audit._result import last
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy.noise._rounding import SystemEntropy

# ------------------------------------------ CanaryPairs: records with two versions each
# An audit's coins decide which version is fitted.


@dataclass(frozen=True, eq=False)
class CanaryPairs:
    """Both versions of every canary.

    Under replace_one they are any two records. Under zero_out the other version must be
    the estimator's null record, which contributes nothing: a row of zeros, if a row of
    zeros changes nothing in the fit. Use no other row if you are not sure.

    Parameters
    ----------
    X : array-like or data frame of shape (n_canaries, n_features)
    y : array-like of shape (n_canaries,)
    other_X : array-like or data frame of shape (n_canaries, n_features)
    other_y : array-like of shape (n_canaries,)

    Raises
    ------
    ValueError
        If the four have different numbers of rows.
    """

    X: Any
    y: Any
    other_X: Any
    other_y: Any

    def __post_init__(self) -> None:
        for name in ("X", "y", "other_X", "other_y"):
            object.__setattr__(self, name, as_table(getattr(self, name)))
        sizes = [len(x) for x in (self.X, self.y, self.other_X, self.other_y)]
        if len({*sizes}) != 1 or not sizes[0]:
            raise ValueError(
                "CanaryPairs needs as many other versions as first ones, and at least "
                f"one. Got tables of {sizes} rows. Pair them row by row."
            )

    def __len__(self) -> int:
        return len(self.y)

    def by_coins(self, coins: IntArray) -> tuple[Any, Any]:
        """Rows and labels: first versions where coins are 1, else other versions."""
        places = np.arange(len(self)) + len(self) * (1 - coins)
        X = taken(stacked([self.X, self.other_X]), places)
        return X, taken(stacked([self.y, self.other_y]), places)


@dataclass(frozen=True)
class CanaryFacts:
    """Public facts of a fit that canaries depend on.

    Parameters
    ----------
    norm : float above 0
        Largest norm of a row.
    low, high : label or target
        The two that are farthest apart.
    null : label or target
        With it a row of zeros is the null record.
    is_exchanged : bool
        Whether the other version is a record, and not the null record.
    """

    norm: float
    low: Any
    high: Any
    null: Any
    is_exchanged: bool

    def centre(self) -> float:
        """Middle of the targets."""
        return (float(self.low) + float(self.high)) / 2


Builder = Callable[[FloatArray, int, CanaryFacts, Any], tuple[FloatArray, CanaryPairs]]


def column_canaries(
    X: FloatArray, n: int, facts: CanaryFacts, draws: Any
) -> tuple[FloatArray, CanaryPairs]:
    """A new column for each canary, in which all other rows have 0.

    Nothing but noise hides such a canary.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features + n)
    pairs : CanaryPairs
    """
    rows = np.hstack([np.zeros((n, X.shape[1])), facts.norm * np.eye(n)])
    beside = np.hstack([X, np.zeros((len(X), n))])
    return beside, _versions(rows, facts, draws)


def row_canaries(
    X: FloatArray, n: int, facts: CanaryFacts, draws: Any
) -> tuple[FloatArray, CanaryPairs]:
    """Rows in random directions of the existing features.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Unchanged.
    pairs : CanaryPairs
    """
    rows = draws.normal(size=(n, X.shape[1]))
    rows *= facts.norm / np.linalg.norm(rows, axis=1, keepdims=True)
    return X, _versions(rows, facts, draws)


BUILDERS: dict[str, Builder] = {"columns": column_canaries, "rows": row_canaries}


def _versions(rows: FloatArray, facts: CanaryFacts, draws: Any) -> CanaryPairs:
    n = len(rows)
    if facts.is_exchanged:
        # The same row with the opposite label.
        high, low = np.full(n, facts.high), np.full(n, facts.low)
        return CanaryPairs(rows, high, rows, low)
    labels = np.where(draws.randint(2, size=n), facts.high, facts.low)
    return CanaryPairs(rows, labels, np.zeros_like(rows), np.full(n, facts.null))


# ------------------------------------------------- Public facts of an audited estimator


def only(values: dict[str, Any], default: Any) -> Any:
    return next(iter(values.values())) if len(values) == 1 else default


def claim_of(
    estimator: Any, epsilon: float | None, delta: float | None
) -> tuple[float | None, float]:
    """The given epsilon and delta, or else the only parameters of these names.

    An epsilon of None is unknown.
    """
    deltas = named(estimator, "delta")
    if delta is None and len(deltas) > 1:
        raise ValueError(
            "The 'delta' parameter must be given for an estimator of several private "
            f"steps, with 'epsilon'. Got {len(deltas)} deltas. Add up what they cost "
            "(privacy_report)."
        )
    if epsilon is None:
        epsilon = only(named(estimator, "epsilon"), None)
    if epsilon is not None:
        epsilon = check.check_epsilon(epsilon)
    return epsilon, check.check_delta(only(deltas, 0.0) if delta is None else delta)


def check_auditable(estimator: Any) -> None:
    """Refuse ledgers, and privacy units other than the record."""
    if named(estimator, "ledger"):
        raise ValueError(
            "audit_one_run needs an estimator without a ledger. Got one. An audit fits "
            "made-up data, which no ledger counts: use set_params(ledger=None)."
        )
    if any(unit != "record" for unit in named(estimator, "privacy_unit").values()):
        raise ValueError(
            "audit_one_run needs privacy_unit='record': each of its coins decides on "
            "one record. Got another unit. Use audit_estimator, with groups=ids."
        )


def relation_of(estimator: Any, adjacency: str | None) -> str:
    """The adjacency under which turning one coin gives a neighbouring data set."""
    own = {*named(estimator, "adjacency").values()}
    if adjacency is not None:
        own.add(adjacency)
    if len(own) != 1:
        raise ValueError(
            "The 'adjacency' parameter must be that of the estimator, and be given if "
            f"it has none. Got {sorted(map(str, own))}. Use 'replace_one' for one "
            "record exchanged, or 'zero_out' for one replaced by the null record."
        )
    relation = check.check_choice("adjacency", own.pop(), ("replace_one", "zero_out"))
    if relation == "zero_out" and any(named(estimator, "fit_intercept").values()):
        raise ValueError(
            "Under zero_out a canary's other version is the null record, which can be "
            "written as a row of zeros only where no intercept is fitted. Got "
            "fit_intercept=True. Audit it with fit_intercept=False, or under "
            "replace_one."
        )
    return relation


def facts_of(estimator: Any, y: Any, relation: str) -> CanaryFacts:
    """Norm and labels of canaries."""
    name = "classes" if is_classifier(estimator) else "target_bounds"
    known = only(named(estimator, name), None)
    labels = np.unique(np.asarray(y) if known is None else np.asarray(known))
    if len(labels) < 2:
        raise ValueError(
            "Canaries need two labels or targets that differ. Got one in y. Pass a y "
            "that has both, or declare classes or target_bounds."
        )
    norm = check.check_data_norm(only(named(estimator, "data_norm"), 1.0))
    low, high = labels[0], labels[-1]
    # Any label is right for a row of zeros, but some solvers add up targets.
    null = low if is_classifier(estimator) else min(max(low, 0.0), high)
    return CanaryFacts(norm, low, high, null, relation == "replace_one")


# ------------------------------------------------- Guesses: what correct guesses refute
# Each of m canaries has two versions, and a separate public coin says which one the
# data hold. A guesser sees the release alone and guesses the versions of r chosen
# canaries; v of the guesses are right. If turning one coin is one step of the
# adjacency, this happens under an (epsilon, delta)-private release with probability at
# most
#
#     P(Binomial(r, p) >= v) + m delta / (1 + exp(epsilon)),  p = 1 / (1 +
#     exp(-epsilon)),
#
# ([1]_, Theorem 5.2, with a different term for delta), and under a mu-Gaussian private
# release with probability at most the smallest tau that the recursion of [2]_ refutes.
# Both are derived in ``docs/proofs/audits.md``.
#
# References
# ----------
# .. [1] Steinke, Nasr and Jagielski (2023). Privacy auditing with one (1) training run.
#    NeurIPS. https://arxiv.org/abs/2305.08846
# .. [2] Mahloujifar, Melis and Chaudhuri (2024). Auditing f-differential privacy in one
#    run. https://arxiv.org/abs/2410.22235


_LARGEST_EPSILON, _LARGEST_MU = 100.0, 20.0
_LEAST_TAU = 1e-300
# Above the rounding of at most 1e5 steps of the recursion.
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Numbers of canaries, of guesses, and of right guesses.

    Parameters
    ----------
    n_canaries : int of at least 1
    n_guesses : int of at least 1 and at most `n_canaries`
        Fixed before the release is seen.
    n_right : int of at least 0 and at most `n_guesses`
    """

    n_canaries: int
    n_guesses: int
    n_right: int

    def __post_init__(self) -> None:
        check_count("n_canaries", self.n_canaries)
        check_count("n_guesses", self.n_guesses, high=self.n_canaries)
        check_count("n_right", self.n_right, low=0, high=self.n_guesses)

    def p_value(self, epsilon: float, delta: float) -> float:
        """Bound on the probability of guessing so well under (epsilon, delta)."""
        told = float(expit(epsilon))
        lucky = float(bdtrc(self.n_right - 1, self.n_guesses, told))
        return min(1.0, lucky + self.n_canaries * delta * float(expit(-epsilon)))

    def gaussian_p_value(self, mu: float) -> float:
        """Bound on the probability of guessing so well under mu-Gaussian privacy."""

        def is_refuted(power: float) -> bool:
            return self.refutes_gaussian(mu, 10.0**power)

        if is_refuted(math.log10(_LEAST_TAU)):
            return _LEAST_TAU
        if not is_refuted(0.0):
            return 1.0
        return float(10.0 ** last(lambda x: not is_refuted(x), -300.0, 0.0)[1])

    def refutes_gaussian(self, mu: float, tau: float) -> bool:
        """Whether mu-Gaussian privacy makes this rarer than `tau`."""

        def least(power: float) -> float:
            return float(ndtr(ndtri(power) - mu)) if power > 0 else 0.0

        return self._least_total(tau, least) > 1 + _ROUNDING

    def _least_total(self, tau: float, least: Callable[[float], float]) -> float:
        """Least total probability of all counts, if this many right guesses have `tau`.

        `least` gives the smallest false positive rate of a test by its power. `right`
        is the probability that a given canary is guessed rightly and there are at least
        j right guesses; `wrong` is the same for a wrong guess.
        """
        m, r, v = self.n_canaries, self.n_guesses, self.n_right
        right, wrong = tau * v / m, tau * (r - v) / m
        for j in range(v - 1, -1, -1):
            more = max(wrong, least(right)) - wrong
            right, wrong = right + j / (r - j) * more, wrong + more
        return (right + wrong) * m / r

    def least_epsilon(self, delta: float, confidence: float) -> float:
        """Largest epsilon that is refuted with this delta; 0.0 if none is."""
        tau = 1 - confidence
        return self._refuted(lambda e: self.p_value(e, delta) < tau, _LARGEST_EPSILON)

    def least_mu(self, confidence: float) -> float:
        """Largest mu that is refuted; 0.0 if none is."""
        tau = 1 - confidence
        return self._refuted(lambda mu: self.refutes_gaussian(mu, tau), _LARGEST_MU)

    def _refuted(self, is_refuted: Callable[[float], bool], high: float) -> float:
        return last(is_refuted, 0.0, high)[0] if is_refuted(0.0) else 0.0


def expected_guesses(n_canaries: int, n_guesses: int, mu: float) -> Guesses:
    """Right guesses of a guesser who sees each canary as N(0, 1) or N(mu, 1).

    The guesses are the surest ones.
    """
    share = n_guesses / n_canaries
    # A score around the middle passes the threshold on either side.
    threshold = last(lambda t: _passing(t, mu)[2] > share, 0.0, 40 + mu)[0]
    right, wrong, _ = _passing(threshold, mu)
    n_right = math.floor(n_guesses * right / (right + wrong))
    return Guesses(n_canaries=n_canaries, n_guesses=n_guesses, n_right=n_right)


def _passing(threshold: float, mu: float) -> tuple[float, float, float]:
    right = float(norm.sf(threshold - mu / 2))
    wrong = float(norm.sf(threshold + mu / 2))
    return right, wrong, right + wrong


# ------------------------------------------------------- Results of an audit of one run


# An epsilon is rounded up by less than this; a lower bound must not be rounded up.
_ROUNDED = 1 - 1e-6


@dataclass(frozen=True, kw_only=True)
class OneRunBounds:
    """Bounds that a number of right guesses refutes.

    Parameters
    ----------
    guesses : Guesses
    delta : float in [0, 1)
        The delta of the bounds on epsilon.
    confidence : float in (0, 1)
        Confidence of each bound alone.
    """

    guesses: Guesses
    delta: float
    confidence: float

    @property
    def epsilon_lower(self) -> float:
        """Largest epsilon that is refuted, whatever the release is; 0.0 if none is."""
        return self.guesses.least_epsilon(self.delta, self.confidence)

    @property
    def mu_lower(self) -> float:
        """Largest mu of Gaussian differential privacy that is refuted."""
        return self.guesses.least_mu(self.confidence)

    @property
    def gaussian_epsilon_lower(self) -> float:
        """The epsilon of `mu_lower`, a bound if the release behaves as Gaussian noise.

        0.0 if delta is 0, which no Gaussian noise satisfies.
        """
        if not self.delta:
            return 0.0
        return gaussian_epsilon(self.mu_lower, self.delta) * _ROUNDED


@dataclass(frozen=True, kw_only=True, repr=False)
class OneRunAudit(Shown):
    """Lower bounds on the privacy loss of one fit.

    Parameters
    ----------
    bounds : OneRunBounds
        Bounds by the guesses.
    expected : OneRunBounds or None
        The bounds expected before the fit, if only Gaussian noise of the claimed size
        hides a canary. None without a finite claim.
    claimed_epsilon : float or None
        None if none is known.
    adjacency : {"replace_one", "zero_out"}
        The adjacency under which turning one coin gives a neighbouring data set.
        estimator : str
        Name of the estimator's class.
    """

    _width = 20

    bounds: OneRunBounds
    expected: OneRunBounds | None
    claimed_epsilon: float | None
    adjacency: str
    estimator: str

    @property
    def epsilon_lower(self) -> float:
        """Largest epsilon that is refuted at the claimed delta."""
        return self.bounds.epsilon_lower

    @property
    def mu_lower(self) -> float:
        """Largest mu of Gaussian differential privacy that is refuted."""
        return self.bounds.mu_lower

    @property
    def gaussian_epsilon_lower(self) -> float:
        """The epsilon of `mu_lower`, of releases as private as Gaussian noise."""
        return self.bounds.gaussian_epsilon_lower

    @property
    def refutes(self) -> bool:
        """Whether the claimed epsilon and delta are refuted, for any release."""
        return self._claimed() < self.epsilon_lower

    @property
    def refutes_gaussian(self) -> bool:
        """Whether Gaussian noise for the claimed epsilon and delta is refuted."""
        return self._claimed() < self.gaussian_epsilon_lower

    def _claimed(self) -> float:
        return math.inf if self.claimed_epsilon is None else self.claimed_epsilon

    def sentence(self) -> str:
        """What was found, in one sentence, to be quoted."""
        found, of = self.bounds.guesses, self.bounds
        return (
            f"From one fit of {self.estimator}, {found.n_right} of "
            f"{found.n_guesses} coins were guessed right: epsilon is above "
            f"{self.epsilon_lower:.2f}, and above {self.gaussian_epsilon_lower:.2f} if "
            f"its noise is Gaussian (delta {of.delta:g}, {self.adjacency}, confidence "
            f"{of.confidence:g} each)."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers, JSON-ready."""
        expected = self.expected
        return {
            "estimator": self.estimator,
            "adjacency": self.adjacency,
            "claimed_epsilon": _finite(self.claimed_epsilon),
            "delta": self.bounds.delta,
            "confidence": self.bounds.confidence,
            "n_canaries": self.bounds.guesses.n_canaries,
            "n_guesses": self.bounds.guesses.n_guesses,
            "n_right": self.bounds.guesses.n_right,
            "epsilon_lower": self.epsilon_lower,
            "mu_lower": self.mu_lower,
            "gaussian_epsilon_lower": self.gaussian_epsilon_lower,
            "expected_epsilon_lower": expected and expected.epsilon_lower,
            "expected_gaussian_epsilon_lower": (
                expected and expected.gaussian_epsilon_lower
            ),
            "refutes": self.refutes,
            "refutes_gaussian": self.refutes_gaussian,
            "is_private": False,
            "on_the_books": False,
            "sentence": self.sentence(),
        }

    def _rows(self) -> list[tuple[str, str]]:
        claim = "none" if self.claimed_epsilon is None else f"{self.claimed_epsilon:g}"
        rows = [("claimed epsilon", claim)]
        if self.expected is not None:
            known = self.expected
            rows.append(
                (
                    "expected at most",
                    f"{known.epsilon_lower:.2f}, Gaussian "
                    f"{known.gaussian_epsilon_lower:.2f}",
                )
            )
        told = {True: "yes", False: "no"}
        rows.append(("claim refuted", told[self.refutes]))
        rows.append(("refuted as Gaussian", told[self.refutes_gaussian]))
        return rows

    @property
    def _is_good(self) -> bool:
        return not self.refutes


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# ------------------------------------------------------------------------ audit_one_run


Score = Callable[[Any, CanaryPairs], FloatArray]
# One guess for this many canaries: close to the best share for claims from 1 to 8 and
# 400 to 4,000 canaries (benchmarks/audits.py).
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
    """Predict the result of an audit of one run, before any fit.

    Parameters
    ----------
    n_canaries : int of at least 1, default=1000
    epsilon : float in [1e-6, 1e8]
        The true epsilon of the release, attained as closely as Gaussian noise can.
    delta : float in [1e-50, 1)
    n_guesses : int of at least 1 and at most `n_canaries`, or None, default=None
        As in `audit_one_run`.
    strength : float in (0, 10], default=1.0
        Distance between a canary's two versions, as a share of the largest distance
        that the guarantee allows. 1.0: only noise hides them.
    confidence : float in (0, 1), default=0.95

    Returns
    -------
    OneRunBounds
        Bounds by the expected number of right guesses, rounded down.

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
    r"""Audit one fit with many planted records, to bound epsilon from below.

    Each canary has two versions, and a separate public coin says which one is in the
    fit. The fit is scored, and the coins of the surest scores are guessed. Many right
    guesses are unlikely if a claim is true ([1]_, [2]_; both bounds are derived in
    ``docs/proofs/audits.md``).

    One fit refutes far less than many: do not expect bounds near a true epsilon;
    `one_run_power` says what to expect. A bound below the claim does not confirm the
    claim.

    Parameters
    ----------
    estimator : estimator
        Any estimator, of skdp or not; a clone is fitted.
    X : ndarray or data frame of shape (n_samples, n_features)
        Synthetic or sacrificed data: an audit is not private, and in no ledger.
    y : array-like of shape (n_samples,)
    n_canaries : int of at least 1, default=1000
        Number of rows that are added to X. Ignored if `canaries` are given.
    n_guesses : int of at least 1 and at most `n_canaries`, or None, default=None
        None: a fifth of the canaries, at least 1.
    canaries : {"columns", "rows"} or CanaryPairs, default="columns"
        "columns": each canary has a separate column, at the norm of the rows; for
        estimators of numeric features. "rows": random directions among the features.
        Labels or targets are as far apart as the estimator's ``classes`` or
        ``target_bounds`` allow, or else as in y. Under replace_one the two versions
        have exchanged labels; under zero_out one is a record with a random label and
        the other a row of zeros, which is the null record where no intercept is fitted.
    score : callable or None, default=None
        ``score(model, pairs)`` returns an ndarray of shape (n_canaries,): a canary with
        a larger score is more likely in its first version. None: how much more the
        model leans to the first version's label than to the other's.
    adjacency : {"replace_one", "zero_out"} or None, default=None
        None: the estimator's adjacency; required if the estimator has none.
    epsilon, delta : float or None, default=None
        The claim for the whole estimator. None: the value of the estimator's only
        parameter of this name; delta is 0 if there is none.
    confidence : float in (0, 1), default=0.95
        Confidence of each of the two bounds.
    random_state : int or None, default=None
        Seed of coins and canaries, which are public; not of the estimator.

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
    epsilon, delta = claim_of(estimator, epsilon, delta)
    facts = facts_of(estimator, y, relation_of(estimator, adjacency))
    confidence = _check_confidence(confidence)
    # Without a seed the coins are the system's: an estimator may draw from NumPy's
    # generator.
    draws = check_random_state(_seed_of_coins(random_state))
    beside, pairs = _planted(canaries, X, n_canaries, facts, draws, estimator)
    r = _n_guesses(n_guesses, len(pairs))
    coins = draws.randint(2, size=len(pairs))
    rows, labels = pairs.by_coins(coins)
    X, y = stacked([beside, rows]), stacked([as_table(y), labels])
    model = fitted(fresh(estimator), X, y, NullRecord())
    right = _n_right((score or partial(_leaning, facts))(model, pairs), coins, r)
    guesses = Guesses(n_canaries=len(pairs), n_guesses=r, n_right=right)
    return OneRunAudit(
        bounds=OneRunBounds(guesses=guesses, delta=delta, confidence=confidence),
        expected=_expected(epsilon, delta, guesses, confidence),
        claimed_epsilon=epsilon,
        adjacency="replace_one" if facts.is_exchanged else "zero_out",
        estimator=type(estimator).__name__,
    )


def _seed_of_coins(random_state: int | None) -> int:
    if random_state is None:
        return int(SystemEntropy().words(1)[0]) % 2**32
    # A separate stream: an estimator with the same seed must not draw the coins.
    return (random_state + 1) * 2654435761 % 2**32


def _expected(
    epsilon: float | None, delta: float, guesses: Guesses, confidence: float
) -> OneRunBounds | None:
    # No Gaussian noise of a finite size keeps a claim of epsilon inf, or of delta 0.
    if epsilon is None or math.isinf(epsilon) or not delta:
        return None
    return one_run_power(
        guesses.n_canaries,
        epsilon=epsilon,
        delta=delta,
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
    facts: CanaryFacts,
    draws: Any,
    estimator: Any,
) -> tuple[Any, CanaryPairs]:
    """The rows with the canaries, and the canaries."""
    if isinstance(canaries, CanaryPairs):
        return as_table(X), canaries
    kind = check.check_choice(
        "canaries", canaries, BUILDERS, remedy="Or pass your own CanaryPairs."
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


def _leaning(facts: CanaryFacts, model: Any, pairs: CanaryPairs) -> FloatArray:
    """How far a model leans to the first version's label."""
    centre = 0.0 if is_classifier(model) else facts.centre()
    towards = leaning(model, pairs.X, pairs.y, centre)
    if not facts.is_exchanged:
        return towards
    return towards - leaning(model, pairs.other_X, pairs.other_y, centre)


def _n_right(scores: Any, coins: IntArray, n_guesses: int) -> int:
    """Right guesses of the coins of the scores that are farthest from the median."""
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
