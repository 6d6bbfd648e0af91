"""Bounds on what an attacker can learn about one record from a release."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import bdtr, bdtrc, expit, ndtr, ndtri

from skdp.privacy.accounting._calibrate import epsilon_of, simple
from skdp.privacy.accounting._events import Event, PureEvent, SelectionEvent

# ------------------------------------------------- The most powerful test of one record
# A test that distinguishes two neighbouring data sets raises a false alarm with
# probability `a` and is right with probability `b`. Accounting bounds b for a release:
#
# - mu-Gaussian differential privacy: b <= Phi(Phi^-1(a) + mu) [1]_, equation (6);
# - (epsilon, delta): b <= exp(epsilon) a + delta and
#   1 - a >= exp(-epsilon) (1 - b - delta) [2]_, Theorem 2.1.
#
# Every pair of the profile delta(epsilon) gives a line, and the minimum of the lines is
# the trade-off function itself where the profile is exact [1]_, Proposition 2.12. For a
# person with k records, k such steps are applied in turn [1]_, Theorem 2.14.
#
# References:
# .. [1] Dong, Roth and Su (2022). Gaussian differential privacy. JRSS B 84(1).
#    https://arxiv.org/abs/1905.02383
# .. [2] Kairouz, Oh and Viswanath (2015). The composition theorem for differential
#    privacy. ICML. https://arxiv.org/abs/1311.0776


Array = NDArray[np.float64]
# Number of epsilons at which the profile of a composition is evaluated, denser where
# they are small: the minimum of the lines is then within 1e-7 of the curve.
_EPSILONS = 8001
# Without a profile, epsilon is computed at these deltas.
_DELTAS = np.logspace(-12, -0.01, 60)
# Resolution of the profile, which does not resolve smaller false alarm rates.
_RESOLVED = 1e-12
_FARTHEST = 60.0
# Bound on the error of a search for the maximum; added, so that no bound is too small.
_SEARCHED = 1e-8


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """Bound on true positive rates, by false positive rate.

    Parameters
    ----------
    mu : float in [0, inf]
        Parameter of Gaussian differential privacy; inf if unknown.
    epsilons, deltas : ndarray of shape (n_pairs,)
        Valid pairs of epsilon and delta; the arrays may be empty.
    n_records : int of at least 1
        Number of records in which the neighbours differ.
    """

    mu: float
    epsilons: Array
    deltas: Array
    n_records: int = 1

    def __call__(self, false_positive_rate: Array) -> Array:
        """Largest true positive rates.

        Parameters
        ----------
        false_positive_rate : ndarray of float in [0, 1]

        Returns
        -------
        ndarray of float in [0, 1], of the same shape
        """
        rates = np.asarray(false_positive_rate, dtype=np.float64)
        found = rates.ravel()
        for _ in range(self.n_records):
            found = np.array([self._of_one(rate) for rate in found])
        if math.isfinite(self.mu):
            whole = ndtr(ndtri(rates.ravel()) + self.n_records * self.mu)
            found = np.minimum(found, whole)
        return np.asarray(found.reshape(rates.shape))

    def _of_one(self, rate: float) -> float:
        found = 1.0
        if math.isfinite(self.mu):
            found = float(ndtr(ndtri(rate) + self.mu))
        if self.epsilons.size:
            # In logarithms, since epsilon may be in the thousands and the rate tiny.
            logs = self.epsilons + (math.log(rate) if rate > 0 else -math.inf)
            low = (np.exp(np.minimum(logs, 0.0)) + self.deltas).min()
            high = (1 - (1 - self.deltas - rate) * np.exp(-self.epsilons)).min()
            found = min(found, float(low), float(high))
        return max(found, rate)

    def best(self, prior: float = 0.5) -> float:
        """Largest probability of a right guess if the first data set has this prior."""

        def wrong(rate: float) -> float:
            right = float(self(np.array([rate]))[0])
            return prior * (1 - right) + (1 - prior) * rate

        # The function is concave on both sides of its maximum, so one search finds it.
        # Always guessing the more likely one is also a test.
        found = minimize_scalar(
            wrong, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12}
        )
        return min(1.0, 1 - min(float(found.fun), prior, 1 - prior) + _SEARCHED)


def power_of_pair(epsilon: float, delta: float, n_records: int = 1) -> PowerCurve:
    """Power curve of one pair of epsilon and delta."""
    if math.isinf(epsilon):
        return PowerCurve(math.inf, np.empty(0), np.empty(0), n_records)
    return PowerCurve(math.inf, np.array([epsilon]), np.array([delta]), n_records)


def power_of_event(event: Event, n_records: int = 1) -> PowerCurve:
    """Power curve of an event fixed in advance.

    Exact for Gaussian events; for others as tight as accounting.
    """
    mu = math.sqrt(event.gdp_mu_squared)
    projected_onto_box = event.pure_epsilon > 0 or event.box_delta > 0
    if math.isfinite(event.mu_squared) and not projected_onto_box:
        # All parts are Gaussian: no bound is tighter than mu alone.
        return PowerCurve(mu, np.empty(0), np.empty(0), n_records)
    if math.isinf(event.pure_epsilon):
        return PowerCurve(mu, np.empty(0), np.empty(0), n_records)
    epsilons, deltas = _profile(event)
    if event.mu_squared == 0:
        epsilons = np.append(epsilons, event.pure_epsilon)
        deltas = np.append(deltas, event.box_delta)
    return PowerCurve(mu, epsilons, deltas, n_records)


def _profile(event: Event) -> tuple[Array, Array]:
    """Pairs of the profile of an event whose parts are not all Gaussian."""
    # Imported here, because dp-accounting takes a second to import.
    from skdp.privacy.accounting._pld import pld_profile

    leaves = tuple(found for leaf in event.leaves if (found := simple(leaf)))
    is_all = len(leaves) == len(event.leaves)
    if is_all and len(leaves) == 1 and isinstance(leaves[0], PureEvent):
        return _pure_profile(leaves[0])
    exchanged = [getattr(x, "adjacency", "") == "replace_one" for x in leaves]
    is_whole = is_all and len({*exchanged}) == 1
    if is_whole and not any(isinstance(x, SelectionEvent) for x in leaves):
        profile = pld_profile(leaves, _RESOLVED)
        if profile is not None:
            reach = min(_FARTHEST, max(epsilon_of(event, _RESOLVED), 1e-6))
            epsilons = reach * np.linspace(0.0, 1.0, _EPSILONS) ** 2
            return epsilons, profile(epsilons)
    epsilons = np.array([epsilon_of(event, delta) for delta in _DELTAS])
    known = np.isfinite(epsilons)  # an infinite epsilon carries no information
    return epsilons[known], _DELTAS[known]


def _pure_profile(event: PureEvent) -> tuple[Array, Array]:
    """The corners of the optimal composition of equal pure releases ([2]_, 3.3)."""
    # Repeated randomised response has exactly these losses, one for each number of
    # lies. Fewer corners are valid too.
    lies = np.unique(np.linspace(0, event.count // 2, 2000).astype(int))
    epsilons = (event.count - 2.0 * lies) * event.epsilon
    told = expit(event.epsilon)
    right = np.where(lies > 0, bdtr(lies - 1, event.count, 1 - told), 0.0)
    # Under the other data set lies and truths are interchanged.
    wrong = np.where(lies > 0, bdtrc(event.count - lies, event.count, 1 - told), 0.0)
    with np.errstate(divide="ignore"):
        weighed = np.exp(np.minimum(epsilons + np.log(wrong), 0.0))
    return epsilons, np.clip(right - weighed, 0.0, 1.0) * (1 + 1e-9)


# ------------------------------------------------ The risk sentence of a privacy record


_BET: dict[str | None, str] = {
    None: "one or the other of two neighbouring data sets was used",
    "replace_one": "a given record was used or another one in its place",
    "zero_out": "a given record was used or left out",
    "replace_user": "a given user's rows were used, or others or none in their place",
    "zero_out_user": "a given user's rows were used or left out",
    "rating_value": "a given rating has one value or another",
    "user": "a given user's ratings were used or others in their place",
}


def gaussian_advantage(mu: float) -> float:
    """Largest true minus false positive rate under mu-Gaussian privacy."""
    return float(2 * ndtr(mu / 2) - 1)


def pair_advantage(epsilon: float, delta: float) -> float:
    """Largest true minus false positive rate under one pair, in [0, 1]."""
    if not math.isfinite(epsilon):
        return 1.0
    half = math.tanh(epsilon / 2)
    return min(1.0, half + delta * (1 - half))


def risk_sentence(event: Event, epsilon: float, delta: float, relation: str) -> str:
    """One sentence on the largest risk of one record.

    It states the smaller of two bounds: the bound from mu, if the whole event has a
    finite mu, and the bound from epsilon and delta, which is weaker because it also
    covers attacks that hardly any mechanism permits.
    """
    noise = "its noise" if event.pure_epsilon else "its Gaussian noise"
    found = {
        noise: gaussian_advantage(math.sqrt(event.gdp_mu_squared)),
        "epsilon and delta": pair_advantage(epsilon, delta),
    }
    basis = min(found, key=lambda name: found[name])
    return bet_sentence(found[basis], relation, basis)


def bet_sentence(advantage: float, relation: str | None, basis: str) -> str:
    """The largest chance to win an even bet on one record, in one sentence.

    A fair coin chooses one of two neighbouring data sets. Whoever guesses it from the
    release is right with a probability of at most (1 + `advantage`) / 2.

    Parameters
    ----------
    advantage : float in [0, 1]
        Largest true minus false positive rate.
    relation : str or None
        None means unknown.
    basis : str
        What the advantage was computed from.
    """
    # Rounded up, so that the sentence is true.
    chance = min(math.ceil(500 * (1 + advantage)) / 10, 100.0)
    return (
        f"Somebody who knows all other data and bets whether {_BET[relation]}, both "
        f"equally likely, wins at most {chance:.1f} % of the time instead of 50 % "
        f"(computed from {basis})."
    )
